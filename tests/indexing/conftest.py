"""Fixtures of the bulk tests: a Library over memory, an embedder that tells, a clock set by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.indexing.folders import Folder
from tests.library.doubles import HandClock, RecordingEmbedder

from stackroom import Library, Scope
from stackroom.stores import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stackroom.stores import VectorStore


@pytest.fixture
def store() -> Iterator[VectorStore]:
    made = MemoryStore()
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
    """A Library that embeds two texts a call."""
    with Library(store, "library", embedder, batch_size=2, clock=clock) as made:
        yield made


@pytest.fixture
def everyone() -> Scope:
    return Scope("_global", ["everyone"])


@pytest.fixture
def folder(tmp_path: Path, library: Library) -> Folder:
    (tmp_path / "folder").mkdir()
    return Folder(tmp_path / "folder", library)
