"""Connections: a pool of one's own or the caller's, and errors that show no secret."""

from __future__ import annotations

import builtins
import os
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool
from tests.postgres_room import Room

from stackroom import StoreError, StoreUnavailable
from stackroom.filters import Eq
from stackroom.stores import CollectionSpec, LexicalQuery, PostgresStore, Record
from stackroom.stores.postgres._names import Names

SPEC = CollectionSpec(2, "m")
TENANT = Eq("tenantId", "t")


def record(text: str = "red") -> Record:
    return Record(text, [1.0, 0.5], {"tenantId": "t", "sourceId": "a", "index": 0, "k": [1, 1.0, True]})


def used(store: PostgresStore) -> None:
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


def test_a_pool_that_is_given_is_used_and_left_open_and_as_it_was(room: Room) -> None:
    options = {"row_factory": dict_row, "autocommit": False}
    with ConnectionPool(room.dsn, min_size=1, max_size=2, kwargs=options) as pool:
        store = room.store(pool)
        used(store)
        store.close()
        with pool.connection() as connection:
            assert connection.autocommit is False
            found: Any = connection.execute("SELECT 1 AS one").fetchone()
            assert found == {"one": 1}
        with pytest.raises(StoreError):
            store.collection("c")


def test_a_pool_whose_connections_commit_by_themselves_serves_as_well(room: Room) -> None:
    with ConnectionPool(room.dsn, min_size=1, max_size=1, kwargs={"autocommit": True}) as pool:
        used(room.store(pool))
        with pool.connection() as connection:
            assert connection.autocommit is True


def test_a_pool_of_one_connection_serves_many_threads(room: Room) -> None:
    used(room.store(pool_size=1))


def test_a_store_of_a_dsn_closes_what_it_opened(room: Room) -> None:
    name = room.schema
    store = room.store(f"{room.dsn}&application_name={name}")
    used(store)
    asked = f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{name}'"
    assert room.ask(asked) != [(0,)]
    store.close()
    store.close()
    while room.ask(asked) != [(0,)]:  # a server sees a closed connection a moment later
        pass


SECRETS = {
    "nobody listens": "postgresql://Zq7user:Zq7pass@127.0.0.1:1/Zq7base",
    "no such socket": "postgresql://Zq7user:Zq7pass@/Zq7base?host=/Zq7",
    "cannot be read": "postgresql://Zq7user:Zq7pass@[/Zq7base",
    "no such option": "host=Zq7 password=Zq7pass nonsense=1",
    "a lone surrogate": "postgresql://Zq7user:Zq7\udc80pass@/Zq7base",
    "a lone surrogate, by keys": "host=/Zq7 password=Zq7\ud800pass",
    "U+0000": "postgresql://Zq7user:Zq7\0pass@/Zq7base?host=/Zq7",
    "bytes that are no UTF-8": "postgresql://Zq7user:Zq7%80pass@/Zq7base?host=/Zq7",
    "a U+0000 written out": "postgresql://Zq7user:Zq7%00pass@/Zq7base?host=/Zq7",
    "a port that is none": "postgresql://Zq7user:Zq7pass@h:Zq7/Zq7base",
}


@pytest.mark.parametrize("dsn", SECRETS)
def test_what_cannot_be_reached_shows_nothing_of_where_it_is(dsn: str) -> None:
    with pytest.raises((StoreUnavailable, ValueError)) as raised:
        PostgresStore(SECRETS[dsn], connect_timeout=1)
    assert "Zq7" not in _said(raised.value)


@pytest.mark.parametrize("dsn", SECRETS)
def test_nor_does_the_replica_that_cannot_be_reached(room: Room, dsn: str) -> None:
    with pytest.raises((StoreUnavailable, ValueError)) as raised:
        room.store(read_dsn=SECRETS[dsn], connect_timeout=1)
    assert "Zq7" not in _said(raised.value)


def test_a_role_that_may_not_log_in_shows_nothing_of_it(room: Room) -> None:
    with pytest.raises(StoreUnavailable) as raised:
        PostgresStore(room.dsn.replace("postgres@", "Zq7user:Zq7pass@"))
    assert "Zq7" not in _said(raised.value)


def test_a_statement_that_the_database_refuses_shows_nothing_of_it(room: Room) -> None:
    store = room.store()
    store.create_collection("c", SPEC)
    store.replace("c", [record("Zq7text")], where=TENANT)
    ((sources,),) = room.ask(
        "SELECT relname FROM pg_class WHERE relname LIKE 'stackroom_sources_%' AND relkind = 'r' "
        f"AND relnamespace = '{room.schema}'::regnamespace"
    )
    room.ask(f"ALTER TABLE {sources} ADD CONSTRAINT never CHECK (title <> 'Zq7title')")
    with pytest.raises(StoreError, match="23514") as raised:
        store.update("c", {"title": "Zq7title"}, where=TENANT)
    assert "Zq7" not in _said(raised.value)


def test_a_role_without_privileges_is_told_so(room: Room) -> None:
    room.store().create_collection("c", SPEC)
    role = f"poor_{room.schema}"
    room.ask(f"CREATE ROLE {role} LOGIN")
    try:
        with pytest.raises(StoreError, match="privilege"):
            room.store(room.dsn.replace("postgres@", f"{role}@"))
    finally:
        room.ask(f"DROP ROLE {role}")


def _said(error: BaseException | None) -> str:
    """Return what an error says, and all that it was raised from."""
    said = ""
    while error is not None:
        said += f"{error!s} {error!r} "
        assert not isinstance(error, UnicodeError), "which holds all of the text"
        error = error.__cause__ or error.__context__
    return said


@pytest.mark.parametrize("wrong", [None, 1, b"postgresql://", object()])
def test_what_is_neither_dsn_nor_pool_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="DSN"):
        PostgresStore(wrong)


def test_without_psycopg_the_way_to_get_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any, **keywords: Any) -> Any:
        if name.startswith("psycopg"):
            raise ImportError(name)
        return real(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r'pip install "stackroom\[postgres\]"'):
        PostgresStore("postgresql:///nowhere")


def test_a_child_of_a_fork_must_open_its_own(room: Room) -> None:
    store = room.store()
    store._process = os.getpid() + 1  # noqa: SLF001 - as it looks to a child; pytest's threads do not bear a real fork
    with pytest.raises(StoreError, match="fork"):
        store.collection("c")
    store.close()
    store._process = os.getpid()  # noqa: SLF001 - as above
    assert store.collection("c") is None


BAD_OPTIONS: list[dict[str, Any]] = [
    {"exact": 1},
    {"manage_schema": None},
    {"vector_index": "hnsw"},
    {"row_level_security": 1},
    {"exact_limit": 999},
    {"partitions": -1},
    {"pool_size": 0},
    {"lock_timeout": -1},
    {"lock_timeout": True},
    {"connect_timeout": 0},
    {"schema": "Upper"},
    {"schema": "a" * 64},
    {"schema": 'a"b'},
    {"prefix": ""},
    {"prefix": "a" * 33},
    {"prefix": "é"},
    {"prefix": "1a"},
]


@pytest.mark.parametrize("options", BAD_OPTIONS, ids=str)
def test_options_are_checked_before_anything_is_opened(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        PostgresStore("postgresql://nobody@127.0.0.1:1/none", **options)


def test_a_database_of_another_encoding_is_refused(room: Room) -> None:
    name = f"latin_{room.schema}"
    room.ask(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    try:
        with pytest.raises(StoreError, match="UTF8"):
            PostgresStore(psycopg.conninfo.make_conninfo(room.dsn, dbname=name))
    finally:
        room.ask(f"DROP DATABASE {name} WITH (FORCE)")


def test_pgvector_that_the_role_does_not_find_is_told(room: Room) -> None:
    name = f"hidden_{room.schema}"
    room.ask(f"CREATE DATABASE {name}")
    where = psycopg.conninfo.make_conninfo(room.dsn, dbname=name)
    try:
        with psycopg.connect(where, autocommit=True) as connection:
            connection.execute("CREATE SCHEMA elsewhere")
            connection.execute("CREATE EXTENSION vector SCHEMA elsewhere")
        with pytest.raises(StoreError):
            PostgresStore(where)
        PostgresStore(psycopg.conninfo.make_conninfo(where, options="-csearch_path=public,elsewhere")).close()
        with pytest.raises(StoreError, match="search_path"):
            PostgresStore(where)
    finally:
        room.ask(f"DROP DATABASE {name} WITH (FORCE)")


def test_texts_come_back_as_they_were_whatever_the_dsn_says_of_encodings(room: Room) -> None:
    store = room.store(psycopg.conninfo.make_conninfo(room.dsn, client_encoding="latin1"))
    store.create_collection("c", SPEC)
    store.replace("c", [record("Zürich 日本")], where=TENANT)
    (found,) = room.store().scan("c", where=TENANT, limit=2)
    assert found.text == "Zürich 日本"


def test_a_given_pool_of_another_encoding_is_refused_before_anything_is_written(room: Room) -> None:
    room.store().create_collection("c", SPEC)
    options = {"client_encoding": "latin1"}
    with (
        ConnectionPool(room.dsn, min_size=1, max_size=1, kwargs=options) as pool,
        pytest.raises(StoreError, match="client_encoding"),
    ):
        room.store(pool).replace("c", [record("Zürich")], where=TENANT)
    assert room.store().count("c", where=TENANT) == 0


def test_a_wait_of_less_than_a_millisecond_is_no_wait_of_half_a_minute(room: Room) -> None:
    store = room.store(lock_timeout=0.0004)
    store.create_collection("c", SPEC)
    with psycopg.connect(room.dsn, autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(%s)", [Names(room.schema, "stackroom_").key("tenant", "c", "t")])
        with pytest.raises(StoreUnavailable, match="too long"):
            store.replace("c", [record()], where=TENANT)
