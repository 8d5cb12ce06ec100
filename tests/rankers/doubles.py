"""Rankers that tests plug in: honest ones that tell what they were asked, and ones that do wrong in one way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stackroom.rankers import ExactRanker, Ranked

Vector = NDArray[np.float32]

VECTORS = {
    "apple fruit": [1.0, 0.0, 0.0],
    "car vehicle": [0.0, 1.0, 0.0],
    "cart apple": [0.6, 0.8, 0.0],
    "apple": [1.0, 0.0, 0.0],
}


class HonestRanker:
    """Ranks exactly, and keeps what it was asked and told."""

    def __init__(self, *, max_candidates: int = 10_000, max_limit: int = 10_000, durable_id: str | None = None) -> None:
        self.max_candidates = max_candidates
        self.max_limit = max_limit
        self.durable_id = durable_id
        self.exact = ExactRanker()
        self.asked: list[dict[str, Any]] = []
        self.told: list[tuple[str, str, Vector | None]] = []
        self.forgotten: list[str] = []

    def rank_by_similarity(self, **asked: Any) -> Any:
        self.asked.append(asked)
        return self.answer(self.exact.rank_by_similarity(**asked), asked)

    def answer(self, honest: list[Ranked], asked: dict[str, Any]) -> Any:  # noqa: ARG002 - for those that do wrong
        return honest

    def on_embedding_persisted(self, *, tenant_id: str, passage_id: str, vector: Vector | None) -> None:
        self.told.append((tenant_id, passage_id, vector))
        self.exact.on_embedding_persisted(
            tenant_id=tenant_id, passage_id=passage_id, vector=None if vector is None else vector.copy()
        )

    def forget_tenant(self, *, tenant_id: str) -> None:
        self.forgotten.append(tenant_id)
        self.exact.forget_tenant(tenant_id=tenant_id)

    @property
    def ids(self) -> list[str]:
        """What it was told, in order; those that went have a minus."""
        return [passage_id if vector is not None else f"-{passage_id}" for _, passage_id, vector in self.told]

    def holds(self, tenant_id: str = "t") -> dict[str, list[float]]:
        """What whoever applied the calls in order has of a tenant."""
        held: dict[str, list[float]] = {}
        for tenant, passage_id, vector in self.told:
            if tenant != tenant_id:
                continue
            held.pop(passage_id, None)
            if vector is not None:
                held[passage_id] = [round(float(number), 5) for number in vector]
        return held


class Answering(HonestRanker):
    """Answers what a function makes of the honest answer."""

    def __init__(self, make: Callable[[list[Ranked]], Any], **options: Any) -> None:
        super().__init__(**options)
        self.make = make

    def answer(self, honest: list[Ranked], asked: dict[str, Any]) -> Any:  # noqa: ARG002
        return self.make(honest)


def raising(error: BaseException) -> Callable[[Any], Any]:
    """Return a function that raises."""

    def call(*_: Any, **__: Any) -> Any:
        raise error

    return call


def generated(items: Iterable[Any], error: BaseException) -> Any:
    """Yield some items, then raise."""
    yield from items
    raise error


class RefusingRanker(HonestRanker):
    """Refuses to be told of passages whose ids are in `refused`; "*" stands for all."""

    def __init__(self, *refused: str, **options: Any) -> None:
        super().__init__(**options)
        self.refused = set(refused)
        self.tried: list[str] = []

    def on_embedding_persisted(self, *, tenant_id: str, passage_id: str, vector: Vector | None) -> None:
        self.tried.append(passage_id)
        if self.refused & {"*", passage_id}:
            raise ConnectionError("postgres://user:secret@host")
        super().on_embedding_persisted(tenant_id=tenant_id, passage_id=passage_id, vector=vector)


class NeverForgets:
    """An honest ranker without `forget_tenant`."""

    def __init__(self, honest: HonestRanker) -> None:
        self.honest = honest
        self.rank_by_similarity = honest.rank_by_similarity
        self.on_embedding_persisted = honest.on_embedding_persisted
        self.durable_id = honest.durable_id


class HandClock:
    """Tells the time that was set."""

    def __init__(self) -> None:
        self.now = datetime(2026, 5, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
