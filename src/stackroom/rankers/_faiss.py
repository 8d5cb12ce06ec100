"""FaissRanker: each tenant's vectors in a flat index of faiss, which selects within."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stackroom.rankers._indexes import TenantIndexes

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from stackroom.rankers._protocol import Ranked

_FEW: Final = 64
"""So many tombstones are borne in any index."""


class FaissRanker:
    """One flat index of faiss a tenant, in memory; with `path`, a directory where `close` saves it.

    Exact. Candidates are selected within the index. A removal leaves a tombstone; when a third of an index is of that
    kind, it is written anew. Needs `pip install "stackroom[faiss]"`.
    """

    max_candidates = 10_000
    max_limit = 10_000

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        try:
            import faiss
        except ImportError as missing:
            raise ImportError('FaissRanker needs faiss: pip install "stackroom[faiss]"') from missing

        def make(dimension: int, file: Path | None) -> _Flat:
            return _Flat(faiss, dimension, file)

        self._indexes = TenantIndexes(make, path)
        self.durable_id = self._indexes.durable_id

    def rank_by_similarity(
        self, *, tenant_id: str, query: NDArray[np.float32], candidate_ids: Sequence[str] | None, limit: int
    ) -> list[Ranked]:
        """Return the candidates nearest to `query`, by their cosine."""
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


class _Flat:
    """A flat index and the label of each of its rows; −1 is a tombstone."""

    def __init__(self, faiss: Any, dimension: int, file: Path | None) -> None:
        self._faiss = faiss
        self._dimension = dimension
        self._row_of: dict[int, int] = {}
        self._labels: list[int] = []
        self._index = faiss.IndexFlatIP(dimension)
        if file is not None:
            self._index = faiss.read_index(str(file))
            self._labels = np.load(file.with_suffix(".index.labels.npy")).tolist()
            self._row_of = {label: row for row, label in enumerate(self._labels) if label >= 0}

    def put(self, label: int, vector: NDArray[np.float32]) -> None:
        self._row_of[label] = len(self._labels)
        self._labels.append(label)
        self._index.add(vector[None, :])

    def remove(self, label: int) -> None:
        self._labels[self._row_of.pop(label)] = -1
        tombstones = len(self._labels) - len(self._row_of)
        if tombstones > _FEW and 3 * tombstones > len(self._labels):
            self._compact()

    def _compact(self) -> None:
        rows = [row for row, label in enumerate(self._labels) if label >= 0]
        kept = self._index.reconstruct_n(0, len(self._labels))[rows]
        self._labels = [self._labels[row] for row in rows]
        self._row_of = {label: row for row, label in enumerate(self._labels)}
        self._index = self._faiss.IndexFlatIP(self._dimension)
        self._index.add(kept)

    def nearest(
        self, query: NDArray[np.float32], limit: int, labels: NDArray[np.int64] | None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        selected = self._selected(labels)
        options = {} if selected is None else {"params": self._faiss.SearchParameters(sel=selected)}
        scores, rows = self._index.search(query[None, :], limit, **options)
        is_there = rows[0] >= 0
        return np.asarray(self._labels, dtype=np.int64)[rows[0][is_there]], scores[0][is_there]

    def _selected(self, labels: NDArray[np.int64] | None) -> Any:
        """Return what selects the rows of some labels, or all that are no tombstones; None when that is every row."""
        if labels is None and len(self._row_of) == len(self._labels):
            return None
        wanted = np.zeros(len(self._labels) + 7, dtype=np.bool_)
        wanted[
            list(self._row_of.values()) if labels is None else [self._row_of[label] for label in labels.tolist()]
        ] = True
        return self._faiss.IDSelectorBitmap(np.packbits(wanted, bitorder="little"))

    def save(self, file: Path) -> None:
        self._faiss.write_index(self._index, str(file))
        np.save(file.with_suffix(".index.labels.npy"), np.asarray(self._labels, dtype=np.int64))
