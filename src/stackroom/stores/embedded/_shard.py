"""One tenant's shard: its SQLite file, which is the truth, and the followers that make it quick to search.

A read runs in one transaction and looks at one state. A write is one transaction, which appends to the journal the
numbers of the sources it touched; readers of this and other processes catch up from there at their next call.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar

import numpy as np

from stackroom.stores.embedded._catalogue import Catalogue
from stackroom.stores.embedded._directory import LOCK_SECONDS, database_errors, sync_directory
from stackroom.stores.embedded._postings import Postings, term_numbers
from stackroom.stores.embedded._vectors import Vectors

if TYPE_CHECKING:
    from pathlib import Path

FILE: Final = "shard.db"

_SCHEMA: Final = """
CREATE TABLE state (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    tenant TEXT NOT NULL,
    number INTEGER NOT NULL,              -- of the shard: the upper half of its sources' versions
    position INTEGER NOT NULL,            -- the last place in the journal: the lower half
    is_gone INTEGER NOT NULL DEFAULT 0,   -- the tenant was removed and this file is about to be
    removals INTEGER NOT NULL DEFAULT 0,  -- writes that took something away
    scrubbed INTEGER NOT NULL DEFAULT 0   -- as many of them have been erased from the file
);
CREATE TABLE source (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    source_id TEXT NOT NULL UNIQUE,
    version INTEGER NOT NULL,
    metadata TEXT NOT NULL                -- JSON: the keys that belong to the source
);
CREATE TABLE passage (
    number INTEGER PRIMARY KEY,
    source INTEGER NOT NULL,
    place INTEGER NOT NULL,
    text TEXT NOT NULL,
    metadata TEXT NOT NULL,               -- JSON: the keys of its own
    terms BLOB NOT NULL,                  -- pairs (term, how often), uint32
    UNIQUE (source, place)
);
CREATE TABLE vectors (source INTEGER PRIMARY KEY, rows BLOB NOT NULL);  -- float32, one row a passage
CREATE TABLE term (number INTEGER PRIMARY KEY AUTOINCREMENT, term TEXT NOT NULL UNIQUE);
CREATE TABLE journal (position INTEGER PRIMARY KEY, source INTEGER NOT NULL);
PRAGMA user_version = 1;
"""

_WORTH_A_REBUILD: Final = 1000
"""Followers of fewer rows are never rebuilt for their dead ones."""

_SCRUB_MILLISECONDS: Final = 2000
"""How long closing waits for other writers; what is not erased then is by whoever closes last."""

T = TypeVar("T")

_log = logging.getLogger("stackroom.stores")


class ShardIsGone(Exception):
    """The tenant was removed, perhaps by another process; this file is no longer its shard."""


Look: TypeAlias = Callable[[sqlite3.Connection, "Followers"], T]


@dataclass(slots=True)
class Followers:
    """What follows one shard's tables in memory; deleting it loses nothing."""

    dimension: int
    catalogue: Catalogue = field(default_factory=Catalogue)
    vectors: Vectors = field(init=False)
    postings: Postings = field(default_factory=Postings)

    def __post_init__(self) -> None:
        self.vectors = Vectors(self.dimension)

    @property
    def are_mostly_dead(self) -> bool:
        """Whether more rows went than are there."""
        rows = len(self.catalogue.row_slots)
        return rows > _WORTH_A_REBUILD and rows > 2 * self.catalogue.live_rows


class Shard:
    """The open shard of one tenant. `path` is its directory; it must hold a finished file (`create_shard`).

    `is_named` tells whether the library still names the generation that the shard is of.
    """

    def __init__(self, path: Path, dimension: int, is_named: Callable[[], bool]) -> None:
        self.path = path
        self.dimension = dimension
        self.is_named = is_named
        self._write_lock = threading.Lock()
        self._follow_lock = threading.RLock()
        self._pool_lock = threading.Lock()
        self._readers: list[sqlite3.Connection] = []
        self._writer: sqlite3.Connection | None = None
        self._followers = Followers(dimension)
        self._is_closed = False
        with database_errors():
            reader = self._borrow()
            self.tenant_id, self.number = reader.execute("SELECT tenant, number FROM state").fetchone()
            self._give_back(reader)

    @contextmanager
    def reading(self, look: Look[T]) -> Iterator[tuple[sqlite3.Connection, T]]:
        """Read one state in one transaction; `look` is asked of followers that are just as far, under their lock."""
        with database_errors():
            reader = self._borrow()
            try:
                yield reader, self._looked(reader, look)
            finally:
                with suppress(sqlite3.Error):
                    reader.execute("ROLLBACK")
                self._give_back(reader)

    @contextmanager
    def writing(self, look: Look[T]) -> Iterator[tuple[sqlite3.Connection, T]]:
        """Write in one transaction: committed at the end, rolled back when anything is raised.

        `look` is asked of the followers as of the transaction's begin. Its own writes they hear of afterwards.
        """
        with self._write_lock, database_errors():
            writer = self._writing_connection()
            writer.execute("BEGIN IMMEDIATE")
            try:
                position = self._position(writer)
                with self._follow_lock:
                    looked = look(writer, self._follow(writer, position))
                yield writer, looked
                writer.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    writer.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Erase what was removed from the file, and close it."""
        with self._write_lock:
            self._is_closed = True
            try:
                with database_errors():
                    self._scrub()
            except Exception as error:  # noqa: BLE001 - closing goes on; what was not erased is at the next close
                _log.warning("a shard could not be scrubbed of removed data (%s); it will be at its next close", error)
            self._close_connections()

    def abandon(self) -> None:
        """Close the file of a tenant that is gone."""
        with self._write_lock:
            self._is_closed = True
            self._close_connections()

    # Connections

    def _borrow(self) -> sqlite3.Connection:
        with self._pool_lock:
            if self._readers:
                return self._readers.pop()
        return self._connected()

    def _connected(self) -> sqlite3.Connection:
        try:
            return _connect(self.path / FILE)
        except sqlite3.OperationalError:
            if (self.path / FILE).exists():
                raise
            raise ShardIsGone from None

    def _give_back(self, reader: sqlite3.Connection) -> None:
        with self._pool_lock:
            if not self._is_closed:
                self._readers.append(reader)
                return
        reader.close()

    def _writing_connection(self) -> sqlite3.Connection:
        if self._is_closed:
            raise ShardIsGone
        if self._writer is None:
            self._writer = self._connected()
        return self._writer

    def _close_connections(self) -> None:
        with self._pool_lock:
            readers, self._readers = self._readers, []
        for connection in [*readers, *([] if self._writer is None else [self._writer])]:
            connection.close()
        self._writer = None

    # Following

    def _looked(self, reader: sqlite3.Connection, look: Look[T]) -> T:
        """Begin a transaction and look at followers of just its state; when they are ahead of it, begin again."""
        while True:
            reader.execute("BEGIN")
            position = self._position(reader)
            with self._follow_lock:
                if self._followers.catalogue.position <= position:
                    return look(reader, self._follow(reader, position))
            reader.execute("ROLLBACK")

    def _position(self, connection: sqlite3.Connection) -> int:
        """Return the last place in the journal; the file may be another tenant's by now, or about to go."""
        position, number, is_gone = connection.execute("SELECT position, number, is_gone FROM state").fetchone()
        if is_gone or number != self.number or not self.is_named():
            raise ShardIsGone
        return int(position)

    def _follow(self, reader: sqlite3.Connection, position: int) -> Followers:
        followers = self._followers
        if followers.are_mostly_dead or not followers.catalogue.follow(reader, position):
            followers = self._followers = Followers(self.dimension)
            followers.catalogue.follow(reader, position)
        return followers

    # Erasing

    def _scrub(self) -> None:
        """Rewrite the file without what was removed: SQLite leaves pieces of moved cells behind, even zeroing them."""
        if self._writer is None:
            self._writer = self._connected()
        writer = self._writer
        writer.execute(f"PRAGMA busy_timeout = {_SCRUB_MILLISECONDS}")
        removals, scrubbed, is_gone = writer.execute("SELECT removals, scrubbed, is_gone FROM state").fetchone()
        if is_gone:
            return
        if removals > scrubbed:
            writer.execute("BEGIN IMMEDIATE")
            _drop_unused_terms(writer)
            writer.execute("COMMIT")
            writer.execute("VACUUM")
            writer.execute("UPDATE state SET scrubbed = ?", (removals,))


def create_shard(path: Path, tenant_id: str, number: int) -> None:
    """Make a tenant's shard in a directory, whole or not at all. The caller holds the library's lock."""
    path.mkdir(parents=True, exist_ok=True)
    connection = _connect(path / FILE, mode="rwc")
    try:
        connection.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
        connection.execute("INSERT INTO state (one, tenant, number, position) VALUES (1, ?, ?, 1)", (tenant_id, number))
        connection.execute("COMMIT")
    finally:
        connection.close()
    sync_directory(path)
    sync_directory(path.parent)


def is_finished(path: Path) -> bool:
    """Tell whether a directory holds a shard that is there: made to its end, and its tenant not removed."""
    if not (path / FILE).exists():
        return False
    with database_errors():
        connection = _connect(path / FILE)
        try:
            if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
                return False
            return not connection.execute("SELECT is_gone FROM state").fetchone()[0]
        finally:
            connection.close()


def _connect(file: Path, mode: Literal["rw", "rwc"] = "rw") -> sqlite3.Connection:
    """Open a shard's file; only "rwc" makes it."""
    connection = sqlite3.connect(
        f"{file.as_uri()}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False, timeout=LOCK_SECONDS
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _drop_unused_terms(writer: sqlite3.Connection) -> None:
    """Forget the words that no passage holds any more."""
    highest = writer.execute("SELECT coalesce(max(number), 0) FROM term").fetchone()[0]
    is_used = np.zeros(highest + 1, dtype=np.bool_)
    for (stored,) in writer.execute("SELECT terms FROM passage"):
        is_used[term_numbers(stored)] = True
    unused = [(number,) for (number,) in writer.execute("SELECT number FROM term") if not is_used[number]]
    writer.executemany("DELETE FROM term WHERE number = ?", unused)
