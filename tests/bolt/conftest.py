"""A server that speaks Bolt, for those tests that ask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

import neo4j
import pytest
from tests.arcade_server import NoServer, Running, running
from tests.conftest import missing, started


@pytest.fixture(scope="session")
def bolt() -> Iterator[Running]:
    def refuse(error: Exception) -> NoReturn:
        missing(f"no server that speaks Bolt for the tests ({error})")

    with started(running(), NoServer, refuse) as found:
        yield found


@pytest.fixture(scope="module")
def driver(bolt: Running) -> Iterator[neo4j.Driver]:
    with neo4j.GraphDatabase.driver(bolt.url, auth=("root", bolt.password)) as made:
        yield made
