"""Connections: an engine of one's own or the caller's, tables, locks, and errors that show no secret."""

from __future__ import annotations

import builtins
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.pool import StaticPool
from tests.sql.of_connections import NAMES, SPEC, check, said, used

from stackroom import CapabilityError, StoreError, StoreUnavailable
from stackroom.stores import SqlStore
from stackroom.stores._dsn import open_store
from stackroom.stores.sql import schema_sql


@pytest.mark.parametrize("name", NAMES)
def test_connections(url: str, name: str) -> None:
    check(name, url)


SECRETS = {
    "nobody listens": "postgresql://Zq7user:Zq7pass@127.0.0.1:1/Zq7base",
    "nobody listens there either": "mysql://Zq7user:Zq7pass@127.0.0.1:1/Zq7base",
    "cannot be read": "postgresql://Zq7user:Zq7pass@host:Zq7port/Zq7base",
    "no such directory": "sqlite:////Zq7/none/library.db",
    "has an option that no driver knows": "mysql://Zq7user:Zq7pass@127.0.0.1:1/Zq7base?Zq7=1",
    "has an option with a wrong value": "postgresql://Zq7user:Zq7pass@127.0.0.1:1/Zq7base?sslmode=Zq7",
    "has an option that is no number": "sqlite:////tmp/Zq7.db?timeout=Zq7",
    "is none at all": "Zq7 is no URL",
    "no such driver": "postgresql+Zq7://Zq7user:Zq7pass@127.0.0.1/Zq7base",
}


@pytest.mark.parametrize("kind", SECRETS)
def test_what_cannot_be_reached_shows_nothing_of_where_it_is(kind: str) -> None:
    with pytest.raises((StoreUnavailable, CapabilityError, ValueError)) as raised:
        SqlStore(SECRETS[kind], connect_timeout=1)
    assert "Zq7" not in said(raised.value)


def test_a_user_who_may_not_log_in_shows_nothing_of_it(postgres_url: str) -> None:
    stranger = sa.make_url(postgres_url).set(username="Zq7user", password="Zq7pass")  # noqa: S106 - no password
    with pytest.raises(StoreUnavailable) as raised:
        SqlStore(stranger)
    assert "Zq7" not in said(raised.value)


@pytest.mark.parametrize("wrong", [None, 1, b"sqlite:///x", object()])
def test_what_is_neither_url_nor_engine_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="URL"):
        SqlStore(wrong)


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory&uri=true"])
def test_an_sqlite_in_memory_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="MemoryStore"):
        SqlStore(url)


def test_an_engine_of_one_shared_connection_is_refused() -> None:
    engine = sa.create_engine("sqlite://", poolclass=StaticPool)
    with pytest.raises(ValueError, match="MemoryStore"):
        SqlStore(engine)
    engine.dispose()


def test_a_database_that_is_not_known_is_refused() -> None:
    engine = sa.create_mock_engine("mssql://", lambda *_: None)
    del engine
    with pytest.raises((CapabilityError, ImportError)):
        SqlStore("mssql://user:Zq7pass@127.0.0.1/none")


def test_a_file_of_our_own_lets_readers_and_a_writer_pass(sqlite_url: str) -> None:
    with closing(SqlStore(sqlite_url)):
        engine = sa.create_engine(sqlite_url)
        with engine.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
        engine.dispose()


def test_a_given_engines_wait_for_locks_is_as_it_was(sqlite_url: str) -> None:
    engine = sa.create_engine(sqlite_url, connect_args={"timeout": 1.25}, pool_size=1, max_overflow=0)
    with closing(SqlStore(engine)) as store:
        used(store)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one() == 1250
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "delete"
    engine.dispose()


@pytest.mark.parametrize("missing", ["sqlalchemy", "pymysql"])
def test_without_a_package_the_way_to_get_it_is_told(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any, **keywords: Any) -> Any:
        if name.startswith(missing):
            raise ImportError(f"no {name}", name=name)
        return real(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install \"stackroom\[(sql|mysql)\]\""):
        SqlStore("mysql://nobody@127.0.0.1:1/none")


def test_a_child_of_a_fork_must_open_its_own(sqlite_url: str) -> None:
    store = SqlStore(sqlite_url)
    store._process = os.getpid() + 1  # noqa: SLF001 - as it looks to a child; pytest's threads do not bear a real fork
    with pytest.raises(StoreError, match="fork"):
        store.collection("c")
    store.close()
    store._process = os.getpid()  # noqa: SLF001 - as above
    assert store.collection("c") is None
    store.close()


BAD_OPTIONS: list[dict[str, Any]] = [
    {"manage_schema": None},
    {"max_rows": 999},
    {"max_rows": True},
    {"pool_size": 0},
    {"lock_timeout": 0},
    {"lock_timeout": True},
    {"connect_timeout": 0},
    {"prefix": ""},
    {"prefix": "a" * 33},
    {"prefix": "é"},
    {"prefix": 'a"b'},
]


@pytest.mark.parametrize("options", BAD_OPTIONS, ids=str)
def test_options_are_checked_before_anything_is_opened(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        SqlStore(f"sqlite:///{tmp_path}/none.db", **options)
    assert list(tmp_path.iterdir()) == []


def test_the_statements_of_an_unknown_database_are_refused() -> None:
    with pytest.raises(ValueError, match="sqlite"):
        schema_sql("oracle")


def test_a_dsn_names_a_store_in_sql(url: str) -> None:
    store = open_store(f"sql:{url}")
    assert isinstance(store, SqlStore)
    store.create_collection("c", SPEC)
    store.close()


def test_a_dsn_without_a_url_is_refused() -> None:
    with pytest.raises(ValueError, match=r"sqlite:///library\.db"):
        open_store("sql:")
