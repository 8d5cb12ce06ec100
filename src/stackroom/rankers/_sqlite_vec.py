"""SqliteVecRanker: vectors in SQLite, ranked by the extension sqlite-vec."""

from __future__ import annotations

import json
import sqlite3
import tempfile
import threading
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stackroom.rankers._indexes import RankerIsClosed
from stackroom.rankers._protocol import Ranked
from stackroom.rankers._torn import put_aside

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS state (one INTEGER PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS passage (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    dimension INTEGER NOT NULL,
    UNIQUE (tenant, id)
)
"""
_CHUNK: Final = 25_600
"""So many numbers are stored together, about: a tenant takes so much room at least."""

_MOST_IDLE: Final = 8
"""Connections kept for the next calls; more are made while more run at once."""

_CORRUPT: Final = 11
_NO_DATABASE: Final = 26
"""SQLite's codes."""

_LISTED: Final = "FROM json_each(?) AS listed CROSS JOIN passage ON passage.tenant = ? AND passage.id = listed.value"


class SqliteVecRanker:
    """Vectors in one SQLite file, ranked one by one by sqlite-vec; without `path`, in a temporary file.

    A tenant is a partition of the table, candidates are bound row numbers: exact, and it answers 4,096 at most. Each
    call has a connection to itself. A call that returned is in the file, so its state outlives a kill; a file that is
    torn is put aside with a warning, and a new one begun. Where the interpreter's `sqlite3` loads no extensions, apsw
    takes its place. Needs `pip install "stackroom[sqlite-vec]"`.
    """

    max_candidates = 10_000
    max_limit = 4_096

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._connect = _connector()
        self._temporary = None if path is not None else tempfile.TemporaryDirectory(prefix="stackroom-")
        self._file = Path(self._temporary.name) / "vectors.db" if path is None else Path(path)  # type: ignore[union-attr]
        self._writing = threading.Lock()
        self._lock = threading.Lock()
        self._idle: list[Any] = []
        self._is_closed = False
        self._dimensions: set[int] = set()
        try:
            name = self._begun()
        except Exception as error:
            if not _is_torn(error):
                raise
            torn = [self._file.with_name(self._file.name + suffix) for suffix in ("", "-wal", "-shm")]
            put_aside(torn, self._file.with_name(f"{self._file.name}.bad"))
            name = self._begun()
        self.durable_id: str | None = None if path is None else name

    def rank_by_similarity(
        self, *, tenant_id: str, query: NDArray[np.float32], candidate_ids: Sequence[str] | None, limit: int
    ) -> list[Ranked]:
        """Return the candidates nearest to `query`, by their cosine."""
        with self._transaction("BEGIN") as connection:
            if not self._has_table(connection, len(query)):
                return []
            return list(_nearest(connection, tenant_id, query, candidate_ids, min(limit, self.max_limit)))

    def on_embedding_persisted(self, *, tenant_id: str, passage_id: str, vector: NDArray[np.float32] | None) -> None:
        """Keep a passage's vector, or forget it."""
        with self._writing, self._transaction("BEGIN IMMEDIATE") as connection:
            _remove(connection, "tenant = ? AND id = ?", (tenant_id, passage_id))
            if vector is not None:
                self._add(connection, tenant_id, passage_id, vector)

    def forget_tenant(self, *, tenant_id: str) -> None:
        """Forget all of a tenant."""
        with self._writing, self._transaction("BEGIN IMMEDIATE") as connection:
            _remove(connection, "tenant = ?", (tenant_id,))

    def close(self) -> None:
        """Close the file; a temporary one goes. Twice is fine; afterwards every call is refused."""
        with self._writing:
            with self._lock:
                self._is_closed = True
                idle, self._idle = self._idle, []
            for connection in idle:
                connection.close()
            if self._temporary is not None:
                self._temporary.cleanup()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Any]:
        """Do all or nothing, and see one state meanwhile, over a connection that no other call has."""
        connection = self._lent()
        try:
            connection.execute(begin)
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            connection.close()  # rolls back
            raise
        self._take_back(connection)

    def _lent(self) -> Any:
        with self._lock:
            if self._is_closed:
                raise RankerIsClosed("this ranker is closed; make another one on its path")
            if self._idle:
                return self._idle.pop()
        return self._opened()

    def _take_back(self, connection: Any) -> None:
        with self._lock:
            if not self._is_closed and len(self._idle) < _MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _opened(self) -> Any:
        connection = self._connect(str(self._file))
        try:
            for setting in ("journal_mode = WAL", "synchronous = NORMAL", "busy_timeout = 30000"):
                list(connection.execute(f"PRAGMA {setting}"))
        except BaseException:
            connection.close()
            raise
        return connection

    def _begun(self) -> str:
        """Make what is not there yet; return the name of the state."""
        connection = self._opened()
        try:
            for table in _TABLES.split(";\n"):
                connection.execute(table)
            connection.execute("INSERT OR IGNORE INTO state VALUES (1, ?)", (uuid.uuid4().hex,))
            ((name,),) = list(connection.execute("SELECT id FROM state"))
        except BaseException:
            connection.close()
            raise
        self._take_back(connection)
        return str(name)

    def _has_table(self, connection: Any, dimension: int) -> bool:
        if dimension not in self._dimensions:
            found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (f"vectors_{dimension}",))
            if not list(found):
                return False
            self._dimensions.add(dimension)
        return True

    def _add(self, connection: Any, tenant_id: str, passage_id: str, vector: NDArray[np.float32]) -> None:
        dimension = len(vector)
        if not self._has_table(connection, dimension):
            rows = min(max(_CHUNK // dimension // 8, 1), 128) * 8
            connection.execute(
                f"CREATE VIRTUAL TABLE IF NOT EXISTS vectors_{dimension} USING vec0"
                "(tenant TEXT PARTITION KEY, number INTEGER PRIMARY KEY,"
                f" vector FLOAT[{dimension}] distance_metric=cosine, chunk_size={rows})"
            )
        connection.execute(
            "INSERT INTO passage (tenant, id, dimension) VALUES (?, ?, ?)", (tenant_id, passage_id, dimension)
        )
        ((number,),) = list(connection.execute("SELECT last_insert_rowid()"))
        connection.execute(
            f"INSERT INTO vectors_{dimension} (tenant, number, vector) VALUES (?, ?, ?)",  # noqa: S608 - a number
            (tenant_id, number, np.asarray(vector, dtype="<f4").tobytes()),
        )


def _is_torn(error: Exception) -> bool:
    """Tell whether an error, of sqlite3 or of apsw, says that the file is torn, or no database."""
    code = int(getattr(error, "sqlite_errorcode", 0) or getattr(error, "result", 0))
    return code & 0xFF in {_CORRUPT, _NO_DATABASE}


def _nearest(
    connection: Any, tenant_id: str, query: NDArray[np.float32], candidate_ids: Sequence[str] | None, limit: int
) -> Iterator[Ranked]:
    bound: list[object] = [np.asarray(query, dtype="<f4").tobytes(), limit, tenant_id]
    among = ""
    if candidate_ids is not None:
        listed = connection.execute(f"SELECT passage.number {_LISTED}", (_json(candidate_ids), tenant_id))
        among = "AND number IN (SELECT value FROM json_each(?))"
        bound.append(_json([number for (number,) in listed]))
    near = f"SELECT number, distance FROM vectors_{len(query)} WHERE vector MATCH ? AND k = ? AND tenant = ? {among}"  # noqa: S608 - a number
    for number, distance in list(connection.execute(near, bound)):
        ((passage_id,),) = list(connection.execute("SELECT id FROM passage WHERE number = ?", (number,)))
        yield Ranked(passage_id, 1.0 - distance)


def _remove(connection: Any, which: str, bound: tuple[str, ...]) -> None:
    found = list(connection.execute(f"SELECT number, dimension FROM passage WHERE {which}", bound))  # noqa: S608 - ours
    for number, dimension in found:
        connection.execute(f"DELETE FROM vectors_{dimension} WHERE number = ?", (number,))  # noqa: S608 - a number
    connection.execute(f"DELETE FROM passage WHERE {which}", bound)  # noqa: S608 - ours


def _json(values: Sequence[object]) -> str:
    return json.dumps(list(values))


def _connector() -> Any:
    """Return how a connection with the extension is made: by sqlite3, or by apsw where that loads no extensions."""
    try:
        import sqlite_vec

        if hasattr(sqlite3.Connection, "enable_load_extension"):
            return lambda file: _with_sqlite3(file, sqlite_vec.loadable_path())
        import apsw
    except ImportError as missing:
        raise ImportError(
            "SqliteVecRanker needs sqlite-vec, and apsw where sqlite3 loads no extensions: "
            'pip install "stackroom[sqlite-vec]"'
        ) from missing
    return lambda file: _with_apsw(apsw, file, sqlite_vec.loadable_path())


def _with_sqlite3(file: str, extension: str) -> Any:
    connection = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    connection.enable_load_extension(True)
    connection.load_extension(extension)
    connection.enable_load_extension(False)
    return connection


def _with_apsw(apsw: Any, file: str, extension: str) -> Any:
    connection = apsw.Connection(file)
    connection.enable_load_extension(True)
    connection.load_extension(extension)
    connection.enable_load_extension(False)
    return connection
