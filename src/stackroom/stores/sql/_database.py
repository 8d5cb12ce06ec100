"""Connections and transactions: an engine of our own or the caller's, retries, and errors that show no secret.

SQLAlchemy's errors end here: they hold statements, values and URLs, so what is raised in their place is made new and
carries none of them along.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.pool import SingletonThreadPool, StaticPool

from stackroom._errors import CapabilityError, StoreError, StoreUnavailable
from stackroom.stores.sql._dialects import DIALECTS, Dialect, Meaning

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import URL, Connection, Engine

T = TypeVar("T")

_TRIES: Final = 10
"""How often a transaction is run, in all, that met another one or lost its connection before it could end."""

_DRIVERS: Final = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "mariadb": "mariadb+pymysql"}
"""The driver of a URL that names none: those of our extras."""

_OLDEST_SQLITE: Final = (3, 32)

_URL: Final = (
    "write one as SQLAlchemy does, such as sqlite:///library.db or mysql+pymysql://user:password@host/database"
)


class TablesAreMissing(StoreError):
    """The library's tables are not there."""


_KINDS: Final[dict[Meaning, type[StoreError]]] = {
    Meaning.NO_TABLES: TablesAreMissing,
    Meaning.NO_PRIVILEGE: StoreError,
    Meaning.TOO_LARGE: StoreError,
    Meaning.REFUSED: StoreError,
}
"""What is raised; StoreUnavailable for all others."""


@dataclass(frozen=True, slots=True)
class _Failed:
    """Why a transaction failed, told without anything that the database said."""

    error: Exception
    may_run_again: bool = False


class Database:
    """Where transactions run: an engine that is given is used and left open, one made of a URL is owned and closed."""

    def __init__(
        self, url_or_engine: str | URL | Engine, *, pool_size: int, connect_timeout: float, lock_timeout: float
    ) -> None:
        self._owns_engine = not isinstance(url_or_engine, sa.Engine)
        self._engine = (
            url_or_engine if isinstance(url_or_engine, sa.Engine) else _made(url_or_engine, pool_size, connect_timeout)
        )
        self.dialect: Dialect = _dialect_of(self._engine)
        self._lock_timeout = lock_timeout
        if self._owns_engine:
            sa.event.listen(self._engine, "connect", self._prepare)
            self._probe()

    @property
    def name(self) -> str:
        """The kind of database, as SQLAlchemy calls it."""
        return self._engine.dialect.name

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a transaction that sees one state, and return what it returns."""
        return self._run(work, writes=False)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a transaction that writes all or nothing; again, when that can change nothing twice.

        StoreUnavailable when the database does not answer or cannot take the write.
        """
        return self._run(work, writes=True)

    def close(self) -> None:
        """Close an engine of our own."""
        if self._owns_engine:
            self._engine.dispose()

    def _run(self, work: Callable[[Connection], T], *, writes: bool) -> T:
        failed = _Failed(StoreUnavailable(Meaning.LOST.value))
        for _ in range(_TRIES):
            done = self._tried(work, writes=writes)
            if not isinstance(done, _Failed):
                return done
            failed = done
            if not failed.may_run_again:
                break
        raise failed.error

    def _tried(self, work: Callable[[Connection], T], *, writes: bool) -> T | _Failed:
        is_ending = False
        try:
            with self._engine.connect() as plain:
                connection = plain.execution_options(**self.dialect.isolation(writes=writes))
                try:
                    self.dialect.begin(connection, self._lock_timeout, writes=writes)
                    done = work(connection)
                    is_ending = True
                    self.dialect.commit(connection)
                except BaseException:
                    with suppress(exc.SQLAlchemyError):
                        self.dialect.give_up(connection)
                    raise
                finally:
                    self._restore(connection)
                return done
        except exc.SQLAlchemyError as error:
            return self._failed(error, may_have_ended=writes and is_ending)

    def _probe(self) -> None:
        """See that the driver takes what the URL says; what it finds wrong is not repeated."""
        try:
            self._engine.connect().close()
        except exc.SQLAlchemyError:
            return  # a database that cannot be reached shows in the first transaction
        except Exception:  # noqa: BLE001 - drivers raise what they like, with values of the URL in it
            is_taken = False
        else:
            is_taken = True
        if not is_taken:
            raise ValueError(f"the driver does not take what this URL says; {_URL}")

    def _prepare(self, connection: Any, record: Any) -> None:
        self.dialect.prepare(connection, record.info, self._lock_timeout)

    def _restore(self, connection: Connection) -> None:
        """Leave the session as it was; a connection on which that fails is not given back."""
        if connection.invalidated or connection.closed:
            return
        try:
            self.dialect.restore(connection)
        except exc.SQLAlchemyError:
            connection.invalidate()

    def _failed(self, error: exc.SQLAlchemyError, *, may_have_ended: bool) -> _Failed:
        """Say in our own words what an error means, and whether the transaction may be run again."""
        if isinstance(error, exc.TimeoutError):
            return _Failed(
                StoreUnavailable(
                    "no connection to the database could be had in time: all connections of the engine's pool are in "
                    "use, perhaps by writes that wait for one another; give it a larger pool_size"
                )
            )
        if not isinstance(error, exc.DBAPIError) or error.orig is None:
            return _Failed(StoreError(f"{Meaning.REFUSED.value} ({type(error).__name__})"))
        meaning, code = self.dialect.meaning(error.orig)
        if error.connection_invalidated or (meaning is Meaning.REFUSED and not code):
            meaning = Meaning.LOST
        message = meaning.value + (f" (code {code})" if code else "")
        if may_have_ended and meaning is Meaning.LOST:
            message += "; the write happened whole or not at all, so look before trying it again"
        is_over = may_have_ended and meaning is not Meaning.AGAIN
        return _Failed(
            _KINDS.get(meaning, StoreUnavailable)(message),
            may_run_again=not is_over and (meaning is Meaning.AGAIN or error.connection_invalidated),
        )


def lacks_its_file(url_or_engine: str | URL | Engine) -> bool:
    """Tell whether a URL names an SQLite file that is not there, which a connection would make."""
    if isinstance(url_or_engine, sa.Engine):
        return False
    url = _checked_url(url_or_engine)
    if url.get_backend_name() != "sqlite":
        return False
    file = str(url.database)
    if file.startswith("file:"):  # SQLite's own way to name one
        file = unquote(file.removeprefix("file:").partition("?")[0])
    return not Path(file).exists()


def _made(url: str | URL, pool_size: int, connect_timeout: float) -> Engine:
    """Make an engine of a URL; nothing of the URL is ever shown."""
    problem: Exception
    checked = _checked_url(url)
    try:
        return _engine(checked, pool_size, connect_timeout)
    except exc.NoSuchModuleError:
        problem = CapabilityError(
            "SQLAlchemy knows no such database or driver; name SQLite, PostgreSQL, MariaDB, MySQL"
        )
    except (exc.ArgumentError, TypeError, ValueError):
        problem = ValueError(f"this URL cannot be read; {_URL}")
    except ImportError as error:
        missing = error.name or "the driver"
        problem = ImportError(
            f'this database needs {missing}: pip install "stackroom[mysql]" or "stackroom[sql,postgres]"'
        )
    raise problem


def _checked_url(url: object) -> URL:
    if not isinstance(url, str | sa.URL):
        raise ValueError(f"give a URL or a sqlalchemy.Engine, not a {type(url).__name__}")
    made = None
    with suppress(exc.ArgumentError, ValueError):
        made = sa.make_url(url)
    if made is not None:
        if made.get_backend_name() == "sqlite":
            _check_sqlite_file(made)
        return made
    raise ValueError(f"this URL cannot be read; {_URL}")


def _engine(url: URL, pool_size: int, connect_timeout: float) -> Engine:
    kind = url.get_backend_name()
    if url.drivername in _DRIVERS:
        url = url.set(drivername=_DRIVERS[url.drivername])
    options: dict[str, Any] = {"pool_size": pool_size, "max_overflow": 0, "pool_timeout": 30.0}
    if kind == "sqlite":
        return sa.create_engine(url, **options)
    seconds = max(1, round(connect_timeout))
    return sa.create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": seconds}, **options)


def _check_sqlite_file(url: URL) -> None:
    if url.database in (None, "", ":memory:") or url.query.get("mode") == "memory":
        raise ValueError(
            "an SQLite in memory belongs to one connection; name a file (sqlite:///library.db), or take MemoryStore"
        )


def _dialect_of(engine: Engine) -> Dialect:
    kind = DIALECTS.get(engine.dialect.name)
    if kind is None:
        raise CapabilityError(
            f"SqlStore knows SQLite, PostgreSQL, MariaDB and MySQL, not {engine.dialect.name}: how that locks and "
            "reads one state is not known"
        )
    if engine.dialect.name == "sqlite":
        if isinstance(engine.pool, StaticPool | SingletonThreadPool):
            _check_sqlite_file(sa.make_url("sqlite://"))
        if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
            raise StoreError(f"SQLite {sqlite3.sqlite_version} is too old; 3.32 or newer is needed")
    return kind()
