"""What one shard answers: the four questions, each within one transaction."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from stackroom import _keys as keys
from stackroom.stores import _ranking
from stackroom.stores._protocol import Cursor, LexicalQuery, Match, Record
from stackroom.stores.embedded._vectors import Snapshot, vectors_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stackroom._filters import Filter
    from stackroom.stores.embedded._catalogue import Catalogue, Rows
    from stackroom.stores.embedded._postings import Asked
    from stackroom.stores.embedded._shard import Followers, Shard


def dense(shard: Shard, query: NDArray[np.float64], where: Filter, limit: int) -> list[Match]:
    """Return the nearest allowed records; `query` has length 1."""

    def look(reader: sqlite3.Connection, followers: Followers) -> tuple[Catalogue, Rows, Snapshot | None]:
        allowed = followers.catalogue.allowed(where, reader)
        if not len(allowed):
            return followers.catalogue, allowed, None
        followers.vectors.follow(reader, followers.catalogue)
        return followers.catalogue, allowed, followers.vectors.snapshot()

    with shard.reading(look) as (reader, (catalogue, allowed, snapshot)):
        if snapshot is None:
            return []
        rows, scores = snapshot.scores(allowed, query, limit)
        return _matches(reader, catalogue, rows, scores, limit)


def lexical(shard: Shard, query: LexicalQuery, where: Filter, limit: int) -> list[Match]:
    """Return the best worded allowed records."""

    def look(reader: sqlite3.Connection, followers: Followers) -> tuple[Catalogue, Rows, Asked | None]:
        catalogue = followers.catalogue
        allowed = catalogue.allowed(where, reader)
        if not len(allowed):
            return catalogue, allowed, None
        followers.postings.follow(reader, catalogue)
        return catalogue, allowed, followers.postings.asked(query, reader, catalogue.row_is_live)

    with shard.reading(look) as (reader, (catalogue, allowed, asked)):
        if asked is None:
            return []
        rows, scores = asked.scores(allowed)
        return _matches(reader, catalogue, rows, scores, limit)


def count(shard: Shard, where: Filter) -> int:
    """Return how many records are allowed."""
    with shard.reading(lambda reader, followers: len(followers.catalogue.allowed(where, reader))) as (_, number):
        return number


def scan(shard: Shard, where: Filter, after: Cursor | None, limit: int, *, with_vectors: bool) -> list[Record]:
    """Return the first `limit` allowed records behind `after`, by source id and index."""

    def look(reader: sqlite3.Connection, followers: Followers) -> list[tuple[int, list[int]]]:
        return _in_order(followers.catalogue, followers.catalogue.allowed(where, reader), after, limit)

    found: list[Record] = []
    with shard.reading(look) as (reader, wanted):
        for number, places in wanted:
            found += _of_source(reader, shard, number, places, with_vectors=with_vectors)
    return found


def _in_order(catalogue: Catalogue, allowed: Rows, after: Cursor | None, limit: int) -> list[tuple[int, list[int]]]:
    """Return the sources' numbers and the indexes wanted of each, in order, `limit` records in all."""
    slots, first = np.unique(catalogue.row_slots[allowed], return_index=True)
    bounds = [*first.tolist(), len(allowed)]
    order = sorted((catalogue.ids[slot], place) for place, slot in enumerate(slots.tolist()))
    found: list[tuple[int, list[int]]] = []
    for source_id, place in order:
        if after is not None and source_id < after.source_id:
            continue
        places = catalogue.row_places[allowed[bounds[place] : bounds[place + 1]]].tolist()
        if after is not None and source_id == after.source_id:
            places = [index for index in places if index > after.index]
        if places:
            found.append((int(catalogue.numbers[slots[place]]), places[:limit]))
            limit -= len(places)
        if limit <= 0:
            break
    return found


def _of_source(
    reader: sqlite3.Connection, shard: Shard, number: int, places: Sequence[int], *, with_vectors: bool
) -> list[Record]:
    version, shared = reader.execute("SELECT version, metadata FROM source WHERE number = ?", (number,)).fetchone()
    wanted = set(places)
    rows = None
    if with_vectors:
        stored = reader.execute("SELECT rows FROM vectors WHERE source = ?", (number,)).fetchone()[0]
        rows = vectors_of(stored, shard.dimension)
    found = []
    passages = reader.execute("SELECT place, text, metadata FROM passage WHERE source = ? ORDER BY place", (number,))
    for row, (place, text, own) in enumerate(passages):
        if place in wanted:
            metadata = {**json.loads(shared), **json.loads(own), keys.INDEX: place}
            found.append(Record.stored(text, None if rows is None else rows[row].copy(), metadata, version))
    return found


def _matches(
    reader: sqlite3.Connection, catalogue: Catalogue, rows: Rows, scores: NDArray[np.float64], limit: int
) -> list[Match]:
    """Return the `limit` best in the total order; one tenant's ids are all different, so they alone break ties."""
    chosen = _ranking.best(scores, limit, lambda position: (catalogue.row_id(int(rows[position])), ""))
    return [Match(_record(reader, catalogue, int(rows[position])), float(scores[position])) for position in chosen]


def _record(reader: sqlite3.Connection, catalogue: Catalogue, row: int) -> Record:
    number, place = int(catalogue.numbers[catalogue.row_slots[row]]), int(catalogue.row_places[row])
    text, own, shared, version = reader.execute(
        "SELECT p.text, p.metadata, s.metadata, s.version FROM passage p JOIN source s ON s.number = p.source"
        " WHERE p.source = ? AND p.place = ?",
        (number, place),
    ).fetchone()
    return Record.stored(text, None, {**json.loads(shared), **json.loads(own), keys.INDEX: place}, version)
