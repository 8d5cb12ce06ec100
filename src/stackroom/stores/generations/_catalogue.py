"""Which collections there are, and on which shelf each lies: one note, replaced whole, so that a swap is one step."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from stackroom._errors import Conflict, StoreError, UnknownCollection
from stackroom.stores._protocol import CollectionSpec
from stackroom.stores.generations import _heads

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stackroom.stores.generations._engine import Engine

FORMAT: Final = 1
_NOTE: Final = "catalogue"


@dataclass(frozen=True, slots=True)
class Entry:
    """A collection: what it holds, and where."""

    spec: CollectionSpec
    shelf: str


class Catalogue:
    """The collections of one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def find(self, name: str) -> Entry | None:
        """Return a collection's entry as it is now, or None."""
        return self._read()[1].get(name)

    def entry(self, name: str) -> Entry:
        """Return a collection's entry as it is now; StoreError (a LookupError) when there is none."""
        found = self.find(name)
        if found is None:
            raise UnknownCollection(name)
        return found

    def create(self, name: str, spec: CollectionSpec) -> None:
        """Make a collection, or find an equal one; Conflict when it is there with another spec."""
        made: str | None = None

        def with_one(there: Mapping[str, Entry]) -> Mapping[str, Entry]:
            nonlocal made
            if name in there:
                return there
            if made is None:
                made = secrets.token_hex(8)
                self._engine.make_shelf(made, spec.dimension)
            return {**there, name: Entry(spec, made)}

        there = self._change(with_one)[name]
        if made is not None and there.shelf != made:
            self._engine.drop_shelf(made)
        if there.spec != spec:
            raise Conflict(f"collection {name!r} exists with another dimension or fingerprint; choose another name")

    def drop(self, name: str) -> None:
        """Take a collection away with all it holds."""
        gone = self.find(name)
        if gone is not None:
            self._change(
                lambda there: {other: entry for other, entry in there.items() if (other, entry) != (name, gone)}
            )
            self.clear(gone.shelf)

    def move(self, side: str, name: str) -> None:
        """Let the collection `side` take a name, in one step, and clear what had it."""
        old = self.entry(name)

        def moved(there: Mapping[str, Entry]) -> Mapping[str, Entry]:
            if side not in there:
                raise UnknownCollection(side)
            return {**{other: entry for other, entry in there.items() if other != side}, name: there[side]}

        self._change(moved)
        self.clear(old.shelf)

    def clear(self, shelf: str) -> None:
        """Take a shelf away that no collection has any more, and the notes about it."""
        self._engine.drop_shelf(shelf)
        for note, content in self._engine.notes_of(_heads.prefix(shelf)).items():
            self._engine.write_note(note, None, content)

    def _change(self, change: Callable[[Mapping[str, Entry]], Mapping[str, Entry]]) -> Mapping[str, Entry]:
        """Change the catalogue as it then is; what others change meanwhile stays. Return what it has become."""
        while True:
            content, there = self._read()
            changed = change(there)
            if changed == there or self._engine.write_note(_NOTE, _written(changed), content):
                return changed

    def _read(self) -> tuple[bytes | None, Mapping[str, Entry]]:
        content = self._engine.note(_NOTE)
        if content is None:
            return None, {}
        held: dict[str, Any] = json.loads(content)
        if held["format"] > FORMAT:
            raise StoreError(f"these collections have format {held['format']}, newer than the {FORMAT} known here")
        return content, {
            name: Entry(CollectionSpec(entry["dimension"], entry["fingerprint"]), entry["shelf"])
            for name, entry in held["collections"].items()
        }


def _written(collections: Mapping[str, Entry]) -> bytes:
    held = {
        name: {"dimension": entry.spec.dimension, "fingerprint": entry.spec.fingerprint, "shelf": entry.shelf}
        for name, entry in collections.items()
    }
    return json.dumps({"format": FORMAT, "collections": held}, ensure_ascii=False).encode()
