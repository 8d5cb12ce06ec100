"""DSNs: one line that says which store stands where, as the command line takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stackroom.stores.embedded import EmbeddedStore
from stackroom.stores.memory import MemoryStore
from stackroom.stores.sql import SqlStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from stackroom.stores._protocol import VectorStore

_FORMS: Final = "embedded:DIRECTORY, postgresql://…, sql:URL (sql:sqlite:///library.db, sql:mysql://…) or memory:"


def open_store(dsn: str) -> VectorStore:
    """Open the store that a DSN names: `embedded:DIRECTORY`, `postgresql://…`, `sql:URL`, or `memory:`.

    A directory, or an SQLite file, is made when missing. `sql:` is followed by a URL as SQLAlchemy writes it.

    ValueError when it names none; the message shows nothing of what was given, which may hold a password. ImportError
    with what to install when the store's package is missing, StoreUnavailable when it cannot be reached.
    """
    scheme, colon, rest = dsn.partition(":")
    opener = _OPENERS.get(scheme) if colon else None
    if opener is None:
        raise ValueError(f"this is no DSN of a store; write {_FORMS}")
    return opener(dsn, rest)


def _open_embedded(_dsn: str, directory: str) -> VectorStore:
    if not directory:
        raise ValueError("embedded: wants a directory behind the colon, such as embedded:library")
    return EmbeddedStore(directory)


def _open_postgres(dsn: str, _rest: str) -> VectorStore:
    from stackroom.stores.postgres import PostgresStore

    return PostgresStore(dsn)


def _open_sql(_dsn: str, url: str) -> VectorStore:
    if not url:
        raise ValueError("sql: wants a URL of SQLAlchemy behind the colon, such as sql:sqlite:///library.db")
    return SqlStore(url)


def _open_memory(_dsn: str, rest: str) -> VectorStore:
    if rest:
        raise ValueError("memory: stands alone; what it holds is gone with the process")
    return MemoryStore()


_OPENERS: Final[dict[str, Callable[[str, str], VectorStore]]] = {
    "embedded": _open_embedded,
    "postgresql": _open_postgres,
    "postgres": _open_postgres,
    "sql": _open_sql,
    "memory": _open_memory,
}
