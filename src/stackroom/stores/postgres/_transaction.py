"""A transaction over one collection and one tenant: its first round trip sees that the collection is still the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stackroom.stores._protocol import CollectionSpec
from stackroom.stores.postgres._connections import Rows, Session, Statement, TablesAreGone
from stackroom.stores.postgres._names import Entry, Names

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(slots=True)
class Transaction:
    """Asks within one transaction. `opening` is what stands before the first question: settings, locks.

    One that writes looks at what its opening answered before it does anything that could be committed.
    """

    session: Session
    entry: Entry
    opening: Sequence[Statement]
    writes: bool = False
    _has_begun: bool = False

    def ask(self, *statements: Statement, last: bool = False) -> list[Rows]:
        """Run statements in one round trip; TablesAreGone when the collection is not what the entry says."""
        if self.writes and last and not self._has_begun:
            self.ask()
        if self._has_begun:
            return self.session.ask(*statements, last=last)
        self._has_begun = True
        rows = self.session.ask(*self.opening, registered(self.entry.names, self.entry.name), *statements, last=last)
        before = len(self.opening)
        self.opened(rows[:before])
        if entry_of(self.entry.names, self.entry.name, rows[before]) != self.entry:
            raise TablesAreGone("the collection was dropped or swapped meanwhile")
        return rows[before + 1 :]

    def opened(self, rows: Sequence[Rows]) -> None:
        """Look at what the opening answered."""


def registered(names: Names, name: str) -> Statement:
    """Return the statement that asks the register for a collection."""
    return Statement(
        "SELECT token, dimension, fingerprint, partitions, has_vector_index "
        f"FROM {names.of('collections')} WHERE name = %(name)s::text",
        {"name": name},
    )


def entry_of(names: Names, name: str, rows: Rows) -> Entry | None:
    """Return the entry that the register answered, or None."""
    if not rows:
        return None
    ((token, dimension, fingerprint, partitions, has_vector_index),) = rows
    return Entry(names, name, token, CollectionSpec(dimension, fingerprint), partitions, has_vector_index)
