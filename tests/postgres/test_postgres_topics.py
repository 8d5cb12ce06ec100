"""Scopes that have a topic of their own: a walk of the index by nearness must not answer what it met there first.

Topics are near one another inside and far from the others, as those of documents are. Questions are about all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import psycopg
import pytest
from numpy.typing import NDArray
from tests.postgres_room import Room, a_room

from stackroom.filters import And, Eq, Exists, Filter, In
from stackroom.stores import CollectionSpec, PostgresStore, Record
from stackroom.stores.postgres import schema_sql
from stackroom.stores.postgres._connections import Session, Statement
from stackroom.stores.postgres._dense import Graph

DIMENSION, TOPICS, PER_TOPIC, PARTS = 32, 8, 1_000, 10
SPEC = CollectionSpec(DIMENSION, "m")
CHANCE = np.random.default_rng(11)
CENTRES = CHANCE.standard_normal((TOPICS, DIMENSION))
PASSAGES = TOPICS * PER_TOPIC
MOSTLY = 0.9
"""What a walk must find here. No two graphs are alike, and none is promised; one that stops too early finds a third."""


def near(topics: NDArray[np.int64]) -> NDArray[np.float32]:
    return (CENTRES[topics] + 0.3 * CHANCE.standard_normal((len(topics), DIMENSION))).astype(np.float32)


QUESTIONS = near(np.arange(40) % TOPICS)
VECTORS = near(np.repeat(np.arange(TOPICS), PER_TOPIC))


def groups_of(source: int) -> Any:
    topic = source * PARTS // PER_TOPIC
    found = {"all": True, "random": source % 4 == 0, "own": topic < TOPICS // 4, "scattered": topic % 4 == 1}
    return [name for name, holds in found.items() if holds]


def records(tenant: str = "t") -> list[Record]:
    return [
        Record(
            "",
            vector,
            {
                "tenantId": tenant,
                "sourceId": f"s{number // PARTS}",
                "index": number % PARTS,
                "aclGroups": groups_of(number // PARTS),
                "topic": number // PER_TOPIC,
            },
        )
        for number, vector in enumerate(VECTORS)
    ]


SCOPES: dict[str, Filter] = {name: In("aclGroups", [name]) for name in ("all", "random", "own", "scattered")}
SCOPES["of the passages' own keys"] = In("topic", list(range(TOPICS // 4)))


def load(room: Room, **options: Any) -> None:
    store = room.store(vector_index=False, **options)
    store.create_collection("c", SPEC)
    store.replace("c", records(), where=Eq("tenantId", "t"))
    store.build_vector_index("c")
    room.ask("VACUUM ANALYZE")


@pytest.fixture(scope="module", params=[0, 3], ids=["whole", "partitioned"])
def indexed(postgres_dsn: str, request: pytest.FixtureRequest) -> Iterator[Room]:
    with a_room(postgres_dsn) as room:
        load(room, partitions=request.param)
        yield room


def recall(store: PostgresStore, exact: PostgresStore, where: Filter, limit: int) -> float:
    found = []
    for question in QUESTIONS:
        best = {match.id for match in exact.dense("c", question, where=where, limit=limit)}
        found.append(len(best & {m.id for m in store.dense("c", question, where=where, limit=limit)}) / limit)
    return float(np.mean(found))


def judge(store: PostgresStore, exact: PostgresStore, where: Filter, limit: int) -> None:
    """See that an answer is right, or says that it may lack some."""
    for question in QUESTIONS:
        found = store.dense("c", question, where=where, limit=limit)
        best = exact.dense("c", question, where=where, limit=limit)
        assert len(found) == len(best)
        assert [match.id for match in found] == [match.id for match in best] or bool(getattr(found, "notes", ()))


@pytest.mark.parametrize("limit", [10, 50])
@pytest.mark.parametrize("scope", SCOPES)
def test_recall_holds_whatever_a_scope_has_to_do_with_topics(indexed: Room, scope: str, limit: int) -> None:
    store, exact = indexed.store(exact_limit=1_000), indexed.store(exact=True)
    assert recall(store, exact, And(Eq("tenantId", "t"), SCOPES[scope]), limit) >= MOSTLY


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keep how each search looked: "walked", "compared"."""
    seen: list[str] = []
    ask = Session.ask

    def watch(self: Session, *statements: Statement, last: bool = False) -> Any:
        for of in statements:
            seen.extend(["walked"] if "halfvec" in of.sql else ["compared"] if "near AS MATERIALIZED" in of.sql else [])
        return ask(self, *statements, last=last)

    monkeypatch.setattr(Session, "ask", watch)
    return seen


@pytest.fixture(scope="module")
def quick(postgres_dsn: str) -> Iterator[Room]:
    """A collection whose walks pay soon, however small it is."""
    with a_room(postgres_dsn) as room:
        load(room)
        yield room


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stackroom.stores.postgres._dense._COST_OF_A_STEP", 1)


@pytest.mark.usefixtures("eager")
def test_a_question_about_what_a_scope_does_not_hold_is_answered_by_comparing_all(
    quick: Room, asked: list[str]
) -> None:
    store = quick.store(exact_limit=1_000)
    where = And(Eq("tenantId", "t"), SCOPES["own"])
    for topic, expected in ((1, ["walked"]), (TOPICS - 1, ["walked", "compared"])):
        asked.clear()
        store.dense("c", QUESTIONS[topic], where=where, limit=10)
        assert asked == expected


@pytest.mark.usefixtures("eager")
def test_a_random_scope_is_answered_by_a_walk_alone(quick: Room, asked: list[str]) -> None:
    store = quick.store(exact_limit=1_000)
    for question in QUESTIONS:
        store.dense("c", question, where=And(Eq("tenantId", "t"), SCOPES["random"]), limit=10)
    assert asked.count("walked") == len(QUESTIONS)
    assert asked.count("compared") <= len(QUESTIONS) // 10


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("scope", SCOPES)
def test_recall_holds_even_where_walks_are_taken_that_do_not_pay(quick: Room, scope: str) -> None:
    where = And(Eq("tenantId", "t"), SCOPES[scope])
    assert recall(quick.store(exact_limit=1_000), quick.store(exact=True), where, 10) >= MOSTLY


def test_a_walk_that_would_cost_more_than_comparing_all_is_not_begun() -> None:
    graph = Graph("t", 100_000, is_whole=True)
    assert graph.walk(10, 2_000) is None
    walk = graph.walk(10, 25_000)
    assert walk is not None
    assert (walk.needed, walk.depth, walk.list_length) == (30, 240, 960)
    assert graph.walk(10, graph.enough(10) + 10) is not None
    assert graph.walk(10, graph.enough(10) * 9 // 10) is None
    assert Graph("t", 10_000_000, is_whole=False).walk(10, 200_000) is None, "one list of candidates is too short"
    assert Graph("t", 10_000_000, is_whole=True).walk(10, 200_000) is not None


@pytest.mark.usefixtures("eager")
def test_under_row_level_security_the_index_is_walked_too_and_what_it_may_lack_is_told(
    postgres_dsn: str, asked: list[str]
) -> None:
    """There a walk is counted by what it brings of one list of candidates, since nothing tells what it passed."""
    with a_room(postgres_dsn) as room:
        role = f"app_{room.schema}"
        room.ask(f"CREATE ROLE {role} LOGIN")
        room.ask(schema_sql("c", SPEC, schema=room.schema, vector_index=True, row_level_security=True, role=role))
        options: dict[str, Any] = {"manage_schema": False, "row_level_security": True}
        dsn = psycopg.conninfo.make_conninfo(room.dsn, user=role)
        store = room.store(dsn, exact_limit=1_000, **options)
        try:
            store.replace("c", records(), where=Eq("tenantId", "t"))
            room.ask("VACUUM ANALYZE")
            exact = room.store(dsn, exact=True, **options)
            for scope in ("random", "own", "scattered"):
                where = And(Eq("tenantId", "t"), SCOPES[scope])
                judge(store, exact, where, 10)
            assert "walked" in asked
        finally:
            for of in room.opened:
                of.close()
            room.ask(f"DROP OWNED BY {role}")
            room.ask(f"DROP ROLE {role}")


def test_a_tenant_of_many_is_searched_as_well(quick: Room, asked: list[str]) -> None:
    """The index holds all tenants' vectors; what others hold is passed."""
    store = quick.store(exact_limit=1_000)
    store.replace("c", records("u"), where=Eq("tenantId", "u"))
    quick.ask("VACUUM ANALYZE")
    for tenant in ("t", "u"):
        found = store.dense("c", QUESTIONS[0], where=Eq("tenantId", tenant), limit=10)
        assert {match.record.tenant_id for match in found} == {tenant}
    assert "walked" in asked
    assert recall(store, quick.store(exact=True), And(Eq("tenantId", "u"), Exists("topic")), 10) >= MOSTLY
