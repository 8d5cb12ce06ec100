"""A SQLite file of vectors by key, which threads and processes share, and whose loss costs no more than its vectors."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import numpy as np

from stackroom._errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

T = TypeVar("T")
Identity: TypeAlias = tuple[int, int]

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
_LOOKS_EVERY: Final = 0.01
_PRIMARY: Final = 0xFF
"""Of SQLite's extended error codes the bits that say the kind."""
_HELD: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
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
        self._identity: Identity | None = None
        try:
            self._opened()
        except (sqlite3.Error, OSError) as error:
            raise EmbedderError(
                f"{self._path.name} cannot be opened to keep vectors in ({error}): make it and its directory writable, "
                "or name another file"
            ) from error

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
        """Do something with the file; a torn one is put aside and the work done on a new one. None: it was not done."""
        with self._lock:
            try:
                return work(self._opened())
            except (sqlite3.Error, OSError) as error:
                failure: Exception = error
                if _is_torn(error):
                    self.close()
                    try:
                        _renew(self._path, self._identity)
                        return work(self._opened())
                    except (sqlite3.Error, OSError) as again:
                        failure = again
                _log.warning("the file of vectors cannot be used just now (%s)", type(failure).__name__)
                return None

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None or self._opened_by != os.getpid():  # SQLite's handles must not cross a fork
            self._connection = _open(self._path)
            self._identity = _identity(self._path)
            self._opened_by = os.getpid()
        return self._connection


def _open(path: Path) -> sqlite3.Connection:
    """Return a connection to a file that is ours; one that is not, or is torn, is put aside before."""
    with _alone(path):
        try:
            return _connected(path)
        except sqlite3.DatabaseError as error:
            if not _is_torn(error):
                raise
        _put_aside(path)
        return _connected(path)


def _renew(path: Path, torn: Identity | None) -> None:
    """Put the file aside that was found torn while in use, unless another process has done so."""
    with _alone(path):
        if _identity(path) == torn:
            _put_aside(path)


def _identity(path: Path) -> Identity | None:
    """Return what a file is known by, whatever its name."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Be the only one to open this file, or to put it aside.

    A file is another's under the same name once it was put aside, and SQLite finds what belongs to it by its name.
    """
    beside = sqlite3.connect(path.with_name(f"{path.name}.lock"), timeout=_PATIENCE, isolation_level=None)
    try:
        beside.execute("BEGIN EXCLUSIVE")
        yield
    finally:
        beside.close()


def _put_aside(path: Path) -> None:
    aside = path.with_name(f"{path.name}.bad")
    for suffix in _SIDE_FILES:
        with suppress(FileNotFoundError):
            path.with_name(f"{path.name}{suffix}").unlink()
    with suppress(FileNotFoundError):
        path.replace(aside)
    warnings.warn(f"{path.name} is torn, or is no file of vectors: it was put aside as {aside.name}", stacklevel=2)


def _connected(path: Path) -> sqlite3.Connection:
    """Connect, again and again while others hold the file: SQLite does not wait for those who make it just then."""
    until = time.monotonic() + _PATIENCE
    while True:
        connection = sqlite3.connect(path, timeout=_PATIENCE, check_same_thread=False)
        try:
            _prepare(connection)
        except BaseException as error:
            connection.close()
            if not _is_held(error) or time.monotonic() > until:
                raise
            time.sleep(_LOOKS_EVERY)
        else:
            return connection


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN")  # one state for all that is looked at: somebody may be making the file
    with connection:
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


def _is_held(error: BaseException) -> bool:
    return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & _PRIMARY in _HELD


def _is_torn(error: Exception) -> bool:
    """Tell whether an error says that the file is bad; a full disk or a lock is one of its subclasses."""
    return type(error) is sqlite3.DatabaseError


def _vector(blob: object, dimension: int) -> NDArray[np.float32] | None:
    if not isinstance(blob, bytes) or len(blob) != 4 * dimension:
        return None
    vector = np.frombuffer(blob, dtype="<f4").astype(np.float32)
    return vector if np.isfinite(vector).all() and vector.any() else None
