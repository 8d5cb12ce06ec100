"""ExactRanker: every vector compared, in memory. Slow, certain, and what other rankers are measured by."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from stackroom.rankers._protocol import Ranked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class _Tenant:
    """Vectors in rows, and which id lies in which; a row that was given back is the next to be taken."""

    def __init__(self, dimension: int) -> None:
        self.vectors = np.zeros((16, dimension), dtype=np.float32)
        self.rows: dict[str, int] = {}
        self.ids: list[str | None] = []
        self.free: list[int] = []

    def put(self, passage_id: str, vector: NDArray[np.float32]) -> None:
        row = self.rows.get(passage_id)
        if row is None:
            row = self._new_row(passage_id)
        self.vectors[row] = vector

    def _new_row(self, passage_id: str) -> int:
        if self.free:
            row = self.free.pop()
            self.ids[row] = passage_id
        else:
            row = len(self.ids)
            self.ids.append(passage_id)
            if row == len(self.vectors):
                self.vectors = np.concatenate([self.vectors, np.zeros_like(self.vectors)])
        self.rows[passage_id] = row
        return row

    def remove(self, passage_id: str) -> None:
        row = self.rows.pop(passage_id, None)
        if row is not None:
            self.ids[row] = None
            self.vectors[row] = 0
            self.free.append(row)


class ExactRanker:
    """Brute force in NumPy, the reference for the others: held in memory, empty in every process.

    Answers at most `limit` candidates by cosine, highest first, ties by id. Safe to call from any thread.
    """

    max_limit = 1_000_000
    durable_id: str | None = None

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tenants: dict[str, _Tenant] = {}

    def rank_by_similarity(
        self, *, tenant_id: str, query: NDArray[np.float32], candidate_ids: Sequence[str] | None, limit: int
    ) -> list[Ranked]:
        """Return the candidates that are held, by their cosine to `query`."""
        with self._lock:
            tenant = self._tenants.get(tenant_id)
            if tenant is None:
                return []
            wanted = tenant.rows if candidate_ids is None else candidate_ids
            pairs = [(passage_id, tenant.rows[passage_id]) for passage_id in wanted if passage_id in tenant.rows]
            scores = tenant.vectors[[row for _, row in pairs]] @ query
        kept: Sequence[int] = range(len(pairs))
        if limit < len(pairs):
            least = np.partition(scores, len(scores) - limit)[len(scores) - limit]
            kept = np.flatnonzero(scores >= least).tolist()
        ranked = [Ranked(pairs[place][0], float(scores[place])) for place in kept]
        return sorted(ranked, key=lambda item: (-item.score, item.id))[:limit]

    def on_embedding_persisted(self, *, tenant_id: str, passage_id: str, vector: NDArray[np.float32] | None) -> None:
        """Keep a passage's vector, or forget it."""
        with self._lock:
            if vector is None:
                if tenant_id in self._tenants:
                    self._tenants[tenant_id].remove(passage_id)
            else:
                self._tenants.setdefault(tenant_id, _Tenant(len(vector))).put(passage_id, vector)

    def forget_tenant(self, *, tenant_id: str) -> None:
        """Forget all of a tenant."""
        with self._lock:
            self._tenants.pop(tenant_id, None)

    def close(self) -> None:
        """Forget everything. Twice is fine."""
        with self._lock:
            self._tenants.clear()
