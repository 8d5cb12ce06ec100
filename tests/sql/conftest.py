"""Databases for the store in SQL: a file of SQLite, a PostgreSQL without pgvector, a MariaDB for those who ask.

The MariaDB is STACKROOM_TEST_MARIADB (a URL of SQLAlchemy that names no database), else one of our own. Its tests take
minutes: `make test-mariadb` asks for them.
"""

from __future__ import annotations

import os
import uuid
from contextlib import closing
from typing import TYPE_CHECKING, NoReturn

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.pool import NullPool
from tests.conftest import started
from tests.mariadb_server import NoMariadb, running

from stackroom.stores import SqlStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ASKED = "STACKROOM_TEST_MARIADB"

collect_ignore = [] if os.environ.get(ASKED) else ["test_sql_on_mariadb.py"]


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """Return where a file of SQLite will be."""
    return f"sqlite:///{tmp_path}/library.db"


@pytest.fixture(scope="session")
def plain_postgres(postgres_dsn: str) -> Iterator[sa.URL]:
    """Yield a database in which no extension is; it is dropped at the end."""
    name = f"plain_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'".encode())
    yield _url_of(postgres_dsn).set(database=name)
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:  # anew: tests of lost connections end others
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
def postgres_url(plain_postgres: sa.URL) -> Iterator[str]:
    """Yield a schema of the test's own in it; all in it is dropped at the end."""
    name = f"room_{uuid.uuid4().hex[:12]}"
    engine = sa.create_engine(plain_postgres, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA {name}")
    url = plain_postgres.update_query_dict({"options": f"-csearch_path={name}"})
    yield url.render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.exec_driver_sql(f"DROP SCHEMA {name} CASCADE")


def _url_of(dsn: str) -> sa.URL:
    """Return libpq's way of naming a server as SQLAlchemy's."""
    given = psycopg.conninfo.conninfo_to_dict(dsn)
    host = str(given.get("host", ""))
    return sa.URL.create(
        "postgresql+psycopg",
        username=str(given["user"]) if "user" in given else None,
        password=str(given["password"]) if "password" in given else None,
        port=int(str(given["port"])) if "port" in given else None,
        query={"host": host},
    )


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[str]:
    """Yield where a superuser reaches a MariaDB, without a database. Where none can be had the tests are skipped."""
    given = os.environ.get(ASKED, "")
    if "://" in given:
        yield given
        return

    def refuse(error: Exception) -> NoReturn:
        pytest.skip(f"no MariaDB for the tests ({error}); or name one of yours: {ASKED}=mysql+pymysql://…")

    with started(running(), NoMariadb, refuse) as found:
        yield found.url


@pytest.fixture
def mariadb_url(mariadb_server: str) -> Iterator[str]:
    """Yield a database of the test's own in a server whose defaults fold case and accents; dropped at the end."""
    name = f"room_{uuid.uuid4().hex[:12]}"
    engine = sa.create_engine(mariadb_server)
    with engine.begin() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name} CHARACTER SET latin1 COLLATE latin1_general_ci"))
    yield str(sa.make_url(mariadb_server).set(database=name).render_as_string(hide_password=False))
    with engine.begin() as connection:
        connection.execute(sa.text(f"DROP DATABASE {name}"))
    engine.dispose()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """Return the URL of an empty database, of each kind in turn."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def opened(url: str) -> Iterator[Callable[..., SqlStore]]:
    """Yield a function that opens stores in the database; they are closed at the end."""
    stores: list[SqlStore] = []

    def opened(**options: object) -> SqlStore:
        stores.append(SqlStore(url, **options))  # type: ignore[arg-type] # passed on as they are
        return stores[-1]

    yield opened
    for store in stores:
        with closing(store):
            pass
