"""The stores that ship pass the kit that any store must pass."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import qdrant_client

from stackroom.stores import EmbeddedStore, MemoryStore, QdrantStore, SqlStore
from stackroom.testing import StoreConformance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.postgres_room import Room

    from stackroom.stores import VectorStore


class TestMemoryStore(StoreConformance):
    @pytest.fixture
    def store(self) -> Iterator[VectorStore]:
        store = MemoryStore()
        yield store
        store.close()


class TestEmbeddedStore(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[VectorStore]:
        store = EmbeddedStore(tmp_path / "library")
        yield store
        store.close()

    @pytest.fixture
    def reopen(self, tmp_path: Path, store: VectorStore) -> Callable[[], VectorStore]:
        del store
        return lambda: EmbeddedStore(tmp_path / "library")


class TestPostgresStore(StoreConformance):
    @pytest.fixture
    def store(self, room: Room) -> VectorStore:
        return room.store()

    @pytest.fixture
    def reopen(self, room: Room) -> Callable[[], VectorStore]:
        return room.store


class TestSqlStore(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[VectorStore]:
        store = SqlStore(f"sqlite:///{tmp_path}/library.db")
        yield store
        store.close()

    @pytest.fixture
    def reopen(self, tmp_path: Path, store: VectorStore) -> Callable[[], VectorStore]:
        del store
        return lambda: SqlStore(f"sqlite:///{tmp_path}/library.db")


@pytest.mark.skipif(not os.environ.get("STACKROOM_TEST_ALL"), reason="slow, as local mode is: make test-stores")
@pytest.mark.filterwarnings("ignore:Local mode is not recommended:UserWarning")
class TestQdrantStore(StoreConformance):
    """In the client's local mode; the kit on the server's core is `tests/qdrant/test_qdrant_core.py`."""

    @pytest.fixture
    def store(self) -> Iterator[VectorStore]:
        client = qdrant_client.QdrantClient(":memory:")
        store = QdrantStore(client)
        yield store
        store.close()
        client.close()
