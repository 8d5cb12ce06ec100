"""SqlStore on a real MariaDB passes the kit, and what the other databases are asked beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from tests.sql.of_answers import agrees_with_memory, agrees_with_memory_at_random
from tests.sql.of_connections import NAMES, check

from stackroom.filters import Eq
from stackroom.stores import CollectionSpec, Record, SqlStore
from stackroom.testing import StoreConformance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stackroom.stores import VectorStore


class TestSqlStoreOnMariadb(StoreConformance):
    @pytest.fixture
    def store(self, mariadb_url: str) -> Iterator[VectorStore]:
        store = SqlStore(mariadb_url)
        yield store
        store.close()

    @pytest.fixture
    def reopen(self, mariadb_url: str, store: VectorStore) -> Callable[[], VectorStore]:
        del store
        return lambda: SqlStore(mariadb_url)


def test_a_librarys_answers_on_mariadb_are_those_of_memory(mariadb_url: str) -> None:
    agrees_with_memory(mariadb_url)


def test_random_answers_on_mariadb_are_those_of_memory(mariadb_url: str) -> None:
    agrees_with_memory_at_random(mariadb_url)


@pytest.mark.parametrize("name", NAMES)
def test_connections_on_mariadb(mariadb_url: str, name: str) -> None:
    check(name, mariadb_url)


def test_an_engine_that_is_given_gets_its_session_back_as_it_was(mariadb_url: str) -> None:
    engine = sa.create_engine(mariadb_url, pool_size=1, max_overflow=0)
    asked = sa.text("SELECT @@SESSION.sql_mode, @@SESSION.innodb_lock_wait_timeout, @@SESSION.tx_isolation")
    lax = "SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES', SESSION innodb_lock_wait_timeout = 7"
    with engine.connect() as connection:
        connection.exec_driver_sql(lax)
        before = connection.execute(asked).one()
    store = SqlStore(engine)
    store.create_collection("c", CollectionSpec(2, "m"))
    text = "\\' OR 1=1 -- \0"[:-1]
    store.replace(
        "c", [Record(text, [1, 0], {"tenantId": "t", "sourceId": text, "index": 0})], where=Eq("tenantId", "t")
    )
    (found,) = store.scan("c", where=Eq("sourceId", text), limit=2)
    assert (found.text, found.source_id) == (text, text)
    with engine.connect() as connection:
        assert connection.execute(asked).one() == before
    engine.dispose()
