"""HashingEmbedder: vectors without a model, the same on every machine."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from stackroom.embedders._protocol import Fingerprint
from stackroom.text import lexical_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_LONGEST_KEPT: Final = 32
"""Characters of words whose hash is kept for the next text."""


@dataclass(frozen=True, slots=True)
class HashingEmbedder:
    """Counts the words of a text in slots chosen by their hash: for tests and smoke runs, blind to meaning.

    ``dimension`` is an int of 1 to 65,536, else ValueError. Fully defined (id ``hashing-v1``), so vectors agree on
    every machine and in every process: each word of ``lexical_tokens`` adds +1 or -1 to one slot; a text whose sum
    is all zeros, or that has no word, has a 1 at the slot of the whole text. Unit length, float32.
    """

    dimension: int = 256

    max_input_chars: ClassVar[int] = 1_000_000
    max_concurrency: ClassVar[int] = 1
    provider: ClassVar[str] = "hashing"

    def __post_init__(self) -> None:
        Fingerprint("hashing-v1", self.dimension)

    @property
    def fingerprint(self) -> Fingerprint:
        """``hashing-v1`` and the dimension."""
        return Fingerprint("hashing-v1", self.dimension)

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one unit-length vector a text, shape (n, dimension)."""
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            vectors[row] = self.embed_query(text)
        return vectors

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the unit-length vector of a text, shape (dimension,); queries and passages are alike."""
        counts = np.zeros(self.dimension, dtype=np.float64)
        for word, times in Counter(lexical_tokens(text)).items():
            hashed = _hash_of_word(word) if len(word) <= _LONGEST_KEPT else _hash(word)
            counts[hashed % self.dimension] += -times if hashed >> 63 else times
        if not counts.any():
            counts[slot_of(text, self.dimension)] = 1.0
        # Sums of squared whole numbers are exact in float64, in whatever order a machine adds them.
        vector: NDArray[np.float32] = (counts / np.sqrt(np.square(counts).sum())).astype(np.float32)
        return vector


def slot_of(text: str, dimension: int) -> int:
    """Return where the vector of a text without words has its 1."""
    return _hash(text) % dimension


@lru_cache(maxsize=65_536)
def _hash_of_word(word: str) -> int:
    return _hash(word)


def _hash(text: str) -> int:
    """Return the 8-byte BLAKE2b digest of a text's UTF-8 bytes as a little-endian integer."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
