"""The catalogue: which sources there are and which rows are theirs; it turns a filter into the rows that it allows.

A follower: it is built from the shard's tables, catches up from the journal, and can be thrown away. A source lies in
a *slot*; its passages are *rows* beside each other. Slots and rows are only ever added, so what was handed out stays
right; a rebuild makes a new catalogue.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stackroom import _keys as keys
from stackroom._filters import All, And, Eq, Filter, In, Not, Or, conjuncts, leaves, matches, scalar_key
from stackroom._values import MetadataValue

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence

Rows: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
Metadata: TypeAlias = dict[str, MetadataValue]


class Growing:
    """An array that grows at its end. A view handed out before stays as it was."""

    def __init__(self, dtype: Any, width: int | None = None) -> None:
        self._buffer = np.zeros((16,) if width is None else (16, width), dtype=dtype)
        self._length = 0

    def append(self, items: Any) -> None:
        """Put items at the end."""
        added = np.asarray(items, dtype=self._buffer.dtype)
        needed = self._length + len(added)
        if needed > len(self._buffer):
            larger = np.zeros((max(needed, 2 * len(self._buffer)), *self._buffer.shape[1:]), dtype=self._buffer.dtype)
            larger[: self._length] = self._buffer[: self._length]
            self._buffer = larger
        self._buffer[self._length : needed] = added
        self._length = needed

    def view(self) -> NDArray[Any]:
        """Return what is there, not copied."""
        return self._buffer[: self._length]

    def __len__(self) -> int:
        return self._length


class Column:
    """What all slots hold under one source key: each distinct value once, so that a filter judges it once."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._values: list[MetadataValue] = []
        self._numbers: dict[Any, int] = {}
        self._holding: dict[Any, list[int]] = defaultdict(list)
        self._of_slot = Growing(np.int32)

    def put(self, slot: int, metadata: Mapping[str, MetadataValue]) -> None:
        """Note what the slot holds; −1 stands for nothing."""
        number = self._number(metadata[self._key]) if self._key in metadata else -1
        if slot == len(self._of_slot):
            self._of_slot.append([number])
        else:
            self._of_slot.view()[slot] = number

    def _number(self, value: MetadataValue) -> int:
        elements = value if isinstance(value, list) else [value]
        identity = (isinstance(value, list), *(scalar_key(element) for element in elements))
        number = self._numbers.setdefault(identity, len(self._values))
        if number == len(self._values):
            self._values.append(value)
            for element in dict.fromkeys(identity[1:]):
                self._holding[element].append(number)
        return number

    def mask(self, leaf: Filter) -> Mask:
        """Return, for every slot, whether the leaf holds; by the reference evaluator on each distinct value."""
        judged = np.zeros(len(self._values) + 1, dtype=np.bool_)  # the last is that of slots without the key
        judged[self._judged(leaf)] = True
        judged[-1] = matches(leaf, {})
        found: Mask = judged[self._of_slot.view()]
        return found

    def _judged(self, leaf: Filter) -> list[int]:
        """Return the numbers of the distinct values that fulfil the leaf."""
        suspects: Iterable[int] = range(len(self._values))
        if isinstance(leaf, Eq):
            suspects = self._holding.get(scalar_key(leaf.value), ())
        elif isinstance(leaf, In):
            suspects = {number for value in leaf.values for number in self._holding.get(scalar_key(value), ())}
        elif isinstance(leaf, All):
            suspects = self._holding.get(scalar_key(leaf.values[0]), ())
        return [number for number in suspects if matches(leaf, {self._key: self._values[number]})]


class Catalogue:
    """The sources of one shard as of one place in its journal, and the rows that a filter allows."""

    def __init__(self) -> None:
        self.position = 0
        self.ids: list[str] = []
        self.slots: dict[str, int] = {}
        self._slot_of: dict[int, int] = {}
        self._metadata: list[Metadata] = []
        self._columns: dict[str, Column] = {}
        self._own: dict[int, list[Metadata]] = {}
        self._numbers = Growing(np.int64)
        self._versions = Growing(np.int64)
        self._is_live = Growing(np.bool_)
        self._first_rows = Growing(np.int64)
        self._row_counts = Growing(np.int64)
        self._row_slots = Growing(np.int32)
        self._row_places = Growing(np.int32)
        self._row_is_live = Growing(np.bool_)

    # What it knows

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The number of each slot's source in the shard's tables."""
        return self._numbers.view()

    @property
    def row_slots(self) -> NDArray[np.int32]:
        """The slot of each row."""
        return self._row_slots.view()

    @property
    def row_places(self) -> NDArray[np.int32]:
        """The passage index of each row."""
        return self._row_places.view()

    @property
    def row_is_live(self) -> Mask:
        """Whether each row is of a source that is still there."""
        return self._row_is_live.view()

    @property
    def live_rows(self) -> int:
        """How many passages there are."""
        return int(np.count_nonzero(self._row_is_live.view()))

    def rows_of(self, slot: int) -> range:
        """Return the rows of a slot."""
        first = int(self._first_rows.view()[slot])
        return range(first, first + int(self._row_counts.view()[slot]))

    def live_slots_from(self, row: int) -> list[int]:
        """Return the slots whose source is there and whose rows begin at `row` or later."""
        return np.flatnonzero(self._is_live.view() & (self._first_rows.view() >= row)).tolist()

    @property
    def live_versions(self) -> set[int]:
        """The versions of all sources that are there."""
        return set(self._versions.view()[self._is_live.view()].tolist())

    def version(self, slot: int) -> int:
        """Return the version of a slot's source."""
        return int(self._versions.view()[slot])

    def row_id(self, row: int) -> str:
        """Return a row's passage id."""
        return f"{self.ids[self.row_slots[row]]}#{self.row_places[row]}"

    # How it follows

    def follow(self, reader: sqlite3.Connection, position: int) -> bool:
        """Catch up to `position`, which the reader sees; False when the journal no longer reaches back so far."""
        if position == self.position:
            return True
        if self.position == 0:
            self._load(reader)
        else:
            first = reader.execute("SELECT min(position) FROM journal").fetchone()[0]
            if first is None or first > self.position + 1:
                return False
            changed = reader.execute("SELECT DISTINCT source FROM journal WHERE position > ?", (self.position,))
            for (number,) in changed.fetchall():
                self._refresh(reader, number)
        self.position = position
        return True

    def _load(self, reader: sqlite3.Connection) -> None:
        places: dict[int, list[int]] = defaultdict(list)
        for number, place in reader.execute("SELECT source, place FROM passage ORDER BY source, place"):
            places[number].append(place)
        for number, source_id, version, metadata in reader.execute(
            "SELECT number, source_id, version, metadata FROM source ORDER BY number"
        ):
            self._add(number, source_id, version, json.loads(metadata), places[number])

    def _refresh(self, reader: sqlite3.Connection, number: int) -> None:
        found = reader.execute("SELECT source_id, version, metadata FROM source WHERE number = ?", (number,)).fetchone()
        slot = self._slot_of.get(number)
        if found is None:
            if slot is not None:
                self._remove(number, slot)
            return
        source_id, version, metadata = found
        if slot is None:
            places = reader.execute("SELECT place FROM passage WHERE source = ? ORDER BY place", (number,)).fetchall()
            self._add(number, source_id, version, json.loads(metadata), [place for (place,) in places])
        else:
            self._change(slot, version, json.loads(metadata))

    def _add(self, number: int, source_id: str, version: int, metadata: Metadata, places: Sequence[int]) -> None:
        slot = len(self.ids)
        self._slot_of[number] = slot
        self.slots[source_id] = slot
        self.ids.append(source_id)
        self._metadata.append(metadata)
        for column in self._columns.values():
            column.put(slot, metadata)
        self._numbers.append([number])
        self._versions.append([version])
        self._is_live.append([True])
        self._first_rows.append([len(self._row_slots)])
        self._row_counts.append([len(places)])
        self._row_slots.append(np.full(len(places), slot))
        self._row_places.append(places)
        self._row_is_live.append(np.ones(len(places), dtype=np.bool_))

    def _change(self, slot: int, version: int, metadata: Metadata) -> None:
        self._versions.view()[slot] = version
        self._metadata[slot] = metadata
        self._own.pop(slot, None)
        for column in self._columns.values():
            column.put(slot, metadata)

    def _remove(self, number: int, slot: int) -> None:
        del self._slot_of[number]
        if self.slots.get(self.ids[slot]) == slot:  # a replacement may have come first
            del self.slots[self.ids[slot]]
        self._is_live.view()[slot] = False
        rows = self.rows_of(slot)
        self._row_is_live.view()[rows.start : rows.stop] = False
        self._metadata[slot] = {}
        self._own.pop(slot, None)

    # What a filter allows

    def allowed(self, where: Filter, reader: sqlite3.Connection) -> Rows:
        """Return the rows, ascending, of the passages that `where` matches: exactly those that `matches` says.

        Conditions on source keys are judged once a source, those on the index once a distinct index, all others on
        each remaining passage.
        """
        of_source, of_index, of_passage = _by_reach(where)
        rows = self._rows_in(self._slot_mask(of_source) & self._is_live.view())
        if of_index:
            rows = rows[self._index_mask(of_index, rows)]
        if of_passage:
            wanted = And(*of_passage)
            kept = [row for row in rows.tolist() if matches(wanted, self._row_metadata(row, reader))]
            rows = np.asarray(kept, dtype=np.int64)
        return rows

    def _rows_in(self, slots: Mask) -> Rows:
        found = np.flatnonzero(slots)
        firsts, counts = self._first_rows.view()[found], self._row_counts.view()[found]
        offsets = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.asarray(np.repeat(firsts, counts) + offsets, dtype=np.int64)

    def _slot_mask(self, filters: Iterable[Filter]) -> Mask:
        mask = np.ones(len(self.ids), dtype=np.bool_)
        for member in filters:
            mask &= self._mask(member)
        return mask

    def _mask(self, member: Filter) -> Mask:
        if isinstance(member, And):
            return self._slot_mask(member.filters)
        if isinstance(member, Or):
            mask = np.zeros(len(self.ids), dtype=np.bool_)
            for other in member.filters:
                mask |= self._mask(other)
            return mask
        if isinstance(member, Not):
            return ~self._mask(member.filter)
        return self._column(_key_of(member)).mask(member)

    def _column(self, key: str) -> Column:
        column = self._columns.get(key)
        if column is None:
            column = Column(key)
            for slot, metadata in enumerate(self._metadata):
                column.put(slot, metadata)
            self._columns[key] = column
        return column

    def _index_mask(self, filters: list[Filter], rows: Rows) -> Mask:
        distinct, where = np.unique(self.row_places[rows], return_inverse=True)
        wanted = And(*filters)
        judged = np.asarray([matches(wanted, {keys.INDEX: place}) for place in distinct.tolist()], dtype=np.bool_)
        return judged[where] if len(distinct) else np.zeros(0, dtype=np.bool_)

    def _row_metadata(self, row: int, reader: sqlite3.Connection) -> Metadata:
        slot = int(self.row_slots[row])
        own = self._own.get(slot)
        if own is None:
            found = reader.execute(
                "SELECT metadata FROM passage WHERE source = ? ORDER BY place", (int(self.numbers[slot]),)
            )
            own = self._own[slot] = [json.loads(metadata) for (metadata,) in found]
        first = self.rows_of(slot).start
        return {**self._metadata[slot], **own[row - first], keys.INDEX: int(self.row_places[row])}


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
