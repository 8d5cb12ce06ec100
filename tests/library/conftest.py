"""Fixtures of the tests of Library: both stores of the core, an embedder that tells, a clock set by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.library.doubles import HandClock, RecordingEmbedder, RecordingStore

from stackroom import Library, Scope
from stackroom.stores import EmbeddedStore, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stackroom.stores import VectorStore


@pytest.fixture(params=["memory", "embedded"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[VectorStore]:
    made: VectorStore = MemoryStore() if request.param == "memory" else EmbeddedStore(tmp_path / "store")
    yield made
    made.close()


@pytest.fixture
def embedder() -> RecordingEmbedder:
    return RecordingEmbedder()


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def library(store: VectorStore, embedder: RecordingEmbedder, clock: HandClock) -> Iterator[Library]:
    with Library(store, "library", embedder, clock=clock) as made:
        yield made


@pytest.fixture
def recording() -> RecordingStore:
    return RecordingStore()


@pytest.fixture
def watched(recording: RecordingStore, embedder: RecordingEmbedder, clock: HandClock) -> Iterator[Library]:
    """Return a Library over the store `recording`, with one source in it."""
    with Library(recording, "library", embedder, clock=clock) as made:
        yield made


@pytest.fixture
def scope() -> Scope:
    return Scope("t", ["g"])
