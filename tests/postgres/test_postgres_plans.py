"""The plans: what indexes serve, and what a re-scope does not touch. Statements are those that the store runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from tests.postgres_room import Room, a_room

from stackroom.filters import All, And, Eq, Exists, Filter, In, Or, Range
from stackroom.stores import CollectionSpec, LexicalQuery, PostgresStore, Record
from stackroom.stores.postgres._connections import Session, Statement

TENANTS, SOURCES, PARTS = 20, 300, 2


def records(tenant: str) -> list[Record]:
    return [
        Record(
            f"word{number % 50} common",
            [1.0, number + 1.0],
            {
                "tenantId": tenant,
                "sourceId": f"s{number:03}",
                "index": index,
                "kind": "doc",
                "status": "active",
                "aclGroups": ["everyone", f"g{number % 30}"] if number else ["rare"],
                "tags": [f"x{number % 10}"],
                "folderId": f"f{number % 20}",
                **({"stackroom.expiresAt": 5} if number == 7 else {}),
            },
        )
        for number in range(SOURCES)
        for index in range(PARTS)
    ]


@pytest.fixture(scope="module")
def shelf(postgres_dsn: str) -> Iterator[Room]:
    """A collection of many tenants, whose statistics are fresh."""
    with a_room(postgres_dsn) as room:
        store = room.store(exact=True)
        store.create_collection("c", CollectionSpec(2, "m"))
        for number in range(TENANTS):
            store.replace("c", records(f"t{number}"), where=Eq("tenantId", f"t{number}"))
        room.ask("VACUUM ANALYZE")
        yield room


@pytest.fixture
def store(shelf: Room) -> PostgresStore:
    return shelf.store(exact=True)


class Watched:
    """What a store asked since the last look, and how the server would answer it."""

    def __init__(self, room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
        self._room = room
        self._asked: list[Statement] = []
        ask = Session.ask

        def keep(session: Session, *statements: Statement, last: bool = False) -> Any:
            self._asked += statements
            return ask(session, *statements, last=last)

        monkeypatch.setattr(Session, "ask", keep)

    def plans_of(self, work: Callable[[], object]) -> str:
        """Do something, and return the plans of all statements that touch the collection's tables."""
        self._asked.clear()
        work()
        statements = [asked for asked in self._asked if "_passages_" in asked.sql or "_sources_" in asked.sql]
        assert statements
        with psycopg.connect(self._room.dsn, autocommit=True) as connection:
            return "\n".join(self._plan(connection, asked) for asked in statements)

    def _plan(self, connection: psycopg.Connection[Any], asked: Statement) -> str:
        found = connection.execute(f"EXPLAIN {asked.sql}".encode(), asked.values).fetchall()
        return "\n".join(line for (line,) in found)


@pytest.fixture
def watched(shelf: Room, monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(shelf, monkeypatch)


SCOPE = And(
    Eq("tenantId", "t3"),
    In("aclGroups", ["g3", "g4"]),
    Eq("status", "active"),
    Or(Exists("stackroom.expiresAt", exists=False), Range("stackroom.expiresAt", gt=10)),
)

READS: dict[str, Callable[[PostgresStore, Filter], object]] = {
    "dense": lambda store, where: store.dense("c", [1, 0], where=where, limit=5),
    "lexical": lambda store, where: store.lexical("c", LexicalQuery("word3 common"), where=where, limit=5),
    "prefix": lambda store, where: store.lexical("c", LexicalQuery("wor", prefix=True), where=where, limit=5),
    "scan": lambda store, where: store.scan("c", where=where, limit=5),
    "count": lambda store, where: store.count("c", where=where),
}

NARROWINGS: dict[str, Filter] = {
    "scope alone": And(),
    "sources": In("sourceId", ["s003", "s033"]),
    "folder": Eq("folderId", "f3"),
    "tags": All("tags", ["x3"]),
}


@pytest.mark.parametrize("narrowing", NARROWINGS)
@pytest.mark.parametrize("read", READS)
def test_a_scope_is_looked_up_by_indexes(store: PostgresStore, watched: Watched, read: str, narrowing: str) -> None:
    plans = watched.plans_of(lambda: READS[read](store, And(SCOPE, NARROWINGS[narrowing])))
    assert "Seq Scan on stackroom_sources" not in plans
    assert "Seq Scan on stackroom_passages" not in plans


def test_a_group_that_is_rare_in_a_tenant_is_looked_up_by_its_members(store: PostgresStore, watched: Watched) -> None:
    plans = watched.plans_of(lambda: store.count("c", where=And(Eq("tenantId", "t3"), Eq("aclGroups", "rare"))))
    assert "_groups" in plans


def test_rare_words_are_looked_up_by_the_index_of_words(store: PostgresStore, watched: Watched) -> None:
    plans = watched.plans_of(lambda: store.lexical("c", LexicalQuery("word3"), where=Eq("tenantId", "t3"), limit=5))
    assert "_terms" in plans


WRITES: dict[str, Callable[[PostgresStore], int]] = {
    "re-scope": lambda store: store.update(
        "c", {"aclGroups": ["h"]}, where=And(Eq("tenantId", "t5"), Eq("sourceId", "s009"))
    ),
    "removal": lambda store: store.delete("c", where=And(Eq("tenantId", "t5"), Eq("sourceId", "s010"))),
    "replace": lambda store: store.replace("c", [], where=And(Eq("tenantId", "t5"), Eq("sourceId", "s011"))),
    "sweep": lambda store: store.delete("c", where=Range("stackroom.expiresAt", lte=6)),
    "removal of a tenant": lambda store: store.delete("c", where=Eq("tenantId", "t6")),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_write_finds_its_rows_by_indexes(store: PostgresStore, watched: Watched, write: str) -> None:
    gone: list[int] = []
    plans = watched.plans_of(lambda: gone.append(WRITES[write](store)))
    assert gone[0] >= PARTS
    assert "Seq Scan on stackroom_sources" not in plans
    assert "Seq Scan on stackroom_passages" not in plans


def test_a_sweep_finds_the_tenants_that_it_concerns_by_the_time_of_expiry(
    store: PostgresStore, watched: Watched
) -> None:
    store.update("c", {"stackroom.expiresAt": 3}, where=And(Eq("tenantId", "t8"), Eq("sourceId", "s001")))
    plans = watched.plans_of(lambda: store.delete("c", where=Range("stackroom.expiresAt", lte=4)))
    assert "_expiry" in plans


def test_a_rescope_is_one_row_and_rewrites_no_passage(shelf: Room, store: PostgresStore) -> None:
    ((passages,),) = shelf.ask(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'stackroom_passages_%' "
        f"AND relnamespace = '{shelf.schema}'::regnamespace"
    )
    sources = passages.replace("passages", "sources")
    rows = f"SELECT ctid::text, xmin::text, place FROM {passages} ORDER BY 1"
    versions = f"SELECT source_id, version FROM {sources} WHERE tenant_id = 't9' ORDER BY 1"
    before, old = shelf.ask(rows), dict(shelf.ask(versions))
    where = And(Eq("tenantId", "t9"), Eq("sourceId", "s020"))
    patch: dict[str, Any] = {"aclGroups": ["h"], "folderId": None, "title": "T", "tags": [], "stackroom.updatedAt": 5}
    assert store.update("c", patch, where=where) == PARTS
    assert shelf.ask(rows) == before
    new = dict(shelf.ask(versions))
    assert {source_id for source_id in new if new[source_id] != old[source_id]} == {"s020"}
