"""What a ranker is owed of tenants that are gone: ids, and nothing else of what went, until they are delivered.

For a state that outlives the process it stands in ``ledger.db`` beside the tenants, else in memory.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Final

from stackroom._errors import StoreError
from stackroom.stores.embedded._book import book_of, closings, file_name, passages_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from stackroom.stores.embedded._directory import Directory

FORGET: Final = ""
"""Stands in a passage's place when the whole tenant is to be forgotten."""

_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS departed (feed TEXT NOT NULL, tenant TEXT NOT NULL, passage TEXT NOT NULL,"
    " passages INTEGER NOT NULL, PRIMARY KEY (feed, tenant, passage))"
)

_OWE: Final = "INSERT OR REPLACE INTO departed VALUES (?, ?, ?, ?)"

_LATE_SECONDS: Final = 30.0


def depart(ledger: sqlite3.Connection, directory: Path) -> None:
    """Note in the ledger what the books beside a shard say that rankers hold. Call it before the shard goes."""
    for book in closings(directory):
        if isinstance(book, str):
            _depart_unread(ledger, directory, book)
        else:
            ids = {f"{source_id}#{place}" for source_id, place in book.pairs}
            _depart(ledger, book.durable_id, book.tenant_id, ids, forgets=book.forgets)


def _depart_unread(ledger: sqlite3.Connection, directory: Path, book: str) -> None:
    """Note what a state may hold whose book is torn: what the shard held last, and the tenant as a whole."""
    found = passages_of(directory)
    if found is not None:
        tenant_id, ids = found
        ledger.execute(_TABLE)
        ledger.executemany(
            _OWE, [(book, tenant_id, FORGET, int(not ids)), *((book, tenant_id, name, 1) for name in ids)]
        )


def owed_in(ledger: sqlite3.Connection) -> dict[str, int]:
    """Return how many passages of tenants that are gone each state of a ranker is owed, by its `durable_id`."""
    if not ledger.execute("SELECT 1 FROM sqlite_master WHERE name = 'departed'").fetchone():
        return {}
    return dict(ledger.execute("SELECT feed, sum(passages) FROM departed GROUP BY feed ORDER BY feed").fetchall())


def strike_off_state(ledger: sqlite3.Connection, book: str) -> int:
    """Strike off all that a state of a ranker is owed, named as its books are; return how many passages."""
    owed = {feed: passages for feed, passages in owed_in(ledger).items() if book_of(feed) == book}
    for feed in owed:
        ledger.execute("DELETE FROM departed WHERE feed = ?", (feed,))
    return sum(owed.values())


def _depart(ledger: sqlite3.Connection, feed: str, tenant_id: str, ids: set[str], *, forgets: bool) -> None:
    if not ids:
        return
    ledger.execute(_TABLE)
    rows = [(feed, tenant_id, FORGET, len(ids))] if forgets else [(feed, tenant_id, name, 1) for name in sorted(ids)]
    ledger.executemany(_OWE, rows)


class Ledger:
    """What one ranker is owed of tenants that are gone."""

    def __init__(self, directory: Directory, durable_id: str | None) -> None:
        self._directory = directory
        self._feed = durable_id or ""
        self._feeds = self._feed, file_name(self._feed)
        self._lock = threading.Lock()
        self._own = None
        self._is_closed = False
        if durable_id is None:
            self._own = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            self._own.execute(_TABLE)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        if self._own is not None:
            with self._lock:
                if self._is_closed:
                    raise StoreError("this store is closed; open the directory again")
                yield self._own
        else:
            with self._directory.locked() as ledger:
                ledger.execute(_TABLE)
                yield ledger

    def depart(self, tenant_id: str, ids: Iterable[str], *, forgets: bool) -> None:
        """Note that a tenant went, and what the ranker holds of it."""
        with self._opened() as ledger:
            _depart(ledger, self._feed, tenant_id, set(ids), forgets=forgets)

    def owe_again(self, tenant_id: str, entries: Iterable[str]) -> None:
        """Note what a tenant's going did not reach or may have been overtaken by, also when the store is closed."""
        rows = [(self._feed, tenant_id, entry, 1) for entry in entries]
        if self._own is not None:
            with suppress(StoreError), self._opened() as ledger:
                ledger.executemany(_OWE, rows)
            return
        with closing(sqlite3.connect(self._directory.ledger, isolation_level=None, timeout=_LATE_SECONDS)) as ledger:
            ledger.execute("BEGIN IMMEDIATE")
            ledger.execute(_TABLE)
            ledger.executemany(_OWE, rows)
            ledger.execute("COMMIT")

    def owed(self) -> dict[str, int]:
        """Return the tenants of which something is owed, and how many passages."""
        with self._opened() as ledger:
            return dict(
                ledger.execute(
                    "SELECT tenant, sum(passages) FROM departed WHERE feed IN (?, ?) GROUP BY tenant", self._feeds
                ).fetchall()
            )

    def entries(self, tenant_id: str) -> list[str]:
        """Return the passages of a tenant whose going is owed, those that failed last; `FORGET` stands for all."""
        with self._opened() as ledger:
            found = ledger.execute(
                "SELECT passage FROM departed WHERE feed IN (?, ?) AND tenant = ? ORDER BY rowid",
                (*self._feeds, tenant_id),
            )
            return [passage for (passage,) in found]

    def strike_off(self, tenant_id: str, passages: Iterable[str]) -> None:
        """Strike off what was delivered."""
        with self._opened() as ledger:
            ledger.executemany(
                "DELETE FROM departed WHERE feed IN (?, ?) AND tenant = ? AND passage = ?",
                [(*self._feeds, tenant_id, passage) for passage in passages],
            )

    def stand_back(self, tenant_id: str, failed: Iterable[str]) -> None:
        """Put passages behind the others that are owed."""
        with self._opened() as ledger:
            ledger.executemany(
                "INSERT OR REPLACE INTO departed SELECT feed, tenant, passage, passages FROM departed"
                " WHERE feed IN (?, ?) AND tenant = ? AND passage = ?",
                [(*self._feeds, tenant_id, passage) for passage in failed],
            )

    def close(self) -> None:
        """Let it go, when nobody is at it."""
        with self._lock:
            self._is_closed = True
            if self._own is not None:
                self._own.close()
