"""BM25 as every store ranks by it (k1 = 1.2, b = 0.75, length measured against 128 terms; Robertson & Zaragoza 2009).

A passage's share of a term's score, its impact, never changes when other passages are written, so it may be kept.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

K1: Final = 1.2
B: Final = 0.75
PIVOT: Final = 128
"""The length, in terms, that counts as usual."""


def impacts(frequencies: Any, lengths: Any) -> NDArray[np.float32]:
    """Return tf · (k1 + 1) / (tf + k1 · (1 − b + b · length / 128)) for terms that stand `frequencies` times.

    Rounded to float32, by every store alike, so that they may be kept small and scores still agree bit for bit; a
    score is off by less than 1e-7 of itself.
    """
    frequency = np.asarray(frequencies, dtype=np.float64)
    length = np.asarray(lengths, dtype=np.float64)
    exact = frequency * (K1 + 1) / (frequency + K1 * (1 - B + B * length / PIVOT))
    return np.asarray(exact, dtype=np.float32)


def idf(passages: int, holding: int) -> float:
    """Return ln(1 + (N − n + 0.5) / (n + 0.5)) for a term that `holding` of a tenant's `passages` hold."""
    return math.log(1 + (passages - holding + 0.5) / (holding + 0.5))
