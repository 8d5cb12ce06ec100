"""UsearchRanker: a graph of each tenant's vectors, by usearch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stackroom.rankers._indexes import TenantIndexes, best_of

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from stackroom.rankers._protocol import Ranked

_BREADTH: Final = 128


class UsearchRanker:
    """One usearch graph a tenant, in memory; with `path`, a directory where `close` saves it.

    Its Python search cannot filter: listed candidates are scored directly, so only whole tenants are searched by the
    graph. Needs `pip install "stackroom[usearch]"`.
    """

    max_candidates = 10_000
    max_limit = 10_000

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        try:
            from usearch.index import Index
        except ImportError as missing:
            raise ImportError('UsearchRanker needs usearch: pip install "stackroom[usearch]"') from missing

        def make(dimension: int, file: Path | None) -> _Graph:
            return _Graph(Index, dimension, file)

        self._indexes = TenantIndexes(make, path)
        self.durable_id = self._indexes.durable_id

    def rank_by_similarity(
        self, *, tenant_id: str, query: NDArray[np.float32], candidate_ids: Sequence[str] | None, limit: int
    ) -> list[Ranked]:
        """Return the candidates that are near to `query`, by their cosine."""
        return self._indexes.rank(tenant_id, query, candidate_ids, limit)

    def on_embedding_persisted(self, *, tenant_id: str, passage_id: str, vector: NDArray[np.float32] | None) -> None:
        """Keep a passage's vector, or forget it."""
        self._indexes.tell(tenant_id, passage_id, vector)

    def forget_tenant(self, *, tenant_id: str) -> None:
        """Forget all of a tenant."""
        self._indexes.forget(tenant_id)

    def close(self) -> None:
        """Save what is held, where there is a path. Twice is fine."""
        self._indexes.close()


class _Graph:
    def __init__(self, kind: Any, dimension: int, file: Path | None) -> None:
        self._index = kind(ndim=dimension, metric="ip", dtype="f32", expansion_add=_BREADTH, expansion_search=_BREADTH)
        if file is not None:
            self._index.load(str(file))

    def put(self, label: int, vector: NDArray[np.float32]) -> None:
        self._index.add(label, vector, threads=1)

    def remove(self, label: int) -> None:
        self._index.remove(label)

    def nearest(
        self, query: NDArray[np.float32], limit: int, labels: NDArray[np.int64] | None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        if labels is not None:
            vectors = np.asarray(self._index.get(labels.astype(np.uint64)), dtype=np.float32)
            return best_of(labels, vectors, query, limit)
        self._index.expansion_search = max(_BREADTH, 2 * limit)
        found = self._index.search(query, limit, threads=1)
        return np.asarray(found.keys, dtype=np.int64), 1.0 - np.asarray(found.distances)

    def save(self, file: Path) -> None:
        self._index.save(str(file))
