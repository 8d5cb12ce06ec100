"""The conformance kit on LanceDB's files in a directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stackroom.stores import LanceStore, VectorStore
from stackroom.testing import StoreConformance


class TestLanceStore(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[VectorStore]:
        store = LanceStore(tmp_path / "library")
        yield store
        store.close()

    @pytest.fixture
    def reopen(self, tmp_path: Path, store: VectorStore) -> Callable[[], VectorStore]:
        del store
        return lambda: LanceStore(tmp_path / "library")
