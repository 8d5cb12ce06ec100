"""Records to put on a shelf, filters that name them, and what of a record must come back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from stackroom.filters import And, Eq, Exists, Filter
from stackroom.stores import CollectionSpec, Match, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import ArrayLike

    from stackroom._values import MetadataValue

Place: TypeAlias = tuple[str, str, int]
"""Tenant id, source id, index: a record's identity, and its place in the order of a scan."""

EVERYTHING = Exists("tenantId")
"""Matches every record, since each has a tenant; a delete may stand on it, since it needs a key."""

SPEC = CollectionSpec(2, "m@2")

PAGE = 100_000
"""The largest limit that every store serves."""


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
    identity: dict[str, Any] = {"tenantId": tenant, "sourceId": source_id, "index": int(index)}
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


def ids(found: Iterable[Match]) -> list[str]:
    """Return the ids of matches, in their order."""
    return [match.id for match in found]


def scores(found: Iterable[Match]) -> dict[str, float]:
    """Return the score of each id."""
    return {match.id: match.score for match in found}
