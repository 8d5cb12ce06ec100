"""The notes of a store in LanceDB: files in a directory, or a table where there are no files to lock."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

import pyarrow as pa

from stackroom._files import sync_directory, write_whole
from stackroom.stores._tokens import digest
from stackroom.stores.lance._errors import errors

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_SCHEMA: Final = pa.schema([("name", pa.string()), ("content", pa.string()), ("stamp", pa.string())])
_TABLE: Final = "notes"
_ALL: Final = 2**31 - 1
_TIDIED: Final = 200
"""Writes after which old versions are erased."""

_KEPT: Final = timedelta(minutes=10)


class NotesInFiles:
    """A file a note, replaced whole; whoever writes holds the lock of the directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        with errors():
            directory.mkdir(parents=True, exist_ok=True)

    def read(self, name: str) -> bytes | None:
        """Return a note, or None."""
        try:
            with errors():
                path = self._path(name)
                return path.read_bytes() if path.exists() else None
        except FileNotFoundError:
            return None

    def beginning(self, prefix: str) -> Mapping[str, bytes]:
        """Return notes by the beginning of their names."""
        found = {}
        for path in sorted(self._directory.glob(f"{quote(prefix, safe='')}*.json")):
            name = unquote(path.name.removesuffix(".json"))
            content = self.read(name)
            if content is not None:
                found[name] = content
        return found

    def write(self, name: str, content: bytes | None, _expected: bytes | None) -> bool:
        """Write a note, durably; None takes it away."""
        with errors():
            path = self._path(name)
            if content is None:
                path.unlink(missing_ok=True)
                sync_directory(self._directory)
            else:
                write_whole(path, content)
            return True

    def _path(self, name: str) -> Path:
        return self._directory / f"{quote(name, safe='')}.json"


class NotesInATable:
    """A row a note, written by a merge on the condition that it still holds what is expected."""

    def __init__(self, database: Any) -> None:
        self._database = database
        self._writes = 0
        with errors():
            self._table = database.create_table(_TABLE, schema=_SCHEMA, exist_ok=True)

    def read(self, name: str) -> bytes | None:
        """Return a note, or None."""
        found = self._asked(f"name = {_literal(name)}")
        return found[0]["content"].encode() if found else None

    def beginning(self, prefix: str) -> Mapping[str, bytes]:
        """Return notes by the beginning of their names."""
        found = self._asked(f"starts_with(name, {_literal(prefix)})")
        return {note["name"]: note["content"].encode() for note in found}

    def write(self, name: str, content: bytes | None, expected: bytes | None) -> bool:
        """Write a note if it holds what is expected; None takes it away."""
        with errors():
            self._tidy()
            held = "" if expected is None else digest(expected.decode())
            if content is None:
                self._table.delete(f"name = {_literal(name)} AND stamp = '{held}'")
                return True
            row = {"name": name, "content": content.decode(), "stamp": digest(content.decode())}
            merge = self._table.merge_insert("name")
            note = pa.Table.from_pylist([row], _SCHEMA)
            if expected is None:
                return bool(merge.when_not_matched_insert_all().execute(note).num_inserted_rows)
            return bool(merge.when_matched_update_all(where=f"target.stamp = '{held}'").execute(note).num_updated_rows)

    def _tidy(self) -> None:
        self._writes += 1
        if self._writes % _TIDIED == 0:
            self._table.optimize(cleanup_older_than=_KEPT)

    def _asked(self, where: str) -> list[dict[str, Any]]:
        with errors():
            found: list[dict[str, Any]] = (
                self._table.search().where(where).select(["name", "content"]).limit(_ALL).to_list()
            )
            return found


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
