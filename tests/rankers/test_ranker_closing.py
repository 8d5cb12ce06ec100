"""Closing while a ranker is being told: no connection is closed under whoever uses it, and nothing is told in vain."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.rankers.conftest import Open, source, sync
from tests.rankers.doubles import HonestRanker, Vector

from stackroom import StoreError
from stackroom.stores.embedded._book import Book
from stackroom.stores.embedded._directory import Directory
from stackroom.stores.embedded._ledger import Ledger


class Watched:
    """A connection that tells whether a lock was held when it was closed."""

    def __init__(self, connection: sqlite3.Connection, is_held: Any) -> None:
        self.connection = connection
        self.is_held = is_held
        self.was_held: bool | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)

    def close(self) -> None:
        self.was_held = self.is_held()
        self.connection.close()


def test_a_book_is_closed_under_its_lock_and_refuses_from_then_on(tmp_path: Path) -> None:
    book = Book(tmp_path, "t", "one", forgets=True)
    watched = Watched(book._connection, book._mutex._is_owned)  # type: ignore[attr-defined] # noqa: SLF001
    book._connection = watched  # type: ignore[assignment] # noqa: SLF001
    book.close()
    assert watched.was_held
    with pytest.raises(sqlite3.ProgrammingError):
        book.counted()


def test_a_ledger_is_closed_under_its_lock_and_refuses_from_then_on(tmp_path: Path) -> None:
    directory = Directory(tmp_path / "library", 1.0, lambda _: None)
    ledger = Ledger(directory, None)
    watched = Watched(ledger._own, ledger._lock.locked)  # type: ignore[arg-type] # noqa: SLF001
    ledger._own = watched  # type: ignore[assignment] # noqa: SLF001
    ledger.close()
    directory.close()
    assert watched.was_held
    with pytest.raises(StoreError, match="closed"):
        ledger.owed()


def test_closing_during_a_round_leaves_the_book_to_it(opened: Open) -> None:
    class Closes(HonestRanker):
        def on_embedding_persisted(self, *, tenant_id: str, passage_id: str, vector: Vector | None) -> None:
            super().on_embedding_persisted(tenant_id=tenant_id, passage_id=passage_id, vector=vector)
            if passage_id == "s#1":
                closing = threading.Thread(target=library.close)
                closing.start()
                closing.join(20)

    ranker = Closes(durable_id="one")
    library = opened(ranker)
    library.index_source(source("s", "apple fruit", "car vehicle", "cart apple"))
    assert ranker.ids == ["s#0", "s#1", "s#2"]
    again = HonestRanker(durable_id="one")
    assert sync(opened(again)).owed == 0
    assert again.ids == []
