"""The conformance kit on the core of a Qdrant server: its filters, its scores, its writes on a condition."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

pytest.importorskip("qdrant_edge")

from tests.qdrant.edge_client import EdgeClient

from stackroom.stores import QdrantStore, VectorStore
from stackroom.testing import StoreConformance


class TestQdrantCore(StoreConformance):
    @pytest.fixture
    def store(self) -> Iterator[VectorStore]:
        store = QdrantStore(EdgeClient(), close_client=True)
        store.capabilities = dataclasses.replace(store.capabilities, durable=False, shared=False)
        yield store
        store.close()
