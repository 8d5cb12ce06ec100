"""What the kit's tests hold in hand: a collection of their own in the store under test, and records to put there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from stackroom.filters import And, Eq, Exists, Filter, In
from stackroom.stores import CollectionSpec, Cursor, LexicalQuery, Match, Page, Record, VectorStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from numpy.typing import ArrayLike

    from stackroom._values import MetadataValue

Place: TypeAlias = tuple[str, str, int]
"""Tenant id, source id, index: a record's identity, and its place in the order of a scan."""

EVERYTHING = Exists("tenantId")
"""Matches every record, since each has a tenant; a delete may stand on it, since it needs a key."""

SPEC = CollectionSpec(2, "m@2")

PAGE = 100_000


def record(
    at: str,
    text: str = "",
    vector: ArrayLike = (1.0, 0.0),
    *,
    tenant: str = "t",
    metadata: Mapping[str, Any] | None = None,
    **keys: Any,
) -> Record:
    """Return the record `<source>#<index>` with metadata from `metadata` and from keyword arguments."""
    source_id, _, index = at.rpartition("#")
    identity = {"tenantId": tenant, "sourceId": source_id, "index": int(index)}
    return Record(text, vector, {**(metadata or {}), **keys, **identity})


def place(of: Record) -> Place:
    """Return a record's identity."""
    return of.tenant_id, of.source_id, of.index


def typed(metadata: Mapping[str, MetadataValue]) -> dict[str, Any]:
    """Return metadata that is equal to another's only when the types are, too: True is no 1, and 1 no 1.0."""
    return {key: _typed(value) for key, value in metadata.items()}


def _typed(value: MetadataValue) -> Any:
    if isinstance(value, list):
        return [_typed(item) for item in value]
    return type(value).__name__, value


def content(of: Record) -> tuple[str, dict[str, Any]]:
    """Return all that a record read without its vector must share with the one written."""
    return of.text, typed(of.metadata)


def tenant(tenant_id: str = "t") -> Filter:
    """Return the filter that names a tenant."""
    return Eq("tenantId", tenant_id)


def source(source_id: str, tenant_id: str = "t") -> Filter:
    """Return the filter that names a source."""
    return And(Eq("tenantId", tenant_id), Eq("sourceId", source_id))


@dataclass(frozen=True, slots=True)
class Shelf:
    """One collection of one store, and the calls that tests make of it; the answers are the store's own."""

    store: VectorStore
    name: str

    def put(self, *records: Record) -> None:
        """Replace the sources of these records by them, tenant by tenant."""
        for tenant_id in sorted({of.tenant_id for of in records}):
            batch = [of for of in records if of.tenant_id == tenant_id]
            sources = sorted({of.source_id for of in batch})
            self.replace(batch, And(Eq("tenantId", tenant_id), In("sourceId", sources)))

    def replace(
        self,
        records: Iterable[Record],
        where: Filter,
        *,
        expect: AbstractSet[int] | None = None,
        fingerprint: str | None = None,
    ) -> int:
        """Replace what `where` matches by `records`."""
        return self.store.replace(self.name, records, where=where, expect=expect, fingerprint=fingerprint)

    def update(self, patch: Mapping[str, Any], where: Filter) -> int:
        """Lay a patch over what matches."""
        return self.store.update(self.name, patch, where=where)

    def delete(self, where: Filter) -> int:
        """Take away what matches."""
        return self.store.delete(self.name, where=where)

    def dense(
        self,
        vector: ArrayLike,
        where: Filter = EVERYTHING,
        limit: int = PAGE,
        fingerprint: str | None = None,
    ) -> list[Match]:
        """Ask for the nearest."""
        return self.store.dense(self.name, vector, where=where, limit=limit, fingerprint=fingerprint)

    def lexical(
        self,
        query: LexicalQuery | str,
        where: Filter = EVERYTHING,
        limit: int = PAGE,
    ) -> list[Match]:
        """Ask for the best worded; a str asks for any of its words."""
        asked = LexicalQuery(query) if isinstance(query, str) else query
        return self.store.lexical(self.name, asked, where=where, limit=limit)

    def scan(
        self,
        where: Filter = EVERYTHING,
        limit: int = PAGE,
        after: Cursor | None = None,
        *,
        vectors: bool = False,
    ) -> Page[Record]:
        """Ask for a page in order."""
        return self.store.scan(self.name, where=where, after=after, limit=limit, vectors=vectors)

    def count(self, where: Filter = EVERYTHING) -> int:
        """Ask how many."""
        return self.store.count(self.name, where=where)

    def ids(self, where: Filter = EVERYTHING) -> list[str]:
        """Return the ids that match, in the order of a scan."""
        return [of.id for of in self.scan(where)]

    def one(self, at: str, tenant_id: str = "t") -> Record:
        """Return the record `<source>#<index>` of a tenant, with its vector."""
        source_id, _, index = at.rpartition("#")
        (found,) = self.scan(And(source(source_id, tenant_id), Eq("index", int(index))), vectors=True)
        return found

    def state(self, where: Filter = EVERYTHING) -> list[Record]:
        """Return all that matches: texts, vectors, metadata and versions, in order."""
        return list(self.scan(where, vectors=True))

    def versions(self, where: Filter = EVERYTHING) -> set[int]:
        """Return the versions of what matches."""
        return {of.version for of in self.scan(where) if of.version is not None}


def ids(found: Iterable[Match]) -> list[str]:
    """Return the ids of matches, in their order."""
    return [match.id for match in found]


def scores(found: Iterable[Match]) -> dict[str, float]:
    """Return the score of each id."""
    return {match.id: match.score for match in found}
