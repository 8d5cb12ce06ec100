"""HnswRanker: a graph of each tenant's vectors, by hnswlib."""

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

_FIRST_ROWS: Final = 1024
_NEIGHBOURS: Final = 16
_BUILD_BREADTH: Final = 200
_SEARCH_BREADTH: Final = 100


class HnswRanker:
    """One hnswlib graph a tenant, in memory; with `path`, a directory where `close` saves it.

    It grows by doubling; a removal marks its place, which the next passage takes. Listed candidates are scored directly
    unless they are most of the tenant: a graph asked for few of its vectors misses some, and cannot answer more than
    pass. Needs `pip install "stackroom[hnswlib]"`.
    """

    max_candidates = 10_000
    max_limit = 10_000

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        try:
            import hnswlib
        except ImportError as missing:
            raise ImportError('HnswRanker needs hnswlib: pip install "stackroom[hnswlib]"') from missing

        def make(dimension: int, file: Path | None) -> _Graph:
            return _Graph(hnswlib, dimension, file)

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
    def __init__(self, hnswlib: Any, dimension: int, file: Path | None) -> None:
        self._index = hnswlib.Index(space="ip", dim=dimension)
        if file is None:
            self._index.init_index(
                max_elements=_FIRST_ROWS,
                M=_NEIGHBOURS,
                ef_construction=_BUILD_BREADTH,
                allow_replace_deleted=True,
            )
            self._live: set[int] = set()
        else:
            self._index.load_index(str(file), allow_replace_deleted=True)
            self._live = set(np.load(file.with_suffix(".index.live.npy")).tolist())
        self._index.set_num_threads(1)

    def put(self, label: int, vector: NDArray[np.float32]) -> None:
        has_gaps = len(self._live) < self._index.get_current_count()
        if not has_gaps and self._index.get_current_count() == self._index.get_max_elements():
            self._index.resize_index(2 * self._index.get_max_elements())
        self._index.add_items(vector[None, :], [label], replace_deleted=has_gaps)
        self._live.add(label)

    def remove(self, label: int) -> None:
        self._index.mark_deleted(label)
        self._live.discard(label)

    def nearest(
        self, query: NDArray[np.float32], limit: int, labels: NDArray[np.int64] | None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        if labels is None or 2 * len(labels) > len(self._live):
            found = self._searched(query, limit, labels)
            if found is not None:
                return found
        if labels is None:
            labels = np.fromiter(self._live, np.int64, len(self._live))
        return best_of(labels, np.asarray(self._index.get_items(labels), dtype=np.float32), query, limit)

    def _searched(
        self, query: NDArray[np.float32], limit: int, labels: NDArray[np.int64] | None
    ) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Search the graph; None when it does not reach so many from where it begins."""
        passes = None
        if labels is not None and len(labels) < len(self._live):
            passes = set(labels.tolist()).__contains__
        self._index.set_ef(max(2 * limit, _SEARCH_BREADTH))
        try:
            found, distances = self._index.knn_query(query[None, :], k=limit, filter=passes)
        except RuntimeError:
            return None
        return found[0].astype(np.int64), 1.0 - distances[0]

    def save(self, file: Path) -> None:
        self._index.save_index(str(file))
        np.save(file.with_suffix(".index.live.npy"), np.fromiter(self._live, np.int64, len(self._live)))
