"""Columns of the catalogue: what all sources hold under one key, so that a filter judges each value once."""

from __future__ import annotations

import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stackroom._filters import All, Eq, Exists, In, Range, matches, scalar_key
from stackroom.text._arguments import is_whole_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from stackroom._filters import Filter
    from stackroom._values import MetadataValue

Mask: TypeAlias = NDArray[np.bool_]
Verdict: TypeAlias = Mask | bool
"""Whether a filter holds, for every slot; one bool when it is the same for all."""

INT_MIN, INT_MAX = -(2**63), 2**63 - 1


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
    """What all slots hold under one source key: each distinct value once."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._values: list[MetadataValue] = []
        self._numbers: dict[Any, int] = {}
        self._holding: dict[Any, list[int]] = defaultdict(list)
        self._ints = Growing(np.int64)
        self._is_int = Growing(np.bool_)
        self._of_slot = Growing(np.int32)
        self._missing = 0

    def extend(self, every: Iterable[Mapping[str, MetadataValue]]) -> None:
        """Note what the following slots hold; −1 stands for nothing."""
        numbers = [self._number(metadata[self._key]) if self._key in metadata else -1 for metadata in every]
        self._of_slot.append(numbers)
        self._missing += numbers.count(-1)

    def change(self, slot: int, metadata: Mapping[str, MetadataValue]) -> None:
        """Note what a slot holds now."""
        number = self._number(metadata[self._key]) if self._key in metadata else -1
        self._missing += (number == -1) - (int(self._of_slot.view()[slot]) == -1)
        self._of_slot.view()[slot] = number

    def _number(self, value: MetadataValue) -> int:
        elements = value if isinstance(value, list) else [value]
        identity = (isinstance(value, list), *(scalar_key(element) for element in elements))
        number = self._numbers.setdefault(identity, len(self._values))
        if number == len(self._values):
            self._values.append(value)
            is_int = is_whole_number(value)
            self._is_int.append([is_int])
            self._ints.append([value if is_int else 0])
            for element in dict.fromkeys(identity[1:]):
                self._holding[element].append(number)
        return number

    def verdict(self, leaf: Filter) -> Verdict:
        """Say where the leaf holds; the reference evaluator has judged each distinct value that may differ."""
        of_missing = matches(leaf, {})
        judged = self._judged(leaf)
        if (self._missing == 0 or of_missing) and judged.all():
            return True
        if (self._missing == 0 or not of_missing) and not judged.any():
            return False
        found: Mask = np.append(judged, of_missing)[self._of_slot.view()]
        return found

    def _judged(self, leaf: Filter) -> Mask:
        """Return for each distinct value whether it fulfils the leaf."""
        if isinstance(leaf, Exists):
            return np.full(len(self._values), leaf.exists, dtype=np.bool_)
        judged = np.zeros(len(self._values), dtype=np.bool_)
        suspects: Sequence[int] | set[int] | range = range(len(self._values))
        if isinstance(leaf, Eq):
            suspects = self._holding.get(scalar_key(leaf.value), ())
        elif isinstance(leaf, In):
            suspects = {number for value in leaf.values for number in self._holding.get(scalar_key(value), ())}
        elif isinstance(leaf, All):
            suspects = self._holding.get(scalar_key(leaf.values[0]), ())
        elif isinstance(leaf, Range) and all(isinstance(bound, int) for bound in leaf.bounds().values()):
            judged |= self._ints_within(leaf)
            suspects = np.flatnonzero(~self._is_int.view()).tolist()
        for number in suspects:
            judged[number] = matches(leaf, {self._key: self._values[number]})
        return judged

    def _ints_within(self, leaf: Range) -> Mask:
        """Return which values are ints within the bounds, all of them ints: compared at once, exactly."""
        ints = self._ints.view()
        compare = {"gt": np.greater, "gte": np.greater_equal, "lt": np.less, "lte": np.less_equal}
        found: Mask = self._is_int.view().copy()
        for name, bound in leaf.bounds().items():
            found &= compare[name](ints, np.int64(bound))
        return found


class ListColumn:
    """What all slots hold under a key of lists (groups, tags): for each element the slots that hold it."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._holding: dict[str, Growing] = defaultdict(lambda: Growing(np.int32))
        self._of_slot: list[tuple[str, ...] | None] = []
        self._changed: set[int] = set()

    def extend(self, every: Iterable[Mapping[str, MetadataValue]]) -> None:
        """Note what the following slots hold."""
        added: dict[str, list[int]] = defaultdict(list)
        for metadata in every:
            elements = self._elements(metadata)
            for element in dict.fromkeys(elements or ()):
                added[element].append(len(self._of_slot))
            self._of_slot.append(elements)
        for element, slots in added.items():
            self._holding[element].append(slots)

    def change(self, slot: int, metadata: Mapping[str, MetadataValue]) -> None:
        """Note what a slot holds now."""
        new, old = self._elements(metadata), self._of_slot[slot]
        self._of_slot[slot] = new
        for element in set(old or ()) - set(new or ()):
            kept = self._holding[element].view()
            self._holding[element] = Growing(np.int32)
            self._holding[element].append(kept[kept != slot])
        for element in set(new or ()) - set(old or ()):
            self._holding[element].append([slot])

    def _elements(self, metadata: Mapping[str, MetadataValue]) -> tuple[str, ...] | None:
        value = metadata.get(self._key)
        return tuple(sys.intern(str(element)) for element in value) if isinstance(value, list) else None

    def verdict(self, leaf: Filter) -> Verdict:
        """Say where the leaf holds: by the lists of its elements where it asks for elements, else slot by slot."""
        if isinstance(leaf, Eq):
            return self._with([leaf.value])
        if isinstance(leaf, In):
            return self._with(leaf.values)
        if isinstance(leaf, All):
            found = self._with(leaf.values[:1])
            for value in leaf.values[1:]:
                found &= self._with([value])
            return found
        judged = {elements: matches(leaf, self._metadata(elements)) for elements in set(self._of_slot)}
        return np.fromiter((judged[elements] for elements in self._of_slot), np.bool_, len(self._of_slot))

    def _metadata(self, elements: tuple[str, ...] | None) -> dict[str, MetadataValue]:
        return {} if elements is None else {self._key: list(elements)}

    def _with(self, values: Iterable[object]) -> Mask:
        """Return which slots hold at least one of the values."""
        found = np.zeros(len(self._of_slot), dtype=np.bool_)
        for value in values:
            if isinstance(value, str) and value in self._holding:
                found[self._holding[value].view()] = True
        return found
