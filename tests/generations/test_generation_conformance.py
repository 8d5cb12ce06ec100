"""The conformance kit on the generations alone, over an engine that is right by definition."""

from __future__ import annotations

import pytest
from tests.generations.engine import a_store

from stackroom.stores.generations import GenerationStore
from stackroom.testing import StoreConformance


class TestGenerations(StoreConformance):
    @pytest.fixture
    def store(self) -> GenerationStore:
        return a_store()
