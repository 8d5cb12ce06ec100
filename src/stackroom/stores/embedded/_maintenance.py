"""Looking after shards: what is there, whether all of it fits together, and writing everything derived anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stackroom.stores import _ranking
from stackroom.stores.embedded import _codes, _derived, _segments, _told
from stackroom.stores.embedded._book import torn_beside
from stackroom.stores.embedded._names import listed
from stackroom.stores.embedded._sidefiles import SideFileIsTorn
from stackroom.stores.embedded._vectors import RowsFile, codes_file, stored_quantiser, vectors_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from stackroom.stores.embedded._schema import State
    from stackroom.stores.embedded._shard import Followers, Shard


DELIVER_OR_FORGET: Final = (
    "open the library with it and call sync_ranker, or without it and call forget_ranker with that name if it never"
    " comes back"
)

FEED_OR_FORGET: Final = (
    "open the library with it, and it is fed anew, or without it and call forget_ranker with that name if it never"
    " comes back"
)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong: where (a path within the library), what, and whether `compact` mends it."""

    place: str
    what: str
    is_mended_by_compact: bool


@dataclass(frozen=True, slots=True)
class ShardStatistics:
    """What one tenant's shard holds. `rows` are those ever given, `passages` the live ones; bytes are on disk."""

    tenant_id: str
    sources: int
    passages: int
    rows: int
    coded_rows: int
    segmented_rows: int
    segments: int
    words: int
    unerased_removals: int
    bytes: int


def _as_it_is(_reader: sqlite3.Connection, followers: Followers) -> State:
    return followers.state


def statistics(shard: Shard) -> ShardStatistics:
    """Count what a shard holds."""
    with shard.reading(_as_it_is) as (reader, state):

        def number(query: str) -> int:
            return int(reader.execute(query).fetchone()[0])

        return ShardStatistics(
            tenant_id=shard.tenant_id,
            sources=number("SELECT count(*) FROM source"),
            passages=state.live,
            rows=state.rows,
            coded_rows=state.coded,
            segmented_rows=state.segmented,
            segments=number("SELECT count(*) FROM segment"),
            words=number("SELECT count(*) FROM term"),
            unerased_removals=number("SELECT removals - scrubbed FROM state"),
            bytes=sum(_size(path) for path in listed(shard.path)),
        )


def _size(path: Path) -> int:
    """Return a file's length; 0 when it goes just now."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def problems(shard: Shard) -> Iterator[tuple[str, bool]]:
    """Yield what is wrong with a shard, and whether everything derived written anew mends it."""
    torn = list(torn_beside(shard.path))
    for name in torn:
        yield f"the book of a vector ranker is torn ({name}): {FEED_OR_FORGET}", False
    book, owed = ("", 0) if torn else _told.owed_beside(shard)
    if owed:
        yield f"{owed} passages are owed to a vector ranker ({book}): {DELIVER_OR_FORGET}", False
    with shard.reading(_as_it_is) as (reader, state):
        damage = [line for (line,) in reader.execute("PRAGMA integrity_check(10)") if line != "ok"]
        if damage:
            yield f"the database is damaged ({len(damage)} findings): restore it from a backup", False
            return
        for what in _problems_of_truth(reader, state):
            yield f"{what}: restore it from a backup, or index the sources again", False
        for what in (*_problems_of_vectors(reader, shard, state), *_problems_of_postings(reader, state)):
            yield what, True


def _problems_of_truth(reader: sqlite3.Connection, state: State) -> Iterator[str]:
    runs = reader.execute("SELECT first_row, passages FROM source ORDER BY first_row").fetchall()
    passages = reader.execute("SELECT count(*) FROM passage").fetchone()[0]
    counted = sum(count for _, count in runs)
    if counted != passages or passages != state.live:
        yield "sources and passages do not add up"
    ends = [first for first, _ in runs[1:]] + [state.rows]
    if any(first + count > end for (first, count), end in zip(runs, ends, strict=False)):
        yield "sources lie over each other"
    lacking = reader.execute(
        "SELECT count(*) FROM source LEFT JOIN vectors ON vectors.source = source.number"
        " WHERE vectors.source IS NULL OR length(vectors.rows) % source.passages != 0"
    ).fetchone()[0]
    if lacking:
        yield f"{lacking} sources have no vectors, or not one a passage"


def _problems_of_vectors(reader: sqlite3.Connection, shard: Shard, state: State) -> Iterator[str]:
    file = RowsFile(shard.path, shard.numbering(state.layout), shard.dimension)
    try:
        rows, norms = file.vectors(state.rows), file.norms(state.rows)
    except SideFileIsTorn:
        yield "the file of the vectors is missing or torn"
        return
    wrong = 0
    for first, stored in reader.execute(
        "SELECT first_row, rows FROM source JOIN vectors ON vectors.source = source.number"
    ):
        scaled = _ranking.power_scaled(vectors_of(stored, shard.dimension))
        part = slice(first, first + len(scaled))
        wrong += not (np.array_equal(rows[part], scaled) and np.array_equal(norms[part], _ranking.row_norms(scaled)))
    if wrong:
        yield f"the file of the vectors differs from the database in {wrong} sources"
    yield from _problems_of_codes(reader, shard, state, rows)


def _problems_of_codes(
    reader: sqlite3.Connection, shard: Shard, state: State, rows: NDArray[np.float32]
) -> Iterator[str]:
    quantiser = stored_quantiser(reader)
    if quantiser is None or not state.coded:
        return
    try:
        blocks = codes_file(shard.path, shard.numbering(state.layout), quantiser).view(state.coded // _codes.BLOCK)
    except SideFileIsTorn:
        yield "the file of the codes is missing or torn"
        return
    live = _derived.live_rows(reader, state.coded)
    wrong = 0
    for first in range(0, state.coded, _codes.BLOCK):
        some = live[(live >= first) & (live < first + _codes.BLOCK)]
        codes = quantiser.encode(rows[some])
        wrong += int(np.count_nonzero((codes != blocks[first // _codes.BLOCK][:, some - first].T).any(axis=1)))
    if wrong > len(live) // 1000:  # a number on the very border may fall either way on another machine
        yield f"the file of the codes differs from the vectors in {wrong} rows"


def _problems_of_postings(reader: sqlite3.Connection, state: State) -> Iterator[str]:
    runs = reader.execute("SELECT number, first_row, end_row FROM segment ORDER BY first_row").fetchall()
    ends = [0, *(end for _, _, end in runs)]
    if any(first != end for (_, first, _), end in zip(runs, ends, strict=False)) or ends[-1] != state.segmented:
        yield "the segments of the postings do not follow each other"
        return
    for number, first, end in runs:
        live = _segments.passages_between(reader, first, end)
        terms, rows, impacts = _segments.lists_of(live) if live else ([], [], [])
        expected = _digest(np.asarray(terms), np.asarray(rows), np.asarray(impacts))
        if _digest(*_stored_lists(reader, number, {row for row, _ in live})) != expected:
            yield f"the postings of rows {first}–{end} differ from the passages"


def _stored_lists(
    reader: sqlite3.Connection, segment: int, live: set[int]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    terms: list[NDArray[Any]] = [np.zeros(0, dtype=np.int64)]
    rows: list[NDArray[Any]] = [np.zeros(0, dtype=np.int64)]
    impacts: list[NDArray[Any]] = [np.zeros(0, dtype=np.float32)]
    bounds = (_segments.key_of(segment, 0), _segments.key_of(segment + 1, 0))
    for key, stored in reader.execute("SELECT key, rows FROM posting WHERE key >= ? AND key < ?", bounds):
        of_rows, of_impacts = _segments.posting_of(stored)
        is_live = np.fromiter((row in live for row in of_rows.tolist()), np.bool_, len(of_rows))
        terms.append(np.full(int(is_live.sum()), key & 0xFFFFFFFF))
        rows.append(of_rows[is_live])
        impacts.append(of_impacts[is_live])
    return np.concatenate(terms), np.concatenate(rows), np.concatenate(impacts)


def _digest(
    terms: NDArray[Any],
    rows: NDArray[Any],
    impacts: NDArray[Any],
) -> tuple[int, int, float]:
    """Return what two equal sets of postings have in common, in whatever order they come."""
    mixed = np.asarray(terms, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.asarray(rows, dtype=np.uint64)
    weighted = np.sort(mixed)
    return len(mixed), hash(weighted.tobytes()), round(float(np.asarray(impacts, dtype=np.float64).sum()), 3)


def compact(shard: Shard) -> None:
    """Give the rows numbers without gaps, derive everything anew, write the database without what was removed."""
    _derived.erase(shard, even_if_nothing_was_removed=True)
    while _derived.care(shard):
        pass
