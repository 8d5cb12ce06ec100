"""Recall of PostgresStore's dense search by scope size, where groups have nothing to do with topics and where they do.

`python benchmarks/postgres.py --recall` calls this. One tenant; 1,000 topics that lie in four fields; of each size,
three groups: `random` sources, those of neighbouring topics (`own`), and those of topics from everywhere (`scattered`).
Every question is about a topic drawn from all, so that most are about one that a narrow scope does not hold.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from corpus import DIMENSION, RANK, TOPICS, Corpus

from stackroom.filters import And, Eq, In
from stackroom.stores import CollectionSpec, PostgresStore, Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


SIZES = {"0.1 %": 0.001, "1 %": 0.01, "10 %": 0.1, "25 %": 0.25, "100 %": 1.0}
KINDS = ("random", "own", "scattered")
FIELDS = 4
PER_SOURCE = 10
TENANT = Eq("tenantId", "t")


class Fields:
    """The corpus: sources of ten passages, of topics that lie in fields."""

    def __init__(self, passages: int) -> None:
        self._texts = Corpus(passages)
        self._chance = np.random.default_rng(7)
        of_fields = self._chance.standard_normal((FIELDS, RANK))
        place = np.arange(TOPICS) * FIELDS // TOPICS
        self._centres = (of_fields[place] + self._chance.standard_normal((TOPICS, RANK))).astype(np.float32)
        self._basis = self._chance.standard_normal((RANK, DIMENSION)).astype(np.float32)
        self._order = self._chance.permutation(TOPICS)

    def sources(self) -> Iterator[list[Record]]:
        """Yield the sources, each a list of records."""
        for number in range(self._texts.passages // PER_SOURCE):
            topic = int(self._chance.integers(0, TOPICS))
            groups: Any = list(self._groups(topic))
            vectors = self.vectors(np.full(PER_SOURCE, topic))
            yield [
                Record(
                    self._texts.text(self._chance, topic),
                    vector,
                    {"tenantId": "t", "sourceId": f"s{number}", "index": index, "aclGroups": groups},
                )
                for index, vector in enumerate(vectors)
            ]

    def _groups(self, topic: int) -> Iterator[str]:
        for size, share in SIZES.items():
            if self._chance.random() < share:
                yield f"random {size}"
            if topic < TOPICS * share:
                yield f"own {size}"
            if self._order[topic] < TOPICS * share:
                yield f"scattered {size}"

    def questions(self, number: int) -> NDArray[np.float32]:
        """Return vectors near topics from everywhere."""
        return self.vectors(self._chance.integers(0, TOPICS, number))

    def vectors(self, topics: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return unit vectors near their topics'."""
        place = self._centres[topics] + 0.45 * self._chance.standard_normal((len(topics), RANK))
        rows = place @ self._basis + 0.6 * self._chance.standard_normal((len(topics), DIMENSION))
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def measure(dsn: str, passages: int, number: int, exact_limit: int) -> None:
    """Load, then print for each scope what is allowed, and recall@10 and medians beside a search that compares all."""
    store = PostgresStore(dsn, vector_index=False, exact_limit=exact_limit)
    exact = PostgresStore(dsn, exact=True)
    fields = Fields(passages)
    store.create_collection("recall", CollectionSpec(DIMENSION, "given"))
    batch: list[Record] = []
    for records in fields.sources():
        batch += records
        if len(batch) >= 2_000:
            _write(store, batch)
            batch = []
    _write(store, batch)
    store.build_vector_index("recall")
    exact._database.outside("VACUUM ANALYZE")  # noqa: SLF001 - what autovacuum does within a minute
    questions = fields.questions(number)
    print("\n| groups | scope | allowed passages | recall@10 | lowest | p50 ms | all compared |")
    print("|---|---|---|---|---|---|---|")
    for kind in KINDS:
        for size in SIZES:
            _print_scope(store, exact, kind, size, questions)


def _write(store: PostgresStore, batch: list[Record]) -> None:
    if batch:
        sources = list({record.source_id for record in batch})
        store.replace("recall", batch, where=And(TENANT, In("sourceId", sources)))


def _print_scope(
    store: PostgresStore, exact: PostgresStore, kind: str, size: str, questions: NDArray[np.float32]
) -> None:
    where = And(TENANT, In("aclGroups", [f"{kind} {size}"]))
    recalls, spent, spent_exactly = [], [], []
    for number, question in enumerate(questions):
        found, took = _timed(store, where, question)
        best, took_exactly = _timed(exact, where, question)
        if number >= 3:
            recalls.append(len(found & best) / max(len(best), 1))
            spent.append(took)
            spent_exactly.append(took_exactly)
    print(
        f"| {kind} | {size} | {store.count('recall', where=where):,} | {statistics.mean(recalls):.3f} | "
        f"{min(recalls):.1f} | {statistics.median(spent):.1f} | {statistics.median(spent_exactly):.1f} |",
        flush=True,
    )


def _timed(store: PostgresStore, where: And, question: NDArray[np.float32]) -> tuple[set[str], float]:
    begin = time.perf_counter()
    found = {match.id for match in store.dense("recall", question, where=where, limit=10)}
    return found, 1000 * (time.perf_counter() - begin)
