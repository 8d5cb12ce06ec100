"""Recall of PostgresStore where vectors leave a graph poorly connected: by default, and with an `exact_limit`.

`python benchmarks/postgres.py --graphs` calls this. One tenant; vectors are loaded in their order into the index. Of
every set, 60 questions near a passage drawn from all.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from stackroom.filters import And, Eq, In
from stackroom.stores import CollectionSpec, PostgresStore, Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

TENANT = Eq("tenantId", "t")
PER_WRITE, QUESTIONS = 1_000, 60

Rows: TypeAlias = "NDArray[np.float32]"


def _unit(rows: NDArray[np.float64]) -> Rows:
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True), dtype=np.float32)


def _boilerplate(chance: np.random.Generator, number: int, dimension: int, share: float) -> Rows:
    rows = _unit(chance.standard_normal((number, dimension)))
    rows[chance.random(number) < share] = rows[0]
    return rows


def _groups(chance: np.random.Generator, number: int, dimension: int, size: int, spread: float) -> Rows:
    centres = _unit(chance.standard_normal((number // size, dimension)))
    rows = np.repeat(centres, size, axis=0)
    return _unit(rows + spread * chance.standard_normal(rows.shape))


SETS: dict[str, tuple[Callable[[np.random.Generator], Rows], float]] = {
    "a third is one vector; 16,000 × 32": (lambda chance: _boilerplate(chance, 16_000, 32, 1 / 3), 0.3),
    "a fifth is one vector; 12,000 × 32": (lambda chance: _boilerplate(chance, 12_000, 32, 0.2), 0.3),
    "groups of 50 near duplicates; 16,000 × 32": (lambda chance: _groups(chance, 16_000, 32, 50, 0.01), 0.005),
    "groups of 50 near duplicates; 12,000 × 384": (lambda chance: _groups(chance, 12_000, 384, 50, 0.01), 0.0015),
}
"""What the vectors are, and how far from its passage a question lies."""


def measure(dsn: str) -> None:
    """Load each set, then print recall@10 and medians with an `exact_limit` and by default."""
    print("| vectors | recall@10 with exact_limit=10_000 | lowest | p50 ms | recall@10 by default | p50 ms |")
    print("|---|---|---|---|---|---|")
    for name, (made, spread) in SETS.items():
        chance = np.random.default_rng(3)
        rows = made(chance)
        walking = PostgresStore(dsn, exact_limit=10_000)
        _load(walking, rows)
        near = rows[chance.integers(0, len(rows), QUESTIONS)]
        questions = near + spread * chance.standard_normal(near.shape)
        walked, took = _asked(walking, rows, questions)
        compared, took_by_default = _asked(PostgresStore(dsn), rows, questions)
        print(
            f"| {name} | {statistics.mean(walked):.3f} | {min(walked):.1f} | {took:.1f} | "
            f"{statistics.mean(compared):.3f} | {took_by_default:.1f} |",
            flush=True,
        )
        walking.drop_collection("graphs")


def _load(store: PostgresStore, rows: Rows) -> None:
    store.create_collection("graphs", CollectionSpec(rows.shape[1], "given"))
    for begin in range(0, len(rows), PER_WRITE):
        records = [
            Record("", row, {"tenantId": "t", "sourceId": f"s{at}", "index": 0})
            for at, row in enumerate(rows[begin : begin + PER_WRITE], start=begin)
        ]
        store.replace("graphs", records, where=And(TENANT, In("sourceId", [of.source_id for of in records])))


def _asked(store: PostgresStore, rows: Rows, questions: NDArray[np.float64]) -> tuple[list[float], float]:
    """Return the recall of each question, ties counted as found, and the median of what they took."""
    store.dense("graphs", questions[0], where=TENANT, limit=10)
    recalls, spent = [], []
    for question in questions:
        begin = time.perf_counter()
        found = store.dense("graphs", question, where=TENANT, limit=10)
        spent.append(1000 * (time.perf_counter() - begin))
        last = np.sort(rows @ _unit(question))[-10]
        recalls.append(sum(match.score >= last - 1e-5 for match in found) / 10)
    return recalls, statistics.median(spent)
