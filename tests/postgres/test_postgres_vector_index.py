"""The vector index: walked when much is allowed, and never the reason why less is answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.postgres_room import Room, a_room

from stackroom import CapabilityError
from stackroom.filters import And, Eq, Exists, Filter, In
from stackroom.stores import CollectionSpec, PostgresStore, Record
from stackroom.stores.postgres._connections import Session, Statement
from stackroom.testing._oracle import judge_nearest, nearest

DIMENSION = 16
NUMBER = 3_000
TENANT = Eq("tenantId", "t")


def records() -> list[Record]:
    vectors = np.random.default_rng(5).standard_normal((NUMBER, DIMENSION)).astype(np.float32)
    return [
        Record(
            "",
            vector,
            {
                "tenantId": "t",
                "sourceId": f"s{number // 4}",
                "index": number % 4,
                "aclGroups": ["all", *(["half"] if number // 4 % 2 else []), *(["few"] if number < 40 else [])],
                "n": number,
            },
        )
        for number, vector in enumerate(vectors)
    ]


@pytest.fixture(scope="module")
def indexed(postgres_dsn: str) -> Iterator[Room]:
    with a_room(postgres_dsn) as room:
        store = room.store(exact_limit=1_000)
        store.create_collection("c", CollectionSpec(DIMENSION, "m"))
        store.replace("c", records(), where=TENANT)
        store.replace(
            "c",
            [Record("", np.ones(DIMENSION), {"tenantId": "u", "sourceId": "s", "index": 0})],
            where=Eq("tenantId", "u"),
        )
        room.ask("ANALYZE")
        yield room


@pytest.fixture
def store(indexed: Room) -> PostgresStore:
    return indexed.store(exact_limit=1_000)


@pytest.fixture(autouse=True)
def walks_pay_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """However small the collections here are: see test_postgres_topics.py for when a walk pays."""
    monkeypatch.setattr("stackroom.stores.postgres._dense._COST_OF_A_STEP", 1)


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keep the statements that walk the index."""
    seen: list[str] = []
    ask = Session.ask

    def watch(self: Session, *statements: Statement, last: bool = False) -> Any:
        seen.extend(asked.sql for asked in statements if "halfvec" in asked.sql)
        return ask(self, *statements, last=last)

    monkeypatch.setattr(Session, "ask", watch)
    return seen


QUERIES = np.random.default_rng(6).standard_normal((30, DIMENSION)).astype(np.float32)

SCOPES: dict[str, tuple[Filter, bool]] = {
    "all": (And(TENANT, In("aclGroups", ["all"])), True),
    "half": (And(TENANT, In("aclGroups", ["half"])), True),
    "few": (And(TENANT, In("aclGroups", ["few"])), False),
    "another tenant": (Eq("tenantId", "u"), False),
    "own keys, many": (And(TENANT, Exists("n")), True),
    "own keys, few": (And(TENANT, In("n", list(range(900)))), False),
}


@pytest.mark.parametrize("scope", SCOPES)
def test_the_index_is_walked_only_where_more_is_allowed_than_the_limit_of_exact_search(
    store: PostgresStore, walks: list[str], scope: str
) -> None:
    where, takes_index = SCOPES[scope]
    assert store.dense("c", QUERIES[0], where=where, limit=5)
    assert bool(walks) == takes_index


@pytest.mark.parametrize("scope", SCOPES)
def test_a_walk_finds_nearly_all(indexed: Room, store: PostgresStore, scope: str) -> None:
    where, _ = SCOPES[scope]
    exact = indexed.store(exact=True)
    hit = wanted = 0
    for query in QUERIES:
        best = {match.id for match in exact.dense("c", query, where=where, limit=10)}
        hit += len(best & {match.id for match in store.dense("c", query, where=where, limit=10)})
        wanted += len(best)
    assert hit >= 0.9 * wanted


def test_scores_of_what_the_index_found_are_exact(store: PostgresStore) -> None:
    where, _ = SCOPES["half"]
    found = store.dense("c", QUERIES[1], where=where, limit=10)
    expected = [
        scored for scored in nearest(records(), QUERIES[1].tolist(), where) if scored.record.id in {m.id for m in found}
    ]
    for scored in expected:
        (match,) = [match for match in found if match.id == scored.record.id]
        assert match.score == pytest.approx(scored.score, abs=1e-6)
    assert [match.score for match in found] == sorted((match.score for match in found), reverse=True)


def test_an_index_that_gives_up_early_is_not_the_last_word(
    store: PostgresStore, walks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a list of candidates that is too short and not gone beyond, all that is allowed is compared."""
    monkeypatch.setattr("stackroom.stores.postgres._dense._LONGEST_LIST", 50)
    monkeypatch.setattr("stackroom.stores.postgres._dense._WALKS_ON", "off")
    where = And(TENANT, In("aclGroups", ["half"]))
    found = store.dense("c", QUERIES[2], where=where, limit=200)
    assert len(found) == 200
    assert walks
    judge_nearest(found, nearest(records(), QUERIES[2].tolist(), where), 200)


def test_more_is_asked_for_than_a_walk_finds_sooner_than_a_comparison(store: PostgresStore, walks: list[str]) -> None:
    found = store.dense("c", QUERIES[3], where=TENANT, limit=2_000)
    assert len(found) == 2_000
    assert walks == []


def test_an_exact_store_never_walks_the_index(indexed: Room, walks: list[str]) -> None:
    assert indexed.store(exact=True).dense("c", QUERIES[0], where=TENANT, limit=5)
    assert walks == []


def test_an_index_is_built_once_a_collection_is_loaded(room: Room, walks: list[str]) -> None:
    store = room.store(vector_index=False, exact_limit=1_000)
    store.create_collection("c", CollectionSpec(DIMENSION, "m"))
    store.replace("c", records(), where=TENANT)
    before = store.dense("c", QUERIES[0], where=TENANT, limit=5)
    assert walks == []
    store.build_vector_index("c")
    store.build_vector_index("c")
    walks.clear()
    after = store.dense("c", QUERIES[0], where=TENANT, limit=5)
    assert walks
    assert [match.id for match in after] == [match.id for match in before]
    with pytest.raises(LookupError):
        store.build_vector_index("none")


def test_vectors_too_long_for_an_index_are_compared_exactly(room: Room) -> None:
    store = room.store(exact_limit=1_000)
    store.create_collection("c", CollectionSpec(4_001, "m"))
    with pytest.raises(CapabilityError, match="4,000"):
        store.build_vector_index("c")
    assert store.collection("c") == CollectionSpec(4_001, "m")


PARTS: dict[str, Callable[[PostgresStore], int]] = {
    "one tenant": lambda store: store.count("c", where=Eq("tenantId", "t3")),
    "every tenant": lambda store: store.count("c", where=Exists("tenantId")),
}


def test_partitions_hold_tenants_apart_and_one_is_asked(room: Room) -> None:
    store = room.store(partitions=4)
    store.create_collection("c", CollectionSpec(2, "m"))
    for number in range(12):
        tenant = f"t{number}"
        store.replace(
            "c",
            [Record("red", [1, 0], {"tenantId": tenant, "sourceId": "s", "index": 0})],
            where=Eq("tenantId", tenant),
        )
    used = room.ask(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'stackroom_passages_%' "
        "AND relnamespace = current_schema::regnamespace ORDER BY 1"
    )
    assert len(used) == 4
    assert sum(room.ask(f"SELECT count(*) FROM {name}")[0][0] for (name,) in used) == 12
    assert {name: work(store) for name, work in PARTS.items()} == {"one tenant": 1, "every tenant": 12}
    assert [match.id for match in store.dense("c", [1, 0], where=Eq("tenantId", "t5"), limit=9)] == ["s#0"]
    assert store.delete("c", where=Eq("tenantId", "t5")) == 1
