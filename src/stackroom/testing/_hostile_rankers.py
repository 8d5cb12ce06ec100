"""Ways in which a ranker can be hostile: each wraps an honest one, and a store must answer as without any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from threading import Event

SECRET = "postgres://user:hunter2@host"  # noqa: S105 - nobody's


class HostileError(RuntimeError):
    """An exception full of secrets, which raises another one when anybody looks."""

    def __str__(self) -> str:
        raise ValueError(SECRET)

    __repr__ = __str__


class PluggedRanker:
    """A ranker that is told all as it should be, and answers through a function that spoils the answer.

    `spoil` is given the honest answer, what was asked, and an event that is set when the test is over.
    """

    def __init__(self, honest: Any, spoil: Callable[[list[Any], dict[str, Any], Event], Any], may_go: Event) -> None:
        self._honest = honest
        self._spoil = spoil
        self._may_go = may_go
        self.max_candidates = getattr(honest, "max_candidates", 10_000)
        self.max_limit = getattr(honest, "max_limit", 10_000)
        self.on_embedding_persisted = honest.on_embedding_persisted
        if hasattr(honest, "forget_tenant"):
            self.forget_tenant = honest.forget_tenant

    def rank_by_similarity(self, **asked: Any) -> Any:
        """Answer, and spoil it."""
        honest = self._honest.rank_by_similarity(**{**asked, "query": asked["query"].copy()})
        return self._spoil(list(honest), asked, self._may_go)


def _generator_that_raises(honest: list[Any], _asked: Any, _may_go: Event) -> Any:
    yield from honest[:1]
    raise HostileError(SECRET)


def _raises(_honest: list[Any], _asked: Any, _may_go: Event) -> Any:
    raise HostileError(SECRET)


def _never_returns(honest: list[Any], _asked: Any, may_go: Event) -> Any:
    may_go.wait(60)
    return honest


def _endless(honest: list[Any], _asked: Any, _may_go: Event) -> Any:
    while True:
        yield from honest or [None]


def _mutates_its_arguments(honest: list[Any], asked: dict[str, Any], _may_go: Event) -> Any:
    asked["query"][:] = np.nan
    return honest


def _foreign_ids(honest: list[Any], _asked: Any, _may_go: Event) -> Any:
    return [("s0#0", 1.0), ("s4#0", 1.0), ("nowhere#0", 1.0), ("s2#0", 0.9), *honest]


HOSTILE: Mapping[str, Callable[[list[Any], dict[str, Any], Event], Any]] = {
    "foreign ids": _foreign_ids,
    "NaN": lambda honest, _asked, _may_go: [(passage_id, float("nan")) for passage_id, _ in honest],
    "infinities": lambda honest, _asked, _may_go: [(passage_id, float("inf")) for passage_id, _ in honest],
    "duplicates": lambda honest, _asked, _may_go: honest[:1] * 50 + honest,
    "unsorted": lambda honest, _asked, _may_go: honest[::-1],
    "scores that lie": lambda honest, _asked, _may_go: [(passage_id, -score) for passage_id, score in honest],
    "nothing": lambda _honest, _asked, _may_go: [],
    "no list": lambda _honest, _asked, _may_go: 7,
    "no pairs": lambda honest, _asked, _may_go: [passage_id for passage_id, _ in honest],
    "a generator that raises": _generator_that_raises,
    "an error full of secrets": _raises,
    "never returns": _never_returns,
    "never ends": _endless,
    "mutates its arguments": _mutates_its_arguments,
}
"""By name, what is done to an honest answer."""
