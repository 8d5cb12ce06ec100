"""LangChain: a retriever, and a vector store of one scope (extra `langchain`)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping  # noqa: TC003 - pydantic looks at it
from typing import TYPE_CHECKING, Any, Self

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore
from pydantic import ConfigDict, Field, InstanceOf, model_validator

from stackroom._library import Library  # noqa: TC001 - pydantic looks at it
from stackroom._model import Hit, Passage, Scope, Source
from stackroom.integrations._hits import check_search, metadata_of, own_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.embeddings import Embeddings

    from stackroom._model import Mode


class StackroomRetriever(BaseRetriever):
    """Finds the best `k` (1…10,000) passages that `scope` may see.

    A document's id is the passage's (`<source_id>#<index>`); its metadata are the passage's own, and above them
    `sourceId index kind folderId tags title score`, and `incomplete`, the codes of the notes of an answer that may be
    short. `options` go to `Library.search` (`mode`, `kinds`, `where` …). Wrong ones are refused when it is made.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    library: InstanceOf[Library]
    scope: InstanceOf[Scope]
    k: int = 10
    options: Mapping[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _can_be_asked(self) -> Self:
        check_search(self.library, self.scope, self.k, self.options)
        return self

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 - what LangChain calls it with
        k: int | None = None,
    ) -> list[Document]:
        answer = self.library.search(query, scope=self.scope, top_k=self.k if k is None else k, **self.options)
        return [Document(id=hit.id, page_content=hit.text, metadata=metadata_of(hit, answer)) for hit in answer]


class StackroomVectorStore(VectorStore):
    """The sources of one scope in the shape of a vector store: each document is a source of one passage.

    Reads see what `scope` sees, sources of many passages too (their documents' ids are the source's). Writes go to the
    scope's tenant; what is added may be read by `acl_groups`, those of the scope unless said. **Whoever holds this
    object may write to the tenant**: an id that is taken is replaced, seen or not. Vectors are the library's own.
    """

    def __init__(
        self, library: Library, scope: Scope, *, kind: str = "document", acl_groups: Iterable[str] | None = None
    ) -> None:
        check_search(library, scope, 1, {})
        self._library = library
        self._scope = scope
        self._kind = kind
        self._groups = scope.acl_groups if acl_groups is None else Scope(scope.tenant_id, acl_groups).acl_groups

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **_kwargs: Any,
    ) -> list[str]:
        """Index each text as a source; all are checked before the first is written. Return their ids."""
        given = list(texts)
        named = [name or str(uuid.uuid4()) for name in (ids or [None] * len(given))]
        own = metadatas or [{}] * len(given)
        sources = [self._source(*parts) for parts in zip(named, given, own, strict=True)]
        for source in sources:
            self._library.index_source(source)
        return named

    def _source(self, name: str, text: str, metadata: Mapping[str, Any]) -> Source:
        return Source(name, self._kind, self._scope.tenant_id, self._groups, [Passage(text, metadata)])

    def delete(self, ids: Sequence[str] | None = None, **_kwargs: Any) -> bool:
        """Remove the sources of these ids that the scope sees; others are passed over. No ids: ValueError."""
        if ids is None:
            raise ValueError("name the ids to delete; Library.remove_tenant removes all of a tenant")
        for name in ids:
            if self._library.source(name, scope=self._scope) is not None:
                self._library.remove_source(name, tenant_id=self._scope.tenant_id)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents of these ids that the scope sees, in the order of `ids`."""
        return [_document(hit) for name in ids for hit in self._library.passages(name, scope=self._scope)]

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the `k` best; `kwargs` go to `Library.search`, as do `filter` (its `where`) and `mode` ("dense")."""
        return [document for document, _ in self.similarity_search_with_score(query, k, **kwargs)]

    def similarity_search_with_score(
        self,
        query: str,
        k: int = 4,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - LangChain's name
        mode: Mode = "dense",
        **kwargs: Any,
    ) -> list[tuple[Document, float]]:
        """Return the `k` best with their scores, higher is nearer."""
        answer = self._library.search(query, scope=self._scope, top_k=k, mode=mode, where=filter, **kwargs)
        return [(_document(hit), hit.score) for hit in answer]

    def _select_relevance_score_fn(self) -> Any:
        return lambda cosine: max(0.0, cosine)

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | None = None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        library: Library | None = None,
        scope: Scope | None = None,
        **kwargs: Any,
    ) -> Self:
        """Make one of a `library` and a `scope` and add texts; `embedding` must be None: the library has its own."""
        if embedding is not None:
            raise ValueError("embedding must be None: a library has an embedder of its own, give it to Library")
        made = cls(library, scope, **kwargs)  # type: ignore[arg-type] # checked there
        made.add_texts(texts, metadatas, ids=ids)
        return made


def _document(hit: Hit) -> Document:
    return Document(id=hit.source_id, page_content=hit.text, metadata=own_metadata(hit))


__all__ = ["StackroomRetriever", "StackroomVectorStore"]
