"""PostgresStore answers what the other stores answer: the same ids in the same order, with the same scores."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.postgres_room import Room, a_room

from stackroom import RRF, Library, Passage, Scope, Source, Weighted
from stackroom.embedders import HashingEmbedder
from stackroom.filters import And, Eq, Filter
from stackroom.stores import CollectionSpec, EmbeddedStore, LexicalQuery, Match, MemoryStore, Record, VectorStore
from stackroom.stores.postgres._connections import Session, Statement
from stackroom.testing import strategies

WORDS = [f"w{number}" for number in range(60)] + ["red", "fox", "budget", "京都", "straße", "budgets", "redder"]


def sources(seed: int) -> list[Source]:
    """Sources of three tenants, in overlapping groups, with words that are common and rare."""
    chance = random.Random(seed)

    def passage() -> Passage:
        text = " ".join(WORDS[int(chance.paretovariate(0.7)) % len(WORDS)] for _ in range(chance.randint(1, 30)))
        return Passage(text, {"year": chance.randint(2020, 2026)})

    return [
        Source(
            f"s{number}",
            chance.choice(["doc", "meeting"]),
            chance.choice(["t", "t", "u"]),
            chance.sample(["g", "h", "i"], chance.randint(1, 2)),
            [passage() for _ in range(chance.randint(1, 6))],
            tags=chance.sample(["x", "y"], chance.randint(0, 2)),
            folder_id=chance.choice([None, "a", "b"]),
        )
        for number in range(60)
    ]


@pytest.fixture(scope="module")
def libraries(postgres_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Library]]:
    path = tmp_path_factory.mktemp("library")
    with a_room(postgres_dsn) as room, closing(EmbeddedStore(path, exact=True)) as embedded:
        made = [Library(store, "library", HashingEmbedder(32)) for store in (room.store(), MemoryStore(), embedded)]
        for library in made:
            for source in sources(7):
                library.index_source(source)
            library.set_source_scope("s3", tenant_id="t", acl_groups=["h"], title="moved")
            library.remove_source("s5", tenant_id="t")
        yield made


ASKED: list[dict[str, Any]] = [
    {"mode": "dense"},
    {"mode": "lexical"},
    {"mode": "lexical", "match": "all"},
    {"mode": "lexical", "prefix": True},
    {"mode": "lexical", "prefix": True, "match": "all"},
    {"mode": "hybrid"},
    {"mode": "hybrid", "top_k": 3, "fusion": RRF(k=10)},
    {"mode": "hybrid", "fusion": Weighted(0.4)},
    {"mode": "hybrid", "fusion": Weighted(0.7), "prefix": True, "top_k": 40},
    {"mode": "hybrid", "kinds": ["doc"], "where": {"year": {"$gte": 2024}}},
    {"mode": "hybrid", "any_of": [{"tags": ["x", "y"]}, {"folder_ids": ["a"]}]},
]


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_a_librarys_answers_are_those_of_the_other_stores(libraries: list[Library], asked: dict[str, Any]) -> None:
    for text in ("red fox", "w1 w2 budget", "京都", "w7", "bud re", "nothing such"):
        for scope in (Scope("t", ["g"]), Scope("t", ["g", "h", "i"]), Scope("u", ["i"])):
            answers = [library.search(text, scope=scope, **asked) for library in libraries]
            shown = [[_shown(hit) for hit in answer] for answer in answers]
            assert shown[0] == shown[1] == shown[2]
            assert [answer.notes for answer in answers] == [()] * 3


def _shown(hit: Any) -> tuple[Any, ...]:
    return hit.id, hit.score, hit.dense_rank, hit.dense_score, hit.lexical_rank, hit.lexical_score, hit.text


def test_a_librarys_listings_are_those_of_the_other_stores(libraries: list[Library]) -> None:
    scope = Scope("t", ["g", "h"])
    for narrowing in ({}, {"tags": ["x"]}, {"folder_id": "b"}, {"where": {"year": 2024}}):
        counts = {library.count(scope=scope, **narrowing) for library in libraries}
        listed = [[source.source_id for source in library.sources(scope=scope, **narrowing)] for library in libraries]
        assert len(counts) == 1
        assert listed[0] == listed[1] == listed[2]


def test_random_dense_answers_are_those_of_the_reference_to_the_bit(room: Room) -> None:
    ours, reference = _both(room, 3)

    @strategies.seeded(60)
    @given(
        records=strategies.libraries(),
        query=strategies.vectors(3),
        where=strategies.tenant_leaves | strategies.filters,
        limit=st.sampled_from((1, 2, 3, 100)),
    )
    def agree(records: list[list[Record]], query: Any, where: Filter, limit: int) -> None:
        _fill((ours, reference), records)
        answers = [_answer(store.dense("c", query, where=where, limit=limit)) for store in (ours, reference)]
        assert answers[0] == answers[1]

    agree()


def test_random_lexical_answers_are_those_of_the_reference_to_the_bit(room: Room) -> None:
    ours, reference = _both(room, 3)

    @strategies.seeded(60)
    @given(
        records=strategies.libraries(),
        query=strategies.queries | strategies.prefix_queries,
        where=strategies.tenant_leaves | strategies.filters,
        limit=st.sampled_from((1, 2, 100)),
    )
    def agree(records: list[list[Record]], query: LexicalQuery, where: Filter, limit: int) -> None:
        _fill((ours, reference), records)
        answers = [_answer(store.lexical("c", query, where=where, limit=limit)) for store in (ours, reference)]
        assert answers[0] == answers[1]

    agree()


@pytest.mark.parametrize("limit", [1, 5, 37])
def test_the_nearest_are_cut_as_everywhere_where_single_precision_sees_no_difference(room: Room, limit: int) -> None:
    """Cosines that differ by less than single precision shows, on both sides of the cut."""
    ours, reference = _both(room, 24)
    chance = np.random.default_rng(3)
    base = chance.standard_normal(24)
    vectors = base + chance.standard_normal((120, 24)) * 1e-6
    records = [_record(f"s{number}", 0, vector) for number, vector in enumerate(vectors)]
    for store in (ours, reference):
        store.replace("c", records, where=Eq("tenantId", "t"))
    answers = [_answer(store.dense("c", base, where=Eq("tenantId", "t"), limit=limit)) for store in (ours, reference)]
    assert answers[0] == answers[1]


@pytest.mark.parametrize("limit", [1, 5])
def test_of_many_passages_with_one_vector_no_more_than_the_limit_leave_the_database(
    room: Room, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    ours, reference = _both(room, 3)
    answered: list[int] = []
    ask = Session.ask

    def watch(self: Session, *statements: Statement, last: bool = False) -> Any:
        rows = ask(self, *statements, last=last)
        answered.extend(map(len, rows))
        return rows

    records = [_record("s", index, np.asarray([1, 2, 3])) for index in range(300)]
    for store in (ours, reference):
        store.replace("c", records, where=Eq("tenantId", "t"))
    where = And(Eq("tenantId", "t"), Eq("sourceId", "s"))
    monkeypatch.setattr(Session, "ask", watch)
    answers = [_answer(store.dense("c", [1, 1, 1], where=where, limit=limit)) for store in (ours, reference)]
    assert answers[0] == answers[1]
    assert max(answered) == limit


def test_a_text_with_more_words_than_a_sparse_vector_holds_is_found_by_each(room: Room) -> None:
    ours, reference = _both(room, 3)
    text = " ".join(f"word{number}" for number in range(16_500))
    records = [
        Record(text, [1, 0, 0], {"tenantId": "t", "sourceId": "long", "index": 0}),
        Record("word16499 word5", [1, 0, 0], {"tenantId": "t", "sourceId": "short", "index": 0}),
    ]
    for store in (ours, reference):
        store.replace("c", records, where=Eq("tenantId", "t"))
    for query in (
        LexicalQuery("word5 word16499 word15999"),
        LexicalQuery("word1 word16498", "all"),
        LexicalQuery("word1649", prefix=True),
        LexicalQuery(text),
    ):
        answers = [
            _answer(store.lexical("c", query, where=Eq("tenantId", "t"), limit=5)) for store in (ours, reference)
        ]
        assert answers[0] == answers[1]
        assert answers[0]


def _both(room: Room, dimension: int) -> tuple[VectorStore, VectorStore]:
    stores: tuple[VectorStore, VectorStore] = (room.store(), MemoryStore())
    for store in stores:
        store.create_collection("c", CollectionSpec(dimension, "m"))
    return stores


def _fill(stores: tuple[VectorStore, VectorStore], of_sources: list[list[Record]]) -> None:
    for store in stores:
        for tenant_id in strategies.TENANTS:
            records = [record for of in of_sources for record in of if record.tenant_id == tenant_id]
            store.replace("c", records, where=Eq("tenantId", tenant_id))


def _answer(found: list[Match]) -> list[tuple[str, str, float]]:
    return [(match.id, match.record.tenant_id, match.score) for match in found]


def _record(source_id: str, index: int, vector: Any) -> Record:
    return Record("", vector, {"tenantId": "t", "sourceId": source_id, "index": index})
