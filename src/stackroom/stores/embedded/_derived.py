"""What is derived from a shard's tables and kept: vectors in row order, codes, segments. Made, mended, renumbered.

All of it runs within the shard's write transaction. Files are made durable before it commits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stackroom.stores.embedded import _codes, _segments
from stackroom.stores.embedded._schema import State, state_of
from stackroom.stores.embedded._vectors import codes_file, prefix_of, stored_quantiser, vectors_of

if TYPE_CHECKING:
    import sqlite3

    from stackroom.stores.embedded._shard import Followers, Shard

SPARE_ROWS: Final = 4 * _codes.BLOCK
"""So many unused rows are borne in any shard before they are numbered anew."""

_CENTRED_ANEW: Final = 8
"""When the rows have become so many times as many as the mean is of, codes are made anew."""


def _nothing(_reader: sqlite3.Connection, _followers: Followers) -> None:
    return None


def whole_rows(writer: sqlite3.Connection, shard: Shard, state: State) -> None:
    """See that the file of the vectors holds all rows; when it does not, write it from the database."""
    if not shard.rows_file(state.layout).holds(state.rows):
        _write_rows(writer, shard, state)


def _write_rows(writer: sqlite3.Connection, shard: Shard, state: State) -> None:
    file = shard.rows_file(state.layout)
    for first, stored in writer.execute(
        "SELECT first_row, rows FROM source JOIN vectors ON vectors.source = source.number ORDER BY first_row"
    ):
        file.write(first, vectors_of(stored, shard.dimension))
    file.reach(state.rows)
    file.sync()


def derive(writer: sqlite3.Connection, shard: Shard) -> None:
    """Make the codes of finished blocks and the segments of rows that have come together."""
    state = state_of(writer)
    if state.rows - state.coded >= _codes.BLOCK:
        _derive_codes(writer, shard, state)
    if state.rows - state.segmented >= _segments.SMALL:
        _derive_segments(writer, state)


def _derive_segments(writer: sqlite3.Connection, state: State) -> None:
    first = state.segmented
    while state.rows - first >= _segments.SMALL:
        end = first + _segments.SMALL
        lists = _segments.lists_of(_segments.passages_between(writer, first, end))
        _segments.write_segment(writer, first, end, lists)
        first = end
    writer.execute("UPDATE state SET segmented = ?", (first,))


def _derive_codes(writer: sqlite3.Connection, shard: Shard, state: State) -> None:
    end = state.rows // _codes.BLOCK * _codes.BLOCK
    rows = shard.rows_file(state.layout).vectors(end)
    quantiser = stored_quantiser(writer)
    begin = state.coded
    if quantiser is None or end >= _CENTRED_ANEW * quantiser.centred:
        epoch = 1 if quantiser is None else quantiser.epoch + 1
        quantiser = _codes.Quantiser(epoch, shard.number + epoch, _codes.mean_of(rows), end)
        begin = 0
    file = codes_file(shard.path, shard.numbering(state.layout), quantiser)
    try:
        for first in range(begin, end, _codes.BLOCK):
            codes = quantiser.encode(rows[first : first + _codes.BLOCK])
            file.write(first // _codes.BLOCK, _codes.blocks_of(codes))
        file.sync()
        if end >= 2 * quantiser.calibrated:
            live = live_rows(writer, end)
            pairs = _codes.calibrated(quantiser, rows, file.view(end // _codes.BLOCK), live)
            quantiser = _codes.Quantiser(quantiser.epoch, quantiser.seed, quantiser.mean, quantiser.centred, end, pairs)
    finally:
        file.close()
    writer.execute("INSERT OR REPLACE INTO quantiser VALUES (?, ?, ?, ?, ?, ?, ?)", quantiser.stored)
    writer.execute("UPDATE state SET coded = ?", (end,))


def live_rows(reader: sqlite3.Connection, end: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the rows before `end` that a source has, ascending."""
    is_live = np.zeros(end, dtype=np.bool_)
    for first, passages in reader.execute("SELECT first_row, passages FROM source WHERE first_row < ?", (end,)):
        is_live[first : first + passages] = True
    return np.flatnonzero(is_live)


def needs_care(reader: sqlite3.Connection) -> bool:
    """Tell whether there is something to merge, or too many rows are unused."""
    return _is_sparse(state_of(reader)) or bool(_segments.mergeable(reader))


def _is_sparse(state: State) -> bool:
    return state.rows > 2 * state.live + SPARE_ROWS


def care(shard: Shard) -> bool:
    """Do one piece of the work that keeps a shard quick; False when there is none left. Readers never wait for it."""
    with shard.reading(_nothing) as (reader, _):
        is_sparse = _is_sparse(state_of(reader))
    if is_sparse:
        renumber(shard)
        return True
    return merge(shard)


def merge(shard: Shard) -> bool:
    """Merge small segments into a large one, if there are enough; the writers' lock is held only to put it in."""
    with shard.reading(_nothing) as (reader, _):
        found = _segments.mergeable(reader)
        if not found:
            return False
        first, end, layout = found[0][1], found[-1][2], state_of(reader).layout
        lists = _segments.lists_of(_segments.passages_between(reader, first, end))
    with shard.writing(_nothing) as (writer, _):
        is_as_it_was = _segments.segments_between(writer, first, end) == found
        if is_as_it_was and state_of(writer).layout == layout:  # else somebody else has been at it
            _segments.write_segment(writer, first, end, lists)
    return True


def renumber(shard: Shard) -> None:
    """Give the rows new numbers, without those of sources that went, and derive everything for them, in new files.

    Who still reads the old numbering keeps its files as long as it has them mapped.
    """
    with shard.writing(_nothing) as (writer, _):
        row = 0
        for number, first, passages in writer.execute(
            "SELECT number, first_row, passages FROM source ORDER BY first_row"
        ).fetchall():
            if first != row:
                moved = (first - row, first, first + passages)
                writer.execute("UPDATE passage SET row = row - ? WHERE row >= ? AND row < ?", moved)
                writer.execute("UPDATE source SET first_row = ? WHERE number = ?", (row, number))
            row += passages
        for table in ("segment", "posting", "quantiser"):
            writer.execute(f"DELETE FROM {table}")  # noqa: S608 - our own names
        writer.execute(
            "UPDATE state SET layout = layout + 1, rows = ?, coded = 0, segmented = 0, position = position + 1", (row,)
        )
        _begin_files(writer, shard)
        derive(writer, shard)
    tidy(shard)


def rewrite_files(shard: Shard) -> None:
    """Write the side files anew, without what was in unused rows; the rows keep their numbers, and so the segments.

    Much cheaper than numbering the rows anew, as no passage moves.
    """
    with shard.writing(_nothing) as (writer, _):
        old, quantiser = state_of(writer), stored_quantiser(writer)
        writer.execute("UPDATE state SET layout = layout + 1, position = position + 1")
        state = _begin_files(writer, shard)
        if quantiser is not None and not _copy_codes(writer, shard, quantiser, old, state):
            writer.execute("UPDATE state SET coded = 0")
            derive(writer, shard)
    tidy(shard)


def _begin_files(writer: sqlite3.Connection, shard: Shard) -> State:
    """Write the vectors of a new numbering into a file of its own; what a kill has left under its name goes first."""
    state = state_of(writer)
    for left in shard.path.glob(f"{prefix_of(shard.numbering(state.layout))}*"):
        left.unlink(missing_ok=True)
    _write_rows(writer, shard, state)
    return state


def _copy_codes(
    writer: sqlite3.Connection, shard: Shard, quantiser: _codes.Quantiser, old: State, state: State
) -> bool:
    """Copy the codes of rows that are used into a new numbering's file; False when the old file is not whole."""
    blocks = state.coded // _codes.BLOCK
    before = codes_file(shard.path, shard.numbering(old.layout), quantiser)
    after = codes_file(shard.path, shard.numbering(state.layout), quantiser)
    if state.coded % _codes.BLOCK or not before.holds(blocks):
        return False
    is_used = np.zeros(state.coded, dtype=np.bool_)
    is_used[live_rows(writer, state.coded)] = True
    for block, unused in enumerate(~is_used.reshape(blocks, _codes.BLOCK)):
        codes = np.array(before.view(blocks)[block])
        codes[:, unused] = 0
        after.write(block, codes[None])
    after.sync()
    after.close()
    return True


def tidy(shard: Shard) -> None:
    """Remove side files of numberings and codes that are no longer used."""
    with shard.writing(_nothing) as (writer, _):
        state, quantiser = state_of(writer), stored_quantiser(writer)
        numbering = shard.numbering(state.layout)
        used = {shard.rows_file(state.layout).path}
        if quantiser is not None:
            used.add(codes_file(shard.path, numbering, quantiser).path)
        for path in shard.path.glob("codes.*"):
            if path not in used:
                path.unlink(missing_ok=True)


def erase(shard: Shard, *, even_if_nothing_was_removed: bool = False) -> None:
    """Take out of the shard's files what was removed: unused rows, and the words that nobody holds.

    What is derived is written into new files, for somebody may still read the old ones. SQLite leaves pieces of moved
    cells behind, even when it zeroes what it frees, so its file is written anew as well.
    """
    with shard.reading(_nothing) as (reader, _):
        removals, scrubbed = reader.execute("SELECT removals, scrubbed FROM state").fetchone()
        state = state_of(reader)
    if removals == scrubbed and not even_if_nothing_was_removed:
        return
    if even_if_nothing_was_removed or state.rows > 2 * state.live:
        renumber(shard)
    else:
        rewrite_files(shard)
    with shard.writing(_nothing) as (writer, _):
        _drop_unused_terms(writer)
    shard.vacuum(removals)


def _drop_unused_terms(writer: sqlite3.Connection) -> None:
    """Forget the words that no passage holds any more."""
    highest = writer.execute("SELECT coalesce(max(number), 0) FROM term").fetchone()[0]
    is_used = np.zeros(highest + 1, dtype=np.bool_)
    for (stored,) in writer.execute("SELECT terms FROM passage"):
        is_used[_segments.term_numbers(stored)] = True
    unused = [(number,) for (number,) in writer.execute("SELECT number FROM term") if not is_used[number]]
    writer.executemany("DELETE FROM term WHERE number = ?", unused)
    writer.execute("UPDATE state SET vocabulary = vocabulary + 1")
