"""The tables of a shard, and how a shard of an older format becomes one of this."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import sqlite3


class State(NamedTuple):
    """Where a shard stands, as one transaction sees it."""

    number: int
    position: int
    is_gone: int
    layout: int
    rows: int
    live: int
    coded: int
    segmented: int
    vocabulary: int


def state_of(connection: sqlite3.Connection) -> State:
    """Return where the shard stands."""
    return State(*connection.execute(f"SELECT {', '.join(State._fields)} FROM state").fetchone())  # noqa: S608 - our own names


SHARD_FORMAT: Final = 2

_TABLES: Final = """
CREATE TABLE state (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    tenant TEXT NOT NULL,
    number INTEGER NOT NULL,               -- of the shard: the upper half of its sources' versions
    position INTEGER NOT NULL DEFAULT 1,   -- the last place in the journal: the lower half
    is_gone INTEGER NOT NULL DEFAULT 0,    -- the tenant was removed and this file is about to be
    removals INTEGER NOT NULL DEFAULT 0,   -- writes that took something away
    scrubbed INTEGER NOT NULL DEFAULT 0,   -- as many of them have been erased from the files
    layout INTEGER NOT NULL DEFAULT 1,     -- the numbering of the rows: side files of another are not this one's
    rows INTEGER NOT NULL DEFAULT 0,       -- rows ever given in this numbering; sources that went leave theirs unused
    live INTEGER NOT NULL DEFAULT 0,       -- of them, those of sources that are there
    coded INTEGER NOT NULL DEFAULT 0,      -- of them, those whose codes are written
    segmented INTEGER NOT NULL DEFAULT 0,  -- of them, those whose postings are in a segment
    vocabulary INTEGER NOT NULL DEFAULT 0  -- how often words that nobody holds any more were dropped
);
CREATE TABLE source (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    source_id TEXT NOT NULL UNIQUE,
    version INTEGER NOT NULL,
    metadata TEXT NOT NULL,                -- JSON: the keys that belong to the source
    first_row INTEGER NOT NULL,            -- its passages are the rows from here
    passages INTEGER NOT NULL,
    places BLOB                            -- their indexes, uint32, when they are not 0, 1, 2 …
);
CREATE TABLE passage (
    row INTEGER PRIMARY KEY,
    text TEXT NOT NULL,
    metadata TEXT NOT NULL,                -- JSON: the keys of its own
    terms BLOB NOT NULL                    -- numbers, then how often each, uint32
);
CREATE TABLE vectors (
    source INTEGER PRIMARY KEY,
    rows BLOB NOT NULL                     -- float32, one row a passage, as given
);
CREATE TABLE term (number INTEGER PRIMARY KEY AUTOINCREMENT, term TEXT NOT NULL UNIQUE);
CREATE TABLE segment (number INTEGER PRIMARY KEY AUTOINCREMENT, first_row INTEGER NOT NULL, end_row INTEGER NOT NULL);
CREATE TABLE posting (
    key INTEGER PRIMARY KEY,               -- the segment's number · 2³² + the term's
    rows BLOB NOT NULL                     -- uint32, ascending, then as many impacts, float32
);
CREATE TABLE quantiser (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    epoch INTEGER NOT NULL,                -- names the file of the codes
    seed INTEGER NOT NULL,                 -- of the rotation
    mean BLOB NOT NULL,                    -- float32
    centred INTEGER NOT NULL,              -- how many rows the mean is of
    calibrated INTEGER NOT NULL,           -- how many rows the numbers of candidates are of
    candidates TEXT NOT NULL               -- JSON: pairs (rows allowed, candidates needed)
);
CREATE TABLE journal (
    position INTEGER PRIMARY KEY,
    source INTEGER NOT NULL,               -- its number: there and new, there and changed, or gone
    changed_passages INTEGER NOT NULL      -- whether its passages' own metadata changed
)
"""


def make_tables(connection: sqlite3.Connection, tenant_id: str, number: int) -> None:
    """Make the tables of a new shard, within a transaction of the caller."""
    for statement in _TABLES.split(";\n"):
        connection.execute(statement)
    connection.execute("INSERT INTO state (one, tenant, number) VALUES (1, ?, ?)", (tenant_id, number))
    connection.execute(f"PRAGMA user_version = {SHARD_FORMAT}")
