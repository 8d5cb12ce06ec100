"""What a store is: the values that pass in and out of it, and the promises of its methods."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias, get_args

import numpy as np

from stackroom import _keys as keys
from stackroom._model import Note, Page
from stackroom._values import MetadataValue, metadata_copy, unstorable_at
from stackroom.text._arguments import is_whole_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from numpy.typing import ArrayLike, NDArray

    from stackroom._filters import Filter

Support: TypeAlias = Literal["native", "emulated", "refused"]

MAX_DIMENSION: Final = 65_536
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}(\.side)?")


@dataclass(frozen=True, slots=True, init=False, eq=False)
class Record:
    """A passage as a store keeps it: text, vector, metadata; together `tenantId sourceId index` are its identity.

    `vector` is a one-dimensional float32 array of its own, finite and not all zeros, or None in what is read without
    vectors. `version` is the store's and ignored in what it is given. A ValueError names the field that is wrong.
    """

    text: str
    vector: NDArray[np.float32] | None
    metadata: dict[str, MetadataValue]
    version: int | None

    def __init__(
        self,
        text: str,
        vector: ArrayLike | None,
        metadata: Mapping[str, MetadataValue],
        version: int | None = None,
    ) -> None:
        object.__setattr__(self, "text", _text(text))
        object.__setattr__(self, "vector", None if vector is None else _vector(vector))
        object.__setattr__(self, "metadata", _metadata(metadata))
        object.__setattr__(self, "version", version)

    @classmethod
    def stored(
        cls, text: str, vector: NDArray[np.float32] | None, metadata: dict[str, MetadataValue], version: int
    ) -> Record:
        """Make a record of values that were checked when they were written; nothing is copied or checked again."""
        record = object.__new__(cls)
        object.__setattr__(record, "text", text)
        object.__setattr__(record, "vector", vector)
        object.__setattr__(record, "metadata", metadata)
        object.__setattr__(record, "version", version)
        return record

    @property
    def tenant_id(self) -> str:
        """The tenant, from the metadata."""
        return str(self.metadata[keys.TENANT])

    @property
    def source_id(self) -> str:
        """The source's id, from the metadata."""
        return str(self.metadata[keys.SOURCE])

    @property
    def index(self) -> int:
        """The place within the source, from 0, from the metadata."""
        return int(self.metadata[keys.INDEX])  # type: ignore[arg-type] # an int, checked when the record was made

    @property
    def id(self) -> str:
        """`<source_id>#<index>`: unique within a tenant."""
        return f"{self.metadata[keys.SOURCE]}#{self.metadata[keys.INDEX]}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        same = (self.text, self.metadata, self.version) == (other.text, other.metadata, other.version)
        if self.vector is None or other.vector is None:
            return same and self.vector is other.vector
        return same and np.array_equal(self.vector, other.vector)

    __hash__ = None  # type: ignore[assignment] # it holds a dict and an array


def _text(text: object) -> str:
    if not isinstance(text, str):
        raise ValueError(f"a record's text must be a string, not {type(text).__name__}")
    at = unstorable_at(text)
    if at is not None:
        raise ValueError(f"a record's text has NUL or a lone surrogate at position {at}")
    return text


def _vector(vector: ArrayLike) -> NDArray[np.float32]:
    try:
        given = np.asarray(vector)
    except (ValueError, TypeError):
        given = np.empty((0, 0))
    if given.ndim != 1 or given.dtype.kind not in "fiu" or not given.size:
        raise ValueError("a record's vector must be one-dimensional, of real numbers, and not empty")
    with np.errstate(over="ignore"):
        single = given.astype(np.float32)
    if not np.isfinite(single).all():
        raise ValueError("a record's vector holds NaN, infinity, or a number too large for float32")
    if not single.any():
        raise ValueError("a record's vector is all zeros (as float32); it is near to nothing")
    return np.ascontiguousarray(single)


def _metadata(metadata: Mapping[str, MetadataValue]) -> dict[str, MetadataValue]:
    copied = metadata_copy(metadata, ValueError, "a record's metadata")
    for key in (keys.TENANT, keys.SOURCE):
        value = copied.get(key)
        if not isinstance(value, str) or not value:
            raise ValueError(f"a record's metadata needs {key}, a string that is not empty")
    index = copied.get(keys.INDEX)
    if not is_whole_number(index) or not 0 <= index <= keys.MAX_INDEX:
        raise ValueError(f"a record's metadata needs {keys.INDEX}, an int of 0…2**31−1")
    check_source_values(copied)
    return copied


def check_source_values(metadata: Mapping[str, MetadataValue | None]) -> None:
    """Raise a ValueError when a documented key holds another type than it may: a str, or a list of strs."""
    for key in keys.STRINGS & metadata.keys():
        if not isinstance(metadata[key], str | None):
            raise ValueError(f"{key} must be a string, not {type(metadata[key]).__name__}")
    for key in keys.LISTS & metadata.keys():
        value = metadata[key]
        if value is not None and not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
            raise ValueError(f"{key} must be a list of strings")


@dataclass(frozen=True, slots=True)
class Match:
    """A record that a leg found, with the leg's score. Its record carries no vector."""

    record: Record
    score: float

    @property
    def id(self) -> str:
        """The record's id."""
        return self.record.id


class Matches(list[Match]):
    """A list of matches with notes: for a store whose engine may hold some back (`scan_limit`, `lagging`)."""

    def __init__(self, matches: Iterable[Match] = (), notes: Iterable[Note] = ()) -> None:
        super().__init__(matches)
        self.notes: tuple[Note, ...] = tuple(notes)


@dataclass(frozen=True, slots=True)
class CollectionSpec:
    """What a collection holds: vectors of one dimension, made by the embedder of one fingerprint."""

    dimension: int
    fingerprint: str
    metric: Literal["cosine"] = "cosine"

    def __post_init__(self) -> None:
        if isinstance(self.dimension, bool) or not isinstance(self.dimension, int):
            raise ValueError(f"dimension must be an int, not {type(self.dimension).__name__}")
        if not 1 <= self.dimension <= MAX_DIMENSION:
            raise ValueError(f"dimension must be 1…{MAX_DIMENSION}, not {self.dimension}")
        if not isinstance(self.fingerprint, str) or not self.fingerprint.strip():
            raise ValueError("fingerprint must be a string that is not blank")
        if unstorable_at(self.fingerprint) is not None:
            raise ValueError("fingerprint has NUL or a lone surrogate")
        if self.metric != "cosine":
            raise ValueError('metric must be "cosine"')


@dataclass(frozen=True, slots=True)
class LexicalQuery:
    """The words to look for: any or all of them; with `prefix`, stored terms that begin so count as well."""

    text: str
    match: Literal["any", "all"] = "any"
    prefix: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise ValueError(f"a query's text must be a string, not {type(self.text).__name__}")
        if not isinstance(self.match, str) or self.match not in ("any", "all"):
            raise ValueError('match must be "any" or "all"')
        if not isinstance(self.prefix, bool):
            raise ValueError(f"prefix must be True or False, not {type(self.prefix).__name__}")


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """A place in the order of a scan; it need not name a record that exists."""

    tenant_id: str
    source_id: str
    index: int

    def __post_init__(self) -> None:
        if not isinstance(self.tenant_id, str) or not isinstance(self.source_id, str):
            raise ValueError("a cursor's tenant_id and source_id must be strings")
        if isinstance(self.index, bool) or not isinstance(self.index, int):
            raise ValueError("a cursor's index must be an int")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a store does natively, emulates with the same answers, or refuses; the same for the store's life."""

    lexical: Support
    prefix: Support
    update: Support
    transactions: Support
    swap: Support
    filters: Mapping[str, Support]
    exact: bool
    durable: bool
    shared: bool
    max_dimension: int | None = None

    def __post_init__(self) -> None:
        named = {name: getattr(self, name) for name in ("lexical", "prefix", "update", "transactions", "swap")}
        for name, support in {**named, **{f"filters[{node}]": of for node, of in self.filters.items()}}.items():
            if support not in get_args(Support):
                raise ValueError(f'{name} must be "native", "emulated" or "refused"')
        if self.transactions == "refused":
            raise ValueError("transactions may be emulated, never refused: a source is replaced whole")
        object.__setattr__(self, "filters", MappingProxyType(dict(self.filters)))


class VectorStore(Protocol):
    """Keeps records and answers four questions about those a filter allows: nearest, best worded, in order, how many.

    Every method may be called from any thread. `where` is a Filter, else FilterError; `limit` an int of at least 1,
    else ValueError; an unknown collection is a StoreError that is a LookupError too; after `close`, StoreError.
    """

    @property
    def capabilities(self) -> Capabilities:
        """What is native, emulated or refused."""
        ...

    def create_collection(self, name: str, spec: CollectionSpec) -> None:
        """Make a collection; nothing happens when it is there with an equal spec, Conflict with another."""
        ...

    def collection(self, name: str) -> CollectionSpec | None:
        """Return a collection's spec, or None when there is none of this name."""
        ...

    def drop_collection(self, name: str) -> None:
        """Take a collection away with all it holds; nothing happens when there is none."""
        ...

    def replace(
        self,
        name: str,
        records: Iterable[Record],
        *,
        where: Filter,
        expect: AbstractSet[int] | None = None,
        fingerprint: str | None = None,
    ) -> int:
        """Take away what `where` matches and put `records` in its place, all or nothing; answer how many went.

        `where` names one tenant. Conflict when the versions of what goes are not exactly `expect`, when a source in
        `records` would be split, or when the collection has another fingerprint.
        """
        ...

    def update(self, name: str, patch: Mapping[str, MetadataValue | None], *, where: Filter) -> int:
        """Set the keys of `patch` on all that matches (None takes a key away); answer how many records matched."""
        ...

    def delete(self, name: str, *, where: Filter) -> int:
        """Take away what matches and answer how many records went; a `where` without a condition is refused."""
        ...

    def dense(
        self, name: str, vector: ArrayLike, *, where: Filter, limit: int, fingerprint: str | None = None
    ) -> list[Match]:
        """Return the min(limit, matching) records nearest by cosine: score down, then id, then tenant."""
        ...

    def lexical(self, name: str, query: LexicalQuery, *, where: Filter, limit: int) -> list[Match]:
        """Return the best worded of the records that hold the words, by BM25: score down, then id, then tenant."""
        ...

    def scan(
        self, name: str, *, where: Filter, after: Cursor | None = None, limit: int, vectors: bool = False
    ) -> Page[Record]:
        """Return matching records behind `after`, by tenant id, source id and index."""
        ...

    def count(self, name: str, *, where: Filter) -> int:
        """Return the exact number of matching records."""
        ...

    def swap(self, name: str, side: str, *, expect: AbstractSet[int] | None = None) -> None:
        """Let the collection `side` take the name in one step; Conflict when the versions are not `expect`.

        A store may take `expect_side`, too: the versions that all of the side's records must have. Without it two
        re-embeddings of one collection must not run at once.
        """
        ...

    def close(self) -> None:
        """Give back what the store opened; twice is fine."""
        ...


def check_name(name: object) -> str:
    """Return a collection's name when it may be one, else raise a ValueError."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(
            "a collection's name must begin with a letter or digit and hold at most 63 of A–Z a–z 0–9 _ . - characters"
        )
    return name


def all_filters(support: Support = "native") -> dict[str, Support]:
    """Return a `Capabilities.filters` that says the same of every node."""
    nodes = ("Eq", "Ne", "In", "NotIn", "All", "Contains", "Range", "Exists", "And", "Or", "Not")
    return dict.fromkeys(nodes, support)


__all__ = [
    "Capabilities",
    "CollectionSpec",
    "Cursor",
    "LexicalQuery",
    "Match",
    "Matches",
    "Note",
    "Page",
    "Record",
    "Support",
    "VectorStore",
]
