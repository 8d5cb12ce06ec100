"""SqlStore on a PostgreSQL that has no pgvector passes the kit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stackroom.stores import SqlStore
from stackroom.testing import StoreConformance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stackroom.stores import VectorStore


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
