"""The check: whatever a store answers is judged again, by the reference evaluator, before anybody sees it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stackroom import _keys as keys
from stackroom._filters import Filter, matches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stackroom._model import Note
    from stackroom.stores import Match, Record

_log = logging.getLogger("stackroom")


@dataclass(slots=True)
class Check:
    """What one search's condition lets through; how much it did not, and what the store said beside its matches."""

    where: Filter
    dropped: int = 0
    notes: dict[str, Note] = field(default_factory=dict)

    def begin(self) -> None:
        """Count anew: the legs are asked again."""
        self.dropped = 0

    def kept(self, found: Sequence[Match], where: Filter | None = None) -> list[Match]:
        """Return the matches that fulfil the condition, or the narrower one asked; each id once. Count the others."""
        asked = self.where if where is None else where
        for note in getattr(found, "notes", ()):
            self.notes.setdefault(note.code, note)
        kept: dict[tuple[object, object], Match] = {}
        for match in found:
            metadata = match.record.metadata
            identity = metadata[keys.SOURCE], metadata[keys.INDEX]
            if identity not in kept and matches(asked, metadata):
                kept[identity] = match
        self.dropped += len(found) - len(kept)
        return list(kept.values())

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
