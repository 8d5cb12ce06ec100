"""LanceDB as an engine of generations: a table a shelf, and notes beside them.

Conditions are SQL of token literals, which hold letters, digits, `-` and `_` alone.
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import filelock
import lancedb
import numpy as np
import pyarrow as pa

from stackroom._errors import StoreError, StoreUnavailable
from stackroom.stores._tokens import Every, Form, Holds, HoldsAll, No, Some, digest
from stackroom.stores.generations import Found, Nearest, Place, Row, Stored, Worded
from stackroom.stores.generations._fields import PLACE, fields, place_of, stored_of, values_of
from stackroom.stores.lance._errors import errors as _errors
from stackroom.stores.lance._notes import NotesInATable, NotesInFiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stackroom._model import Note

_log = logging.getLogger("stackroom.stores")

_ALL: Final = 2**31 - 1
_KEPT: Final = timedelta(minutes=10)


class LanceEngine:
    """Rows in tables of LanceDB's."""

    def __init__(self, uri: str | os.PathLike[str], lock_timeout: float) -> None:
        where = os.fspath(uri)
        self.is_local = "://" not in where
        if self.is_local:
            Path(where).mkdir(parents=True, exist_ok=True)
        self._uri = where
        with _errors():
            self._database = lancedb.connect(where, read_consistency_interval=timedelta(0))
        self._lock = threading.RLock()
        self._file = filelock.FileLock(Path(where) / "stackroom.lock", timeout=lock_timeout) if self.is_local else None
        self._tables: dict[str, Any] = {}
        self._written: set[str] = set()
        self._notes: NotesInFiles | NotesInATable = (
            NotesInFiles(Path(where) / "notes") if self.is_local else NotesInATable(self._database)
        )

    # Shelves

    def make_shelf(self, shelf: str, dimension: int) -> None:
        """Make a table."""
        schema = pa.schema(
            [
                ("key", pa.string()),
                ("home", pa.string()),
                ("tenant", pa.string()),
                ("source", pa.string()),
                ("place", pa.int64()),
                ("written", pa.int64()),
                ("text", pa.large_string()),
                ("metadata", pa.large_string()),
                ("vector", pa.binary()),
                ("direction", pa.list_(pa.float32(), dimension)),
                ("tokens", pa.list_(pa.string())),
                ("numbers", pa.list_(pa.int64())),
                ("weights", pa.list_(pa.float32())),
            ]
        )
        with _errors():
            self._database.create_table(_name(shelf), schema=schema)

    def drop_shelf(self, shelf: str) -> None:
        """Drop a table."""
        self._tables.pop(_name(shelf), None)
        if _name(shelf) in self._names():
            with _errors():
                self._database.drop_table(_name(shelf))

    def put(self, shelf: str, rows: Sequence[Row]) -> None:
        """Add rows; all of a batch are there at once."""
        table = self._table(shelf)
        with _errors(), self._lock:
            table.add(pa.Table.from_pylist([_columns(row) for row in rows], table.schema))
        self._written.add(_name(shelf))

    def erase(self, shelf: str, tenant: str, form: Form) -> None:
        """Delete rows; their bytes go when old versions are erased."""
        table = self._table(shelf)
        with _errors(), self._lock:
            table.delete(_where(tenant, form))
        self._written.add(_name(shelf))

    def count(self, shelf: str, tenant: str, form: Form) -> int:
        """Count rows."""
        table = self._table(shelf)
        with _errors():
            return int(table.count_rows(_where(tenant, form)))

    def places(self, shelf: str, tenant: str, form: Form) -> Iterator[Place]:
        """Return where rows stand."""
        return iter([place_of(row) for row in self._rows(shelf, _where(tenant, form), list(PLACE))])

    def fetch(self, shelf: str, keys: Sequence[str], *, vectors: bool) -> Sequence[Stored]:
        """Return rows by their keys."""
        named = ", ".join(f"'{key}'" for key in keys)
        return [stored_of(row) for row in self._rows(shelf, f"key IN ({named})", fields(vectors=vectors))]

    def best(
        self, shelf: str, tenant: str, form: Form, asked: Nearest | Worded, limit: int, *, vectors: bool
    ) -> Sequence[Found]:
        """Compare all that is allowed: vectors in LanceDB, words here."""
        if isinstance(asked, Worded):
            return self._worded(shelf, _where(tenant, form), asked, limit, vectors=vectors)
        table = self._table(shelf)
        with _errors():
            found = (
                table.search(asked.direction, vector_column_name="direction")
                .distance_type("cosine")
                .bypass_vector_index()
                .where(_where(tenant, form), prefilter=True)
                .select([*fields(vectors=vectors), "_distance"])
                .limit(limit)
                .to_list()
            )
        return [Found(stored_of(row), 1.0 - row["_distance"]) for row in found]

    def _worded(self, shelf: str, where: str, asked: Worded, limit: int, *, vectors: bool) -> list[Found]:
        weights = asked.weights
        scored = []
        for row in self._rows(shelf, where, ["key", "numbers", "weights"]):
            pairs = zip(row["numbers"], row["weights"], strict=True)
            score = float(np.float32(sum(weights[number] * weight for number, weight in pairs if number in weights)))
            if score > 0:
                scored.append((score, row["key"]))
        scored.sort(reverse=True)
        best = {key: score for score, key in scored[:limit]}
        found = self.fetch(shelf, list(best), vectors=vectors) if best else []
        return sorted((Found(row, best[row.place.key]) for row in found), key=lambda item: -item.score)

    def remarks(self) -> tuple[Note, ...]:
        """Nothing: all is compared, and the newest version is read."""
        return ()

    # Notes

    def note(self, name: str) -> bytes | None:
        """Return a note."""
        return self._notes.read(name)

    def notes_of(self, prefix: str) -> Mapping[str, bytes]:
        """Return notes by the beginning of their names."""
        return self._notes.beginning(prefix)

    def write_note(self, name: str, content: bytes | None, expected: bytes | None) -> bool:
        """Write a note if it holds what is expected."""
        with self._alone():
            return self._notes.read(name) == expected and self._notes.write(name, content, expected)

    def close(self) -> None:
        """Erase versions of what was written that no reader of another process can still be at."""
        try:
            with self._alone(), _errors():
                for name in sorted(self._written & set(self._names())):
                    self._database.open_table(name).optimize(cleanup_older_than=_KEPT)
        except StoreError as error:
            _log.warning("old versions could not be erased (%s); the next store that writes does it", error)
        self._tables.clear()

    # Inside

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock of the directory, in which no other process writes a note."""
        try:
            with self._lock, self._file if self._file is not None else nullcontext():
                yield
        except filelock.Timeout as error:
            raise StoreUnavailable("another process holds the lock of the directory (stackroom.lock)") from error

    def _names(self) -> list[str]:
        with _errors():
            names: list[str] = []
            page = self._database.list_tables(limit=_ALL)
            names += page.tables
            while page.page_token:
                page = self._database.list_tables(page_token=page.page_token)
                names += page.tables
            return names

    def _table(self, shelf: str) -> Any:
        return self._opened(_name(shelf))

    def _opened(self, name: str) -> Any:
        with self._lock, _errors():
            if name not in self._tables:
                self._tables[name] = self._database.open_table(name)
            return self._tables[name]

    def _rows(self, shelf: str, where: str, columns: list[str]) -> list[dict[str, Any]]:
        table = self._table(shelf)
        with _errors():
            found: list[dict[str, Any]] = table.search().where(where).select(columns).limit(_ALL).to_list()
            return found


def _name(shelf: str) -> str:
    return f"shelf_{shelf}"


def _columns(row: Row) -> dict[str, Any]:
    return {
        **values_of(row),
        "home": digest(row.tenant),
        "vector": row.vector,
        "direction": row.direction,
        "numbers": list(row.terms),
        "weights": list(row.terms.values()),
    }


def _where(tenant: str, form: Form) -> str:
    return f"home = '{digest(tenant)}' AND {_condition(form)}"


def _condition(form: Form) -> str:
    match form:
        case Holds(tokens):
            return f"array_has_any(tokens, {_list(tokens)})"
        case HoldsAll(tokens):
            return f"array_has_all(tokens, {_list(tokens)})"
        case Every(parts):
            return "(" + " AND ".join(_condition(part) for part in parts) + ")" if parts else "true"
        case Some(parts):
            return "(" + " OR ".join(_condition(part) for part in parts) + ")" if parts else "false"
        case No(part):
            return f"(NOT {_condition(part)})"


def _list(tokens: frozenset[str]) -> str:
    return "[" + ", ".join(f"'{token}'" for token in sorted(tokens)) + "]"
