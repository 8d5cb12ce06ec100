"""The conformance kit over Bolt, on ArcadeDB: Cypher and transactions of a real server, by the driver of Neo4j."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import neo4j
import pytest

from stackroom.stores import Neo4jStore, VectorStore
from stackroom.testing import StoreConformance


class TestNeo4jStore(StoreConformance):
    @pytest.fixture
    def store(self, driver: neo4j.Driver) -> Iterator[VectorStore]:
        driver.execute_query("MATCH (n) DETACH DELETE n", database_="stackroom")
        store = Neo4jStore(driver, database="stackroom")
        yield store
        store.close()

    @pytest.fixture
    def reopen(self, driver: neo4j.Driver, store: VectorStore) -> Callable[[], VectorStore]:
        del store
        return lambda: Neo4jStore(driver, database="stackroom")
