"""Connections and transactions: a pool of our own or the caller's, retries, and errors that show no secret.

The only module that knows psycopg. Its errors end here: they hold host names, keys and values, so what is raised in
their place is made new and carries none of them along.
"""

from __future__ import annotations

import enum
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from stackroom._errors import StoreError, StoreUnavailable
from stackroom._values import unstorable_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from psycopg import Connection
    from psycopg_pool import ConnectionPool

T = TypeVar("T")

Rows: TypeAlias = "list[tuple[Any, ...]]"

_TRIES: Final = 4
"""How often a transaction is run, in all, that met another one or lost its connection before it could end."""

_NOT_NOW: Final = ("08", "53", "57", "25006")
"""Classes of SQLSTATE for lost connections, want of resources, shutdown and timeouts, and a server that only reads."""
_LOST: Final = ("08", "57P")


class TablesAreGone(StoreError):
    """A collection's tables were dropped or swapped between two looks; look again."""


_BUSY: Final = "other writes came between again and again; nothing was changed, try again"
_NO_CONNECTION: Final = (
    "no connection to the database could be had in time: the server does not answer, or all connections of "
    "the pool are in use; give it a larger pool_size"
)
TOO_LONG: Final = "another writer held a lock for too long; nothing was changed, try again"
_DROPPED: Final = "the collection's tables are not there; was it dropped?"
_NO_PRIVILEGE: Final = "the database role lacks a privilege that the store needs; docs/stores/postgres.md lists them"

_NO_EXTENSION: Final = "the server lacks what the store needs; is pgvector 0.8 or newer installed beside it?"

_MEANINGS: Final[Mapping[str, tuple[type[StoreError], str, bool]]] = {
    "40001": (StoreUnavailable, _BUSY, True),  # could not serialise
    "40P01": (StoreUnavailable, _BUSY, True),  # a deadlock
    "55P03": (StoreUnavailable, TOO_LONG, False),
    "42P01": (TablesAreGone, _DROPPED, False),
    "XX000": (TablesAreGone, _DROPPED, False),  # known, and then not to be opened any more
    "42501": (StoreError, _NO_PRIVILEGE, False),
    "0A000": (StoreError, _NO_EXTENSION, False),
    "58P01": (StoreError, _NO_EXTENSION, False),
}
"""What an SQLSTATE means to a caller, and whether the transaction may be run again."""


class Begin(enum.Enum):
    """How a transaction begins."""

    READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    WRITING = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"


_WAITS_FOR_REPLICA: Final = "SET LOCAL synchronous_commit = remote_apply"
"""A commit then returns when the synchronous replicas show it, too."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement and the values it names."""

    sql: str
    values: Mapping[str, Any] = field(default_factory=dict)


def setting(name: str, value: object) -> Statement:
    """Return the statement that gives a setting a value until the transaction ends."""
    return Statement("SELECT set_config(%(name)s, %(value)s, true)", {"name": name, "value": str(value)})


class Session:
    """One transaction on one connection. It begins with the first statements asked for."""

    def __init__(self, connection: Connection[Any], begin: Sequence[str]) -> None:
        self._connection = connection
        self._begin = [Statement(sql) for sql in begin]
        self._has_begun = False
        self.may_have_ended = False

    def ask(self, *statements: Statement, last: bool = False) -> list[Rows]:
        """Run statements in one round trip, the transaction's begin (and with `last` its end) with them."""
        from psycopg import Cursor
        from psycopg.rows import tuple_row

        texts = [*self._begin, *statements]
        skipped, self._begin = len(self._begin), []
        self._has_begun = True
        if last:
            texts.append(Statement("COMMIT"))
            self.may_have_ended = True
        asked = []
        with self._connection.pipeline():
            for statement in texts:
                cursor = Cursor(self._connection, row_factory=tuple_row)
                cursor.execute(statement.sql.encode(), statement.values or None, binary=True)
                asked.append(cursor)
        return [_rows_of(cursor) for cursor in asked[skipped : skipped + len(statements)]]

    def copy(self, sql: str, rows: Iterable[bytes]) -> None:
        """Write rows, as bytes of PostgreSQL's binary format, by a COPY statement."""
        with self._connection.cursor() as cursor, cursor.copy(sql.encode()) as copy:
            for part in rows:
                copy.write(part)

    def end(self) -> None:
        """Commit what is not committed yet."""
        if self._has_begun and not self.may_have_ended:
            self.may_have_ended = True
            self._connection.execute("COMMIT")


def _rows_of(cursor: Any) -> Rows:
    rows: Rows = cursor.fetchall() if cursor.description else []
    return rows


@dataclass(frozen=True, slots=True)
class _Failed:
    """Why a transaction failed, told without anything that the database said."""

    error: StoreError
    may_run_again: bool = False
    lost_connection: bool = False


class Database:
    """Where transactions run: a pool that is given is used and left open, one made of a DSN is owned and closed."""

    def __init__(
        self, dsn_or_pool: Any, *, pool_size: int, connect_timeout: float, waits_for_replica: bool = False
    ) -> None:
        check_driver()
        self._also = {Begin.WRITING: [_WAITS_FOR_REPLICA]} if waits_for_replica else {}
        self._timeout = connect_timeout
        self._owns_pool = isinstance(dsn_or_pool, str)
        self._pool: ConnectionPool[Any] = (
            _pool_of(dsn_or_pool, pool_size, connect_timeout) if self._owns_pool else _checked_pool(dsn_or_pool)
        )
        self.connections = self._pool.max_size
        self._writers = threading.BoundedSemaphore(max(1, self.connections - 1))

    def run(self, begin: Begin, work: Callable[[Session], T]) -> T:
        """Run `work` in a transaction and return what it returns; again, when that can change nothing twice.

        StoreUnavailable when the database does not answer or cannot take the write. Writers leave a connection to
        readers, where there is more than one.
        """
        if begin is Begin.READING:
            return self._run(begin, work)
        if not self._writers.acquire(timeout=self._timeout):
            raise StoreUnavailable(_NO_CONNECTION)
        try:
            return self._run(begin, work)
        finally:
            self._writers.release()

    def _run(self, begin: Begin, work: Callable[[Session], T]) -> T:
        failed = _Failed(StoreUnavailable("the database did not answer"))
        for _ in range(_TRIES):
            done = self._tried(begin, work)
            if not isinstance(done, _Failed):
                return done
            failed = done
            if not failed.may_run_again:
                break
            if failed.lost_connection:
                self._pool.check()
        raise failed.error

    def outside(self, *statements: str) -> None:
        """Run statements each on its own, outside of any transaction."""
        failed = self._tried_outside(statements)
        if failed is not None:
            raise failed.error

    def close(self) -> None:
        """Close a pool of our own."""
        if self._owns_pool:
            self._pool.close()

    def _tried(self, begin: Begin, work: Callable[[Session], T]) -> T | _Failed:
        import psycopg

        session = None
        try:
            with self._connection() as connection:
                session = Session(connection, [begin.value, *self._also.get(begin, [])])
                try:
                    done = work(session)
                    session.end()
                except BaseException:
                    _give_up(connection)
                    raise
                return done
        except psycopg.Error as error:
            return _failed(error, may_have_ended=begin is Begin.WRITING and bool(session and session.may_have_ended))

    def _tried_outside(self, statements: Sequence[str]) -> _Failed | None:
        import psycopg

        try:
            with self._connection() as connection:
                for statement in statements:
                    connection.execute(statement.encode())
        except psycopg.Error as error:
            return _failed(error, may_have_ended=True)
        return None

    @contextmanager
    def _connection(self) -> Iterator[Connection[Any]]:
        """Take a connection from the pool, whose transactions we begin ourselves; give it back as it was."""
        with self._pool.connection(timeout=self._timeout) as connection:
            if connection.info.encoding != "utf-8":
                raise StoreError(
                    "this connection's client_encoding is not UTF8, so texts would not come back as they were; "
                    "leave it to the pool's default, or set it to UTF8"
                )
            was = connection.autocommit
            if not was:
                connection.autocommit = True
            try:
                yield connection
            finally:
                if not was and not connection.closed:
                    connection.autocommit = was


def _give_up(connection: Connection[Any]) -> None:
    import psycopg

    with suppress(psycopg.Error):
        connection.rollback()


def _failed(error: Any, *, may_have_ended: bool) -> _Failed:
    """Say in our own words what a driver's error means, and whether the transaction may be run again."""
    import psycopg
    from psycopg_pool import PoolTimeout

    state = getattr(error, "sqlstate", None) or ""
    if state in _MEANINGS:
        kind, message, may_run_again = _MEANINGS[state]
        return _Failed(kind(message), may_run_again=may_run_again)
    if isinstance(error, PoolTimeout):
        return _Failed(StoreUnavailable(_NO_CONNECTION))
    if state.startswith(_NOT_NOW) or (not state and isinstance(error, psycopg.OperationalError)):
        return _not_now(state, may_have_ended=may_have_ended)
    return _Failed(StoreError(f"the database refused a statement{_shown(state)}"))


def _not_now(state: str, *, may_have_ended: bool) -> _Failed:
    message = f"the database is not available now{_shown(state)}"
    if may_have_ended:
        message += "; the write happened whole or not at all, so look before trying it again"
    is_lost = not state or state.startswith(_LOST)
    return _Failed(StoreUnavailable(message), may_run_again=is_lost and not may_have_ended, lost_connection=is_lost)


def _shown(state: str) -> str:
    return f" (SQLSTATE {state})" if state else ""


def check_driver() -> None:
    """Raise an ImportError that says what to install where the driver is missing."""
    try:
        import psycopg  # noqa: F401 - looked for here, used where it is needed
        import psycopg_pool  # noqa: F401 - likewise
    except ImportError as error:
        raise ImportError('PostgresStore needs psycopg: pip install "stackroom[postgres]"') from error


def _pool_of(dsn: str, size: int, timeout: float) -> ConnectionPool[Any]:
    """Make a pool once a connection of its own has shown that the server answers."""
    import psycopg
    from psycopg_pool import ConnectionPool

    problem: Exception | None = None
    if unstorable_at(dsn) is not None:  # the driver reads no further than the first, and shows all of the second
        raise ValueError("dsn holds U+0000 or a lone surrogate, which no DSN can; write it in UTF-8")
    try:
        psycopg.conninfo.conninfo_to_dict(dsn)
        psycopg.connect(dsn, connect_timeout=max(1, round(timeout))).close()
    except (psycopg.ProgrammingError, UnicodeError):  # the latter of bytes that are no UTF-8, written as %XX
        problem = ValueError("dsn cannot be read: write postgresql://user:password@host:port/database")
    except psycopg.OperationalError:
        problem = StoreUnavailable(
            "the database cannot be reached; look at the server, and at host, user, password and the database's name"
        )
    if problem is not None:
        raise problem
    options = {"autocommit": True, "prepare_threshold": None, "client_encoding": "UTF8"}
    return ConnectionPool(
        dsn,
        min_size=1,
        max_size=size,
        timeout=timeout,
        reconnect_timeout=timeout,  # so that after a pause each call looks at once whether the server is back
        kwargs=options,
        open=True,
    )


def application_name_of(conninfo: str) -> str:
    """Return the name by which a connection of these options is known to the server."""
    import psycopg

    options = psycopg.conninfo.conninfo_to_dict(conninfo)
    return str(options.get("application_name") or options.get("fallback_application_name") or "")


def _checked_pool(pool: Any) -> Any:
    from psycopg_pool import ConnectionPool

    if not isinstance(pool, ConnectionPool):
        raise ValueError(f"give a DSN or a psycopg_pool.ConnectionPool, not a {type(pool).__name__}")
    return pool
