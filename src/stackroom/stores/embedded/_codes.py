"""One-bit codes: a vector is centred, rotated at random, and each number kept as its sign.

Which of many vectors are near a query is guessed by the Hamming distance of codes and then settled by the vectors
themselves. How many must be looked at is measured on the shard's own vectors (`calibrated`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

Codes = NDArray[np.uint64]
Distances = NDArray[np.unsignedinteger[Any]]

BLOCK: Final = 8192
"""Rows whose codes lie together: for each 64 bits of a code, a run of as many words."""

_ROTATED_AT_ONCE: Final = 512
"""Dimensions that are mixed with each other; a rotation of 65,536 at once would not fit into memory."""

_QUERIES: Final = 64
_NEAREST: Final = 10
_LONG: Final = 50

_FEW_WORDS: Final = 3
"""So many words' counts add up within a byte."""

_FEWEST: Final = 400
_FRACTIONS: Final = (1.0, 0.25, 0.0625)
_SAFETY: Final = 1.5
_SLICE: Final = 16_384


@dataclass(frozen=True)
class Quantiser:
    """How codes are made: the mean that is taken off and the seed of the rotation, and how far they can be trusted.

    `candidates` are pairs (rows allowed, candidates needed), by rows; empty when the codes are not to be trusted.
    """

    epoch: int
    seed: int
    mean: NDArray[np.float32]
    centred: int
    calibrated: int = 0
    candidates: tuple[tuple[int, int], ...] = ()

    @property
    def words(self) -> int:
        """How many uint64 words a code has."""
        return -(-len(self.mean) // 64)

    @cached_property
    def _stages(self) -> list[tuple[NDArray[np.int64], NDArray[np.float32], list[NDArray[np.float32]]]]:
        """Two rounds of a random rotation: an order, signs, and an orthogonal matrix for each run of dimensions."""
        chance = np.random.default_rng(self.seed)
        dimension = len(self.mean)
        matrices = [_hadamard(size) for size in _powers_of_two(dimension)]
        return [
            (chance.permutation(dimension), chance.choice(np.array([-1, 1], dtype=np.float32), dimension), matrices)
            for _ in range(2)
        ]

    def encode(self, rows: NDArray[np.float32]) -> Codes:
        """Return the codes of rows, shape (n, words)."""
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        turned = rows / np.where(norms > 0, norms, 1)[:, None] - self.mean
        for order, signs, matrices in self._stages:
            turned = turned[:, order] * signs
            first = 0
            for matrix in matrices:
                turned[:, first : first + len(matrix)] = turned[:, first : first + len(matrix)] @ matrix
                first += len(matrix)
        bits = np.zeros((len(rows), self.words * 64), dtype=np.bool_)
        np.greater(turned, 0, out=bits[:, : turned.shape[1]])
        return np.packbits(bits, axis=1, bitorder="little").view("<u8")

    def needed(self, allowed: int, limit: int) -> int | None:
        """Return how many candidates the best `limit` of `allowed` rows need at first, or None: look at all.

        The most that any part needed when it was measured, and more in proportion where more rows are allowed.
        """
        if not self.candidates:
            return None
        growth = max(1.0, allowed / self.candidates[-1][0])
        wanted = int(max(needed for _, needed in self.candidates) * growth * max(1.0, limit / _LONG))
        return wanted if wanted <= allowed // 3 else None

    @property
    def stored(self) -> tuple[int, int, int, bytes, int, int, str]:
        """What the database keeps of it."""
        mean = self.mean.astype("<f4").tobytes()
        return 1, self.epoch, self.seed, mean, self.centred, self.calibrated, json.dumps(self.candidates)


def _powers_of_two(dimension: int) -> list[int]:
    """Return powers of two, none above 512, that together are `dimension`."""
    whole, rest = divmod(dimension, _ROTATED_AT_ONCE)
    return [_ROTATED_AT_ONCE] * whole + [1 << bit for bit in range(rest.bit_length() - 1, -1, -1) if rest >> bit & 1]


def _hadamard(size: int) -> NDArray[np.float32]:
    """Return Sylvester's Hadamard matrix of a power of two, scaled to be orthogonal."""
    places = np.arange(size)
    is_odd = np.bitwise_count(places[:, None] & places) & 1
    signs = 1 - 2 * is_odd.astype(np.float32)
    return np.asarray(signs / np.sqrt(np.float32(size)), dtype=np.float32)


def quantiser_of(stored: Sequence[object]) -> Quantiser:
    """Return the quantiser that the database keeps."""
    _, epoch, seed, mean, centred, calibrated, candidates = stored
    pairs = tuple((int(rows), int(needed)) for rows, needed in json.loads(str(candidates)))
    numbers = np.frombuffer(mean, dtype="<f4")  # type: ignore[call-overload] # bytes
    return Quantiser(int(str(epoch)), int(str(seed)), numbers, int(str(centred)), int(str(calibrated)), pairs)


def mean_of(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the mean of rows scaled to unit length; rows of zeros (unused ones) count as nothing."""
    total = np.zeros(rows.shape[1], dtype=np.float64)
    for first in range(0, len(rows), _SLICE):
        part = rows[first : first + _SLICE]
        norms = np.sqrt(np.einsum("ij,ij->i", part, part))
        total += (part / np.where(norms > 0, norms, 1)[:, None]).sum(axis=0, dtype=np.float64)
    return (total / max(1, len(rows))).astype(np.float32)


def blocks_of(codes: Codes) -> Codes:
    """Return codes, shape (n · BLOCK, words), as they lie in the file: (n, words, BLOCK)."""
    return np.ascontiguousarray(codes.reshape(-1, BLOCK, codes.shape[1]).transpose(0, 2, 1))


def distances(blocks: Codes, code: Codes) -> Distances:
    """Return the Hamming distance of every row of blocks, shape (n, words, BLOCK), to a code, shape (words,)."""
    found = np.zeros((len(blocks), blocks.shape[2]), dtype=_counter(code))
    word = np.empty(blocks.shape[2], dtype=np.uint64)
    count, sum_of_few = np.empty((2, blocks.shape[2]), dtype=np.uint8)
    for block, of_block in zip(blocks, found, strict=True):
        for first in range(0, len(code), _FEW_WORDS):
            np.bitwise_count(np.bitwise_xor(block[first], code[first], out=word), out=sum_of_few)
            for number in range(first + 1, min(first + _FEW_WORDS, len(code))):
                np.bitwise_count(np.bitwise_xor(block[number], code[number], out=word), out=count)
                np.add(sum_of_few, count, out=sum_of_few)
            np.add(of_block, sum_of_few, out=of_block)
    return found.ravel()


def distances_of(blocks: Codes, rows: NDArray[np.int64], code: Codes) -> Distances:
    """Return the Hamming distance of some rows of blocks to a code."""
    flat = blocks.reshape(-1)
    words = len(code)
    places = (rows // BLOCK) * (words * BLOCK) + rows % BLOCK
    found = np.zeros(len(rows), dtype=_counter(code))
    for number in range(words):
        found += np.bitwise_count(flat.take(places + number * BLOCK) ^ code[number])
    return found


def _counter(code: Codes) -> type[np.uint16 | np.uint32]:
    """Return what counts all bits of a code without overflow."""
    return np.uint16 if 64 * len(code) <= np.iinfo(np.uint16).max else np.uint32


def calibrated(
    quantiser: Quantiser, rows: NDArray[np.float32], blocks: Codes, live: NDArray[np.int64]
) -> tuple[tuple[int, int], ...]:
    """Measure on stored vectors, held out as queries, how many candidates find the ten nearest 999 times in 1,000.

    Random parts of the rows stand for scopes. `live` are the rows that may be used, ascending.
    """
    chance = np.random.default_rng(quantiser.seed + 1)
    queries = chance.choice(live, min(_QUERIES, len(live)), replace=False)
    codes = quantiser.encode(rows[queries])
    pairs = {}
    for fraction in _FRACTIONS:
        part = live if fraction == 1 else np.sort(chance.choice(live, int(len(live) * fraction), replace=False))
        if len(part) >= max(BLOCK // 2, 2 * _LONG):
            nearest = _nearest(rows, part, queries)
            ranks = [
                _ranks(distances_of(blocks, part, code), order) for code, order in zip(codes, nearest, strict=True)
            ]
            pairs[len(part)] = _enough(np.asarray(ranks))
    return tuple(sorted(pairs.items()))


def _nearest(rows: NDArray[np.float32], part: NDArray[np.int64], queries: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return for each query the places, within `part`, of its nearest rows, itself left out, nearest first."""
    wanted = rows[queries]
    scores = np.empty((len(part), len(queries)), dtype=np.float32)
    for first in range(0, len(part), _SLICE):
        some = rows[part[first : first + _SLICE]]
        scores[first : first + _SLICE] = (some @ wanted.T) / np.sqrt(np.einsum("ij,ij->i", some, some))[:, None]
    scores[np.isin(part, queries)] = np.where(
        part[np.isin(part, queries)][:, None] == queries[None, :], -np.inf, scores[np.isin(part, queries)]
    )
    found = []
    for number in range(len(queries)):
        top = np.argpartition(scores[:, number], -_LONG)[-_LONG:]
        found.append(top[np.argsort(-scores[top, number])])
    return found


def _ranks(distance: Distances, nearest: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many rows are at least as near by code as each of the nearest by vector."""
    reached = np.cumsum(np.bincount(distance))
    return np.asarray(reached[distance[nearest]], dtype=np.int64)


def _enough(ranks: NDArray[np.int64]) -> int:
    near = np.quantile(ranks[:, :_NEAREST], 0.999)
    return int(max(_SAFETY * near, np.quantile(ranks, 0.99), _FEWEST))
