"""A SQLite file of vectors by key, which threads and processes share, and whose loss costs no more than its vectors."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

T = TypeVar("T")

_log = logging.getLogger("stackroom.embedders")

_APPLICATION_ID: Final = 0x53726F76  # "Srov"
_FORMAT: Final = 1
_PATIENCE: Final = 30.0
"""Seconds that a write waits for another process's."""
_AT_A_TIME: Final = 500
_TABLE: Final = (
    "CREATE TABLE vectors (fingerprint TEXT, kind TEXT, digest BLOB, vector BLOB NOT NULL, "
    "PRIMARY KEY (fingerprint, kind, digest)) WITHOUT ROWID"
)
_SIDE_FILES: Final = ("-wal", "-shm")


class VectorFile:
    """Keeps vectors under (fingerprint, kind, digest). What cannot be read is a miss, what cannot be kept is logged."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        if not self._path.parent.is_dir():
            raise FileNotFoundError(f"there is no directory {self._path.parent} to keep vectors in; make it first")
        if self._path.is_dir():
            raise IsADirectoryError(f"{self._path} is a directory; name a file in it")
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._opened_by = 0
        with self._lock:
            self._opened()

    def get(
        self, fingerprint: str, kind: str, digests: Sequence[bytes], dimension: int
    ) -> dict[bytes, NDArray[np.float32]]:
        """Return the vectors that are there, by digest; a row that is no vector of this length is not there."""

        def read(connection: sqlite3.Connection) -> dict[bytes, NDArray[np.float32]]:
            found = {}
            for first in range(0, len(digests), _AT_A_TIME):
                part = digests[first : first + _AT_A_TIME]
                marks = ",".join("?" * len(part))
                rows = connection.execute(
                    f"SELECT digest, vector FROM vectors WHERE fingerprint = ? AND kind = ? AND digest IN ({marks})",  # noqa: S608 - marks alone
                    (fingerprint, kind, *part),
                )
                for digest, blob in rows:
                    vector = _vector(blob, dimension)
                    if vector is not None:
                        found[bytes(digest)] = vector
            return found

        return self._with_file(read) or {}

    def put(self, fingerprint: str, kind: str, vectors: Mapping[bytes, NDArray[np.float32]]) -> None:
        """Keep vectors in one transaction."""
        rows = [(fingerprint, kind, digest, vector.astype("<f4").tobytes()) for digest, vector in vectors.items()]
        if not rows:
            return

        def write(connection: sqlite3.Connection) -> None:
            with connection:
                connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?)", rows)

        self._with_file(write)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None and self._opened_by == os.getpid():
                connection.close()

    def _with_file(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Do something with the file; a torn one is put aside and the work done on a new one."""
        with self._lock:
            try:
                return work(self._opened())
            except sqlite3.DatabaseError as error:
                if not _is_torn(error):
                    _log.warning("the file of vectors cannot be used just now (%s)", type(error).__name__)
                    return None
                self.close()
                self._put_aside()
                return work(self._opened())

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None or self._opened_by != os.getpid():  # SQLite's handles must not cross a fork
            try:
                self._connection = _open(self._path)
            except sqlite3.DatabaseError as error:
                if not _is_torn(error):
                    raise
                self._put_aside()
                self._connection = _open(self._path)
            self._opened_by = os.getpid()
        return self._connection

    def _put_aside(self) -> None:
        aside = self._path.with_name(f"{self._path.name}.bad")
        warnings.warn(
            f"{self._path.name} is torn, or is no file of vectors: it was put aside as {aside.name}", stacklevel=2
        )
        for suffix in _SIDE_FILES:
            with suppress(FileNotFoundError):
                self._path.with_name(f"{self._path.name}{suffix}").unlink()
        with suppress(FileNotFoundError):  # another process has put it aside
            self._path.replace(aside)


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_PATIENCE, check_same_thread=False)
    try:
        _prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    is_new = _is_new(connection)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")  # what a power cut takes is embedded again
    if is_new:
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            if _is_new(connection):  # nobody else has made it meanwhile
                connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {_FORMAT}")
                connection.execute(_TABLE)


def _is_new(connection: sqlite3.Connection) -> bool:
    """Tell whether a file is empty yet; one that is neither empty nor ours is an error like a torn one."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    tables = connection.execute("SELECT sql FROM sqlite_master WHERE type = 'table'").fetchall()
    if not tables and not application:
        return True
    if (application, version, tables) != (_APPLICATION_ID, _FORMAT, [(_TABLE,)]):
        raise sqlite3.DatabaseError("this is a database of somebody else, or of another format")
    return False


def _is_torn(error: sqlite3.DatabaseError) -> bool:
    """Tell whether an error says that the file is bad; a full disk or a lock is one of its subclasses."""
    return type(error) is sqlite3.DatabaseError


def _vector(blob: object, dimension: int) -> NDArray[np.float32] | None:
    if not isinstance(blob, bytes) or len(blob) != 4 * dimension:
        return None
    vector = np.frombuffer(blob, dtype="<f4").astype(np.float32)
    return vector if np.isfinite(vector).all() and vector.any() else None
