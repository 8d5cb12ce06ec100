"""The catalogue: which sources there are and which rows are theirs; it turns a filter into the rows that it allows.

A follower: it is built from the shard's tables, catches up from the journal, and can be thrown away. A source lies in
a *slot*; its passages are *rows* beside each other, numbered by the shard. What was handed out stays right: slots are
only added, and a new numbering of the rows makes a new catalogue.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stackroom import _keys as keys
from stackroom._filters import And, Filter, Not, Or, conjuncts, leaves, matches
from stackroom._values import MetadataValue
from stackroom.stores.embedded._columns import Column, Growing, ListColumn, Mask, Verdict

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Mapping

Rows: TypeAlias = NDArray[np.int64]
Metadata: TypeAlias = dict[str, MetadataValue]
Stored: TypeAlias = tuple[int, str, int, str, int, int, bytes | None]

_FEW_ROWS: Final = 2000
"""So many passages are judged by their own metadata one by one; of more, a column of each key is made and kept."""

_ROWS_AT_A_TIME: Final = 10_000

_PLACE: Final = re.compile(r"0|[1-9][0-9]{0,9}")
"""A passage's index as an id spells it."""

SOURCES = "SELECT number, source_id, version, metadata, first_row, passages, places FROM source"


class Catalogue:
    """The sources of one shard as of one place in its journal, and the rows that a filter allows."""

    def __init__(self) -> None:
        self.position = 0
        self.ids: list[str] = []
        self.metadata: list[Metadata] = []
        self.slots: dict[str, int] = {}
        self._slot_of: dict[int, int] = {}
        self._columns: dict[str, Column | ListColumn] = {}
        self._own: dict[int, list[Metadata]] = {}
        self._row_columns: dict[str, Column] = {}
        self._rows_in_columns = 0
        self._odd_places: dict[int, NDArray[np.int64]] = {}
        self._numbers = Growing(np.int64)
        self._versions = Growing(np.int64)
        self._is_live = Growing(np.bool_)
        self._first_rows = Growing(np.int64)
        self._row_counts = Growing(np.int64)
        self._row_slots = Growing(np.int32)
        self._row_is_live = Growing(np.bool_)
        self.live_rows = 0

    # What it knows

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The number of each slot's source in the shard's tables."""
        return self._numbers.view()

    @property
    def row_slots(self) -> NDArray[np.int32]:
        """The slot of each row; rows of sources that went keep theirs, or have −1."""
        return self._row_slots.view()

    @property
    def row_is_live(self) -> Mask:
        """Whether each row is of a source that is still there."""
        return self._row_is_live.view()

    def rows_of(self, slot: int) -> range:
        """Return the rows of a slot."""
        first = int(self._first_rows.view()[slot])
        return range(first, first + int(self._row_counts.view()[slot]))

    def version(self, slot: int) -> int:
        """Return the version of a slot's source."""
        return int(self._versions.view()[slot])

    def place(self, row: int) -> int:
        """Return the passage index of a row."""
        slot = int(self.row_slots[row])
        offset = row - int(self._first_rows.view()[slot])
        return int(self._odd_places[slot][offset]) if slot in self._odd_places else offset

    def places(self, rows: Rows) -> NDArray[np.int64]:
        """Return the passage index of each of some live rows."""
        slots = self.row_slots[rows]
        found = np.asarray(rows - self._first_rows.view()[slots], dtype=np.int64)
        if not self._odd_places:
            return found
        for slot in self._odd_places.keys() & set(slots.tolist()):
            of_slot = slots == slot
            found[of_slot] = self._odd_places[slot][found[of_slot]]
        return found

    def row_id(self, row: int) -> str:
        """Return a row's passage id."""
        return f"{self.ids[self.row_slots[row]]}#{self.place(row)}"

    def row_ids(self, rows: Rows) -> list[str]:
        """Return the passage ids of rows."""
        pairs = zip(self.row_slots[rows].tolist(), self.places(rows).tolist(), strict=True)
        return [f"{self.ids[slot]}#{place}" for slot, place in pairs]

    def row_of(self, passage_id: str) -> int | None:
        """Return the row of a passage id, spelt as `row_id` does; None for one that is not there."""
        source_id, _, written = passage_id.rpartition("#")
        slot = self.slots.get(source_id)
        if slot is None or not _PLACE.fullmatch(written):
            return None
        rows, place = self.rows_of(slot), int(written)
        if slot in self._odd_places:
            offsets = np.flatnonzero(self._odd_places[slot] == place)
            return rows[int(offsets[0])] if len(offsets) else None
        return rows[place] if place < len(rows) else None

    def by_source(self, rows: Rows) -> list[tuple[int, Rows]]:
        """Return ascending rows by their slots."""
        slots, first = np.unique(self.row_slots[rows], return_index=True)
        return list(zip(slots.tolist(), np.split(rows, first[1:]), strict=True)) if len(rows) else []

    # How it follows

    def follow(self, reader: sqlite3.Connection, position: int, rows: int) -> bool:
        """Catch up to `position`, at which `rows` rows are given; False when the journal no longer reaches back."""
        if position == self.position:
            return True
        if self.position == 0:
            self._add(reader.execute(f"{SOURCES} ORDER BY first_row").fetchall())
        else:
            first = reader.execute("SELECT min(position) FROM journal").fetchone()[0]
            if first is None or first > self.position + 1:
                return False
            changed = reader.execute(
                "SELECT source, max(changed_passages) FROM journal WHERE position > ? GROUP BY source", (self.position,)
            )
            self._refresh(reader, changed.fetchall())
        self._fill_up_to(rows)
        self.position = position
        return True

    def _refresh(self, reader: sqlite3.Connection, changed: Iterable[tuple[int, int]]) -> None:
        added: list[Stored] = []
        for number, changes_passages in changed:
            found: Stored | None = reader.execute(f"{SOURCES} WHERE number = ?", (number,)).fetchone()
            slot = self._slot_of.get(number)
            if found is None:
                if slot is not None:
                    self._remove(number, slot)
            elif slot is None:
                added.append(found)
            else:
                self._change(slot, found[2], json.loads(found[3]))
                if changes_passages:
                    self._change_passages(slot, reader)
        self._add(sorted(added, key=lambda stored: stored[4]))

    def _add(self, stored: list[Stored]) -> None:
        """Put sources, in the order of their rows, into new slots."""
        if not stored:
            return
        first_slot = len(self.ids)
        every = [json.loads(source[3]) for source in stored]
        for slot, (number, source_id, _, _, _, _, places) in enumerate(stored, start=first_slot):
            self._slot_of[number] = self.slots[source_id] = slot
            self.ids.append(source_id)
            if places is not None:
                self._odd_places[slot] = np.frombuffer(places, dtype="<u4").astype(np.int64)
        self.metadata.extend(every)
        for column in self._columns.values():
            column.extend(every)
        firsts, counts = [source[4] for source in stored], [source[5] for source in stored]
        self._numbers.append([source[0] for source in stored])
        self._versions.append([source[2] for source in stored])
        self._is_live.append(np.ones(len(stored), dtype=np.bool_))
        self._first_rows.append(firsts)
        self._row_counts.append(counts)
        self._fill_up_to(firsts[-1] + counts[-1])
        rows = _ranges(np.asarray(firsts), np.asarray(counts))
        self._row_slots.view()[rows] = np.repeat(np.arange(first_slot, len(self.ids)), counts)
        self._row_is_live.view()[rows] = True
        self.live_rows += len(rows)

    def _fill_up_to(self, row: int) -> None:
        """Stand in for rows that may never be seen: their source went before."""
        missing = row - len(self._row_slots)
        if missing > 0:
            self._row_slots.append(np.full(missing, -1))
            self._row_is_live.append(np.zeros(missing, dtype=np.bool_))

    def _change(self, slot: int, version: int, metadata: Metadata) -> None:
        self._versions.view()[slot] = version
        self.metadata[slot] = metadata
        for column in self._columns.values():
            column.change(slot, metadata)

    def _change_passages(self, slot: int, reader: sqlite3.Connection) -> None:
        self._own.pop(slot, None)
        rows = self.rows_of(slot)
        if rows.start < self._rows_in_columns:
            for row, metadata in zip(rows, _own_metadata(reader, rows.start, rows.stop), strict=True):
                for column in self._row_columns.values():
                    column.change(row, metadata)

    def _remove(self, number: int, slot: int) -> None:
        del self._slot_of[number]
        if self.slots.get(self.ids[slot]) == slot:  # a replacement may have come first
            del self.slots[self.ids[slot]]
        self._is_live.view()[slot] = False
        rows = self.rows_of(slot)
        self._row_is_live.view()[rows.start : rows.stop] = False
        self.live_rows -= len(rows)
        self.metadata[slot] = {}
        self._own.pop(slot, None)

    # What a filter allows

    def allowed(self, where: Filter, reader: sqlite3.Connection) -> Rows:
        """Return the rows, ascending, of the passages that `where` matches: exactly those that `matches` says.

        Conditions on source keys are judged once a source, those on the index once a distinct index, all others on
        each remaining passage.
        """
        of_source, of_index, of_passage = _by_reach(where)
        rows = self._rows_in(self._all_hold(of_source))
        if of_index:
            rows = rows[self._index_mask(of_index, rows)]
        if of_passage and len(rows) <= _FEW_ROWS:
            wanted = And(*of_passage)
            kept = [row for row in rows.tolist() if matches(wanted, self._row_metadata(row, reader))]
            rows = np.asarray(kept, dtype=np.int64)
        elif of_passage:
            self._fill_row_columns({_key_of(leaf) for member in of_passage for leaf in leaves(member)}, reader)
            rows = rows[_every([self._row_verdict(member) for member in of_passage], len(self._row_slots))[rows]]
        return rows

    def _rows_in(self, verdict: Verdict) -> Rows:
        if verdict is True:
            return np.flatnonzero(self._row_is_live.view())
        if verdict is False:
            return np.zeros(0, dtype=np.int64)
        slots = np.flatnonzero(verdict & self._is_live.view())
        firsts = self._first_rows.view()[slots]
        rows = _ranges(firsts, self._row_counts.view()[slots])
        is_ascending = len(firsts) < 2 or bool((firsts[1:] > firsts[:-1]).all())  # noqa: PLR2004 - a pair
        return rows if is_ascending else np.sort(rows)

    def _all_hold(self, filters: Iterable[Filter]) -> Verdict:
        verdict: Verdict = True
        for member in filters:
            other = self._verdict(member)
            if other is False:
                return False
            if other is not True:
                verdict = other if verdict is True else verdict & other
        return verdict

    def _verdict(self, member: Filter) -> Verdict:
        if isinstance(member, And):
            return self._all_hold(member.filters)
        if isinstance(member, Or):
            return self._one_holds(member.filters)
        if isinstance(member, Not):
            verdict = self._verdict(member.filter)
            return not verdict if isinstance(verdict, bool) else ~verdict
        return self._column(_key_of(member)).verdict(member)

    def _one_holds(self, filters: Iterable[Filter]) -> Verdict:
        verdict: Verdict = False
        for member in filters:
            other = self._verdict(member)
            if other is True:
                return True
            if other is not False:
                verdict = other if verdict is False else verdict | other
        return verdict

    def _column(self, key: str) -> Column | ListColumn:
        column = self._columns.get(key)
        if column is None:
            column = ListColumn(key) if key in keys.LISTS else Column(key)
            column.extend(self.metadata)
            self._columns[key] = column
        return column

    def _row_verdict(self, member: Filter) -> Mask:
        """Say for every row whether a filter over any keys holds."""
        rows = len(self._row_slots)
        if isinstance(member, And):
            return _every([self._row_verdict(other) for other in member.filters], rows)
        if isinstance(member, Or):
            return ~_every([~self._row_verdict(other) for other in member.filters], rows)
        if isinstance(member, Not):
            return ~self._row_verdict(member.filter)
        key = _key_of(member)
        if key == keys.INDEX:
            found = np.zeros(rows, dtype=np.bool_)
            live = np.flatnonzero(self._row_is_live.view())
            found[live] = self._index_mask([member], live)
            return found
        if keys.is_source_key(key):
            verdict = self._column(key).verdict(member)
            return np.full(rows, verdict) if isinstance(verdict, bool) else verdict[self._row_slots.view()]
        verdict = self._row_columns[key].verdict(member)
        return np.full(rows, verdict) if isinstance(verdict, bool) else verdict

    def _fill_row_columns(self, wanted: set[str], reader: sqlite3.Connection) -> None:
        """See that there is a column of every key of passages' own that is asked for, as long as there are rows."""
        own = {key for key in wanted if key != keys.INDEX and not keys.is_source_key(key)}
        rows = len(self._row_slots)
        missing = own - self._row_columns.keys()
        if missing:
            fresh = {key: Column(key) for key in missing}
            self._extend_row_columns(fresh, 0, self._rows_in_columns, reader)
            self._row_columns.update(fresh)
        self._extend_row_columns(self._row_columns, self._rows_in_columns, rows, reader)
        self._rows_in_columns = rows

    def _extend_row_columns(
        self, columns: Mapping[str, Column], first: int, end: int, reader: sqlite3.Connection
    ) -> None:
        for start in range(first, end, _ROWS_AT_A_TIME):
            some = list(_own_metadata(reader, start, min(end, start + _ROWS_AT_A_TIME)))
            for column in columns.values():
                column.extend(some)

    def _index_mask(self, filters: list[Filter], rows: Rows) -> Mask:
        distinct, where = np.unique(self.places(rows), return_inverse=True)
        wanted = And(*filters)
        judged = np.asarray([matches(wanted, {keys.INDEX: place}) for place in distinct.tolist()], dtype=np.bool_)
        return judged[where] if len(distinct) else np.zeros(0, dtype=np.bool_)

    def _row_metadata(self, row: int, reader: sqlite3.Connection) -> Metadata:
        slot = int(self.row_slots[row])
        rows = self.rows_of(slot)
        own = self._own.get(slot)
        if own is None:
            if len(self._own) > _FEW_ROWS:
                self._own.clear()
            own = self._own[slot] = list(_own_metadata(reader, rows.start, rows.stop))
        return {**self.metadata[slot], **own[row - rows.start], keys.INDEX: self.place(row)}


def _ranges(firsts: NDArray[np.int64], counts: NDArray[np.int64]) -> Rows:
    """Return all rows of runs that begin at `firsts` and are `counts` long, run by run."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.arange(total) + np.repeat(firsts - (ends - counts), counts), dtype=np.int64)


def _every(masks: list[Mask], length: int) -> Mask:
    """Return where all of some masks hold."""
    found = np.ones(length, dtype=np.bool_)
    for mask in masks:
        found &= mask
    return found


def _own_metadata(reader: sqlite3.Connection, first: int, end: int) -> Iterator[Metadata]:
    """Yield the own metadata of the passages of rows, nothing for rows that are not used."""
    expected = first
    found = reader.execute("SELECT row, metadata FROM passage WHERE row >= ? AND row < ? ORDER BY row", (first, end))
    for row, metadata in found:
        yield from ({} for _ in range(expected, row))
        yield {} if metadata == "{}" else json.loads(metadata)
        expected = row + 1
    yield from ({} for _ in range(expected, end))


def _by_reach(where: Filter) -> tuple[list[Filter], list[Filter], list[Filter]]:
    """Split what must hold into conditions on the source, on the index alone, and on anything else of the passage."""
    of_source: list[Filter] = []
    of_index: list[Filter] = []
    of_passage: list[Filter] = []
    for member in conjuncts(where):
        named = {_key_of(leaf) for leaf in leaves(member)}
        if all(keys.is_source_key(key) for key in named):
            of_source.append(member)
        elif named == {keys.INDEX}:
            of_index.append(member)
        else:
            of_passage.append(member)
    return of_source, of_index, of_passage


def _key_of(leaf: Filter) -> str:
    key: str = leaf.key  # type: ignore[attr-defined] # every leaf has one
    return key
