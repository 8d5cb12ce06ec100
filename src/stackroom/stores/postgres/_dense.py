"""The dense leg: PostgreSQL chooses the nearest in single precision, and what it chose is ranked as everywhere.

What the database chooses goes a little beyond the limit, by more than its rounding, so that the ranking in double
precision is that of all records. Of records with one and the same vector no more than the limit are needed.

The vector index is walked by nearness, whatever is allowed. Where what is allowed has nothing to do with the vectors,
its nearest lie among the first of such a walk; where it has a topic of its own and the question another, the walk
passes thousands before it meets any, and what it meets first is not the nearest. So a walk goes twice as far as would
do if there were no such tie, and what it brings is taken only when it brought enough.

That proves nothing: where many vectors are the same or nearly so, the graph has no way to some of them. So the index is
walked only by a store that is given an `exact_limit`, and an answer that it gave says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from stackroom.stores.postgres._connections import Statement, setting
from stackroom.stores.postgres._rows import vector_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stackroom.stores.postgres._names import Entry
    from stackroom.stores.postgres._where import Condition

JOINED: Final = "{sources} s JOIN {passages} p ON p.tenant = s.tenant AND p.source = s.number"

_ROUNDING: Final = 1e-5
"""More than a cosine in single precision is off by."""

_LONGEST_LIST: Final = 1_000
"""The longest list of candidates that the index keeps (`hnsw.ef_search`)."""

_SHORTEST_LIST: Final = 400

_SPARE: Final = 20
"""How many more than the limit a walk must find, at least."""

_PATIENCE: Final = 2
"""How many times deeper a walk may go than would do for an allowed set that has nothing to do with the vectors."""

_COST_OF_A_STEP: Final = 8
"""A step of a walk takes as long as comparing so many passages: 12 µs and 1.6 µs, `benchmarks/postgres.py --recall`."""


class Question(NamedTuple):
    """A statement that answers, with the settings before it and those that undo them behind it.

    Fewer rows than `needed` are no answer.
    """

    before: tuple[Statement, ...]
    statement: Statement
    after: tuple[Statement, ...]
    needed: int = 0


def nearest(entry: Entry, condition: Condition, query: NDArray[np.float64], limit: int, columns: str) -> Question:
    """Return the statement that compares all that is allowed and answers the nearest, and what ties with the last."""
    joined = JOINED.format(sources=entry.sources, passages=entry.passages)
    by_id = "(s.source_id || '#' || p.place) COLLATE \"C\""
    sql = (
        "WITH near AS MATERIALIZED (SELECT p.source, p.place, p.direction <=> %(query)s::vector AS distance "
        f"FROM {joined} WHERE {condition.whole}), "
        "cut AS (SELECT distance FROM near ORDER BY distance OFFSET %(limit)s - 1 LIMIT 1) "
        f"SELECT * FROM (SELECT {columns}, row_number() OVER (PARTITION BY p.direction ORDER BY {by_id}) AS twin "
        f"FROM near n JOIN {entry.passages} p ON p.tenant = %(tenant)s AND p.source = n.source AND p.place = n.place "
        f"JOIN {entry.sources} s ON s.number = n.source "
        f"WHERE n.distance <= coalesce((SELECT distance FROM cut), 'infinity') + {_ROUNDING}) chosen "
        "WHERE twin <= %(limit)s"
    )
    return Question((), Statement(sql, {**condition.values, "query": vector_text(query), "limit": limit}), ())


@dataclass(frozen=True, slots=True)
class Walk:
    """A walk of the vector index: over `table`, to its `depth` nearest at most, until `needed` of them are allowed.

    `goes_on`: the index widens its search beyond one list of candidates.
    """

    table: str
    needed: int
    depth: int
    goes_on: bool

    @property
    def list_length(self) -> int:
        """Return how many candidates the index keeps: four times the depth, so that few of the nearest are missed."""
        return min(_LONGEST_LIST, max(_SHORTEST_LIST, 4 * self.depth))


@dataclass(frozen=True, slots=True)
class Graph:
    """The index that holds a tenant's vectors: the table that it is over, and about how many are in it.

    `is_whole`: a walk may be counted by all that it passes, other tenants' vectors among it.
    """

    table: str
    indexed: int
    is_whole: bool

    def enough(self, limit: int) -> int:
        """Return from how many allowed passages on a walk that finds `limit` of them costs less than comparing all."""
        return math.isqrt(_PATIENCE * _COST_OF_A_STEP * _needed(limit) * self.indexed) + 1

    def walk(self, limit: int, allowed: int) -> Walk | None:
        """Return the walk that finds `limit` of at least `allowed` passages; None where comparing all costs less."""
        needed = _needed(limit)
        depth = math.ceil(_PATIENCE * needed * max(self.indexed / allowed, 1))
        if depth > allowed // _COST_OF_A_STEP or (depth > _LONGEST_LIST and not self.is_whole):
            return None
        return Walk(self.table, needed, depth, self.is_whole)


def _needed(limit: int) -> int:
    """Return how many a walk must find: more than the limit, since the last of a walk are the least certain."""
    return limit + max(limit // 2, _SPARE)


def nearest_by_index(
    entry: Entry, condition: Condition, query: NDArray[np.float64], walk: Walk, columns: str
) -> Question:
    """Return the statement that walks the vector index: what it finds that is allowed, `walk.needed` at most."""
    dimension = entry.spec.dimension
    walked = (
        f"SELECT * FROM {walk.table} p{'' if walk.goes_on else ' WHERE p.tenant = %(tenant)s'} "
        f"ORDER BY p.direction::halfvec({dimension}) <=> %(query)s::halfvec({dimension}) LIMIT %(depth)s"
    )
    sql = (
        f"WITH found AS MATERIALIZED (SELECT p.source, p.place FROM ({walked}) p "
        f"JOIN {entry.sources} s ON s.number = p.source "
        f"WHERE p.tenant = %(tenant)s AND {condition.whole} LIMIT %(needed)s) "
        f"SELECT {columns} FROM found f JOIN {entry.passages} p ON p.tenant = %(tenant)s AND p.source = f.source "
        f"AND p.place = f.place JOIN {entry.sources} s ON s.number = p.source"
    )
    values = {**condition.values, "query": vector_text(query), "depth": walk.depth, "needed": walk.needed}
    before = (
        *_WALK,
        setting("hnsw.iterative_scan", _WALKS_ON if walk.goes_on else "off"),
        setting("hnsw.ef_search", walk.list_length),
    )
    return Question(before, Statement(sql, values), _WALK_NO_MORE, walk.needed)


_OTHER_PLANS: Final = ("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "enable_sort")

_WALK: Final = (
    *(setting(name, "off") for name in _OTHER_PLANS),
    setting("hnsw.max_scan_tuples", 100_000_000),
    setting("hnsw.scan_mem_multiplier", 64),
)
"""What makes the planner walk the index. How far, the statement says: the index's own bounds are out of the way."""

_WALKS_ON: Final = "relaxed_order"
"""How the index goes beyond one list of candidates; its strict order leaves out what comes late, however near it is."""

_WALK_NO_MORE: Final = tuple(setting(name, "on") for name in _OTHER_PLANS)
