"""LlamaIndex: a retriever (extra `llama-index`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode

from stackroom.integrations._hits import check_search, metadata_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llama_index.core.schema import QueryBundle

    from stackroom._library import Library
    from stackroom._model import Scope


class StackroomRetriever(BaseRetriever):
    """Finds the best `top_k` (1…10,000) passages that `scope` may see, as text nodes with scores.

    A node's id is the passage's (`<source_id>#<index>`); its metadata are the passage's own, and above them `sourceId
    index kind folderId tags title score`, and `incomplete`, the codes of the notes of an answer that may be short.
    None of it goes to a model beside the text. `options` go to `Library.search` (`mode`, `kinds`, `where` …). Wrong
    ones are refused when it is made.
    """

    def __init__(
        self,
        library: Library,
        scope: Scope,
        *,
        top_k: int = 10,
        options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self._options = dict(options or {})
        check_search(library, scope, top_k, self._options)
        self._library, self._scope, self._top_k = library, scope, top_k
        super().__init__(**kwargs)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        answer = self._library.search(query_bundle.query_str, scope=self._scope, top_k=self._top_k, **self._options)
        found = []
        for hit in answer:
            metadata = metadata_of(hit, answer)
            node = TextNode(
                id_=hit.id,
                text=hit.text,
                metadata=metadata,
                excluded_embed_metadata_keys=list(metadata),
                excluded_llm_metadata_keys=list(metadata),
            )
            found.append(NodeWithScore(node=node, score=hit.score))
        return found


__all__ = ["StackroomRetriever"]
