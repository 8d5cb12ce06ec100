"""What one shard answers: the four questions, and both legs of a search at once; each within one transaction."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stackroom import _keys as keys
from stackroom.stores import _ranking
from stackroom.stores._legs import Rankings
from stackroom.stores._protocol import Match, Record
from stackroom.stores.embedded._ranked import Leg, Proposal
from stackroom.stores.embedded._vectors import vectors_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Hashable, Iterator, Sequence

    from numpy.typing import NDArray

    from stackroom._filters import Filter
    from stackroom._values import MetadataValue
    from stackroom.stores._legs import Choose
    from stackroom.stores._protocol import Cursor, LexicalQuery
    from stackroom.stores.embedded._catalogue import Catalogue, Rows
    from stackroom.stores.embedded._postings import Asked
    from stackroom.stores.embedded._shard import Followers, Shard
    from stackroom.stores.embedded._vectors import Snapshot

    Ranked = tuple[Sequence[int], Sequence[float]]
    Propose = Callable[[Leg], Proposal]

_AT_A_TIME: Final = 900
"""Passages asked for by one statement: SQLite takes 999 parameters everywhere."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What both legs of one shard are asked; `query` has length 1. A leg that is not asked answers nothing."""

    query: NDArray[np.float64] | None
    words: LexicalQuery | None
    where: Filter
    limit: int
    exact: bool
    across: bool = False


@dataclass(frozen=True, slots=True)
class _Looked:
    """What a search takes from the followers under their lock."""

    catalogue: Catalogue
    position: int
    passages: int
    allowed: Rows
    snapshot: Snapshot | None
    asked: Asked | None


@dataclass(frozen=True, slots=True)
class _Rankings:
    """Rows and scores, best first, of each leg, and what each scores of that which only the other found."""

    dense: Ranked = ((), ())
    lexical: Ranked = ((), ())
    dense_across: Ranked = ((), ())
    lexical_across: Ranked = ((), ())


def dense(shard: Shard, wanted: Wanted) -> list[Match]:
    """Return the nearest allowed records."""
    with shard.reading(partial(_look, wanted)) as (reader, looked):
        ranked = _ranked(looked, wanted).dense
        return _matches(ranked, _whole(reader, looked.catalogue, ranked[0]))


def lexical(shard: Shard, wanted: Wanted) -> list[Match]:
    """Return the best worded allowed records."""
    with shard.reading(partial(_look, wanted)) as (reader, looked):
        ranked = _ranked(looked, wanted).lexical
        return _matches(ranked, _whole(reader, looked.catalogue, ranked[0]))


def legs(shard: Shard, wanted: Wanted, choose: Choose, propose: Propose | None = None) -> list[Record]:
    """Let `choose` choose from what both legs found, in one state, and return the chosen records whole.

    `propose` asks a ranker for the dense leg.
    """
    with shard.reading(partial(_look, wanted)) as (reader, looked):
        proposal = Proposal()
        if propose is not None and wanted.query is not None:
            proposal = propose(
                Leg(
                    reader,
                    looked.catalogue,
                    looked.position,
                    looked.passages,
                    looked.allowed,
                    wanted.query,
                    wanted.limit,
                )
            )
        if proposal.error is not None:
            raise proposal.error
        found = _Rankings() if proposal.instead else _ranked(looked, wanted, proposal.rows)
        dense, lexical, dense_across, lexical_across = (
            list(zip(*ranked, strict=True))
            for ranked in (found.dense, found.lexical, found.dense_across, found.lexical_across)
        )
        rankings = Rankings(
            partial(_id_of, looked.catalogue),
            *(dense, lexical, dense_across, lexical_across),
            tuple(proposal.notes),
            proposal.instead,
        )
        chosen: list[Any] = choose(rankings)
        whole = _whole(reader, looked.catalogue, chosen)
        return [whole[row] for row in chosen]


def _id_of(catalogue: Catalogue, row: Hashable) -> str:
    return catalogue.row_id(row)  # type: ignore[arg-type] # our keys are rows


def _look(wanted: Wanted, reader: sqlite3.Connection, followers: Followers) -> _Looked:
    allowed = followers.catalogue.allowed(wanted.where, reader)
    snapshot = asked = None
    if wanted.query is not None and len(allowed):
        snapshot = followers.dense(reader)
    if wanted.words is not None and len(allowed):
        asked = followers.lexical(reader).asked(wanted.words, reader, followers.catalogue)
    state = followers.state
    return _Looked(followers.catalogue, state.position, state.live, allowed, snapshot, asked)


def _ranked(looked: _Looked, wanted: Wanted, proposed: Rows | None = None) -> _Rankings:
    """Rank both legs; of the dense one only the rows proposed and those of the lexical leg, where some are given."""
    near: Ranked = ((), ())
    worded: Ranked = ((), ())
    near_across: Ranked = ((), ())
    worded_across: Ranked = ((), ())
    if looked.asked is not None:
        rows, scores = looked.asked.scores(looked.allowed)
        worded = _best(looked.catalogue, rows, scores, wanted.limit)
    if looked.snapshot is not None and wanted.query is not None:
        if proposed is None:
            near_rows, cosines = looked.snapshot.scores(looked.allowed, wanted.query, wanted.limit, exact=wanted.exact)
        else:
            near_rows = np.union1d(proposed, np.asarray(worded[0], dtype=np.int64))
            cosines = looked.snapshot.exact_scores(near_rows, wanted.query)
        near = _best(looked.catalogue, near_rows, cosines, wanted.limit)
    if wanted.across and looked.asked is not None:
        others, places, _ = np.intersect1d(rows, _without(near, worded), return_indices=True)
        worded_across = others.tolist(), scores[places].tolist()
    if wanted.across and looked.snapshot is not None and wanted.query is not None:
        only_worded = _without(worded, near)
        near_across = only_worded.tolist(), looked.snapshot.exact_scores(only_worded, wanted.query).tolist()
    return _Rankings(near, worded, near_across, worded_across)


def _without(ranked: Ranked, other: Ranked) -> Rows:
    """Return the rows of one ranking that are not in the other."""
    return np.asarray(sorted(set(ranked[0]) - set(other[0])), dtype=np.int64)


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


def _asked_for(reader: sqlite3.Connection, query: str, wanted: list[int]) -> Iterator[Any]:
    """Yield what a query finds for some numbers, which stand where it has `{}`."""
    for start in range(0, len(wanted), _AT_A_TIME):
        part = wanted[start : start + _AT_A_TIME]
        yield from reader.execute(query.format(",".join("?" * len(part))), part)


def _matches(ranked: Ranked, records: dict[int, Record]) -> list[Match]:
    return [Match(records[row], score) for row, score in zip(*ranked, strict=True)]


def _whole(reader: sqlite3.Connection, catalogue: Catalogue, rows: Collection[int]) -> dict[int, Record]:
    """Return records of rows as the tables hold them; no list in one is another's."""
    numbers = {row: int(catalogue.numbers[catalogue.row_slots[row]]) for row in rows}
    sources = {
        number: (version, shared)
        for number, version, shared in _asked_for(
            reader, "SELECT number, version, metadata FROM source WHERE number IN ({})", list(set(numbers.values()))
        )
    }
    found = {}
    for row, text, own in _asked_for(
        reader, "SELECT row, text, metadata FROM passage WHERE row IN ({})", list(numbers)
    ):
        version, shared = sources[numbers[row]]
        metadata: dict[str, MetadataValue] = json.loads(shared)
        if own != "{}":
            metadata.update(json.loads(own))
        metadata[keys.INDEX] = catalogue.place(row)
        found[row] = Record.stored(text, None, metadata, version)
    return found
