"""What a database must do for a store to be built on it: keep rows and notes, find by tokens.

An adapter (for Qdrant, Neo4j, LanceDB …) implements `Engine`; `GenerationStore` does all else. What an engine answers
need not be one state: the store sees to that. Every call returns only when what it wrote is seen by the calls that
follow, or the engine says otherwise in `remarks`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from stackroom._errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from stackroom._model import Note
    from stackroom.stores._tokens import Form


@dataclass(frozen=True, slots=True)
class Row:
    """A passage as an engine keeps it, of one generation: nothing of it is ever changed, rows come and go.

    `key` is unique (32 hexadecimal digits: a UUID without dashes). `tenant` and `source` are the ids as they are.
    `metadata` is JSON; `vector` the float32 bytes as they were given, which the engine only keeps. `tokens` (ASCII, at
    most 22 characters each) are all that filters ask for; `terms` maps a word's number (32 bits) to its weight in the
    passage. `direction` is the vector at length 1, to be searched.
    """

    key: str
    tenant: str
    source: str
    place: int
    written: int
    text: str
    metadata: str
    vector: bytes
    direction: NDArray[np.float32]
    tokens: Sequence[str]
    terms: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a row stands, by which a scan is ordered, its generation, and its key."""

    tenant: str
    source: str
    place: int
    written: int
    key: str


@dataclass(frozen=True, slots=True)
class Stored:
    """A row as it is read: without tokens, and without the vector unless that was asked for."""

    place: Place
    text: str
    metadata: str
    vector: bytes | None = None


@dataclass(frozen=True, slots=True)
class Nearest:
    """What is asked by vector: the nearest by cosine to a vector of length 1."""

    direction: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Worded:
    """What is asked by words: the highest inner product of a row's `terms` with these weights, above 0."""

    weights: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Found:
    """A row that was found, with the engine's own score of it, in single precision or so."""

    row: Stored
    score: float


class ShelfIsGone(StoreError):
    """There is no such shelf, or none any more."""

    def __init__(self) -> None:
        """Say so, and nothing of it."""
        super().__init__("the database has no such collection any more; it was dropped or swapped")


class Engine(Protocol):
    """Rows in shelves, and notes beside them.

    `form` is a condition on tokens; `tenant` says that only rows of that tenant can hold it. StoreUnavailable when the
    database does not answer, ShelfIsGone when there is no such shelf (any more).
    """

    def make_shelf(self, shelf: str, dimension: int) -> None:
        """Make a place for rows. `shelf` is a name of 1 to 32 letters a–z and digits that was never used before."""
        ...

    def drop_shelf(self, shelf: str) -> None:
        """Drop a shelf with its rows; nothing happens when there is none."""
        ...

    def put(self, shelf: str, rows: Sequence[Row]) -> None:
        """Write rows whose keys were never written before; an engine that tries again by itself writes them once."""
        ...

    def erase(self, shelf: str, tenant: str, form: Form) -> None:
        """Take rows away."""
        ...

    def count(self, shelf: str, tenant: str, form: Form) -> int:
        """Return how many rows hold a condition, exactly."""
        ...

    def places(self, shelf: str, tenant: str, form: Form) -> Iterator[Place]:
        """Yield where all such rows stand, in any order, each once."""
        ...

    def fetch(self, shelf: str, keys: Sequence[str], *, vectors: bool) -> Sequence[Stored]:
        """Return rows by their keys, in any order; those that are gone are left out."""
        ...

    def best(
        self, shelf: str, tenant: str, form: Form, asked: Nearest | Worded, limit: int, *, vectors: bool
    ) -> Sequence[Found]:
        """Return the `limit` best rows, fewer only when there are no more; best first."""
        ...

    def note(self, name: str) -> bytes | None:
        """Return what stands in a note, as it is now for everybody; None when there is none."""
        ...

    def notes_of(self, prefix: str) -> Mapping[str, bytes]:
        """Return all notes whose names begin so."""
        ...

    def write_note(self, name: str, content: bytes | None, expected: bytes | None) -> bool:
        """Write a note (None: take it away) if it still holds what is expected; False when it does not.

        That is one step, if the engine has such; the store's docs say what is lost where it has none.
        """
        ...

    def remarks(self) -> tuple[Note, ...]:
        """Return what must be said of an answer just read (`lagging`, `scan_limit`); usually nothing."""
        ...

    def close(self) -> None:
        """Give back what the engine opened."""
        ...
