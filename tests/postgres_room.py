"""A schema of a test's own in a PostgreSQL database, and the stores that it opens there."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg

from stackroom.stores import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class Room:
    """A schema of a test's own in a database, and the stores that it opens there."""

    dsn: str
    schema: str
    opened: list[PostgresStore] = field(default_factory=list)

    def store(self, dsn_or_pool: Any = None, **options: Any) -> PostgresStore:
        """Open a store; it is closed at the end."""
        store = PostgresStore(self.dsn if dsn_or_pool is None else dsn_or_pool, **{"schema": self.schema, **options})
        self.opened.append(store)
        return store

    def ask(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        """Run a statement as the superuser, in this schema, and return what it answers."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(f"SET search_path = {self.schema}, public".encode())
            cursor = connection.execute(sql.encode(), values or None)
            return cursor.fetchall() if cursor.description else []


@contextmanager
def a_room(dsn: str) -> Iterator[Room]:
    """Make a schema that nobody else uses; drop it at the end, with all that is in it."""
    made = Room(dsn, f"room_{uuid.uuid4().hex[:12]}")
    made.ask(f"CREATE SCHEMA {made.schema}")
    yield made
    for store in made.opened:
        store.close()
    made.ask(f"DROP SCHEMA {made.schema} CASCADE")
