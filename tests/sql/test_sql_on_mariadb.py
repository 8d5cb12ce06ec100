"""SqlStore on a real MariaDB passes the kit, and what the other databases are asked beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from tests.mariadb_server import NoMariadb, running
from tests.sql.of_answers import agrees_with_memory, agrees_with_memory_at_random
from tests.sql.of_connections import NAMES, SPEC, TENANT, check, record, said, used

from stackroom import StoreUnavailable
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


def test_a_server_that_crashes_has_lost_nothing_that_was_acknowledged() -> None:
    try:
        server = running(durable=True)
        started = server.__enter__()
    except NoMariadb as error:
        pytest.skip(f"no MariaDB of our own to crash ({error})")
    engine = sa.create_engine(started.url)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE DATABASE room")
    engine.dispose()
    store = SqlStore(str(sa.make_url(started.url).set(database="room")))
    used(store)
    store.create_collection("c", SPEC)
    store.replace("c", [record()], where=TENANT)
    started.kill()
    with pytest.raises(StoreUnavailable) as raised:
        store.count("c", where=TENANT)
    assert "127.0.0.1" not in said(raised.value)
    with pytest.raises(StoreUnavailable):
        store.delete("c", where=TENANT)
    started.start()
    assert store.count("c", where=TENANT) == 1
    assert store.delete("c", where=TENANT) == 1
    used(store)
    store.close()
    server.__exit__(None, None, None)
