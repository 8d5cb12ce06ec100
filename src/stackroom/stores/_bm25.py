"""BM25 as every store ranks by it (k1 = 1.2, b = 0.75, length measured against 128 terms; Robertson & Zaragoza 2009).

A passage's share of a term's score, its impact, never changes when other passages are written, so it may be kept.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, overload

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

K1: Final = 1.2
B: Final = 0.75
PIVOT: Final = 128
"""The length, in terms, that counts as usual."""


@overload
def impact(frequency: float, length: int) -> float: ...
@overload
def impact(frequency: NDArray[np.int64], length: NDArray[np.int64]) -> NDArray[np.float64]: ...
def impact(frequency: Any, length: Any) -> Any:
    """Return tf · (k1 + 1) / (tf + k1 · (1 − b + b · length / 128)) for a term that stands `frequency` times.

    Numbers and arrays take the same operations in the same order, so they agree bit for bit.
    """
    return frequency * (K1 + 1) / (frequency + K1 * (1 - B + B * length / PIVOT))


def idf(passages: int, holding: int) -> float:
    """Return ln(1 + (N − n + 0.5) / (n + 0.5)) for a term that `holding` of a tenant's `passages` hold."""
    return math.log(1 + (passages - holding + 0.5) / (holding + 0.5))
