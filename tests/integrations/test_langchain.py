"""LangChain's own tests of retrievers and vector stores, and what they cannot know: the scope."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langchain_core")
pytest.importorskip("langchain_tests")

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import RetrieversIntegrationTests, VectorStoreIntegrationTests
from tests.integrations.shelf import a_library, incomplete

from stackroom import Library, Scope, Source
from stackroom.embedders import FunctionEmbedder
from stackroom.integrations.langchain import StackroomRetriever, StackroomVectorStore
from stackroom.stores import MemoryStore

BAKERS, MILLERS = Scope("acme", ["bakers"]), Scope("acme", ["millers"])


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
class TestRetriever(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return StackroomRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"library": a_library(), "scope": BAKERS}

    @property
    def retriever_query_example(self) -> str:
        return "bread"


@pytest.mark.anyio
class TestVectorStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self) -> VectorStore:
        embedder = FunctionEmbedder(self.get_embeddings().embed_documents, id="fake", dimension=6)
        return StackroomVectorStore(Library(MemoryStore(), "library", embedder), BAKERS)


@pytest.fixture
def library() -> Library:
    return a_library()


def test_a_retriever_answers_what_its_scope_sees_and_says_where_it_stands(library: Library) -> None:
    retriever = StackroomRetriever(library=library, scope=BAKERS, options={"mode": "lexical"})
    found = retriever.invoke("secret bread")
    assert {document.metadata["sourceId"] for document in found} == {"rye", "oat", "malt"}
    best = found[0]
    assert best.id == f"{best.metadata['sourceId']}#0"
    assert best.metadata["score"] > 0
    assert StackroomRetriever(library=library, scope=MILLERS).invoke("bread")[0].metadata["sourceId"] == "secret"


def test_an_answer_that_may_be_short_says_so(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    incomplete(library, monkeypatch)
    found = StackroomRetriever(library=library, scope=BAKERS).invoke("bread")
    assert found[0].metadata["incomplete"] == ["lagging"]


@pytest.mark.parametrize("scope", [None, "acme", {"tenant_id": "acme", "acl_groups": ["bakers"]}])
def test_nothing_is_made_without_a_scope(library: Library, scope: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        StackroomRetriever(library=library, scope=scope)
    with pytest.raises(TypeError):
        StackroomVectorStore(library, scope)
    with pytest.raises(TypeError):
        StackroomVectorStore.from_texts(["a"], library=library)


@pytest.mark.parametrize("wrong", [{"k": 0}, {"options": {"scope": MILLERS}}, {"options": {"modes": 1}}, {"tenant": 1}])
def test_wrong_options_are_refused_when_it_is_made(library: Library, wrong: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        StackroomRetriever(library=library, scope=BAKERS, **wrong)


def test_a_vector_store_neither_shows_nor_removes_what_its_scope_does_not_see(library: Library) -> None:
    store = StackroomVectorStore(library, BAKERS)
    assert store.get_by_ids(["secret"]) == []
    store.delete(["secret"])
    assert library.source("secret", scope=MILLERS) is not None
    assert "secret" not in {document.id for document in store.similarity_search("bread", k=9)}


def test_what_a_vector_store_adds_may_be_read_by_whom_it_says(library: Library) -> None:
    store = StackroomVectorStore(library, BAKERS, acl_groups=["millers"])
    store.add_documents([Document("flour", id="f", metadata={"year": 2024})])
    assert library.source("f", scope=BAKERS) is None
    assert library.passages("f", scope=MILLERS)[0].metadata["year"] == 2024
    assert StackroomVectorStore(library, MILLERS).get_by_ids(["f"])[0].metadata == {"year": 2024}


def test_of_many_texts_none_is_written_when_one_is_wrong(library: Library) -> None:
    store = StackroomVectorStore(library, BAKERS)
    with pytest.raises(ValueError, match="metadata"):
        store.add_texts(["a", "b"], [{}, {"nested": {"no": 1}}], ids=["a", "b"])
    assert store.get_by_ids(["a"]) == []


def test_a_filter_narrows_and_texts_make_a_store(library: Library) -> None:
    store = StackroomVectorStore.from_texts(
        ["old", "new"], metadatas=[{"year": 1}, {"year": 2}], ids=["o", "n"], library=library, scope=BAKERS
    )
    assert [document.id for document in store.similarity_search("old", filter={"year": {"$gte": 2}})] == ["n"]
    with pytest.raises(ValueError, match="library has an embedder"):
        StackroomVectorStore.from_texts(["x"], object(), library=library, scope=BAKERS)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="name the ids"):
        store.delete()


def test_a_source_replaced_is_a_source_whole(library: Library) -> None:
    library.index_source(Source("long", "document", "acme", ["bakers"], ["one", "two"]))
    store = StackroomVectorStore(library, BAKERS)
    assert [document.page_content for document in store.get_by_ids(["long"])] == ["one", "two"]
    store.add_texts(["three"], ids=["long"])
    assert [document.page_content for document in store.get_by_ids(["long"])] == ["three"]
