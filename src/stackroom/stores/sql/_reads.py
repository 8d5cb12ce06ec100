"""What one tenant's part of a collection answers beside scores: records in order, and both legs of a search at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from stackroom import _keys as keys
from stackroom.stores._legs import Rankings
from stackroom.stores._protocol import Match, Record
from stackroom.stores.sql._allowed import Judge, judged_sources
from stackroom.stores.sql._records import records
from stackroom.stores.sql._scores import Scores, bm25, cosines, none

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from stackroom.stores._legs import Choose
    from stackroom.stores._protocol import Cursor, LexicalQuery
    from stackroom.stores.sql._allowed import Place

_PAGE: Final = 1_000
"""Rows that a scan looks at in one statement where `matches` judges them."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What both legs are asked; `query` has length 1. A leg that is not asked answers nothing."""

    query: NDArray[Any] | None
    words: LexicalQuery | None
    limit: int
    across: bool = False


@dataclass(frozen=True, slots=True)
class _Step:
    """How far a scan has come: behind this source's passage of this index."""

    source_id: bytes
    index: int


def scan(connection: Connection, place: Place, after: Cursor | None, limit: int, *, vectors: bool) -> list[Record]:
    """Return the first `limit` allowed records behind `after`, by source id and index."""
    numbers: list[int] = []
    for number in _in_order(connection, place, after, limit):
        numbers.append(number)
        if len(numbers) == limit:
            break
    return records(connection, place.tables, place.tenant, numbers, vectors=vectors)


def _in_order(connection: Connection, place: Place, after: Cursor | None, limit: int) -> Iterator[int]:
    p, s = place.tables.passages.c, place.tables.sources.c
    judge, sources = Judge.of(place), judged_sources(connection, place)
    allowed = None if sources is None else set(sources.tolist())
    size = limit if judge is None and allowed is None else max(limit, _PAGE)
    step = None if after is None else _step(after)
    while True:
        asked = (
            sa.select(
                p.number, p.source, p.metadata if judge else sa.null(), s.source_id, s.metadata if judge else sa.null()
            )
            .join(place.tables.sources, s.number == p.source)
            .where(place.in_sources, *place.condition.of_passage, *([] if step is None else [_behind(place, step)]))
            .order_by(s.source_id, p.number)
            .limit(size)
        )
        rows = connection.execute(asked).all()
        for row in rows:
            if (allowed is None or row[1] in allowed) and (judge is None or judge.allows(*row)):
                yield row[0]
        if len(rows) < size:
            return
        step = _Step(rows[-1][3], rows[-1][0] - rows[-1][1])


def _step(after: Cursor) -> _Step:
    """Return a cursor's place; one of a Cursor need not be of a record, nor of text that one could hold."""
    return _Step(after.source_id.encode("utf-8", "surrogatepass"), max(-1, min(after.index, keys.MAX_INDEX)))


def _behind(place: Place, step: _Step) -> Any:
    p, s = place.tables.passages.c, place.tables.sources.c
    return sa.or_(
        s.source_id > step.source_id, sa.and_(s.source_id == step.source_id, p.number > s.number + step.index)
    )


def dense(connection: Connection, place: Place, wanted: Wanted, most: int | None) -> list[Match]:
    """Return the nearest allowed records."""
    return _matches(connection, place, _near(connection, place, wanted, most), wanted.limit)


def lexical(connection: Connection, place: Place, wanted: Wanted) -> list[Match]:
    """Return the best worded allowed records."""
    return _matches(connection, place, _worded(connection, place, wanted), wanted.limit)


def _near(connection: Connection, place: Place, wanted: Wanted, most: int | None) -> Scores:
    return none() if wanted.query is None else cosines(connection, place, wanted.query, most)


def _worded(connection: Connection, place: Place, wanted: Wanted) -> Scores:
    return none() if wanted.words is None else bm25(connection, place, wanted.words)


def _matches(connection: Connection, place: Place, scores: Scores, limit: int) -> list[Match]:
    best = scores.best(limit)
    found = records(connection, place.tables, place.tenant, [number for number, _ in best])
    return [Match(record, score) for record, (_, score) in zip(found, best, strict=True)]


def legs(connection: Connection, place: Place, wanted: Wanted, most: int | None, choose: Choose) -> list[Record]:
    """Let `choose` choose from what both legs found, in one state, and return the chosen records whole."""
    near, worded = _near(connection, place, wanted, most), _worded(connection, place, wanted)
    of_dense, of_lexical = near.best(wanted.limit), worded.best(wanted.limit)
    by_dense, by_lexical = [number for number, _ in of_dense], [number for number, _ in of_lexical]
    ids = {**near.named(by_dense), **worded.named(by_lexical)}
    only_dense = [number for number in by_dense if number not in set(by_lexical)] if wanted.across else []
    only_lexical = [number for number in by_lexical if number not in set(by_dense)] if wanted.across else []
    chosen: list[Any] = choose(
        Rankings(ids.__getitem__, of_dense, of_lexical, near.of(only_lexical), worded.of(only_dense))
    )
    return records(connection, place.tables, place.tenant, chosen)
