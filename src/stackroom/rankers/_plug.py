"""A ranker as it is plugged in: what it has, how it is asked, and what is done when it fails."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sized
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast, get_args

from stackroom.rankers._calls import Calls
from stackroom.rankers._failures import Failure, kind_of, log
from stackroom.rankers._judging import read_item
from stackroom.rankers._protocol import RankerFallback, VectorRanker
from stackroom.text._arguments import require_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np
    from numpy.typing import NDArray

    from stackroom.rankers._calls import Call
    from stackroom.rankers._judging import Item
    from stackroom.rankers._protocol import RanksPassages

Policy: TypeAlias = Literal["exact", "lexical", "empty", "raise"]

MOST_ABANDONED: Final = 4
"""So many searches' calls may be left behind; while they have not returned, no further one is begun."""

_DEFAULT_MOST: Final = 10_000


@dataclass(frozen=True, slots=True)
class Answered:
    """What was read of a ranker's answer, and how much there was beyond, as far as that can be known unread."""

    items: list[Item | None]
    unread: int


class Plug:
    """A plugged-in ranker. What it declares is read once; ValueError or TypeError when it cannot be one."""

    def __init__(
        self,
        ranker: RanksPassages,
        policy: Policy,
        on_fallback: Callable[[RankerFallback], object] | None,
        *,
        sanitizes: bool,
        timeout: float | None,
    ) -> None:
        if not callable(getattr(ranker, "rank_by_similarity", None)):
            raise TypeError("a ranker must have the method rank_by_similarity: see stackroom.rankers.VectorRanker")
        self.ranker = ranker
        self.name = kind_of_ranker(ranker)
        self.policy: Policy = policy
        self.max_candidates = require_size("max_candidates", getattr(ranker, "max_candidates", _DEFAULT_MOST), least=1)
        self.max_limit = require_size("max_limit", getattr(ranker, "max_limit", _DEFAULT_MOST), least=1)
        self.durable_id = _durable_id(getattr(ranker, "durable_id", None))
        self.hook: Callable[..., object] | None = _optional(ranker, "on_embedding_persisted")
        self.forget: Callable[..., object] | None = _optional(ranker, "forget_tenant")
        self._on_fallback = on_fallback
        self._keeps_cause = not sanitizes
        self.timeout = timeout
        self._calls = Calls(timeout, MOST_ABANDONED)

    def ask(
        self, *, tenant_id: str, query: NDArray[np.float32], candidate_ids: tuple[str, ...] | None, limit: int
    ) -> Answered | Failure:
        """Ask once, and read the answer up to 2 · limit + 100 items, all within the time allowed.

        What has no length and gives as many is taken to have more: whether it has shows only by reading on.
        """

        def work(_call: Call[Answered]) -> Answered:
            answer = self.ranker.rank_by_similarity(
                tenant_id=tenant_id, query=query.copy(), candidate_ids=candidate_ids, limit=limit
            )
            return _read(answer, 2 * limit + 100)

        return self._calls.run(work, keeps_cause=self._keeps_cause)

    def tell_failure(self, tenant_id: str, failure: Failure) -> None:
        """Log a search's failure and call `on_ranker_fallback`; what that raises changes nothing."""
        log.warning("the vector ranker failed with %s; policy %s", failure.kind, self.policy)
        if self._on_fallback is None:
            return
        try:
            self._on_fallback(RankerFallback(tenant_id, self.policy, failure.error()))
        except Exception as error:  # noqa: BLE001 - a caller's mistake must not cost a search
            log.warning("on_ranker_fallback raised %s; the policy is carried out all the same", kind_of(error))

    def close(self) -> None:
        """Let the threads end."""
        self._calls.close()


def plugged(
    ranker: RanksPassages | None,
    policy: object,
    on_fallback: object,
    *,
    sanitizes: object,
    timeout: object,
) -> Plug | None:
    """Check how a ranker is to be plugged in, also when there is none; ValueError or TypeError when it cannot be."""
    if not isinstance(policy, str) or policy not in get_args(Policy):
        raise ValueError('ranker_fallback must be "exact", "lexical", "empty" or "raise"')
    if on_fallback is not None and not callable(on_fallback):
        raise TypeError("on_ranker_fallback must be None or a function that takes a RankerFallback")
    if not isinstance(sanitizes, bool):
        raise TypeError("sanitize_ranker_errors must be True or False")
    seconds = _seconds(timeout)
    if ranker is None:
        return None
    return Plug(ranker, cast("Policy", policy), on_fallback, sanitizes=sanitizes, timeout=seconds)


def _seconds(timeout: object) -> float | None:
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < math.inf:
        raise ValueError("ranker_timeout must be None or a finite number of seconds above 0")
    return min(float(timeout), 1e6)  # what a thread can wait for is bounded


def kind_of_ranker(ranker: object) -> str:
    """Return the name of a ranker's class."""
    return str(type(ranker).__name__)


def _durable_id(value: object) -> str | None:
    if value is not None and (not isinstance(value, str) or not value):
        raise ValueError("durable_id must be None or a name that is not empty")
    return value


def _optional(ranker: object, name: str) -> Callable[..., object] | None:
    """Return an optional method, or None; what a subclass only inherits from the Protocol is not there."""
    method = getattr(ranker, name, None)
    is_stub = getattr(type(ranker), name, None) is getattr(VectorRanker, name)
    return method if callable(method) and not is_stub else None


def refuse_coroutine(answer: Any) -> None:
    """Close a coroutine, so that nobody is warned of it, and raise a TypeError."""
    if inspect.iscoroutine(answer):
        answer.close()
        raise TypeError("a ranker's methods are called, not awaited")


def _read(answer: Iterable[object], bound: int) -> Answered:
    refuse_coroutine(answer)
    iterator = iter(answer)
    items = [read_item(item) for item in islice(iterator, bound)]
    unread = max(0, len(answer) - bound) if isinstance(answer, Sized) else int(len(items) == bound)
    if inspect.isgenerator(iterator):
        _close(iterator)
    return Answered(items, unread)


def _close(generator: Any) -> None:
    try:
        generator.close()
    except Exception as error:  # noqa: BLE001 - all that was wanted of it has been read
        log.warning("a vector ranker's generator raised %s when it was closed", kind_of(error))
