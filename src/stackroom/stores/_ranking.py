"""Cosine by definition, and the total order of matches: one road for every store that ranks in Python.

The same vector gives the same score bit for bit wherever it is stored: sums run along each row on its own, never in a
matrix product whose blocks depend on where a row lies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_RUNS_A_PLACE = 16
_SLICE = 4096
"""Rows that are widened to float64 at a time: bounds memory."""


def power_scaled(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return rows, shape (n, dimension), divided by a power of two each, so that their largest number is in [0.5, 1).

    Cosines do not change by a bit, and no sum of squares overflows or vanishes in float32.
    """
    _, exponents = np.frexp(np.abs(vectors).max(axis=1, initial=0.0))
    return np.asarray(np.ldexp(vectors, -exponents[:, None]), dtype=np.float32)


def unit(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a vector that is not all zeros at length 1, whatever its own length."""
    _, exponent = np.frexp(np.abs(vector).max())
    scaled = np.ldexp(vector, -exponent)
    length = np.sqrt(np.add.reduce(scaled * scaled))
    return np.asarray(scaled / length, dtype=np.float64)


def row_norms(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the Euclidean length of each row, in float64; 1 for a row of zeros, which no record holds."""
    norms = np.empty(len(rows), dtype=np.float64)
    for start in range(0, len(rows), _SLICE):
        wide = rows[start : start + _SLICE].astype(np.float64)
        norms[start : start + _SLICE] = np.sqrt(np.add.reduce(wide * wide, axis=1))
    return np.where(norms > 0, norms, 1.0)


def cosines(rows: NDArray[np.float32], norms: NDArray[np.float64], query: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cosine of each row, shape (n, dimension), to a `query` of length 1: float64 in [−1, 1].

    `norms` are the rows' lengths.
    """
    scores = np.empty(len(rows), dtype=np.float64)
    for start in range(0, len(rows), _SLICE):
        wide = rows[start : start + _SLICE].astype(np.float64)
        scores[start : start + _SLICE] = np.add.reduce(wide * query, axis=1)
    return np.clip(scores / norms, -1.0, 1.0)


def lowest_of_best(scores: NDArray[Any], limit: int) -> float:
    """Return the score of the last of the best `limit`; there must be more than so many.

    Of many scores only those are sorted out that reach the `limit`-th best of the maxima of runs: no fewer are better.
    """
    width = len(scores) // (_RUNS_A_PLACE * limit)
    if width > 1:
        maxima = scores[: len(scores) // width * width].reshape(-1, width).max(axis=1)
        scores = scores[scores >= np.partition(maxima, len(maxima) - limit)[len(maxima) - limit]]
    return float(np.partition(scores, len(scores) - limit)[len(scores) - limit])


def best(scores: NDArray[np.float64], limit: int, tie_key: Callable[[int], tuple[str, str]]) -> list[int]:
    """Return the positions of the `limit` best scores: score down, then `tie_key` (id, tenant) up. Ties are exact."""
    kept = np.arange(len(scores))
    if limit < len(scores):
        kept = np.flatnonzero(scores >= lowest_of_best(scores, limit))
    order = kept[np.argsort(-scores[kept], kind="stable")]
    falls = np.flatnonzero(np.diff(scores[order])) + 1
    if len(falls) + 1 < len(order):  # only then is there a tie to break
        return [place for tied in np.split(order, falls) for place in sorted(tied.tolist(), key=tie_key)][:limit]
    return [int(place) for place in order[:limit]]
