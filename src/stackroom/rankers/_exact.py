"""ExactRanker: every vector compared, in memory. Slow, certain, and what other rankers are measured by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stackroom.rankers._indexes import TenantIndexes

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from stackroom.rankers._protocol import Ranked


class ExactRanker:
    """Brute force in NumPy, the reference for the others: in memory; with `path`, a directory where `close` saves it.

    Answers at most `limit` candidates by cosine, highest first, ties by id. Safe to call from any thread.
    """

    max_candidates = 10_000
    max_limit = 1_000_000
    durable_id: str | None = None

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._indexes = TenantIndexes(_Rows, path)
        if path is not None:
            self.durable_id = self._indexes.durable_id

    def rank_by_similarity(
        self, *, tenant_id: str, query: NDArray[np.float32], candidate_ids: Sequence[str] | None, limit: int
    ) -> list[Ranked]:
        """Return the candidates that are held, by their cosine to `query`."""
        found = self._indexes.rank(tenant_id, query, candidate_ids, limit)
        return sorted(found, key=lambda item: (-item.score, item.id))[:limit]

    def on_embedding_persisted(self, *, tenant_id: str, passage_id: str, vector: NDArray[np.float32] | None) -> None:
        """Keep a passage's vector, or forget it."""
        self._indexes.tell(tenant_id, passage_id, vector)

    def forget_tenant(self, *, tenant_id: str) -> None:
        """Forget all of a tenant."""
        self._indexes.forget(tenant_id)

    def close(self) -> None:
        """Save what is held, where there is a path. Twice is fine."""
        self._indexes.close()


class _Rows:
    """Vectors in rows, and the label of each, −1 for none; a row that was given back is the next to be taken."""

    def __init__(self, dimension: int, file: Path | None) -> None:
        self._vectors = np.zeros((16, dimension), dtype=np.float32)
        self._labels = np.full(16, -1, dtype=np.int64)
        if file is not None:
            with np.load(file) as saved:
                self._vectors, self._labels = saved["vectors"], saved["labels"]
        self._row_of = {label: row for row, label in enumerate(self._labels.tolist()) if label >= 0}
        self._free = np.flatnonzero(self._labels < 0)[::-1].tolist()

    def put(self, label: int, vector: NDArray[np.float32]) -> None:
        if not self._free:
            self._free = list(range(2 * len(self._labels) - 1, len(self._labels) - 1, -1))
            self._vectors = np.concatenate([self._vectors, np.zeros_like(self._vectors)])
            self._labels = np.concatenate([self._labels, np.full_like(self._labels, -1)])
        row = self._free.pop()
        self._row_of[label], self._labels[row], self._vectors[row] = row, label, vector

    def remove(self, label: int) -> None:
        row = self._row_of.pop(label)
        self._labels[row], self._vectors[row] = -1, 0
        self._free.append(row)

    def nearest(
        self, query: NDArray[np.float32], limit: int, labels: NDArray[np.int64] | None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the `limit` nearest, in no order, and all that tie with the last of them."""
        if labels is None:
            is_there = self._labels >= 0
            labels, scores = self._labels[is_there], (self._vectors @ query)[is_there]
        else:
            scores = self._vectors[[self._row_of[label] for label in labels.tolist()]] @ query
        if limit < len(scores):
            kept = scores >= np.partition(scores, len(scores) - limit)[len(scores) - limit]
            labels, scores = labels[kept], scores[kept]
        return labels, scores

    def save(self, file: Path) -> None:
        with file.open("wb") as opened:
            np.savez(opened, vectors=self._vectors, labels=self._labels)
