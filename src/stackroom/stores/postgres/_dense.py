"""The dense leg: PostgreSQL chooses the nearest in single precision, and what it chose is ranked as everywhere.

What the database chooses goes a little beyond the limit, by more than its rounding, so that the ranking in double
precision is that of all records. Of records with one and the same vector no more than the limit are needed.
"""

from __future__ import annotations

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

MOST_BY_INDEX: Final = 1_000
"""The largest limit that the vector index serves; its list of candidates is no longer."""


class Question(NamedTuple):
    """A statement that answers, with the settings before it and those that undo them behind it."""

    before: tuple[Statement, ...]
    statement: Statement
    after: tuple[Statement, ...]


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


def nearest_by_index(
    entry: Entry, condition: Condition, query: NDArray[np.float64], limit: int, columns: str
) -> Question:
    """Return the statement that walks the vector index until enough is found that is allowed."""
    dimension = entry.spec.dimension
    joined = f"{entry.passages} p JOIN {entry.sources} s ON s.number = p.source"
    sql = (
        f"WITH found AS MATERIALIZED (SELECT p.source, p.place FROM {joined} "
        f"WHERE p.tenant = %(tenant)s AND {condition.whole} "
        f"ORDER BY p.direction::halfvec({dimension}) <=> %(query)s::halfvec({dimension}) LIMIT %(limit)s) "
        f"SELECT {columns} FROM found f JOIN {entry.passages} p ON p.tenant = %(tenant)s AND p.source = f.source "
        f"AND p.place = f.place JOIN {entry.sources} s ON s.number = p.source"
    )
    values = {**condition.values, "query": vector_text(query), "limit": limit}
    length = setting("hnsw.ef_search", min(MOST_BY_INDEX, max(200, 2 * limit)))
    return Question((*_WALK, length), Statement(sql, values), _WALK_NO_MORE)


_OTHER_PLANS: Final = ("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "enable_sort")

_WALK: Final = (
    *(setting(name, "off") for name in _OTHER_PLANS),
    setting("hnsw.iterative_scan", "strict_order"),
    setting("hnsw.max_scan_tuples", 100_000_000),
    setting("hnsw.scan_mem_multiplier", 64),
)
"""What makes the planner walk the index, and the index go on until enough was found."""

_WALK_NO_MORE: Final = tuple(setting(name, "on") for name in _OTHER_PLANS)
