"""What differs between databases: how a transaction begins and ends, and what an error means.

A reading transaction sees one state throughout: a snapshot. A writing one takes its locks first and then sees what was
committed when each statement began; SQLite has one writer at a time.
"""

from __future__ import annotations

import enum
import math
import sqlite3
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection


class Meaning(enum.Enum):
    """What the failure of a statement means to whoever asked."""

    AGAIN = "other writes came between again and again; nothing was changed, try again"
    TOO_LONG = "another writer held a lock for too long; nothing was changed, try again"
    LOST = "the database is not available now"
    NOT_NOW = "the database cannot take this now: it is full, read-only, overloaded or shutting down"
    NO_TABLES = "the library's tables are not there; were they dropped?"
    NO_PRIVILEGE = "the database user lacks a privilege that the store needs"
    TOO_LARGE = (
        "a value is larger than one statement of the database may be; on MariaDB or MySQL raise max_allowed_packet"
    )
    REFUSED = "the database refused a statement"


class Dialect(Protocol):
    """One kind of database."""

    def isolation(self, *, writes: bool) -> dict[str, Any]:
        """Return SQLAlchemy's options of the connection for a transaction."""

    def prepare(self, connection: Any, info: dict[Any, Any], seconds: float) -> None:
        """Set up the session of a driver's new connection, of an engine of our own; `info` is kept beside it."""

    def begin(self, connection: Connection, seconds: float, *, writes: bool) -> None:
        """Begin a transaction that waits so long for locks."""

    def commit(self, connection: Connection) -> None:
        """Make it last."""

    def give_up(self, connection: Connection) -> None:
        """Undo it."""

    def restore(self, connection: Connection) -> None:
        """Leave the session as it was."""

    def meaning(self, error: BaseException) -> tuple[Meaning, str]:
        """Return what a driver's error means, and its code."""


_IS_OURS: Final = "stackroom_session"
"""Marks a connection whose session was set up for the store when it was made."""
_WAITED: Final = "stackroom_waited"


class Sqlite:
    """SQLite: the driver begins no transactions of its own here; we say when, and that a writer takes its turn."""

    _CODES: Final = {
        sqlite3.SQLITE_BUSY: Meaning.TOO_LONG,
        sqlite3.SQLITE_LOCKED: Meaning.TOO_LONG,
        sqlite3.SQLITE_READONLY: Meaning.NOT_NOW,
        sqlite3.SQLITE_FULL: Meaning.NOT_NOW,
        sqlite3.SQLITE_IOERR: Meaning.LOST,
        sqlite3.SQLITE_CANTOPEN: Meaning.LOST,
        sqlite3.SQLITE_CORRUPT: Meaning.LOST,
        sqlite3.SQLITE_NOTADB: Meaning.LOST,
        sqlite3.SQLITE_TOOBIG: Meaning.TOO_LARGE,
    }

    def isolation(self, *, writes: bool) -> dict[str, Any]:
        """Leave beginning and ending to us."""
        del writes
        return {"isolation_level": "AUTOCOMMIT"}

    def prepare(self, connection: Any, info: dict[Any, Any], seconds: float) -> None:
        """Let readers and a writer pass each other, and let nothing be lost that was acknowledged."""
        info[_IS_OURS] = True
        for pragma in (f"busy_timeout = {math.ceil(seconds * 1000)}", "journal_mode = WAL", "synchronous = FULL"):
            connection.execute(f"PRAGMA {pragma}").close()

    def begin(self, connection: Connection, seconds: float, *, writes: bool) -> None:
        """Begin; a writer waits here for the one before it."""
        info = connection.info
        if _IS_OURS not in info:
            info[_WAITED] = connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one()
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {math.ceil(seconds * 1000)}")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    def commit(self, connection: Connection) -> None:
        """Make it last."""
        connection.exec_driver_sql("COMMIT")

    def give_up(self, connection: Connection) -> None:
        """Undo it, where the database has not done so already."""
        if getattr(connection.connection.driver_connection, "in_transaction", True):
            connection.exec_driver_sql("ROLLBACK")

    def restore(self, connection: Connection) -> None:
        """Wait for locks as long as before."""
        waited = connection.info.pop(_WAITED, None)
        if waited is not None:
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {int(waited)}")

    def meaning(self, error: BaseException) -> tuple[Meaning, str]:
        """Judge by SQLite's primary result code."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_ERROR and "no such table" in str(error):
            return Meaning.NO_TABLES, "1"
        return self._CODES.get(code, Meaning.REFUSED), str(code)


class Postgresql:
    """PostgreSQL: its drivers begin transactions, as the options say."""

    _STATES: Final = {
        "40001": Meaning.AGAIN,
        "40P01": Meaning.AGAIN,
        "23505": Meaning.AGAIN,
        "55P03": Meaning.TOO_LONG,
        "42P01": Meaning.NO_TABLES,
        "42501": Meaning.NO_PRIVILEGE,
        "25006": Meaning.NOT_NOW,
    }
    _CLASSES: Final = {"08": Meaning.LOST, "57": Meaning.LOST, "53": Meaning.NOT_NOW, "28": Meaning.LOST}

    def isolation(self, *, writes: bool) -> dict[str, Any]:
        """Read a snapshot, which PostgreSQL calls repeatable read."""
        if writes:
            return {"isolation_level": "READ COMMITTED", "postgresql_readonly": False}
        return {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}

    def prepare(self, connection: Any, info: dict[Any, Any], seconds: float) -> None:
        """Nothing: all is said in each transaction."""

    def begin(self, connection: Connection, seconds: float, *, writes: bool) -> None:
        """Say how long to wait for locks; the driver has begun."""
        if writes:
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{math.ceil(seconds * 1000)}ms'")

    def commit(self, connection: Connection) -> None:
        """Make it last."""
        connection.commit()

    def give_up(self, connection: Connection) -> None:
        """Undo it."""
        connection.rollback()

    def restore(self, connection: Connection) -> None:
        """Nothing outlives the transaction."""

    def meaning(self, error: BaseException) -> tuple[Meaning, str]:
        """Judge by SQLSTATE."""
        state = str(getattr(error, "sqlstate", None) or getattr(error, "pgcode", None) or "")
        return self._STATES.get(state) or self._CLASSES.get(state[:2]) or Meaning.REFUSED, state


class Mysql:
    """MariaDB and MySQL, on InnoDB. For a transaction the session is strict: nothing is ever cut to fit."""

    _CODES: Final[Mapping[int, Meaning]] = {
        1213: Meaning.AGAIN,
        1020: Meaning.AGAIN,
        1062: Meaning.AGAIN,
        1205: Meaning.TOO_LONG,
        1146: Meaning.NO_TABLES,
        **dict.fromkeys((1044, 1045, 1142, 1143, 1227, 1370), Meaning.NO_PRIVILEGE),
        **dict.fromkeys((1153, 1301), Meaning.TOO_LARGE),
        **dict.fromkeys((1021, 1036, 1041, 1114, 1290, 1836), Meaning.NOT_NOW),
        **dict.fromkeys((1040, 1053, 1077, 1078, 1079, 1152, 1158, 1159, 1160, 1161), Meaning.LOST),
        **dict.fromkeys((1203, 1317, 1927, 2002, 2003, 2005, 2006, 2013, 2014, 2055), Meaning.LOST),
    }

    def isolation(self, *, writes: bool) -> dict[str, Any]:
        """Leave beginning and ending to us."""
        del writes
        return {}

    def prepare(self, connection: Any, info: dict[Any, Any], seconds: float) -> None:
        """Make the session strict, and say how long it waits for locks."""
        info[_IS_OURS] = True
        with connection.cursor() as cursor:
            cursor.execute(f"SET {self._session(seconds)}")

    def begin(self, connection: Connection, seconds: float, *, writes: bool) -> None:
        """Begin: a reader with its snapshot, a writer without locks on gaps."""
        if _IS_OURS not in connection.info:
            connection.info[_WAITED] = True
            remembered = "@stackroom_mode = @@SESSION.sql_mode, @stackroom_wait = @@SESSION.innodb_lock_wait_timeout"
            connection.exec_driver_sql(f"SET {remembered}, {self._session(seconds)}")
        level = "READ COMMITTED" if writes else "REPEATABLE READ"
        connection.exec_driver_sql(f"SET TRANSACTION ISOLATION LEVEL {level}")
        connection.exec_driver_sql("START TRANSACTION" if writes else "START TRANSACTION WITH CONSISTENT SNAPSHOT")

    def commit(self, connection: Connection) -> None:
        """Make it last."""
        connection.exec_driver_sql("COMMIT")

    def give_up(self, connection: Connection) -> None:
        """Undo it."""
        connection.exec_driver_sql("ROLLBACK")

    def restore(self, connection: Connection) -> None:
        """Set the session's settings back."""
        if connection.info.pop(_WAITED, False):
            connection.exec_driver_sql(
                "SET SESSION sql_mode = @stackroom_mode, SESSION innodb_lock_wait_timeout = @stackroom_wait"
            )

    @staticmethod
    def _session(seconds: float) -> str:
        strict = "SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"
        return f"{strict}, SESSION innodb_lock_wait_timeout = {max(1, math.ceil(seconds))}"

    def meaning(self, error: BaseException) -> tuple[Meaning, str]:
        """Judge by the server's or client's error number."""
        code = next(iter(error.args), None)
        if not isinstance(code, int):
            return Meaning.REFUSED, ""
        return self._CODES.get(code, Meaning.REFUSED), str(code)


DIALECTS: Final[Mapping[str, type[Sqlite | Postgresql | Mysql]]] = {
    "sqlite": Sqlite,
    "postgresql": Postgresql,
    "mysql": Mysql,
    "mariadb": Mysql,
}
"""By SQLAlchemy's name."""
