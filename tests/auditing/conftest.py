"""What a leak test must be right on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stackroom.stores import EmbeddedStore, MemoryStore, VectorStore


@pytest.fixture(params=["memory", "embedded"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[VectorStore]:
    made: VectorStore = MemoryStore() if request.param == "memory" else EmbeddedStore(tmp_path / "store")
    yield made
    made.close()
