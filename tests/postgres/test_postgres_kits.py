"""The whole kit once more, over what may be set otherwise: locked, partitioned, compared exactly, a pool that is given.

It takes minutes: `make test-postgres-other` runs it, on another version of the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import psycopg
import pytest
from psycopg_pool import ConnectionPool
from tests.postgres_room import Room

from stackroom.stores import CollectionSpec, PostgresStore, VectorStore
from stackroom.stores.postgres import schema_sql
from stackroom.testing import StoreConformance


class MigratedStore(PostgresStore):
    """A locked store whose collections somebody else makes, as a migration does."""

    def __init__(self, room: Room, role: str) -> None:
        self._room, self._role = room, role
        dsn = psycopg.conninfo.make_conninfo(room.dsn, user=role)
        super().__init__(dsn, schema=room.schema, manage_schema=False, row_level_security=True)

    def create_collection(self, name: str, spec: CollectionSpec) -> None:
        if self.collection(name) is None:
            sql = schema_sql(name, spec, schema=self._room.schema, row_level_security=True, role=self._role)
            try:
                self._room.ask(f"BEGIN; {sql}; COMMIT")
            except psycopg.errors.Error:  # somebody else made it just now
                self._room.ask("ROLLBACK")
        super().create_collection(name, spec)


class TestLockedPostgresStore(StoreConformance):
    @pytest.fixture
    def role(self, room: Room) -> Iterator[str]:
        role = f"app_{room.schema}"
        room.ask(f"CREATE ROLE {role} LOGIN")
        room.ask(schema_sql("none", CollectionSpec(2, "m"), schema=room.schema, row_level_security=True, role=role))
        yield role
        room.ask(f"DROP OWNED BY {role}")
        room.ask(f"DROP ROLE {role}")

    @pytest.fixture
    def store(self, room: Room, role: str) -> Iterator[VectorStore]:
        store = MigratedStore(room, role)
        yield store
        store.close()

    @pytest.fixture
    def reopen(self, room: Room, role: str) -> Callable[[], VectorStore]:
        return lambda: MigratedStore(room, role)


class TestPartitionedPostgresStoreWithAnIndex(StoreConformance):
    @pytest.fixture
    def store(self, room: Room) -> VectorStore:
        return room.store(partitions=4, exact_limit=1_000)

    @pytest.fixture
    def reopen(self, room: Room) -> Callable[[], VectorStore]:
        return lambda: room.store(exact_limit=1_000)


class TestExactPostgresStoreOfAPool(StoreConformance):
    @pytest.fixture
    def reopen(self, room: Room) -> Iterator[Callable[[], VectorStore]]:
        """Each handle gets a pool of its own: one that was open before a fork serves the parent alone."""
        with ExitStack() as pools:

            def of_a_pool() -> VectorStore:
                pool = pools.enter_context(ConnectionPool(room.dsn, min_size=1, max_size=12))
                return room.store(pool, exact=True)

            yield of_a_pool

    @pytest.fixture
    def store(self, reopen: Callable[[], VectorStore]) -> VectorStore:
        return reopen()
