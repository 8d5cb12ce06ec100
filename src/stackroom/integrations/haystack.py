"""Haystack: a retriever component (extra `haystack`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from haystack import Document, component

from stackroom.integrations._hits import check_search, metadata_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stackroom._library import Library
    from stackroom._model import Scope


@component
class StackroomRetriever:
    """Finds the best `top_k` (1…10,000) passages that `scope` may see.

    A document's id is the passage's (`<source_id>#<index>`); its meta are the passage's own, and above them `sourceId
    index kind folderId tags title score`, and `incomplete`, the codes of the notes of an answer that may be short.
    `options` go to `Library.search` (`mode`, `kinds`, `where` …). Wrong ones are refused when it is made. A pipeline
    that holds one cannot be written to YAML: a library is a live object, and a scope belongs to who asks.
    """

    def __init__(
        self, library: Library, scope: Scope, *, top_k: int = 10, options: Mapping[str, Any] | None = None
    ) -> None:
        self._options = dict(options or {})
        check_search(library, scope, top_k, self._options)
        self._library, self._scope, self._top_k = library, scope, top_k

    @component.output_types(documents=list[Document])
    def run(self, query: str, top_k: int | None = None) -> dict[str, list[Document]]:
        """Search; the scope is that of the component, whatever the pipeline is given."""
        limit = self._top_k if top_k is None else top_k
        answer = self._library.search(query, scope=self._scope, top_k=limit, **self._options)
        return {
            "documents": [
                Document(id=hit.id, content=hit.text, meta=metadata_of(hit, answer), score=hit.score) for hit in answer
            ]
        }

    def to_dict(self) -> dict[str, Any]:
        """Refuse: make the component anew where a pipeline is loaded, with the scope of who asks there."""
        raise NotImplementedError(
            "a StackroomRetriever cannot be written out: make it anew, with a library and the scope of who asks"
        )


__all__ = ["StackroomRetriever"]
