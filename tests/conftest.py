"""What every test shares: hypothesis runs the same examples on every machine of CI; a PostgreSQL for those who ask."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import NoReturn, TypeVar

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from tests.postgres_room import Room, a_room
from tests.postgres_server import PACKAGE, NoServer, running

T = TypeVar("T")

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")  # tests call nobody

settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture(scope="session")
def postgres_dsn() -> Iterator[str]:
    """Yield where a superuser reaches a PostgreSQL with pgvector: STACKROOM_TEST_POSTGRES, else one of our own.

    Where none can be had the tests that ask are skipped, but in CI they fail. STACKROOM_TEST_POSTGRES_PACKAGE names
    another wheel to take the programs from.
    """
    given = os.environ.get("STACKROOM_TEST_POSTGRES")
    if given:
        _with_pgvector(given)
        yield given
        return
    server = running(os.environ.get("STACKROOM_TEST_POSTGRES_PACKAGE", PACKAGE))

    def refuse(error: Exception) -> NoReturn:
        missing(f"no PostgreSQL for the tests ({error}); or name one of yours: STACKROOM_TEST_POSTGRES=postgresql://…")

    with started(server, NoServer, refuse) as found:
        _with_pgvector(found.dsn)
        yield found.dsn


@pytest.fixture
def room(postgres_dsn: str) -> Iterator[Room]:
    """Yield a schema of the test's own; all in it is dropped at the end."""
    with a_room(postgres_dsn) as made:
        yield made


def _with_pgvector(dsn: str) -> None:
    """Make the extension where every schema finds it, before a test makes it in a schema of its own."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")


@contextmanager
def started(
    server: AbstractContextManager[T], refusal: type[Exception], refuse: Callable[[Exception], NoReturn]
) -> Iterator[T]:
    """Hold a server up; `refuse` says what to do where none can be had."""
    with ExitStack() as held:
        try:
            found = held.enter_context(server)
        except refusal as error:
            refuse(error)
        yield found


def missing(what: str) -> NoReturn:
    """Skip a test for want of something; fail where all must be there."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)
