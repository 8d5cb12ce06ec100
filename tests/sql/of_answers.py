"""What is compared with MemoryStore, whatever the database: a library's answers, and random ones of the store."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
from tests.postgres.test_postgres_same_answers import ASKED, sources

from stackroom import Library, Scope
from stackroom.embedders import HashingEmbedder
from stackroom.filters import Eq, Filter
from stackroom.stores import CollectionSpec, LexicalQuery, Match, MemoryStore, Record, SqlStore, VectorStore
from stackroom.testing import strategies

if TYPE_CHECKING:
    from collections.abc import Callable

_TEXTS = ("red fox", "w1 w2 budget", "京都", "bud re", "nothing such")
_SCOPES = (Scope("t", ["g"]), Scope("t", ["g", "h", "i"]), Scope("u", ["i"]))


def agrees_with_memory(url: str) -> None:
    """Compare a library's searches and listings: ids, order, scores, ranks, texts."""
    with closing(SqlStore(url)) as store:
        libraries = [Library(one, "library", HashingEmbedder(32)) for one in (store, MemoryStore())]
        for library in libraries:
            for source in sources(7):
                library.index_source(source)
            library.set_source_scope("s3", tenant_id="t", acl_groups=["h"], title="moved")
            library.remove_source("s5", tenant_id="t")
        for asked in ASKED:
            for scope in _SCOPES:
                for text in _TEXTS:
                    answers = [library.search(text, scope=scope, **asked) for library in libraries]
                    assert list(map(_shown, answers[0])) == list(map(_shown, answers[1])), (asked, text)
                    assert [answer.notes for answer in answers] == [(), ()]
        for narrowing in ({}, {"tags": ["x"]}, {"folder_id": "b"}, {"tiers": ["hot"]}, {"where": {"year": 2024}}):
            given: dict[str, Any] = {"scope": _SCOPES[1], **narrowing}
            assert len({library.count(**given) for library in libraries}) == 1
            ours, reference = ([of.source_id for of in library.sources(**given)] for library in libraries)
            assert ours == reference


def _shown(hit: Any) -> tuple[Any, ...]:
    return hit.id, hit.score, hit.dense_rank, hit.dense_score, hit.lexical_rank, hit.lexical_score, hit.text


def agrees_with_memory_at_random(url: str) -> None:
    """Compare dense and lexical answers of hostile records and filters to the bit."""
    with closing(SqlStore(url)) as store:
        stores: tuple[VectorStore, VectorStore] = (store, MemoryStore())
        for one in stores:
            one.create_collection("c", CollectionSpec(3, "m"))

        @strategies.seeded(30)
        @given(
            records=strategies.libraries(),
            query=strategies.vectors(3),
            words=strategies.queries | strategies.prefix_queries,
            where=strategies.tenant_leaves | strategies.filters,
            limit=st.sampled_from((1, 2, 3, 100)),
        )
        def agree(records: list[list[Record]], query: Any, words: LexicalQuery, where: Filter, limit: int) -> None:
            _fill(stores, records)
            _same(lambda one: one.dense("c", query, where=where, limit=limit), stores)
            _same(lambda one: one.lexical("c", words, where=where, limit=limit), stores)

        agree()


def _same(ask: Callable[[VectorStore], list[Match]], stores: tuple[VectorStore, VectorStore]) -> None:
    ours, reference = ([(match.id, match.record.tenant_id, match.score) for match in ask(store)] for store in stores)
    assert ours == reference


def _fill(stores: tuple[VectorStore, VectorStore], of_sources: list[list[Record]]) -> None:
    for store in stores:
        for tenant_id in strategies.TENANTS:
            records = [record for of in of_sources for record in of if record.tenant_id == tenant_id]
            store.replace("c", records, where=Eq("tenantId", tenant_id))
