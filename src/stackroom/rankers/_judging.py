"""Judging what a ranker answers, item by item: only what may be seen is kept, and its score is only looked at."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from numbers import Real
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_LARGEST: Final = 1.001
"""A cosine may be off by a little; beyond this, the scores are no cosines."""


class Place(Enum):
    """Where an id lies that may not be answered."""

    OUT_OF_SCOPE = 1
    UNKNOWN = 2


Locate: TypeAlias = "Callable[[str], int | Place]"
"""Says which row an id is, or why it is none that may be answered."""


class Item(NamedTuple):
    """What an item of an answer says: an id, and a finite score or None."""

    id: str
    score: float | None


@dataclass(slots=True)
class Judged:
    """The rows that a ranker named validly, in its order, and what was dropped of its answer, by reason."""

    rows: dict[int, None] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    has_odd_scores: bool = False

    def judge(self, items: Iterable[Item | None], locate: Locate) -> None:
        """Judge further items, as `read_item` has read them."""
        for item in items:
            reason = self._reason(item, locate)
            if reason is not None:
                self.dropped[reason] += 1

    def _reason(self, item: Item | None, locate: Locate) -> str | None:
        """Keep an item, or return why it is dropped; None too for one that is skipped as is normal."""
        if item is None:
            return "malformed"
        row = locate(item.id)
        if row is Place.OUT_OF_SCOPE:
            return None
        if row in self.rows:
            return "duplicate"
        if row is Place.UNKNOWN:
            return "unknown"
        if item.score is None:
            return "score"
        self.rows[row] = None
        self.has_odd_scores |= abs(item.score) > _LARGEST
        return None


def read_item(item: object) -> Item | None:
    """Read what a ranker gave, None for no pair. A score may be an object that takes its time."""
    pair = _pair(item)
    return None if pair is None else Item(pair[0], _number(pair[1]))


def _pair(item: object) -> tuple[str, object] | None:
    """Return an id and what stands for its score; nothing that the item may define is called."""
    kind, given = type(item), cast("Any", item)
    if issubclass(kind, tuple):
        found: tuple[object, ...] = tuple.__getitem__(given, slice(None))
    elif issubclass(kind, list):
        found = tuple(list.__getitem__(given, slice(None)))
    else:
        return None
    if len(found) != 2 or not issubclass(type(found[0]), str):  # noqa: PLR2004 - a pair
        return None
    return str.__str__(cast("str", found[0])), found[1]


def _number(score: object) -> float | None:
    """Return a finite real number, or None for anything else. Numbers of others' making may raise: they are none."""
    try:
        if issubclass(type(score), bool) or not issubclass(type(score), Real):
            return None
        number = float(score)  # type: ignore[arg-type] # it is real
    except Exception:  # noqa: BLE001 - whatever it is, it is no number
        return None
    return number if math.isfinite(number) else None
