"""What the tables are called, and which names a caller may choose: no name is ever cut or quoted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final
from uuid import UUID

if TYPE_CHECKING:
    from stackroom.stores._protocol import CollectionSpec

_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*")
_LONGEST_SCHEMA: Final = 63
"""PostgreSQL cuts longer names without a word."""
_LONGEST_PREFIX: Final = 32
"""Leaves room for what stands behind it in the name of an index."""

FORMAT: Final = 3
"""The version of the tables' layout. 2: what was written lately is put into the index of words sooner. 3: numbers of
words are given out anew once all have been."""


@dataclass(frozen=True, slots=True)
class Names:
    """The schema that one library's tables lie in, and what their names begin with."""

    schema: str
    prefix: str

    def __post_init__(self) -> None:
        for what, name, longest in (
            ("schema", self.schema, _LONGEST_SCHEMA),
            ("prefix", self.prefix, _LONGEST_PREFIX),
        ):
            if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > longest:
                raise ValueError(
                    f"{what} must begin with a–z or _ and hold at most {longest} of a–z 0–9 _ : it is part of names in "
                    "the database, which cuts longer ones and folds capitals"
                )

    def of(self, table: str) -> str:
        """Return the full name of a table that all collections share."""
        return f'"{self.schema}".{self.prefix}{table}'

    def key(self, *parts: str) -> int:
        """Return the number of an advisory lock: 64 bits, signed."""
        digest = sha256("\0".join([self.schema, self.prefix, *parts]).encode()).digest()
        return int.from_bytes(digest[:8], "big", signed=True)


@dataclass(frozen=True, slots=True)
class Entry:
    """A collection as the register has it: its spec, and the tables that hold it."""

    names: Names
    name: str
    token: str
    spec: CollectionSpec
    partitions: int
    has_vector_index: bool

    @property
    def sources(self) -> str:
        """The table of sources."""
        return self.names.of(f"sources_{self.token}")

    @property
    def passages(self) -> str:
        """The table of passages."""
        return self.names.of(f"passages_{self.token}")

    @property
    def terms(self) -> str:
        """The table of the tenants' words."""
        return self.names.of(f"terms_{self.token}")

    @property
    def tenants(self) -> str:
        """The table of tenants and how many passages each has."""
        return self.names.of(f"tenants_{self.token}")

    @property
    def tables(self) -> tuple[str, ...]:
        """All of them, those that refer to others first."""
        return self.passages, self.sources, self.terms, self.tenants


def tenant_key(tenant_id: str) -> UUID:
    """Return what stands for a tenant in keys of a fixed length: 128 bits of SHA-256, which nobody can make collide."""
    return UUID(bytes=sha256(tenant_id.encode()).digest()[:16])


def token_of(name: str, spec: CollectionSpec, attempt: int = 0) -> str:
    """Return what tells a collection's tables from others': the same for the same collection, until it is taken."""
    return sha256(f"{attempt}\0{name}\0{spec.dimension}\0{spec.fingerprint}".encode()).hexdigest()[:10]
