"""Postings in the database: which rows hold a term, and with what impact, in segments of some thousand rows.

A passage's terms are written beside its text, as numbers of the `term` table. When enough of them have come together
they become a segment: for every term one list. Small segments are merged into large ones in the background. Rows of
sources that went stay in the lists until then; who reads them looks which rows are live.
"""

from __future__ import annotations

import sys
from array import array
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from stackroom.stores import _bm25

if TYPE_CHECKING:
    import sqlite3
    from collections import Counter
    from collections.abc import Mapping, Sequence

SMALL: Final = 16_384
"""Rows that make a segment."""

LARGE: Final = 8 * SMALL
"""Rows of a merged segment; it stays as it is, so a merge never needs more memory than this many rows' postings."""

Segment = tuple[int, int, int]
"""A segment's number, and its rows: from the first to before the end."""

Lists = tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.float32]]
"""Term, row and impact of every posting of some rows."""


def stored_terms(counted: Counter[str], numbers: Mapping[str, int]) -> bytes:
    """Return what a passage keeps of its terms: their numbers, then how often each stands; uint32, little-endian."""
    kept = array("I", map(numbers.__getitem__, counted))
    kept.extend(counted.values())
    if sys.byteorder == "big":
        kept.byteswap()
    return kept.tobytes()


def term_numbers(stored: bytes) -> NDArray[np.uint32]:
    """Return the numbers of the terms that a passage holds."""
    return np.frombuffer(stored, dtype="<u4", count=len(stored) // 8)


def lists_of(passages: Sequence[tuple[int, bytes]]) -> Lists:
    """Return the postings of passages (row, terms), row by row."""
    kept = np.frombuffer(b"".join(terms for _, terms in passages), dtype="<u4")
    counts = np.fromiter((len(terms) // 8 for _, terms in passages), np.int64, len(passages))
    rows = np.repeat(np.fromiter((row for row, _ in passages), np.uint32, len(passages)), counts)
    ends = np.cumsum(counts)
    places = np.arange(len(rows)) + np.repeat(
        ends - counts, counts
    )  # of the numbers: each is followed by as many counts
    frequencies = kept[places + np.repeat(counts, counts)]
    summed = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(frequencies, dtype=np.int64)])
    lengths = summed[ends] - summed[ends - counts]
    return kept[places], rows, _bm25.impacts(frequencies, np.repeat(lengths, counts))


def passages_between(reader: sqlite3.Connection, first: int, end: int) -> list[tuple[int, bytes]]:
    """Return row and terms of the passages from row `first` to before `end`."""
    return reader.execute(
        "SELECT row, terms FROM passage WHERE row >= ? AND row < ? ORDER BY row", (first, end)
    ).fetchall()


def sorted_by_term(
    lists: Lists,
) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.uint32], NDArray[np.float32]]:
    """Return distinct terms, where each one's list begins (and the end), and the rows and impacts, term by term."""
    terms, rows, impacts = lists
    order = np.argsort(terms, kind="stable")
    distinct, begins = np.unique(terms[order], return_index=True)
    return distinct, np.append(begins, len(order)).astype(np.int64), rows[order], impacts[order]


def key_of(segment: int, term: int) -> int:
    """Return the key of a term's list in a segment."""
    return (segment << 32) | term


def write_segment(writer: sqlite3.Connection, first: int, end: int, lists: Lists) -> None:
    """Write the postings of rows `first` to before `end` as one segment, in place of those it covers."""
    for (number,) in writer.execute(
        "SELECT number FROM segment WHERE first_row >= ? AND end_row <= ?", (first, end)
    ).fetchall():
        writer.execute("DELETE FROM posting WHERE key >= ? AND key < ?", (key_of(number, 0), key_of(number + 1, 0)))
        writer.execute("DELETE FROM segment WHERE number = ?", (number,))
    written = writer.execute("INSERT INTO segment (first_row, end_row) VALUES (?, ?)", (first, end))
    number = int(written.lastrowid or 0)
    distinct, begins, rows, impacts = sorted_by_term(lists)
    bounds = begins.tolist()
    writer.executemany(
        "INSERT INTO posting (key, rows) VALUES (?, ?)",
        (
            (key_of(number, term), rows[start:stop].tobytes() + impacts[start:stop].tobytes())
            for term, start, stop in zip(distinct.tolist(), bounds, bounds[1:], strict=False)
        ),
    )


def mergeable(reader: sqlite3.Connection) -> list[Segment]:
    """Return the first run of small segments beside each other that together make a large one, or nothing."""
    run: list[Segment] = []
    for segment in segments_between(reader, 0, None):
        _, first, end = segment
        if end - first >= LARGE:
            run = []
            continue
        if run and run[-1][2] != first:
            run = []
        run.append(segment)
        if end - run[0][1] >= LARGE:
            return run
    return []


def segments_between(reader: sqlite3.Connection, first: int, end: int | None) -> list[Segment]:
    """Return the segments (number, first row, end) that lie in some rows, in their order."""
    return reader.execute(
        "SELECT number, first_row, end_row FROM segment WHERE end_row > ? AND (? IS NULL OR first_row < ?)"
        " ORDER BY first_row",
        (first, end, end),
    ).fetchall()


def posting_of(stored: bytes) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the rows and impacts of a stored list."""
    number = len(stored) // 8
    rows = np.frombuffer(stored, dtype="<u4", count=number).astype(np.int64)
    return rows, np.frombuffer(stored, dtype="<f4", offset=4 * number)
