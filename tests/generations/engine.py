"""An engine in memory: every answer by definition. It can be told to fail, or to stop as if killed, at any step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from stackroom import Note
from stackroom.stores._tokens import Form, holds
from stackroom.stores.generations import Found, GenerationStore, Nearest, Place, Row, ShelfIsGone, Stored, Worded


class Killed(BaseException):
    """What ends a writer in the midst of a step."""


class MemoryEngine:
    """Holds everything in dicts. `before` is called with the name of each step, and may raise."""

    def __init__(self) -> None:
        self.shelves: dict[str, dict[str, Row]] = {}
        self.notes: dict[str, bytes] = {}
        self.lock = threading.RLock()
        self.before: Callable[[str], None] = lambda _step: None
        self.asked_for: list[int] = []
        self.said: tuple[Note, ...] = ()

    def make_shelf(self, shelf: str, dimension: int) -> None:
        self.shelves[shelf] = {}
        assert dimension

    def drop_shelf(self, shelf: str) -> None:
        self.shelves.pop(shelf, None)

    def put(self, shelf: str, rows: Sequence[Row]) -> None:
        for at, row in enumerate(rows):
            self.before(f"put {at}")
            with self.lock:
                self._shelf(shelf)[row.key] = row

    def erase(self, shelf: str, tenant: str, form: Form) -> None:
        for at, row in enumerate(self._rows(shelf, tenant, form)):
            self.before(f"erase {at}")
            with self.lock:
                self.shelves[shelf].pop(row.key, None)

    def count(self, shelf: str, tenant: str, form: Form) -> int:
        self.before("count")
        return len(self._rows(shelf, tenant, form))

    def places(self, shelf: str, tenant: str, form: Form) -> Iterator[Place]:
        return iter([_place(row) for row in self._rows(shelf, tenant, form)])

    def fetch(self, shelf: str, keys: Sequence[str], *, vectors: bool) -> Sequence[Stored]:
        with self.lock:
            rows = self._shelf(shelf)
            found = [rows[key] for key in keys if key in rows]
        return [_stored(row, vectors=vectors) for row in reversed(found)]

    def best(
        self, shelf: str, tenant: str, form: Form, asked: Nearest | Worded, limit: int, *, vectors: bool
    ) -> Sequence[Found]:
        self.asked_for.append(limit)
        found = [Found(_stored(row, vectors=vectors), _score(row, asked)) for row in self._rows(shelf, tenant, form)]
        if isinstance(asked, Worded):
            found = [item for item in found if item.score > 0]
        self.before("best")
        return sorted(found, key=lambda item: -item.score)[:limit]

    def note(self, name: str) -> bytes | None:
        return self.notes.get(name)

    def notes_of(self, prefix: str) -> Mapping[str, bytes]:
        with self.lock:
            return {name: content for name, content in self.notes.items() if name.startswith(prefix)}

    def write_note(self, name: str, content: bytes | None, expected: bytes | None) -> bool:
        self.before("note")
        with self.lock:
            if self.notes.get(name) != expected:
                return False
            if content is None:
                self.notes.pop(name, None)
            else:
                self.notes[name] = content
            return True

    def remarks(self) -> tuple[Note, ...]:
        return self.said

    def close(self) -> None:
        pass

    def _shelf(self, shelf: str) -> dict[str, Row]:
        if shelf not in self.shelves:
            raise ShelfIsGone
        return self.shelves[shelf]

    def _rows(self, shelf: str, tenant: str, form: Form) -> list[Row]:
        with self.lock:
            rows = list(self._shelf(shelf).values())
        return [row for row in rows if tenant == row.tenant and holds(form, frozenset(row.tokens))]


def _place(row: Row) -> Place:
    return Place(row.tenant, row.source, row.place, row.written, row.key)


def _stored(row: Row, *, vectors: bool) -> Stored:
    return Stored(_place(row), row.text, row.metadata, row.vector if vectors else None)


def _score(row: Row, asked: Nearest | Worded) -> float:
    if isinstance(asked, Nearest):
        return float(np.dot(row.direction, asked.direction))
    return float(
        np.float32(
            sum(asked.weights[number] * weight for number, weight in row.terms.items() if number in asked.weights)
        )
    )


def a_store(engine: MemoryEngine | None = None, **options: Any) -> GenerationStore:
    return GenerationStore(
        MemoryEngine() if engine is None else engine,
        lexical="native",
        exact=True,
        durable=False,
        shared=False,
        **options,
    )
