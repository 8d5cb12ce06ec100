"""What is asked of connections, whatever the database: by name, so that each is a test of its own on each of them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pytest
import sqlalchemy as sa

from stackroom import Conflict, StoreError, StoreUnavailable
from stackroom.filters import And, Eq
from stackroom.stores import CollectionSpec, LexicalQuery, Record, SqlStore
from stackroom.stores.sql import schema_sql

if TYPE_CHECKING:
    from collections.abc import Callable

SPEC = CollectionSpec(2, "m")
TENANT = Eq("tenantId", "t")


def record(source: str = "a", text: str = "red") -> Record:
    return Record(text, [1.0, 0.5], {"tenantId": "t", "sourceId": source, "index": 0, "k": [1, 1.0, True]})


def used(store: SqlStore) -> None:
    """Call everything once."""
    store.create_collection("c", SPEC)
    assert store.replace("c", [record()], where=TENANT) == 0
    assert store.update("c", {"title": "T"}, where=TENANT) == 1
    assert store.count("c", where=TENANT) == len(store.dense("c", [1, 0], where=TENANT, limit=2)) == 1
    assert len(store.lexical("c", LexicalQuery("red"), where=TENANT, limit=2)) == 1
    (found,) = store.scan("c", where=TENANT, limit=2, vectors=True)
    assert found.metadata["k"] == [1, 1.0, True]
    assert store.delete("c", where=TENANT) == 1
    store.drop_collection("c")


def rows(url: str, prefix: str = "stackroom_") -> dict[str, int]:
    """Count the rows of every table of a library, the register of the library itself aside."""
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        names = [name for name in sa.inspect(connection).get_table_names() if name.startswith(prefix)]
        counted = {name: connection.execute(sa.text(f"SELECT count(*) FROM {name}")).scalar_one() for name in names}  # noqa: S608 - our own
    engine.dispose()
    counted.pop(f"{prefix}library")
    return counted


def said(error: BaseException | None) -> str:
    """Return what an error says, and all that it was raised from."""
    text = ""
    while error is not None:
        text += f"{error!s} {error!r} "
        error = error.__cause__ or error.__context__
    return text


def an_engine_that_is_given_is_used_and_left_open(url: str) -> None:
    engine = sa.create_engine(url, pool_size=1, max_overflow=0)
    store = SqlStore(engine)
    used(store)
    store.close()
    store.close()
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT 1")).scalar_one() == 1
    with pytest.raises(StoreError):
        store.collection("c")
    engine.dispose()


def an_engine_that_commits_by_itself_serves_as_well(url: str) -> None:
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with closing(SqlStore(engine)) as store:
        used(store)
        store.create_collection("c", SPEC)
        with pytest.raises(Conflict):
            store.replace("c", [record()], where=TENANT, expect={1})
        assert store.count("c", where=TENANT) == 0
    engine.dispose()


def a_pool_of_one_connection_serves_many_threads(url: str) -> None:
    with closing(SqlStore(url, pool_size=1)) as store, ThreadPoolExecutor(8) as threads:
        store.create_collection("c", SPEC)
        wrote = [
            threads.submit(store.replace, "c", [record(f"s{number}")], where=And(TENANT, Eq("sourceId", f"s{number}")))
            for number in range(16)
        ]
        assert [one.result() for one in wrote] == [0] * 16
        assert store.count("c", where=TENANT) == 16


def two_libraries_share_a_database_and_nothing_else(url: str) -> None:
    with closing(SqlStore(url)) as one, closing(SqlStore(url, prefix="other_")) as other:
        one.create_collection("c", SPEC)
        one.replace("c", [record()], where=TENANT)
        assert other.collection("c") is None
        assert one.stands_on != other.stands_on
        with closing(SqlStore(url)) as again:
            assert one.stands_on == again.stands_on


def without_ddl_the_tables_must_be_there(url: str) -> None:
    with pytest.raises(StoreError, match="schema_sql"):
        SqlStore(url, manage_schema=False)
    engine = sa.create_engine(url)
    for _ in range(2):
        with engine.begin() as connection:
            for statement in schema_sql(engine.dialect.name).split(";\n"):
                if statement:
                    connection.exec_driver_sql(statement)
    engine.dispose()
    with closing(SqlStore(url, manage_schema=False)) as store:
        used(store)


def many_that_open_at_once_make_one_library(url: str) -> None:
    begin = threading.Barrier(6)

    def opened() -> Any:
        begin.wait(30)
        with closing(SqlStore(url)) as store:
            store.create_collection("c", SPEC)
            return store.stands_on

    with ThreadPoolExecutor(6) as threads:
        made = [threads.submit(opened) for _ in range(6)]
        assert len({one.result() for one in made}) == 1
    assert rows(url)["stackroom_collections"] == 1


def a_library_of_another_format_is_refused(url: str) -> None:
    SqlStore(url).close()
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE stackroom_library SET format = 99"))
    engine.dispose()
    with pytest.raises(StoreError, match="99"):
        SqlStore(url)


def nothing_stays_of_what_was_removed(url: str) -> None:
    long = "red " * 600_000
    with closing(SqlStore(url)) as store:
        for name in ("c", "d"):
            store.create_collection(name, SPEC)
            for text in (long, "red fox", long):
                record_of = Record(
                    text, [1, 0], {"tenantId": "t", "sourceId": "a", "index": 0, "aclGroups": ["g"], "tags": ["x"]}
                )
                store.replace(name, [record_of], where=TENANT)
        assert store.delete("c", where=TENANT) == 1
        store.drop_collection("c")
        store.drop_collection("d")
    assert set(rows(url).values()) == {0}


def a_writer_that_waits_too_long_is_told_and_changed_nothing(url: str) -> None:
    with closing(SqlStore(url)) as store, closing(SqlStore(url, lock_timeout=0.2)) as hasty:
        store.create_collection("c", SPEC)
        store.replace("c", [record()], where=TENANT)
        engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
        begin, lock = ("BEGIN IMMEDIATE", "") if engine.dialect.name == "sqlite" else ("BEGIN", " FOR UPDATE")
        with engine.connect() as connection:
            connection.exec_driver_sql(begin)
            connection.exec_driver_sql(f"SELECT number FROM stackroom_tenants{lock}").all()  # noqa: S608 - our own
            with pytest.raises(StoreUnavailable, match="lock"):
                hasty.replace("c", [record(text="blue")], where=TENANT)
            assert len(hasty.lexical("c", LexicalQuery("red"), where=TENANT, limit=1)) == 1, "readers do not wait"
            connection.exec_driver_sql("ROLLBACK")
        engine.dispose()
        assert hasty.replace("c", [record(text="blue")], where=TENANT) == 1


def a_statement_that_the_database_refuses_shows_nothing_of_it(url: str) -> None:
    with closing(SqlStore(url)) as store:
        store.create_collection("c", SPEC)
        store.replace("c", [record(text="Zq7text")], where=TENANT)
        engine = sa.create_engine(url)
        with engine.begin() as connection:
            connection.execute(sa.text("DROP TABLE stackroom_labels"))
        engine.dispose()
        with pytest.raises(StoreError, match="tables are not there") as raised:
            store.replace("c", [record(text="Zq7other")], where=TENANT)
        assert "Zq7" not in said(raised.value)
        assert store.count("c", where=TENANT) == 1, "what was refused was undone"


def connections_that_were_lost_are_made_anew(url: str) -> None:
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    kill = {
        "postgresql": "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()",
        "sqlite": "SELECT 1",
    }
    with closing(SqlStore(url, pool_size=3)) as store, engine.connect() as connection:
        used(store)
        if engine.dialect.name == "mysql":
            asked = "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
            for number in connection.exec_driver_sql(asked).scalars().all():
                connection.exec_driver_sql(f"KILL {number}")
        else:
            connection.exec_driver_sql(kill[engine.dialect.name]).all()
        used(store)
    engine.dispose()


_CHECKS: Final[tuple[Callable[[str], None], ...]] = (
    an_engine_that_is_given_is_used_and_left_open,
    an_engine_that_commits_by_itself_serves_as_well,
    a_pool_of_one_connection_serves_many_threads,
    two_libraries_share_a_database_and_nothing_else,
    without_ddl_the_tables_must_be_there,
    many_that_open_at_once_make_one_library,
    a_library_of_another_format_is_refused,
    nothing_stays_of_what_was_removed,
    a_writer_that_waits_too_long_is_told_and_changed_nothing,
    a_statement_that_the_database_refuses_shows_nothing_of_it,
    connections_that_were_lost_are_made_anew,
)
_NAMED: Final = {of.__name__: of for of in _CHECKS}

NAMES: Final = list(_NAMED)


def check(name: str, url: str) -> None:
    """Run one of them on an empty database."""
    _NAMED[name](url)
