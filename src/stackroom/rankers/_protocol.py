"""What a ranker is: somebody else's nearest-neighbour index, plugged into the embedded store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

    from stackroom._errors import RankerError


class Ranked(NamedTuple):
    """A passage's id and how near it is; higher is nearer. A plain pair means the same."""

    id: str
    score: float


class RanksPassages(Protocol):
    """The one method that a ranker must have."""

    def rank_by_similarity(
        self, *, tenant_id: str, query: NDArray[np.float32], candidate_ids: Sequence[str] | None, limit: int
    ) -> Iterable[Ranked | tuple[str, float]]:
        """Return the passages nearest to `query`, shape (dimension,), of length 1: at most `limit`, in any order.

        `candidate_ids` are all that may be answered, and no other; None means the whole tenant. May be called from
        any thread, and several times at once.
        """
        ...


class VectorRanker(RanksPassages, Protocol):
    """All that a ranker may have; `rank_by_similarity` alone is enough.

    Further optional attributes: `max_candidates` and `max_limit` (10,000 when absent), the longest `candidate_ids` and
    the largest `limit` it takes; `durable_id` (None when absent), a name of the state that outlives the process.
    """

    def on_embedding_persisted(self, *, tenant_id: str, passage_id: str, vector: NDArray[np.float32] | None) -> None:
        """Take in a passage's vector, of length 1; None: the passage went. A call may come again."""
        ...

    def forget_tenant(self, *, tenant_id: str) -> None:
        """Drop all that is held of a tenant; one that is unknown is fine."""
        ...


@dataclass(frozen=True, slots=True)
class RankerFallback:
    """What `on_ranker_fallback` is given: whose search failed, what is done instead, and the kind of the failure."""

    tenant_id: str
    policy: str
    error: RankerError


@dataclass(frozen=True, slots=True)
class RankerHealth:
    """How far a store's ranker has been told.

    `ranker` is its class's name, None when there is none. `owed` are passages whose newest state was not delivered, in
    all tenants; `tenants` those of each tenant that has some. `failures` came since the last delivery that succeeded;
    `last_error` is the type name of the last one, None when nothing is owed. Times are aware, in UTC.
    """

    ranker: str | None
    owed: int
    failures: int
    last_error: str | None
    owed_since: datetime | None
    next_try: datetime | None
    tenants: Mapping[str, int]


NO_RANKER: Final = RankerHealth(None, 0, 0, None, None, None, {})
"""The health of a store that has none."""
