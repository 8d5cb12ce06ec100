"""What every store checks before it reads or writes: all refuse the same things with the same errors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stackroom import _keys as keys
from stackroom._errors import CapabilityError, Conflict, FilterError
from stackroom._filters import Eq, Filter, conjuncts, leaves, matches
from stackroom._values import MetadataValue, metadata_copy
from stackroom.stores._protocol import CollectionSpec, Cursor, LexicalQuery, Record, check_source_values
from stackroom.text._arguments import require_size

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def check_where(where: object) -> Filter:
    """Return `where` when it is a Filter, else raise a FilterError: a store parses nothing."""
    if not isinstance(where, Filter):
        raise FilterError(f"where must be a Filter, not {type(where).__name__}; make one with stackroom.filters.parse")
    return where


def check_limit(limit: object) -> int:
    """Return `limit` when it is an int of at least 1, else raise a ValueError."""
    return require_size("limit", limit, least=1)


def check_cursor(after: object) -> Cursor | None:
    """Return `after` when it is None or a Cursor, else raise a ValueError."""
    if after is not None and not isinstance(after, Cursor):
        raise ValueError(f"after must be a Cursor or None, not {type(after).__name__}")
    return after


def check_query(query: object) -> LexicalQuery:
    """Return `query` when it is a LexicalQuery, else raise a ValueError."""
    if not isinstance(query, LexicalQuery):
        raise ValueError(f"query must be a LexicalQuery, not {type(query).__name__}")
    return query


def check_spec(spec: object, max_dimension: int | None = None) -> CollectionSpec:
    """Return `spec` when a store of this `max_dimension` can make a collection of it."""
    if not isinstance(spec, CollectionSpec):
        raise ValueError(f"spec must be a CollectionSpec, not {type(spec).__name__}")
    if max_dimension is not None and spec.dimension > max_dimension:
        raise CapabilityError(f"this store holds vectors of at most {max_dimension} dimensions, not {spec.dimension}")
    return spec


def check_fingerprint(spec: CollectionSpec, fingerprint: str | None) -> None:
    """Raise Conflict when the collection's vectors come from another embedder than the caller thinks."""
    if fingerprint is not None and fingerprint != spec.fingerprint:
        raise Conflict(
            f"the collection holds vectors of {spec.fingerprint!r}, not of {fingerprint!r}; open it with that embedder"
        )


def query_vector(vector: ArrayLike, dimension: int) -> NDArray[np.float64]:
    """Return a query vector as float64 of shape (dimension,), or raise a ValueError that says what it is instead."""
    try:
        given = np.asarray(vector)
    except (ValueError, TypeError):
        given = np.empty((0, 0))
    if given.ndim != 1 or given.dtype.kind not in "fiu":
        raise ValueError("a query vector must be one-dimensional and of real numbers")
    if given.shape[0] != dimension:
        raise ValueError(f"the query vector has {given.shape[0]} dimensions, the collection {dimension}")
    query = given.astype(np.float64)
    if not np.isfinite(query).all():
        raise ValueError("the query vector holds NaN or infinity")
    if not query.any():
        raise ValueError("the query vector is all zeros; it is near to nothing")
    return query


def check_condition(where: object) -> Filter:
    """Return `where` when a write may stand on it: it must not match a record without any metadata."""
    checked = check_where(where)
    if matches(checked, {}):
        raise FilterError(
            "this filter selects by absence alone and could reach every record; "
            "put a condition on a key beside it, such as the tenant's"
        )
    return checked


def named_tenant(where: object) -> str:
    """Return the one tenant that `where` names by an Eq that must hold, or raise a FilterError."""
    checked = check_where(where)
    named = {
        leaf.value
        for leaf in conjuncts(checked)
        if isinstance(leaf, Eq) and leaf.key == keys.TENANT and isinstance(leaf.value, str)
    }
    if len(named) != 1:
        raise FilterError(f'a replace must name one tenant: put Eq("{keys.TENANT}", …) into an And with the rest')
    return str(named.pop())


@dataclass(frozen=True, slots=True)
class Batch:
    """The records of one replace, checked, and by source: what one transaction writes."""

    tenant_id: str
    where: Filter
    sources: Mapping[str, list[Record]]


def batch_of(records: Iterable[Record], where: Filter) -> tuple[list[Record], str]:
    """Read `records` to their end, before anything is locked, and return them with the tenant that `where` names."""
    given = list(records)
    return given, named_tenant(where)


def check_batch(given: list[Record], tenant_id: str, where: Filter, dimension: int) -> Batch:
    """Check the records of a replace against each other and the collection; ValueError says what is wrong."""
    sources: dict[str, list[Record]] = defaultdict(list)
    for position, record in enumerate(given):
        _check_record(record, position, tenant_id, dimension)
        sources[record.source_id].append(record)
    for of_source in sources.values():
        _check_source(of_source)
    return Batch(tenant_id, where, dict(sources))


def _check_record(record: object, position: int, tenant_id: str, dimension: int) -> None:
    if not isinstance(record, Record):
        raise ValueError(f"item {position} of records is no Record but a {type(record).__name__}")
    if record.vector is None:
        raise ValueError(f"item {position} of records has no vector; only what is read may lack one")
    if record.vector.shape != (dimension,):
        raise ValueError(
            f"item {position} of records has a vector of {record.vector.shape[0]} dimensions, "
            f"the collection {dimension}"
        )
    if record.tenant_id != tenant_id:
        raise ValueError(f"item {position} of records belongs to another tenant than where names")


def _check_source(records: list[Record]) -> None:
    if len({record.index for record in records}) != len(records):
        raise ValueError("two records have one identity (tenantId, sourceId, index); number them apart")
    first = source_part(records[0].metadata)
    risky = [key for key, value in first.items() if not _is_text(value)]
    if any(not _is_same(source_part(record.metadata), first, risky) for record in records[1:]):
        raise ValueError("records of one source differ in a key that belongs to the source (groups, folder, title …)")


def source_part(metadata: Mapping[str, MetadataValue]) -> dict[str, MetadataValue]:
    """Return what the metadata says of the whole source."""
    return {key: value for key, value in metadata.items() if keys.is_source_key(key)}


def own_part(metadata: Mapping[str, MetadataValue]) -> dict[str, MetadataValue]:
    """Return what the metadata says of the record alone, its index aside."""
    return {key: value for key, value in metadata.items() if not keys.is_source_key(key) and key != keys.INDEX}


def _is_same(left: Mapping[str, MetadataValue], right: Mapping[str, MetadataValue], risky: Iterable[str]) -> bool:
    """Tell whether two metadata are equal, kinds kept apart (True is no 1, 1 no 1.0) under the keys that have such."""
    return left == right and all(_kinds(left[key]) == _kinds(right[key]) for key in risky)


def _is_text(value: MetadataValue) -> bool:
    return all(isinstance(item, str) for item in value) if isinstance(value, list) else isinstance(value, str)


def _kinds(value: MetadataValue) -> type | list[type]:
    return list(map(type, value)) if isinstance(value, list) else type(value)


def check_patch(patch: Mapping[str, MetadataValue | None], where: Filter) -> dict[str, MetadataValue | None]:
    """Return a checked copy of an update's patch: ValueError for its values, FilterError where it splits a source."""
    if not isinstance(patch, Mapping) or not patch:
        raise ValueError("patch must be a mapping with at least one key")
    identity = keys.IDENTITY & patch.keys()
    if identity:
        raise ValueError(f"{', '.join(sorted(identity))} cannot be changed: they are a record's identity")
    given = {key: value for key, value in patch.items() if value is not None}
    checked: dict[str, MetadataValue | None] = {**metadata_copy(given, ValueError, "patch")}
    check_source_values(checked)
    gone = metadata_copy({key: True for key, value in patch.items() if value is None}, ValueError, "patch")
    checked.update(dict.fromkeys(gone))
    if any(keys.is_source_key(key) for key in checked) and any(not _of_source(leaf) for leaf in leaves(where)):
        raise FilterError(
            "this update changes a key that belongs to whole sources, so its where may name such keys only; "
            "otherwise it could split a source"
        )
    return checked


def _of_source(leaf: Filter) -> bool:
    return keys.is_source_key(str(getattr(leaf, "key", "")))


def patched(
    metadata: Mapping[str, MetadataValue], patch: Mapping[str, MetadataValue | None]
) -> dict[str, MetadataValue]:
    """Return the metadata with the patch laid over it: None takes a key away. Lists are copied."""
    merged = {**metadata, **patch}
    return {
        key: list(value) if isinstance(value, list) else value for key, value in merged.items() if value is not None
    }


def check_expected(expect: object, versions: set[int]) -> None:
    """Raise Conflict when the versions of what is about to go are not exactly those expected."""
    if expect is not None and set(expect) != versions:  # type: ignore[call-overload] # a set of ints
        raise Conflict("what is stored is not the version expected; read it again and try with fresh data")


SPLIT = "a source in the records has stored records that where does not match; name the whole source in where"
