"""What a shard says that its ranker is to be told: which sources came and went, and the passages' present state."""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing
from typing import TYPE_CHECKING, Final

import numpy as np

from stackroom.stores import _ranking
from stackroom.stores.embedded._book import Book, Noted, Pair, file_name, newest_beside
from stackroom.stores.embedded._vectors import vectors_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from stackroom.stores.embedded._book import Owed, Standing
    from stackroom.stores.embedded._shard import Followers, Shard

AT_A_TIME: Final = 512
"""Passages that are noted, read and delivered together: bounds memory."""

_SOURCE: Final = "SELECT number, source_id, passages, places FROM source"


def position_of(_reader: sqlite3.Connection, followers: Followers) -> int:
    """Return where a shard's journal ends: asked in `Shard.reading`."""
    return followers.state.position


def note_news(shard: Shard, book: Book) -> bool:
    """Note in the book what the journal says that is new; tell whether there is more, as in a full feed."""
    with shard.reading(position_of) as (reader, position):
        standing = book.standing
        if standing.is_filling:
            return _fill(reader, book, standing, position)
        if standing.position == position:
            return False
        if not reaches_back(reader, standing.position, position):
            book.set(is_filling=1, cursor=0)
            return True
        numbers = changed_since(reader, standing.position)
        there = {source.number: source for source in (_source(reader, number) for number in numbers) if source}
        unknown = book.unknown(there)
        came = [there[number] for number in numbers if number in unknown]
        book.note(came, [number for number in numbers if number not in there], position=position)
        return False


def reaches_back(reader: sqlite3.Connection, since: int, position: int) -> bool:
    """Tell whether the journal still holds all that changed since a place in it."""
    first = reader.execute("SELECT min(position) FROM journal").fetchone()[0]
    return since <= position and first is not None and first <= since + 1


def changed_since(reader: sqlite3.Connection, since: int) -> list[int]:
    """Return the numbers of the sources that changed since, in the journal's order."""
    found = reader.execute(
        "SELECT source, max(position) AS newest FROM journal WHERE position > ? GROUP BY source ORDER BY newest",
        (since,),
    )
    return [number for number, _ in found]


def _source(reader: sqlite3.Connection, number: int) -> Noted | None:
    found = reader.execute(f"{_SOURCE} WHERE number = ?", (number,)).fetchone()
    return None if found is None else Noted(*found)


def _fill(reader: sqlite3.Connection, book: Book, standing: Standing, position: int) -> bool:
    """Note the next sources of a full feed; at the end, those that were noted and are gone."""
    found: list[Noted] = []
    passages = 0
    for row in reader.execute(f"{_SOURCE} WHERE number > ? ORDER BY number", (standing.cursor,)):
        found.append(Noted(*row))
        passages += found[-1].passages
        if passages >= AT_A_TIME:
            break
    if found:
        unknown = book.unknown(source.number for source in found)
        came = [source for source in found if source.number in unknown]
        book.note(came, [], cursor=found[-1].number)
        return True
    book.note([], gone(reader, book), is_filling=0, position=position)
    return False


def gone(reader: sqlite3.Connection, book: Book) -> list[int]:
    """Return the numbers of sources that were noted and are no longer there."""
    live = {number for (number,) in reader.execute("SELECT number FROM source")}
    return [source.number for source in book.told() if source.number not in live]


def states(shard: Shard, owed: Sequence[Owed]) -> list[NDArray[np.float32] | None]:
    """Return the present vector of each passage, scaled to length 1; None for one that is not there."""
    wanted: dict[str, set[int]] = defaultdict(set)
    for item in owed:
        wanted[item.source_id].add(item.place)
    with shard.reading(position_of) as (reader, _):
        by_source = {source_id: _vectors(reader, shard, source_id, places) for source_id, places in wanted.items()}
    return [by_source[item.source_id].get(item.place) for item in owed]


def _vectors(
    reader: sqlite3.Connection, shard: Shard, source_id: str, wanted: set[int]
) -> dict[int, NDArray[np.float32]]:
    found = reader.execute(
        "SELECT number, source_id, passages, places, rows FROM source JOIN vectors ON vectors.source = source.number"
        " WHERE source_id = ?",
        (source_id,),
    ).fetchone()
    if found is None:
        return {}
    offsets = {place: offset for offset, (_, place) in enumerate(Noted(*found[:4]).pairs) if place in wanted}
    rows = vectors_of(found[4], shard.dimension)[list(offsets.values())]
    return dict(zip(offsets, unit_rows(rows), strict=True))


def unit_rows(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return rows at length 1, in float32."""
    scaled = _ranking.power_scaled(rows)
    return np.asarray(scaled / _ranking.row_norms(scaled)[:, None], dtype=np.float32)


def pair_of(passage_id: str) -> Pair:
    """Return the source's id and the index that a passage's id consists of."""
    source_id, _, place = passage_id.rpartition("#")
    return source_id, int(place)


def holds(reader: sqlite3.Connection, passage_id: str) -> bool:
    """Tell whether a shard holds a passage."""
    pair = pair_of(passage_id)
    found = reader.execute(f"{_SOURCE} WHERE source_id = ?", pair[:1]).fetchone()
    return found is not None and pair in Noted(*found).pairs


def owed_pairs(shard: Shard, book: Book) -> set[Pair]:
    """Return the passages whose newest state was not delivered, also those that the book was not shown yet."""
    with shard.reading(position_of) as (reader, position):
        standing, noted = book.look(-1)
        if not standing.is_filling and standing.position == position:
            return set(noted)
        told = {source.number: source for source in book.told()}
        live = {source.number: source for source in _every(reader)}
    differing: Iterable[Noted] = (
        source
        for number, source in {**told, **live}.items()
        if standing.is_due or number not in live or number not in told
    )
    return {*noted, *(pair for source in differing for pair in source.pairs)}


def owed_beside(shard: Shard) -> tuple[str, int]:
    """Return the name of the book beside a shard that was written last, and how many passages its ranker is owed."""
    state = newest_beside(shard.path)
    if state is None:
        return "", 0
    durable_id, forgets = state
    with closing(Book(shard.path, shard.tenant_id, durable_id, forgets=forgets)) as book:
        return file_name(durable_id), len(owed_pairs(shard, book))


def _every(reader: sqlite3.Connection) -> list[Noted]:
    return [Noted(*row) for row in reader.execute(_SOURCE).fetchall()]
