"""A library on PostgreSQL is what brute force says, through writes, new handles and searches with all narrowings."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from tests.library.test_library_model import LibraryMachine, compare
from tests.postgres_room import a_room

from stackroom.stores import PostgresStore

if TYPE_CHECKING:
    from pathlib import Path

    from stackroom.stores import VectorStore


def test_a_library_on_postgresql_is_what_brute_force_says(postgres_dsn: str) -> None:
    class PostgresMachine(LibraryMachine):
        def __init__(self) -> None:
            self.held = ExitStack()
            self.schema = self.held.enter_context(a_room(postgres_dsn)).schema
            super().__init__()

        def open_store(self, path: Path) -> VectorStore:
            del path
            return PostgresStore(postgres_dsn, schema=self.schema)

        def teardown(self) -> None:
            super().teardown()
            self.held.close()

    compare(PostgresMachine, examples=8)
