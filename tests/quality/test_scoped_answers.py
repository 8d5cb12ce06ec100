"""A scope is as good as a library of its own: the answers in it are those of a library that holds nothing else."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.quality.judged import DATA, lines_of, put_all, skipped_without, text_of

from stackroom import Answer, Library, Scope, Source
from stackroom.embedders import HashingEmbedder
from stackroom.stores import MemoryStore

COLLECTION = DATA / "scifact"
DOCUMENTS, QUERIES = 1200, 15
TENANT = "scifact"
GROUPS = [f"group {number}" for number in range(12)]
SCOPES = [Scope(TENANT, GROUPS[:number]) for number in (1, 8)]
EVERYTHING = 10_000

pytestmark = skipped_without(COLLECTION / "corpus.jsonl.gz")


@pytest.fixture(scope="module")
def sources() -> list[Source]:
    """Documents, each for one or two groups at random."""
    draw = random.Random(4)
    documents = islice(lines_of(COLLECTION / "corpus.jsonl.gz"), DOCUMENTS)
    return [
        Source(document["_id"], "abstract", TENANT, draw.sample(GROUPS, draw.choice([1, 1, 2])), [text_of(document)])
        for document in documents
    ]


@pytest.fixture(scope="module")
def queries() -> list[str]:
    return [query["text"] for query in islice(lines_of(COLLECTION / "queries.jsonl.gz"), QUERIES)]


@pytest.fixture(scope="module", params=[False, True], ids=["codes choose", "exact"])
def whole(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, sources: list[Source]
) -> Iterator[Library]:
    path = tmp_path_factory.mktemp("whole")
    with Library.open(path, embedder=HashingEmbedder(64), exact=request.param) as library:
        put_all(library, sources)
        yield library


@pytest.fixture(scope="module", params=SCOPES, ids=lambda scope: f"{len(scope.acl_groups)} groups")
def scope(request: pytest.FixtureRequest) -> Scope:
    found: Scope = request.param
    return found


@pytest.fixture(scope="module")
def alone(scope: Scope, sources: list[Source]) -> Library:
    """Return a library over the reference store that holds what the scope may see, and nothing else."""
    library = Library(MemoryStore(), "library", HashingEmbedder(64))
    put_all(library, [source for source in sources if not set(source.acl_groups).isdisjoint(scope.acl_groups)])
    return library


def ranked(answer: Answer) -> list[tuple[str, int | None]]:
    return [(hit.id, hit.dense_rank) for hit in answer]


def test_dense_answers_are_those_of_a_library_that_holds_the_scope_alone(
    whole: Library, alone: Library, scope: Scope, queries: list[str]
) -> None:
    for text in queries:
        one, other = (library.search(text, scope=scope, mode="dense", top_k=10) for library in (whole, alone))
        assert len(one) == 10
        assert ranked(one) == ranked(other)
        assert [hit.score for hit in one] == pytest.approx([hit.score for hit in other], abs=1e-6)
        assert one.complete


@pytest.mark.parametrize("options", [{"prefix": True, "match": "all"}, {}], ids=str)
def test_words_find_the_same_passages_as_in_a_library_that_holds_the_scope_alone(
    whole: Library, alone: Library, scope: Scope, queries: list[str], options: dict[str, Any]
) -> None:
    for text in (" ".join(query.split()[:2]) for query in queries[:5]):
        one, other = (
            library.search(text, scope=scope, mode="lexical", top_k=EVERYTHING, **options) for library in (whole, alone)
        )
        assert {hit.id for hit in one} == {hit.id for hit in other}


def test_everything_in_scope_is_listed_and_counted(whole: Library, alone: Library, scope: Scope) -> None:
    names = [[info.source_id for info in library.sources(scope=scope, limit=EVERYTHING)] for library in (whole, alone)]
    assert names[0] == names[1]
    assert whole.count(scope=scope) == alone.count(scope=scope) == len(names[0])


def test_a_scope_that_was_revoked_is_as_if_it_had_never_been(
    tmp_path: Path, sources: list[Source], queries: list[str]
) -> None:
    with Library.open(tmp_path / "d", embedder=HashingEmbedder(64)) as library:
        put_all(library, sources[:200])
        for source in sources[:200:2]:
            library.set_source_scope(source.source_id, tenant_id=TENANT, acl_groups=["nobody"])
        alone = Library(MemoryStore(), "library", HashingEmbedder(64))
        put_all(alone, sources[1:200:2])
        for text in queries:
            one, other = (each.search(text, scope=SCOPES[1], mode="dense") for each in (library, alone))
            assert ranked(one) == ranked(other)
