"""The portable file: one SQLite database that any language can read. `docs/moving.md` documents it.

Tables: ``about`` (key, value), ``source`` (tenant, source_id, metadata as JSON) and ``passage`` (its source's number,
idx, text, metadata of its own as JSON, vector as little-endian float32).
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import numpy as np

from stackroom import _keys as keys
from stackroom._errors import Conflict, StoreError, StoreUnavailable
from stackroom.copying._places import Held
from stackroom.stores import CollectionSpec, Record, _door

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from stackroom._values import MetadataValue

FORMAT: Final = "stackroom-export"
VERSION: Final = 1

_APPLICATION: Final = 0x5374_526D
"""SQLite's application_id: what a tool such as `file` can tell the format by."""

_DAMAGED: Final = "the file is damaged or no export of Stackroom; export the collection again, into another file"

_VECTOR: Final = np.dtype("<f4")

_SOURCES_AT_A_TIME: Final = 64

_TABLES: Final = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE source (
    number INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    source_id TEXT NOT NULL,
    metadata TEXT NOT NULL,                -- JSON: the keys that belong to the source
    UNIQUE (tenant, source_id)
);
CREATE TABLE passage (
    source INTEGER NOT NULL REFERENCES source (number),
    idx INTEGER NOT NULL,
    text TEXT NOT NULL,
    metadata TEXT NOT NULL,                -- JSON: the keys of its own
    vector BLOB NOT NULL,                  -- float32, little-endian
    PRIMARY KEY (source, idx)
)
"""


@contextmanager
def _file_errors() -> Iterator[None]:
    """Say StoreUnavailable for what SQLite or the file system refuses, StoreError for what cannot be an export."""
    try:
        yield
    except (ValueError, TypeError) as error:  # of values that no record can hold
        raise StoreError(_DAMAGED) from error
    except sqlite3.DatabaseError as error:
        name = getattr(error, "sqlite_errorname", "") or type(error).__name__
        if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
            raise StoreError(_DAMAGED) from error
        raise StoreUnavailable(
            f"the export's file cannot be used ({name}): is there room, and may it be written?"
        ) from error


@dataclass(slots=True)
class InFile:
    """A collection in a file. Every write is one transaction; a file that was not finished is refused by `opened`."""

    path: Path
    _connection: sqlite3.Connection = field(repr=False)

    @classmethod
    def made(cls, path: str | os.PathLike[str]) -> Self:
        """Return a file to export into, made when missing; StoreError, and nothing is touched, for one not ours."""
        place = Path(path)
        if place.is_dir() or not place.parent.is_dir():
            what = "this is a directory" if place.is_dir() else "there is no directory in which this file could be made"
            raise StoreError(f"{what}; name a file in a directory that is there")
        if place.is_file() and place.stat().st_size:
            return cls(place, _checked(_connected(place, "rw")))
        connection = _connected(place, "rwc")
        try:
            with _file_errors():
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute("BEGIN IMMEDIATE")
                for statement in _TABLES.split(";\n"):
                    connection.execute(statement)
                _tell(connection, format=FORMAT, version=str(VERSION), complete="no")
                connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return cls(place, connection)

    @classmethod
    def opened(cls, path: str | os.PathLike[str]) -> Self:
        """Return a file to import from; StoreError when there is none, it is not ours, or was not finished."""
        place = Path(path)
        if not place.is_file():
            raise StoreError("there is no such file; make one with `stackroom export`")
        file = cls(place, _checked(_connected(place, "ro")))
        if file._about().get("complete") != "yes":
            file.close()
            raise StoreError("this export was not finished: run `stackroom export` again, it goes on where it was")
        return file

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def spec(self) -> CollectionSpec | None:
        """Return what the collection held when it was exported."""
        about = self._about()
        if "fingerprint" not in about:
            return None
        return CollectionSpec(int(about["dimension"]), about["fingerprint"])

    def make(self, spec: CollectionSpec) -> None:
        """Note the collection's spec; the file is unfinished from here on, until `finish`."""
        there = self.spec()
        if there is not None and there != spec:
            raise Conflict("this file holds a collection of another embedder; export into a new one")
        with self._transaction():
            _tell(
                self._connection,
                dimension=str(spec.dimension),
                fingerprint=spec.fingerprint,
                metric=spec.metric,
                complete="no",
            )

    def sources(self) -> Iterator[Held]:
        """Yield the sources by tenant and id, some at a time; StoreError for what no export of ours holds."""
        after = ("", "")
        while found := self._sources_behind(after):
            for number, tenant_id, source_id, metadata in found:
                yield Held(self._records(number, metadata))
                after = tenant_id, source_id

    def _sources_behind(self, after: tuple[str, str]) -> list[tuple[int, str, str, str]]:
        with _file_errors():
            return self._connection.execute(
                "SELECT number, tenant, source_id, metadata FROM source WHERE (tenant, source_id) > (?, ?)"
                " ORDER BY tenant, source_id LIMIT ?",
                (*after, _SOURCES_AT_A_TIME),
            ).fetchall()

    def _records(self, number: int, of_source: str) -> list[Record]:
        with _file_errors():
            rows = self._connection.execute(
                "SELECT idx, text, metadata, vector FROM passage WHERE source = ? ORDER BY idx", (number,)
            ).fetchall()
            shared = json.loads(of_source)
            return [
                Record(text, np.frombuffer(vector, _VECTOR), {**json.loads(own), **shared, keys.INDEX: index})
                for index, text, own, vector in rows
            ]

    def write(self, sources: Sequence[Held]) -> None:
        """Write sources in one transaction."""
        with self._transaction():
            for source in sources:
                self._delete(source.tenant_id, [source.source_id])
                self._insert(source)

    def remove(self, tenant_id: str, source_ids: Sequence[str]) -> None:
        """Take sources away in one transaction."""
        with self._transaction():
            self._delete(tenant_id, source_ids)

    def count(self, tenant_id: str) -> int:
        """Count the passages of a tenant."""
        with _file_errors():
            (number,) = self._connection.execute(
                "SELECT count(*) FROM source JOIN passage ON passage.source = source.number WHERE tenant = ?",
                (tenant_id,),
            ).fetchone()
        return int(number)

    def finish(self) -> None:
        """Note that the export is whole."""
        with self._transaction():
            _tell(self._connection, complete="yes")

    def _about(self) -> dict[str, str]:
        with _file_errors():
            return dict(self._connection.execute("SELECT key, value FROM about"))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with _file_errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def _delete(self, tenant_id: str, source_ids: Sequence[str]) -> None:
        for source_id in source_ids:
            where = (tenant_id, source_id)
            self._connection.execute(
                "DELETE FROM passage WHERE source IN (SELECT number FROM source WHERE tenant = ? AND source_id = ?)",
                where,
            )
            self._connection.execute("DELETE FROM source WHERE tenant = ? AND source_id = ?", where)

    def _insert(self, source: Held) -> None:
        number = self._connection.execute(
            "INSERT INTO source (tenant, source_id, metadata) VALUES (?, ?, ?)",
            (source.tenant_id, source.source_id, _json(_door.source_part(source.records[0].metadata))),
        ).lastrowid
        self._connection.executemany(
            "INSERT INTO passage VALUES (?, ?, ?, ?, ?)",
            [
                (number, record.index, record.text, _json(_door.own_part(record.metadata)), _blob(record))
                for record in source.records
            ],
        )


def _connected(path: Path, mode: Literal["ro", "rw", "rwc"]) -> sqlite3.Connection:
    with _file_errors():
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA synchronous = FULL")
    return connection


def _checked(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Return a connection to a file of ours, else close it and raise."""
    try:
        _check(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection) -> None:
    """Raise StoreError for another program's file, and for one of a newer version."""
    with _file_errors():
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        about = dict(connection.execute("SELECT key, value FROM about")) if application == _APPLICATION else {}
    if about.get("format") != FORMAT:
        raise StoreError("this file is no export of Stackroom; nothing was touched: name another one")
    if about.get("version") != str(VERSION):
        raise StoreError("this export was made by a newer Stackroom: upgrade stackroom to read it")


def _tell(connection: sqlite3.Connection, **about: str) -> None:
    connection.executemany("INSERT OR REPLACE INTO about VALUES (?, ?)", list(about.items()))


def _blob(record: Record) -> bytes:
    if record.vector is None:
        raise StoreError("the store answered a record without the vector that was asked for")
    return record.vector.astype(_VECTOR).tobytes()


def _json(metadata: Mapping[str, MetadataValue]) -> str:
    kept: dict[str, Any] = dict(metadata)
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))
