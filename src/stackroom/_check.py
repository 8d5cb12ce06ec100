"""The check: whatever a store answers is judged again, by the reference evaluator, before anybody sees it."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from stackroom import _keys as keys
from stackroom._filters import Filter, matches
from stackroom._model import Note

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from stackroom.stores import Match, Record
    from stackroom.stores._legs import Ranked

_log = logging.getLogger("stackroom")


STORE_NOTES: Final[Mapping[str, str]] = {
    "scan_limit": "the store gave up before it had looked at all that is allowed; passages may be missing",
    "lagging": "the store may not show the latest writes yet",
}
"""What a store may say of its answers, and what the Library says then: a store's own words could hold names."""


@dataclass(slots=True)
class Check:
    """What one search's condition lets through; how much it did not, and what the store said beside its matches."""

    where: Filter
    dropped: int = 0
    notes: dict[str, Note] = field(default_factory=dict)

    def begin(self) -> None:
        """Count anew: the legs are asked again."""
        self.dropped = 0

    def heed(self, notes: Iterable[Note]) -> None:
        """Keep what a store says of its own answer, in our words."""
        for note in notes:
            if note.code in STORE_NOTES:
                self.notes.setdefault(note.code, Note(note.code, STORE_NOTES[note.code]))

    def kept(self, found: Sequence[Match], where: Filter | None = None) -> list[Match]:
        """Return the matches that fulfil the condition, or the narrower one asked; each id once. Count the others."""
        asked = self.where if where is None else where
        self.heed(getattr(found, "notes", ()))
        kept: dict[tuple[object, object], Match] = {}
        for match in found:
            metadata = match.record.metadata
            identity = metadata.get(keys.SOURCE), metadata.get(keys.INDEX)
            if identity not in kept and matches(asked, metadata) and math.isfinite(match.score):
                kept[identity] = match
        self.dropped += len(found) - len(kept)
        return list(kept.values())

    def distinct(self, ranked: Ranked) -> Ranked:
        """Return a leg's keys and scores with each key once, the first; count the others."""
        seen: dict[Hashable, float] = {}
        for key, score in ranked:
            seen.setdefault(key, score)
        self.dropped += len(ranked) - len(seen)
        return ranked if len(seen) == len(ranked) else list(seen.items())

    def passes(self, record: Record, expected_id: str) -> bool:
        """Tell whether a record read again is the one expected and fulfils the condition; count it if not."""
        is_kept = record.id == expected_id and matches(self.where, record.metadata)
        self.dropped += not is_kept
        return is_kept

    def report(self) -> int:
        """Log that something was dropped, for whoever runs the store; return how much."""
        if self.dropped:
            _log.warning("%d of the store's hits did not pass the check and were dropped", self.dropped)
        return self.dropped
