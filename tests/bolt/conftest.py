"""A server that speaks Bolt, for those tests that ask."""

from __future__ import annotations

from collections.abc import Iterator

import neo4j
import pytest
from tests.arcade_server import NoServer, Running, running
from tests.conftest import missing


@pytest.fixture(scope="session")
def bolt() -> Iterator[Running]:
    server = running()
    try:
        started = server.__enter__()
    except NoServer as error:
        missing(f"no server that speaks Bolt for the tests ({error})")
    yield started
    server.__exit__(None, None, None)


@pytest.fixture(scope="module")
def driver(bolt: Running) -> Iterator[neo4j.Driver]:
    with neo4j.GraphDatabase.driver(bolt.url, auth=("root", bolt.password)) as made:
        yield made
