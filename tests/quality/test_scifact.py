"""Ranking on a judged collection: SciFact, word by word. Skipped where the collection is not at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.quality.judged import DATA, lines_of, ndcg_at_10, put_all, relevant_of, skipped_without, text_of

from stackroom import Library, Scope, Source
from stackroom.embedders import HashingEmbedder
from stackroom.filters import Eq
from stackroom.stores import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

COLLECTION = DATA / "scifact"
SCOPE = Scope("scifact", ["everyone"])
QUERIES_OF_THE_SLOW_STORE = 10

pytestmark = skipped_without(COLLECTION / "corpus.jsonl.gz")


@pytest.fixture(scope="module")
def queries() -> dict[str, str]:
    return {query["_id"]: query["text"] for query in lines_of(COLLECTION / "queries.jsonl.gz")}


@pytest.fixture(scope="module")
def relevant() -> dict[str, set[str]]:
    return relevant_of(COLLECTION)


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    with Library.open(tmp_path_factory.mktemp("scifact") / "store", embedder=HashingEmbedder(64)) as library:
        put_all(
            library,
            [
                Source(document["_id"], "abstract", SCOPE.tenant_id, SCOPE.acl_groups, [text_of(document)])
                for document in lines_of(COLLECTION / "corpus.jsonl.gz")
            ],
        )
        yield library


@pytest.fixture(scope="module")
def reference(embedded: Library) -> Library:
    """Return a library over the reference store, which takes the same records in one write: it is slow by design."""
    store = MemoryStore()
    library = Library(store, "library", HashingEmbedder(64))
    of_tenant = Eq("tenantId", SCOPE.tenant_id)
    records = embedded._store.scan("library", where=of_tenant, limit=100_000, vectors=True)  # noqa: SLF001 - all of it
    store.replace("library", records, where=of_tenant)
    return library


def found(library: Library, text: str) -> list[str]:
    return [hit.source_id for hit in library.search(text, scope=SCOPE, mode="lexical", top_k=10)]


def test_ranking_by_words_is_as_good_as_measured(
    embedded: Library, queries: dict[str, str], relevant: dict[str, set[str]]
) -> None:
    gains = [ndcg_at_10(found(embedded, queries[query_id]), of_query) for query_id, of_query in relevant.items()]
    assert len(gains) == 300
    assert sum(gains) / len(gains) >= 0.655


def test_the_reference_store_finds_the_same(embedded: Library, reference: Library, queries: dict[str, str]) -> None:
    for text in list(queries.values())[:QUERIES_OF_THE_SLOW_STORE]:
        assert found(embedded, text) == found(reference, text)
