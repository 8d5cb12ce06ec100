"""A library with a ranker in it: three passages in three dimensions, as the cases of the page have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.library.doubles import RecordingEmbedder
from tests.rankers.doubles import VECTORS, HandClock

from stackroom import Library, Scope, Source
from stackroom.rankers import RankerHealth
from stackroom.stores import EmbeddedStore

Open = Callable[..., Library]

SCOPE = Scope("t", ["g"])
THREE = {"a": "apple fruit", "b": "car vehicle", "c": "cart apple"}


def source(source_id: str, *texts: str, tenant: str = "t", **fields: Any) -> Source:
    given: dict[str, Any] = {"kind": "doc", "acl_groups": ["g"], **fields}
    return Source(source_id, tenant_id=tenant, passages=texts, **given)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def embedder() -> RecordingEmbedder:
    return RecordingEmbedder(VECTORS)


@pytest.fixture
def opened(tmp_path: Path, embedder: RecordingEmbedder, clock: HandClock) -> Iterator[Open]:
    """Open the library in one directory, empty at first; a second call closes the one before."""
    there: list[Library] = []

    def open_library(ranker: Any = None, **options: Any) -> Library:
        for library in there:
            library.close()
        library = Library.open(tmp_path / "library", embedder=embedder, ranker=ranker, ranker_clock=clock, **options)
        there.append(library)
        return library

    yield open_library
    for library in there:
        library.close()


@pytest.fixture
def three(opened: Open) -> Open:
    """Open it with a, b and c in it."""

    def open_library(ranker: Any = None, **options: Any) -> Library:
        library = opened(ranker, **options)
        for source_id, text in THREE.items():
            library.index_source(source(source_id, text))
        return library

    return open_library


def store_of(library: Library) -> EmbeddedStore:
    """Return the store that a library opened."""
    store: EmbeddedStore = library._store  # type: ignore[assignment] # noqa: SLF001 - what open made
    return store


def found(library: Library, text: str = "apple", **options: Any) -> list[tuple[str, float]]:
    """Return ids and rounded scores of a search, dense unless said."""
    given: dict[str, Any] = {"scope": SCOPE, "mode": "dense", **options}
    return [(hit.source_id, round(hit.score, 6)) for hit in library.search(text, **given)]


OWN = [("a", 1.0), ("c", 0.6), ("b", 0.0)]
"""What the store answers by itself."""


def codes(library: Library, text: str = "apple", **options: Any) -> list[str]:
    """Return the codes of a search's notes."""
    given: dict[str, Any] = {"scope": SCOPE, "mode": "dense", **options}
    return [note.code for note in library.search(text, **given).notes]


def health(library: Library) -> RankerHealth:
    return store_of(library).ranker_health()


def sync(library: Library, **options: Any) -> RankerHealth:
    return store_of(library).sync_ranker(**options)


def rebuild(library: Library, **options: Any) -> RankerHealth:
    return store_of(library).rebuild_ranker(**options)
