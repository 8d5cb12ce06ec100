"""The tables: what all collections of a library lie in, the same on every database.

Whatever is compared is bytes, a string's UTF-8: bytes are equal, and in order, exactly as code points are, and no
collation, character set or padding of a database has a say. All numbers that tell rows apart come from one counter and
are never used twice. Every index is a unique constraint, so that a table is made in one statement everywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, SmallInteger, Table, UniqueConstraint
from sqlalchemy.dialects.mysql import LONGBLOB, VARBINARY

if TYPE_CHECKING:
    from sqlalchemy.schema import SchemaItem
    from sqlalchemy.types import TypeEngine

FORMAT: Final = 1
"""The version of the tables' layout."""

_PREFIX: Final = re.compile(r"[a-z_][a-z0-9_]{0,31}")

_LONGEST_NAME: Final = 512 * 4
"""Bytes of an id, kind, folder, group or tag of 512 characters: fits into a key of an index everywhere."""
_LONGEST_TERM: Final = 128 * 4

_BYTES: Final = LargeBinary().with_variant(LONGBLOB(), "mysql", "mariadb")
_NUMBER: Final = BigInteger().with_variant(Integer(), "sqlite")  # SQLite's rows then need no second key

GROUPS: Final = 1
TAGS: Final = 2
"""What a label is."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of one library."""

    library: Table
    """One row: the format, what tells this library from all others, and the counter of numbers."""
    collections: Table
    tenants: Table
    """A tenant of a collection, and how many passages it has. Who writes there holds its row."""
    sources: Table
    """`odd` is the tenant's number where the time of expiry is none, else NULL. `metadata` is JSON, as for passages."""
    labels: Table
    """A source's groups and tags, a row each."""
    passages: Table
    """A passage's number is its source's plus its index; a source keeps as many numbers as it needs to itself."""
    rests: Table
    """What of a long text does not fit into one statement, in order."""
    blocks: Table
    """Some of a source's passages: their indexes, vectors and lengths, and how many of them hold which terms."""
    terms: Table
    """A word of a tenant, and how many of its passages hold it."""
    postings: Table
    """In which passages of a source a term stands, and what it adds to a score there before its idf."""

    @property
    def all(self) -> tuple[Table, ...]:
        """All of them."""
        return (
            self.library,
            self.collections,
            self.tenants,
            self.sources,
            self.labels,
            self.passages,
            self.rests,
            self.blocks,
            self.terms,
            self.postings,
        )


def check_prefix(prefix: object) -> str:
    """Return what the tables' names begin with, or raise a ValueError."""
    if not isinstance(prefix, str) or not _PREFIX.fullmatch(prefix):
        raise ValueError("prefix must begin with a–z or _ and hold at most 32 of a–z 0–9 _ : it is part of table names")
    return prefix


def tables(prefix: str) -> Tables:
    """Return the tables whose names begin with a prefix."""
    of = _Maker(prefix)
    return Tables(
        library=of.table(
            "library",
            _number("one", primary_key=True),
            _number("format"),
            Column("identity", _name(32), nullable=False),
            _number("next"),
        ),
        collections=of.table(
            "collections",
            _number("number", primary_key=True),
            Column("name", _name(80), nullable=False, unique=True),
            Column("dimension", Integer, nullable=False),
            Column("fingerprint", _BYTES, nullable=False),
        ),
        tenants=of.table(
            "tenants",
            _number("number", primary_key=True),
            _number("collection"),
            Column("tenant_id", _name(), nullable=False),
            _number("passages"),
            UniqueConstraint("collection", "tenant_id"),
        ),
        sources=of.table(
            "sources",
            _number("number", primary_key=True),
            _number("tenant"),
            Column("source_id", _name(), nullable=False),
            _number("version"),
            Column("passages", Integer, nullable=False),
            Column("kind", _name()),
            Column("status", _BYTES),
            Column("folder_id", _name()),
            Column("groups_held", Integer),
            Column("tags_held", Integer),
            Column("expires_at", BigInteger),
            Column("odd", BigInteger),
            Column("metadata", _BYTES, nullable=False),
            UniqueConstraint("tenant", "source_id"),
            UniqueConstraint("tenant", "folder_id", "number"),
            UniqueConstraint("expires_at", "number"),
            UniqueConstraint("odd", "number"),
        ),
        labels=of.table(
            "labels",
            _number("source", primary_key=True),
            Column("what", SmallInteger, primary_key=True, autoincrement=False),
            Column("value", _name(), primary_key=True),
            _number("tenant"),
            UniqueConstraint("tenant", "what", "value", "source"),
            sqlite_with_rowid=False,
        ),
        passages=of.table(
            "passages",
            _number("number", primary_key=True),
            _number("source"),
            Column("text", _BYTES, nullable=False),
            Column("rests", Integer, nullable=False),
            Column("metadata", _BYTES, nullable=False),
            UniqueConstraint("source", "number"),
        ),
        rests=of.table(
            "rests",
            _number("passage", primary_key=True),
            Column("part", Integer, primary_key=True, autoincrement=False),
            Column("text", _BYTES, nullable=False),
        ),
        blocks=of.table(
            "blocks",
            _number("source", primary_key=True),
            Column("block", Integer, primary_key=True, autoincrement=False),
            *(Column(name, _BYTES, nullable=False) for name in ("places", "lengths", "vectors", "terms", "holding")),
        ),
        terms=of.table(
            "terms",
            _number("number", primary_key=True),
            _number("tenant"),
            Column("term", _name(_LONGEST_TERM), nullable=False),
            _number("holding"),
            UniqueConstraint("tenant", "term"),
        ),
        postings=of.table(
            "postings",
            _number("term", primary_key=True),
            _number("source", primary_key=True),
            Column("places", _BYTES, nullable=False),
            Column("impacts", _BYTES, nullable=False),
            sqlite_with_rowid=False,
        ),
    )


class _Maker:
    """Makes tables of one library."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._metadata = MetaData()

    def table(self, name: str, *parts: SchemaItem, **options: Any) -> Table:
        options |= {"mysql_engine": "InnoDB", "mariadb_engine": "InnoDB"}
        return Table(f"{self._prefix}{name}", self._metadata, *parts, **options)


def _number(name: str, *, primary_key: bool = False) -> Column[int]:
    return Column(name, _NUMBER, primary_key=primary_key, autoincrement=False, nullable=False)


def _name(longest: int = _LONGEST_NAME) -> TypeEngine[bytes]:
    return LargeBinary().with_variant(VARBINARY(longest), "mysql", "mariadb")
