"""What one shard answers: the four questions, and both legs of a hybrid search at once; each within one transaction."""

from __future__ import annotations

import json
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from stackroom import _keys as keys
from stackroom.stores import _ranking
from stackroom.stores._protocol import Match, Record
from stackroom.stores.embedded._vectors import vectors_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from stackroom._filters import Filter
    from stackroom._values import MetadataValue
    from stackroom.stores._protocol import Cursor, LexicalQuery
    from stackroom.stores.embedded._catalogue import Catalogue, Rows
    from stackroom.stores.embedded._postings import Asked
    from stackroom.stores.embedded._shard import Followers, Shard
    from stackroom.stores.embedded._vectors import Snapshot

    Looked = tuple[Catalogue, Rows, Snapshot | None, Asked | None]
    Ranked = tuple[list[int], list[float]]
    Parts = tuple[int, dict[str, MetadataValue]]

_AT_A_TIME: Final = 900
"""Passages asked for by one statement: SQLite takes 999 parameters everywhere."""


def legs(
    shard: Shard,
    query: NDArray[np.float64] | None,
    words: LexicalQuery | None,
    where: Filter,
    limit: int,
    *,
    exact: bool,
) -> tuple[list[Match], list[Match]]:
    """Return the nearest allowed records, and the best worded, of one state; a leg that is not asked is empty.

    `query` has length 1.
    """

    def look(reader: sqlite3.Connection, followers: Followers) -> Looked:
        allowed = followers.catalogue.allowed(where, reader)
        snapshot = followers.dense(reader) if query is not None and len(allowed) else None
        asked = None
        if words is not None and len(allowed):
            asked = followers.lexical(reader).asked(words, reader, followers.catalogue)
        return followers.catalogue, allowed, snapshot, asked

    with shard.reading(look) as (reader, (catalogue, allowed, snapshot, asked)):
        near: Ranked = ([], [])
        worded: Ranked = ([], [])
        if snapshot is not None and query is not None:
            near = _best(catalogue, *snapshot.scores(allowed, query, limit, exact=exact), limit)
        if asked is not None:
            worded = _best(catalogue, *asked.scores(allowed), limit)
        parts = {row: _source_part(reader, catalogue, row) for row in {*near[0], *worded[0]}}
        passages = _passages(reader, parts)
        return _matches(near, parts, passages), _matches(worded, parts, passages)


def _best(catalogue: Catalogue, rows: Rows, scores: NDArray[np.float64], limit: int) -> Ranked:
    """Return the `limit` best rows in the total order; one tenant's ids are all different, so they alone break ties."""
    chosen = _ranking.best(scores, limit, lambda place: (catalogue.row_id(int(rows[place])), ""))
    return rows[chosen].tolist(), scores[chosen].tolist()


def count(shard: Shard, where: Filter) -> int:
    """Return how many records are allowed."""
    with shard.reading(lambda reader, followers: len(followers.catalogue.allowed(where, reader))) as (_, number):
        return number


def scan(shard: Shard, where: Filter, after: Cursor | None, limit: int, *, with_vectors: bool) -> list[Record]:
    """Return the first `limit` allowed records behind `after`, by source id and index."""

    def look(reader: sqlite3.Connection, followers: Followers) -> list[tuple[int, range, list[tuple[int, int]]]]:
        return _in_order(followers.catalogue, followers.catalogue.allowed(where, reader), after, limit)

    found: list[Record] = []
    with shard.reading(look) as (reader, wanted):
        for number, rows, places in wanted:
            found += _of_source(reader, shard, number, rows, places, with_vectors=with_vectors)
    return found


def _in_order(
    catalogue: Catalogue, allowed: Rows, after: Cursor | None, limit: int
) -> list[tuple[int, range, list[tuple[int, int]]]]:
    """Return sources in order (number, rows) and of each the rows wanted with their indexes, `limit` in all."""
    behind = "" if after is None else after.source_id
    by_id = [(catalogue.ids[slot], slot, rows) for slot, rows in catalogue.by_source(allowed)]
    found = []
    for source_id, slot, rows in sorted((item for item in by_id if item[0] >= behind), key=itemgetter(0)):
        places = list(zip(rows.tolist(), catalogue.places(rows).tolist(), strict=True))
        if after is not None and source_id == after.source_id:
            places = [(row, index) for row, index in places if index > after.index]
        if places:
            found.append((int(catalogue.numbers[slot]), catalogue.rows_of(slot), places[:limit]))
            limit -= len(places)
        if limit <= 0:
            break
    return found


def _of_source(
    reader: sqlite3.Connection,
    shard: Shard,
    number: int,
    rows: range,
    places: Sequence[tuple[int, int]],
    *,
    with_vectors: bool,
) -> list[Record]:
    version, shared = reader.execute("SELECT version, metadata FROM source WHERE number = ?", (number,)).fetchone()
    vectors = None
    if with_vectors:
        stored = reader.execute("SELECT rows FROM vectors WHERE source = ?", (number,)).fetchone()[0]
        vectors = vectors_of(stored, shard.dimension)
    first, last = places[0][0], places[-1][0]
    passages = {
        row: (text, own)
        for row, text, own in reader.execute(
            "SELECT row, text, metadata FROM passage WHERE row >= ? AND row <= ?", (first, last)
        )
    }
    found = []
    for row, index in places:
        text, own = passages[row]
        metadata = {**json.loads(shared), **json.loads(own), keys.INDEX: index}
        vector = None if vectors is None else vectors[row - rows.start].copy()
        found.append(Record.stored(text, vector, metadata, version))
    return found


def _source_part(reader: sqlite3.Connection, catalogue: Catalogue, row: int) -> Parts:
    """Return a row's version and all of its metadata but its own, as the transaction sees them."""
    slot = int(catalogue.row_slots[row])
    version, shared = reader.execute(
        "SELECT version, metadata FROM source WHERE number = ?", (int(catalogue.numbers[slot]),)
    ).fetchone()
    metadata: dict[str, MetadataValue] = json.loads(shared)
    metadata[keys.INDEX] = catalogue.place(row)
    return version, metadata


def _passages(reader: sqlite3.Connection, rows: Iterable[int]) -> dict[int, tuple[str, str]]:
    """Return the text and the own metadata of rows."""
    wanted = list(rows)
    found: dict[int, tuple[str, str]] = {}
    for start in range(0, len(wanted), _AT_A_TIME):
        part = wanted[start : start + _AT_A_TIME]
        marks = ",".join("?" * len(part))
        query = f"SELECT row, text, metadata FROM passage WHERE row IN ({marks})"  # noqa: S608 - only question marks
        found.update((row, (text, own)) for row, text, own in reader.execute(query, part))
    return found


def _matches(ranked: Ranked, parts: dict[int, Parts], passages: dict[int, tuple[str, str]]) -> list[Match]:
    return [Match(_record(row, parts, passages), score) for row, score in zip(*ranked, strict=True)]


def _record(row: int, parts: dict[int, Parts], passages: dict[int, tuple[str, str]]) -> Record:
    """Make a record of its own: no list in it is another record's."""
    version, shared = parts[row]
    text, own = passages[row]
    metadata = {key: list(value) if isinstance(value, list) else value for key, value in shared.items()}
    if own != "{}":
        metadata.update(json.loads(own))
    return Record.stored(text, None, metadata, version)
