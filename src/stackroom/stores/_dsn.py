"""DSNs: one line that says which store stands where, as the command line takes it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from stackroom.stores import _addresses
from stackroom.stores.embedded import EmbeddedStore
from stackroom.stores.memory import MemoryStore
from stackroom.stores.sql import SqlStore
from stackroom.stores.sql._store import check_sqlalchemy

if TYPE_CHECKING:
    from collections.abc import Callable

    from stackroom.stores._protocol import VectorStore
    from stackroom.stores.generations import GenerationStore
    from stackroom.stores.postgres import PostgresStore

FORMS: Final = "embedded:DIRECTORY, postgresql://…, sql:URL, qdrant://…, neo4j://…, lance:DIRECTORY"
"""What a DSN may be, beside `memory:`."""

_IN_DIRECTORIES: Final = frozenset({"lance", "qdrant"})

_LOOKS_LIKE_ONE: Final = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]+:"  # a scheme; a single letter is a drive of Windows
    r"|(?:.*\s)?(?:host|hostaddr|port|dbname|user|password|service)=",  # libpq's other form
    re.DOTALL,
)


_OPENED_BY: Final = {
    "postgresql": "PostgresStore(dsn)",
    "postgres": "PostgresStore(dsn)",
    "sql": "SqlStore(what follows sql:)",
}


def names_a_database(text: str) -> bool:
    """Tell whether a text is a DSN of a store that is no directory of ours; the store says what is wrong with one."""
    scheme, colon, rest = text.partition(":")
    if scheme in {"postgresql", "postgres"} or scheme in _addresses.OPENERS:
        return rest.startswith("//") or (scheme in _IN_DIRECTORIES and bool(rest.strip()))
    return bool(colon) and scheme == "sql" and bool(rest.strip())


def looks_like_dsn(text: str) -> bool:
    """Tell whether somebody who wrote this meant a DSN, of whatever kind, and no directory."""
    return _LOOKS_LIKE_ONE.match(text) is not None or "://" in text or "password=" in text


def check_is_no_dsn(path: str | os.PathLike[str]) -> None:
    """Raise ValueError for a DSN in the place of a directory, of which a directory of that name would be made.

    Of a path object, which has lost a leading `./`, only DSNs of our stores are taken for one.
    """
    written = os.fspath(path)
    if not isinstance(written, str):
        return
    scheme, colon, _ = written.partition(":")
    opener = _OPENED_BY.get(scheme) if colon else None
    if opener is not None:
        raise ValueError(
            f"this is no directory but a DSN of a database: open it with "
            f'Library({opener}, "library", embedder); for a directory of this name, write ./ before it'
        )
    if isinstance(path, str) and looks_like_dsn(path):
        raise ValueError(
            "this looks like a DSN, and Library.open takes the directory alone; open another store by its class: "
            "Library(store, collection, embedder); for a directory of this name, write ./ before it"
        )


def open_store(dsn: str) -> VectorStore:
    """Open the store that a DSN names: `embedded:DIRECTORY`, `postgresql://…`, `qdrant://…`, … or `memory:`.

    A directory, or an SQLite file, is made when missing. `sql:` is followed by a URL as SQLAlchemy writes it.

    See `open_postgres` for what else the second takes.

    ValueError when it names none; the message shows nothing of what was given, which may hold a password. ImportError
    with what to install when the store's package is missing, StoreUnavailable when it cannot be reached.
    """
    scheme, colon, rest = dsn.partition(":")
    opener = _OPENERS.get(scheme) if colon else None
    if opener is None:
        raise ValueError(f"this is no DSN of a store; write {FORMS} or memory:")
    return opener(dsn, rest)


def _open_embedded(_dsn: str, directory: str) -> VectorStore:
    if not directory:
        raise ValueError("embedded: wants a directory behind the colon, such as embedded:library")
    return EmbeddedStore(directory)


def open_database(dsn: str, *, manage_schema: bool = True) -> PostgresStore | SqlStore | GenerationStore:
    """Open the store in the database that a DSN names.

    NoLibrary, and nothing made, when there is none and none is to be made.
    """
    scheme, _, url = dsn.partition(":")
    if scheme in _addresses.OPENERS:
        return _addresses.OPENERS[scheme](dsn, url, makes=manage_schema)
    return (
        SqlStore(url, manage_schema=manage_schema)
        if scheme == "sql"
        else open_postgres(dsn, manage_schema=manage_schema)
    )


def lacks_its_file(dsn: str) -> bool:
    """Tell whether a DSN names an SQLite file, or a directory, that is not there; of no server can this be told."""
    scheme, _, url = dsn.partition(":")
    if scheme in _IN_DIRECTORIES and "//" not in url:
        return not Path(url).is_dir()
    if scheme != "sql":
        return False
    check_sqlalchemy()
    from stackroom.stores.sql._database import lacks_its_file

    return lacks_its_file(url)


def open_postgres(dsn: str, *, manage_schema: bool = True) -> PostgresStore:
    """Open the store in a database whose DSN may name options of ours beside the driver's.

    They stand behind the `?`: `schema`, `prefix`, `lock_timeout` (seconds), `pool_size`, `exact_limit`,
    `row_level_security`, `manage_schema` and `exact` (true or false). A locked store makes no tables. ValueError
    names the option that is wrong, and shows no value.
    """
    from stackroom.stores.postgres import PostgresStore

    address, options = _parted(dsn)
    options.setdefault("manage_schema", manage_schema and not options.get("row_level_security", False))
    return PostgresStore(address, **options)


def _parted(dsn: str) -> tuple[str, dict[str, Any]]:
    """Part a DSN into what the driver reads and the options of ours, by name."""
    address, _, query = dsn.partition("?")
    options: dict[str, Any] = {}
    others = []
    for part in query.split("&") if query else []:
        name, _, value = part.partition("=")
        if name not in _POSTGRES_OPTIONS:
            _check_is_the_drivers(name, may_be_shown="@" not in query)
            others.append(part)
        elif name in options:
            raise ValueError(f"the DSN names {name} twice")
        else:
            options[name] = _read(name, unquote(value))
    return (f"{address}?{'&'.join(others)}" if others else address), options


def _check_is_the_drivers(name: str, *, may_be_shown: bool) -> None:
    """Refuse what neither the store nor libpq knows; part of a password that was not escaped must not be shown."""
    from stackroom.stores.postgres._connections import check_driver

    check_driver()
    from psycopg.pq import Conninfo

    if unquote(name) in {"ssl", *(option.keyword.decode() for option in Conninfo.get_defaults())}:
        return
    shown = f", {name}," if may_be_shown and _NAME.fullmatch(name) else ""
    raise ValueError(
        f"an option in the DSN{shown} is unknown; Stackroom's are {', '.join(_POSTGRES_OPTIONS)}, and those of libpq, "
        "such as sslmode, are taken, too"
    )


_NAME: Final = re.compile(r"[A-Za-z_]{1,40}")


def _read(name: str, value: str) -> Any:
    try:
        return _POSTGRES_OPTIONS[name](value)
    except (ValueError, KeyError):
        pass
    whats: dict[Any, str] = {float: "a number of seconds", int: "a whole number"}
    what = whats.get(_POSTGRES_OPTIONS[name], "true or false")
    raise ValueError(f"in the DSN, {name} must be {what}")


_POSTGRES_OPTIONS: Final[dict[str, Callable[[str], Any]]] = {
    "schema": str,
    "prefix": str,
    "lock_timeout": float,
    "pool_size": int,
    "row_level_security": _addresses.TRUTHS.__getitem__,
    "manage_schema": _addresses.TRUTHS.__getitem__,
    "exact": _addresses.TRUTHS.__getitem__,
    "exact_limit": int,
}


def _open_sql(_dsn: str, url: str) -> VectorStore:
    if not url:
        raise ValueError("sql: wants a URL of SQLAlchemy behind the colon, such as sql:sqlite:///library.db")
    return SqlStore(url)


def _open_memory(_dsn: str, rest: str) -> VectorStore:
    if rest:
        raise ValueError("memory: stands alone; what it holds is gone with the process")
    return MemoryStore()


def _open_postgres(dsn: str, _rest: str) -> VectorStore:
    return open_postgres(dsn)


_OPENERS: Final[dict[str, Callable[[str, str], VectorStore]]] = {
    "embedded": _open_embedded,
    "postgresql": _open_postgres,
    "postgres": _open_postgres,
    "sql": _open_sql,
    "memory": _open_memory,
    **_addresses.OPENERS,
}
