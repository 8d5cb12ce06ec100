"""A library in SQL is what brute force says, through writes, new handles and searches with all narrowings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.library.test_library_model import LibraryMachine, compare

from stackroom.stores import SqlStore

if TYPE_CHECKING:
    from pathlib import Path

    from stackroom.stores import VectorStore


class SqlMachine(LibraryMachine):
    def open_store(self, path: Path) -> VectorStore:
        return SqlStore(f"sqlite:///{path}.db")


def test_a_library_in_sql_is_what_brute_force_says() -> None:
    compare(SqlMachine, examples=6)
