"""How the kit feeds a ranker and asks it: within its own bounds, as a store does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

DIMENSION = 64


def unit_vectors(number: int, seed: int = 1) -> NDArray[np.float32]:
    """Return clustered vectors of length 1, shape (number, 64): the same for the same seed."""
    chance = np.random.default_rng((7, seed))
    centres = np.random.default_rng(7).standard_normal((100, DIMENSION))
    rows = centres[chance.integers(0, 100, number)] + 0.5 * chance.standard_normal((number, DIMENSION))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def tell(ranker: Any, passage_id: str, vector: NDArray[np.float32] | None, tenant_id: str = "t") -> None:
    """Tell a ranker of a passage, with a vector that it may keep or change."""
    own = None if vector is None else vector.copy()
    ranker.on_embedding_persisted(tenant_id=tenant_id, passage_id=passage_id, vector=own)


def feed(ranker: Any, vectors: NDArray[np.float32], tenant_id: str = "t", name: str = "s") -> list[str]:
    """Tell a ranker of vectors; return their ids."""
    ids = [f"{name}#{place}" for place in range(len(vectors))]
    for passage_id, vector in zip(ids, vectors, strict=True):
        tell(ranker, passage_id, vector, tenant_id)
    return ids


def most_listed(ranker: Any) -> int:
    """Return the longest `candidate_ids` that a ranker takes."""
    return int(getattr(ranker, "max_candidates", 10_000))


def most_asked(ranker: Any) -> int:
    """Return the largest `limit` that a ranker takes."""
    return int(getattr(ranker, "max_limit", 10_000))


def ask(
    ranker: Any,
    query: NDArray[np.float32],
    candidate_ids: Sequence[str] | None = None,
    limit: int = 10,
    tenant_id: str = "t",
) -> list[tuple[str, float]]:
    """Ask a ranker; return what it answers as pairs.

    Beyond its bounds it is not asked: more candidates are listed slice by slice, and of a whole tenant no more than
    `max_limit` are asked for. An answer of more than was asked for is a failure.
    """
    if candidate_ids is None:
        return _asked(ranker, query, None, min(limit, most_asked(ranker)), tenant_id)
    size = most_listed(ranker) if limit <= most_asked(ranker) else min(most_listed(ranker), most_asked(ranker))
    if len(candidate_ids) <= size:
        return _asked(ranker, query, tuple(candidate_ids), min(limit, most_asked(ranker)), tenant_id)
    found: list[tuple[str, float]] = []
    for first in range(0, len(candidate_ids), size):
        some = tuple(candidate_ids[first : first + size])
        found += _asked(ranker, query, some, min(limit, most_asked(ranker)), tenant_id)
    return sorted(found, key=lambda pair: -pair[1])[:limit]


def _asked(
    ranker: Any, query: NDArray[np.float32], listed: tuple[str, ...] | None, limit: int, tenant_id: str
) -> list[tuple[str, float]]:
    answer = ranker.rank_by_similarity(tenant_id=tenant_id, query=query.copy(), candidate_ids=listed, limit=limit)
    pairs = [(passage_id, float(score)) for passage_id, score in answer]
    assert len(pairs) <= limit, f"{len(pairs)} passages were answered to a limit of {limit}"
    if listed is not None:
        assert {passage_id for passage_id, _ in pairs} <= set(listed), "a passage was answered that was not listed"
    return pairs


def reach(ranker: Any, candidate_ids: Sequence[str] | None, number: int) -> int:
    """Return how many of so many passages `ask` can be answered: of a whole tenant, at most `max_limit`."""
    return number if candidate_ids is not None else min(number, most_asked(ranker))


def ids_of(answer: list[tuple[str, float]]) -> list[str]:
    """Return the ids of an answer."""
    return [passage_id for passage_id, _ in answer]


def scored(passage_id: str, score: float) -> Any:
    """Return what equals a pair of this id and about this score."""
    return passage_id, pytest.approx(score, abs=1e-3)
