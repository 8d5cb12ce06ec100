"""How the two legs of a hybrid search become one ranking."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Hashable


@dataclass(slots=True)
class Candidate:
    """A passage that at least one leg found, by its key, with what each leg says of it (ranks from 1)."""

    key: Hashable
    dense_score: float | None = None
    dense_rank: int | None = None
    lexical_score: float | None = None
    lexical_rank: int | None = None


@dataclass(frozen=True, slots=True)
class RRF:
    """Reciprocal rank fusion: Σ over the legs of 1 / (k + rank); a leg the passage is not in adds 0.

    Cormack, Clarke and Büttcher 2009. `k` is a finite number above 0, else ValueError.
    """

    needs_both_scores: ClassVar[bool] = False

    k: float = 60

    def __post_init__(self) -> None:
        if not _is_finite(self.k) or self.k <= 0:
            raise ValueError("RRF's k must be a finite number above 0")

    def score(self, candidate: Candidate, _best_lexical: float) -> float:
        """Return the fused score of a candidate."""
        ranks = (candidate.dense_rank, candidate.lexical_rank)
        return sum(1 / (self.k + rank) for rank in ranks if rank is not None)


@dataclass(frozen=True, slots=True)
class Weighted:
    """weight · max(0, cosine) + (1 − weight) · bm25 / M, M the best BM25 within scope and narrowing.

    Both scores are the passage's own, whichever leg found it. `weight` is a finite number of 0 to 1, else ValueError;
    1 ranks by cosine alone, 0 by BM25.
    """

    needs_both_scores: ClassVar[bool] = True

    weight: float

    def __post_init__(self) -> None:
        if not _is_finite(self.weight) or not 0 <= self.weight <= 1:
            raise ValueError("Weighted's weight must be a finite number of 0 to 1")

    def score(self, candidate: Candidate, best_lexical: float) -> float:
        """Return the fused score of a candidate; a leg that did not find or score it counts as 0."""
        lexical = (candidate.lexical_score or 0.0) / best_lexical if best_lexical > 0 else 0.0
        return self.weight * max(0.0, candidate.dense_score or 0.0) + (1 - self.weight) * lexical


Fusion: TypeAlias = RRF | Weighted


def check_fusion(fusion: object) -> Fusion:
    """Return `fusion` when it is one, else raise a ValueError."""
    if not isinstance(fusion, RRF | Weighted):
        raise ValueError(f"fusion must be RRF(…) or Weighted(…), not {type(fusion).__name__}")
    return fusion


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -math.inf < value < math.inf
