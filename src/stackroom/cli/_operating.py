"""What an operator asks of a library beyond any reader's scope: its tenants, its format, its size on disk."""

from __future__ import annotations

import tomllib
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from stackroom import Scope
from stackroom._reading import Reading
from stackroom.cli._opening import COLLECTION, AnyStore, check_is_directory_with_library
from stackroom.filters import And, Eq
from stackroom.stores import EmbeddedStore, LanceStore, Neo4jStore, PostgresStore, QdrantStore, SqlStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stackroom.stores import Record
    from stackroom.stores.generations import GenerationStore

_TENANT: Final = "tenantId"


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a collection holds, and its size in the database where that is known."""

    tenants: int
    sources: int
    passages: int
    bytes: int | None


@dataclass(frozen=True, slots=True)
class TenantCounts:
    """A tenant and what is stored of it, whoever may see it, expired sources included until they are swept."""

    tenant_id: str
    sources: int
    passages: int


def scopes_of(store: AnyStore, most: int) -> list[Scope]:
    """Return a scope in each of at most so many tenants, the groups of its first source; of a directory the largest."""
    firsts = (store.scan(COLLECTION, where=Eq(_TENANT, tenant), limit=1) for tenant in _some_tenants(store, most))
    return [Scope(first.tenant_id, _groups_of(first)) for page in firsts for first in page if _groups_of(first)]


def _some_tenants(store: AnyStore, most: int) -> list[str]:
    if not isinstance(store, EmbeddedStore):
        return list(islice(Reading(store, COLLECTION).tenants(), most))
    largest = sorted(store.statistics(COLLECTION), key=lambda shard: shard.passages, reverse=True)
    return [shard.tenant_id for shard in largest[:most]]


def _groups_of(record: Record) -> list[str]:
    groups = record.metadata.get("aclGroups")
    return [str(group) for group in groups] if isinstance(groups, list) else []


def counts_of(store: AnyStore, tenant_id: str) -> TenantCounts:
    """Count what is stored of a tenant; zeros for an unknown one."""
    of_tenant = Eq(_TENANT, tenant_id)
    sources = store.count(COLLECTION, where=And(of_tenant, Eq("index", 0)))
    return TenantCounts(tenant_id, sources, store.count(COLLECTION, where=of_tenant))


_PLACES: Final = {
    PostgresStore: "PostgreSQL",
    SqlStore: "an SQL database",
    QdrantStore: "Qdrant",
    Neo4jStore: "Neo4j",
    LanceStore: "LanceDB",
}


def about(store: AnyStore) -> dict[str, Any]:
    """Return where a library is and what it holds; of a database, its format and, where known, size there."""
    if isinstance(store, EmbeddedStore):
        return description(store.path) | totals(store)
    spec = store.collection(COLLECTION)
    held = store.statistics(COLLECTION) if isinstance(store, PostgresStore) else _held_in(store)
    return {
        "path": _PLACES[type(store)],
        "format": store.format,
        "collections": [
            {"name": COLLECTION, "fingerprint": spec.fingerprint, "dimension": spec.dimension}
            for spec in [spec]
            if spec
        ],
        "bytes": held.bytes,
        "tenant_count": held.tenants,
        "source_count": held.sources,
        "passage_count": held.passages,
    }


def _held_in(store: SqlStore | GenerationStore) -> Statistics:
    """Count what a collection holds; what it takes in the database cannot be asked of every kind."""
    return Statistics(
        tenants=sum(1 for _ in Reading(store, COLLECTION).tenants()),
        sources=store.count(COLLECTION, where=Eq("index", 0)),
        passages=store.count(COLLECTION, where=And()),
        bytes=None,
    )


def description(path: Path) -> dict[str, Any]:
    """Return the path, format, collections and bytes on disk of the library that stands there."""
    written = tomllib.loads((path / "library.toml").read_text(encoding="utf-8"))
    collections = [
        {"name": name, "fingerprint": of_name["fingerprint"], "dimension": of_name["dimension"]}
        for name, of_name in written.get("collections", {}).items()
    ]
    return {
        "path": str(path),
        "format": written["format"],
        "collections": collections,
        "bytes": sum(_size(file) for file in path.rglob("*")),
    }


def totals(store: EmbeddedStore) -> dict[str, int]:
    """Return what all tenants have together, and how far what is derived is behind."""
    every = store.statistics(COLLECTION) if store.collection(COLLECTION) is not None else []
    return {
        "tenant_count": len(every),
        "source_count": sum(shard.sources for shard in every),
        "passage_count": sum(shard.passages for shard in every),
        "rows_without_codes": sum(shard.rows - shard.coded_rows for shard in every),
        "rows_outside_segments": sum(shard.rows - shard.segmented_rows for shard in every),
        "unused_rows": sum(shard.rows - shard.passages for shard in every),
        "unerased_removals": sum(shard.unerased_removals for shard in every),
    }


@contextmanager
def maintained(place: Path | str) -> Iterator[EmbeddedStore]:
    """Open the store that stands in a directory, whatever its embedder; Refused when there is none."""
    with closing(EmbeddedStore(check_is_directory_with_library(place))) as store:
        yield store


def _size(path: Path) -> int:
    """Return a file's bytes; 0 for a directory, and for what another process removed just now."""
    with suppress(FileNotFoundError):
        return path.stat().st_size if path.is_file() else 0
    return 0
