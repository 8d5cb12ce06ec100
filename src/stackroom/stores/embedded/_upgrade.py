"""How a library of an older format becomes one of this: shard by shard, each in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stackroom.stores.embedded._schema import SHARD_FORMAT, make_tables
from stackroom.stores.embedded._shard import FILE, connect

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

_OLD: Final = ("state", "source", "passage", "vectors", "term", "journal")


def upgrade_shard(directory: Path) -> None:
    """Bring a shard to this format, if it is of an older one. What is derived is derived at its next use."""
    if not (directory / FILE).exists():
        return
    connection = connect(directory / FILE)
    try:
        connection.execute("BEGIN IMMEDIATE")
        if connection.execute("PRAGMA user_version").fetchone()[0] == 1:
            _from_1(connection)
        connection.execute("COMMIT")
    finally:
        connection.close()


def _from_1(connection: sqlite3.Connection) -> None:
    """Give every passage a row, and its terms the order of format 2."""
    for table in _OLD:
        connection.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    tenant_id, number = connection.execute("SELECT tenant, number FROM old_state").fetchone()
    make_tables(connection, tenant_id, number)
    connection.execute("INSERT INTO term SELECT number, term FROM old_term")
    connection.execute("INSERT INTO vectors SELECT source, rows FROM old_vectors")
    row = 0
    sources = connection.execute("SELECT number, source_id, version, metadata FROM old_source ORDER BY number")
    for source in sources.fetchall():
        passages = connection.execute(
            "SELECT place, text, metadata, terms FROM old_passage WHERE source = ? ORDER BY place", (source[0],)
        ).fetchall()
        _write(connection, source, passages, row)
        row += len(passages)
    connection.execute(
        "UPDATE state SET (position, is_gone, removals, scrubbed) ="
        " (SELECT position + 1, is_gone, removals + 1, scrubbed FROM old_state), rows = ?, live = ?",
        (row, row),
    )
    for table in _OLD:
        connection.execute(f"DROP TABLE old_{table}")
    connection.execute(f"PRAGMA user_version = {SHARD_FORMAT}")


def _write(
    connection: sqlite3.Connection,
    source: tuple[int, str, int, str],
    passages: list[tuple[int, str, str, bytes]],
    row: int,
) -> None:
    places = [place for place, _, _, _ in passages]
    odd = None if places == list(range(len(places))) else np.asarray(places, dtype="<u4").tobytes()
    connection.execute(
        "INSERT INTO source (number, source_id, version, metadata, first_row, passages, places)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*source, row, len(passages), odd),
    )
    connection.executemany(
        "INSERT INTO passage (row, text, metadata, terms) VALUES (?, ?, ?, ?)",
        [
            (row + offset, text, metadata, np.frombuffer(terms, dtype="<u4").reshape(-1, 2).T.tobytes())
            for offset, (_, text, metadata, terms) in enumerate(passages)
        ],
    )
