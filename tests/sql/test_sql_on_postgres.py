"""SqlStore on a PostgreSQL that has no pgvector passes the kit."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from stackroom.stores import SqlStore
from stackroom.testing import StoreConformance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stackroom.stores import VectorStore


@pytest.mark.skipif(not os.environ.get("STACKROOM_TEST_ALL"), reason="the kit runs on SQLite; here: make test-stores")
class TestSqlStoreOnPostgres(StoreConformance):
    @pytest.fixture
    def store(self, postgres_url: str) -> Iterator[VectorStore]:
        store = SqlStore(postgres_url)
        yield store
        store.close()

    @pytest.fixture
    def reopen(self, postgres_url: str, store: VectorStore) -> Callable[[], VectorStore]:
        del store
        return lambda: SqlStore(postgres_url)
