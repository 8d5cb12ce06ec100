"""A seeded corpus: passages of Zipf words, clustered vectors, skewed tenants and groups; and scopes of known shares.

The same arguments give the same corpus on every machine with the same NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from stackroom import MetadataValue, Scope
from stackroom.stores import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

DIMENSION = 384
WORDS = 50_000
TOPICS = 1_000
TENANTS = 50
GROUPS = 200
RANK = 48
WIDE = 0.1
SHARES = (0.0001, 0.001, 0.01, 0.1, 0.25)


@dataclass(frozen=True)
class Corpus:
    """`passages` passages, about ten a source, in 50 tenants of which the largest has 30 %."""

    passages: int
    seed: int = 1

    @cached_property
    def vocabulary(self) -> list[str]:
        """The words, commonest first: two to four syllables."""
        chance = np.random.default_rng(self.seed)
        syllables = [c + v for c in "bcdfghjklmnprstvwz" for v in "aeiou"]
        words: dict[str, None] = {}
        while len(words) < WORDS:
            picked = chance.integers(0, len(syllables), 4)
            words["".join(syllables[i] for i in picked[: chance.integers(2, 5)])] = None
        return list(words)

    @cached_property
    def tenant_sizes(self) -> list[int]:
        """Passages a tenant: 30 % in the largest, the others by a Zipf law."""
        weights = 1 / np.arange(2, TENANTS + 1) ** 0.9
        rest = np.floor(0.7 * self.passages * weights / weights.sum()).astype(int)
        return [self.passages - int(rest.sum()), *rest.tolist()]

    @cached_property
    def _topics(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        chance = np.random.default_rng(self.seed + 1)
        basis = chance.standard_normal((RANK, DIMENSION)).astype(np.float32)
        return chance.standard_normal((TOPICS, RANK)).astype(np.float32), basis

    def sources(self, tenant: int) -> Iterator[list[Record]]:
        """Yield a tenant's sources, each a list of records, in a fixed order."""
        chance = np.random.default_rng((self.seed, tenant))
        left, number = self.tenant_sizes[tenant], 0
        while left > 0:
            size = min(left, int(chance.integers(5, 16)))
            yield self._source(chance, tenant, number, size)
            left, number = left - size, number + 1

    def _source(self, chance: np.random.Generator, tenant: int, number: int, size: int) -> list[Record]:
        topic = int(chance.integers(0, TOPICS))
        groups = self.groups(chance)
        metadata: dict[str, MetadataValue] = {
            "tenantId": f"tenant{tenant}",
            "sourceId": f"source{number}",
            "aclGroups": [f"group{group}" for group in groups],
            "status": "active",
            "kind": "doc" if number % 4 else "meeting",
            "folderId": f"folder{number % 37}",
            "tags": [f"tag{number % 11}"],
            "title": f"Source {number}",
        }
        vectors = self.vectors(chance, np.full(size, topic))
        return [
            Record(self.text(chance, topic), vector, {**metadata, "index": index})
            for index, vector in enumerate(vectors)
        ]

    def groups(self, chance: np.random.Generator) -> list[int]:
        """One to four groups; group 0 on half of the sources, the others by a Zipf law."""
        wanted = int(chance.integers(1, 5))
        picked = {0} if chance.random() < 0.5 else set()
        while len(picked) < wanted:
            picked.add(1 + int((GROUPS - 1) * chance.random() ** 4))
        return sorted(picked)

    def text(self, chance: np.random.Generator, topic: int) -> str:
        """Return 60–120 words: four in five from all by a Zipf law, the others from the topic's own fifty."""
        length = int(chance.integers(60, 121))
        common = np.minimum(chance.zipf(1.15, length) - 1, WORDS - 1)
        own = 200 + (topic * 50 + chance.integers(0, 50, length)) % (WORDS - 200)
        picked = np.where(chance.random(length) < 0.8, common, own)
        vocabulary = self.vocabulary
        return " ".join([vocabulary[word] for word in picked.tolist()])

    def vectors(self, chance: np.random.Generator, topics: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return unit vectors near their topics', shape (n, 384)."""
        centres, basis = self._topics
        place = centres[topics] + 0.45 * chance.standard_normal((len(topics), RANK)).astype(np.float32)
        rows = place @ basis + 0.6 * chance.standard_normal((len(topics), DIMENSION)).astype(np.float32)
        found: NDArray[np.float32] = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
        return found


@dataclass(frozen=True)
class Question:
    """What one search asks: who, with which words and which vector."""

    scope: Scope
    text: str
    vector: NDArray[np.float32]


def scopes(corpus: Corpus, share: float, number: int) -> list[Scope]:
    """Return scopes of one to ten groups in the largest tenant that see about `share` of all passages.

    Groups are drawn at random, and of many draws those are kept whose part of a sample of sources comes nearest.
    """
    chance = np.random.default_rng((corpus.seed, int(share * 1e6)))
    membership = _membership(corpus)
    wanted = min(share * corpus.passages / corpus.tenant_sizes[0], 1.0)
    drawn = []
    for _ in range(400):
        size = int(chance.integers(1, 11))
        first = int(chance.integers(0, GROUPS))
        picked = np.unique((first + chance.integers(0, GROUPS, size) * (chance.random() < 0.7)) % GROUPS)
        if share >= WIDE:
            picked = np.unique(np.append(picked, 0))
        seen = float(membership[:, picked].any(axis=1).mean())
        drawn.append((abs(seen - wanted), picked.tolist()))
    drawn.sort(key=lambda pair: pair[0])
    return [Scope("tenant0", [f"group{group}" for group in picked]) for _, picked in drawn[:number]]


def _membership(corpus: Corpus) -> NDArray[np.bool_]:
    """Return which groups may see each of some sources of the corpus, shape (sources, groups)."""
    chance = np.random.default_rng((corpus.seed, 99))
    found = np.zeros((20_000, GROUPS), dtype=np.bool_)
    for source in found:
        source[corpus.groups(chance)] = True
    return found
