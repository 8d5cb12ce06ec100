"""The values that users hand in and get back: frozen, and checked when they are made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Generic, Literal, TypeAlias, TypeVar, get_args, overload

from stackroom._errors import FilterError, ScopeError, SourceError
from stackroom._filters import Filter, parse
from stackroom._values import MetadataValue, ReadOnly, items_of, metadata_copy, unstorable_at
from stackroom.text import is_blank

Mode: TypeAlias = Literal["hybrid", "lexical", "dense"]
Tier: TypeAlias = Literal["hot", "warm", "cold"]

NO_METADATA: Mapping[str, MetadataValue] = ReadOnly()

MAX_NAME = 512
"""The most characters of a tenant, group, source id, kind, folder or tag."""

T = TypeVar("T")


def utc_now() -> datetime:
    """Return the time, aware, in UTC."""
    return datetime.now(UTC)


def name_of(value: object, error: type[Exception], what: str) -> str:
    """Return `value` when it can name something: a str that is not blank, storable, at most 512 characters."""
    if not isinstance(value, str):
        raise error(f"{what} must be a string, not {type(value).__name__}")
    if is_blank(value):
        raise error(f"{what} is empty or blank; give it a name")
    if len(value) > MAX_NAME:
        raise error(f"{what} has {len(value)} characters; at most {MAX_NAME} are held")
    return storable(value, error, what)


def names_of(values: object, error: type[Exception], what: str) -> tuple[str, ...]:
    """Return the names that an iterable holds, doubles left out, in the order given."""
    return tuple(dict.fromkeys(name_of(item, error, f"an item of {what}") for item in items_of(values, error, what)))


def storable(text: str, error: type[Exception], what: str) -> str:
    """Return `text` when a record can hold it: no NUL, no lone surrogate."""
    at = unstorable_at(text)
    if at is not None:
        raise error(f"{what} has NUL or a lone surrogate at position {at}; no store can hold it, so take it out")
    return text


def groups_of(values: object) -> tuple[str, ...]:
    """Return the access groups that an iterable holds; a ScopeError when there is none."""
    groups = names_of(values, ScopeError, "acl_groups")
    if not groups:
        raise ScopeError("acl_groups is empty: nobody could see anything; name at least one group")
    return groups


def title_of(value: object) -> str | None:
    """Return a title, or None when there is none or it is blank."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise SourceError(f"title must be a string or None, not {type(value).__name__}")
    return None if is_blank(value) else storable(value, SourceError, "title")


def folder_of(value: object) -> str | None:
    """Return a folder's id, or None for no folder."""
    return None if value is None else name_of(value, SourceError, "folder_id")


@dataclass(frozen=True, slots=True, init=False)
class Scope:
    """Who asks: a tenant and the access groups that a caller has there. Everything a search sees lies inside.

    Doubled groups are dropped, the order stays. A ScopeError (a ValueError) says which rule was broken.
    """

    tenant_id: str
    acl_groups: tuple[str, ...]

    def __init__(self, tenant_id: str, acl_groups: Iterable[str]) -> None:
        object.__setattr__(self, "tenant_id", name_of(tenant_id, ScopeError, "tenant_id"))
        object.__setattr__(self, "acl_groups", groups_of(acl_groups))


@dataclass(frozen=True, slots=True, init=False)
class Passage:
    """A piece of text that is found as one, with metadata of its own. A SourceError says what cannot be stored."""

    text: str
    metadata: Mapping[str, MetadataValue]

    def __init__(self, text: str, metadata: Mapping[str, MetadataValue] = NO_METADATA) -> None:
        if not isinstance(text, str):
            raise SourceError(f"a passage's text must be a string, not {type(text).__name__}")
        if is_blank(text):
            raise SourceError("a passage is blank: there is nothing to find in it; leave it out")
        object.__setattr__(self, "text", storable(text, SourceError, "a passage's text"))
        copied = metadata_copy(metadata, SourceError, "a passage's metadata")
        object.__setattr__(self, "metadata", ReadOnly(copied))


@dataclass(frozen=True, slots=True, init=False)
class Source:
    """A document or a meeting, held as one unit: its passages and who may see them.

    Strings among the passages become `Passage`s. A ScopeError says what is wrong with the tenant or the groups, a
    SourceError with all else; both are ValueErrors. `expires_at` is kept in UTC.
    """

    source_id: str
    kind: str
    tenant_id: str
    acl_groups: tuple[str, ...]
    passages: tuple[Passage, ...]
    folder_id: str | None
    tags: tuple[str, ...]
    title: str | None
    metadata: Mapping[str, MetadataValue]
    expires_at: datetime | None
    tier: Tier | None

    def __init__(
        self,
        source_id: str,
        kind: str,
        tenant_id: str,
        acl_groups: Iterable[str],
        passages: Iterable[Passage | str],
        folder_id: str | None = None,
        tags: Iterable[str] = (),
        title: str | None = None,
        metadata: Mapping[str, MetadataValue] = NO_METADATA,
        expires_at: datetime | None = None,
        tier: Tier | None = None,
    ) -> None:
        checked = {
            "source_id": name_of(source_id, SourceError, "source_id"),
            "kind": name_of(kind, SourceError, "kind"),
            "tenant_id": name_of(tenant_id, ScopeError, "tenant_id"),
            "acl_groups": groups_of(acl_groups),
            "passages": tuple(_passage(item) for item in items_of(passages, SourceError, "passages")),
            "folder_id": folder_of(folder_id),
            "tags": names_of(tags, SourceError, "tags"),
            "title": title_of(title),
            "metadata": ReadOnly(metadata_copy(metadata, SourceError, "metadata")),
            "expires_at": _moment(expires_at),
            "tier": _tier(tier, SourceError, "tier"),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)


def check_unchanged(source: Source) -> None:
    """Raise a SourceError when a list within a source's metadata was made unstorable after the source was checked."""
    metadata_copy(source.metadata, SourceError, "metadata")
    for passage in source.passages:
        metadata_copy(passage.metadata, SourceError, "a passage's metadata")


def _passage(item: object) -> Passage:
    if isinstance(item, Passage):
        return item
    if isinstance(item, str):
        return Passage(item)
    raise SourceError(f"passages must be strings or Passages, not {type(item).__name__}")


def _moment(value: object) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise SourceError(
            "expires_at must be an aware datetime, such as datetime.now(UTC) + timedelta(days=1), or None"
        )
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise SourceError("expires_at lies outside the years 1 to 9999 in UTC") from None


def _tier(value: object, error: type[Exception], what: str) -> Tier | None:
    if value is None:
        return None
    tiers: tuple[Tier, ...] = get_args(Tier)
    for tier in tiers:
        if isinstance(value, str) and value == tier:
            return tier
    raise error(f'{what} must be "hot", "warm" or "cold"')


@dataclass(frozen=True, slots=True, init=False)
class Narrowing:
    """What takes away from a scope. None is not given; several must all hold.

    Empty kinds, tags and tiers narrow nothing; empty folder_ids and source_ids find nothing; an empty string is
    refused. `where` is a Filter, or a dict in the filter language, over metadata. A FilterError (a ValueError) says
    which rule was broken.
    """

    kinds: tuple[str, ...] | None
    folder_id: str | None
    folder_ids: tuple[str, ...] | None
    tags: tuple[str, ...] | None
    source_ids: tuple[str, ...] | None
    tiers: tuple[Tier, ...] | None
    where: Filter | None

    def __init__(
        self,
        kinds: Iterable[str] | None = None,
        folder_id: str | None = None,
        folder_ids: Iterable[str] | None = None,
        tags: Iterable[str] | None = None,
        source_ids: Iterable[str] | None = None,
        tiers: Iterable[Tier] | None = None,
        where: Filter | Mapping[str, Any] | None = None,
    ) -> None:
        checked = {
            "kinds": _narrowing_names(kinds, "kinds"),
            "folder_id": None if folder_id is None else name_of(folder_id, FilterError, "folder_id"),
            "folder_ids": _narrowing_names(folder_ids, "folder_ids"),
            "tags": _narrowing_names(tags, "tags"),
            "source_ids": _narrowing_names(source_ids, "source_ids"),
            "tiers": _tiers(tiers),
            "where": None if where is None else parse(where),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)


def _narrowing_names(values: Iterable[str] | None, what: str) -> tuple[str, ...] | None:
    return None if values is None else names_of(values, FilterError, what)


def _tiers(values: Iterable[Tier] | None) -> tuple[Tier, ...] | None:
    if values is None:
        return None
    tiers = (_tier(item, FilterError, "an item of tiers") for item in items_of(values, FilterError, "tiers"))
    found = tuple(dict.fromkeys(tiers))
    if None in found:
        raise FilterError('an item of tiers must be "hot", "warm" or "cold", not None')
    return tuple(tier for tier in found if tier is not None)


@dataclass(frozen=True, slots=True)
class Note:
    """Something that an answer's reader should know: a code for programs, a message for people."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage as a search found it.

    `score` is the mode's: BM25, cosine, or the fusion's. `dense_score` (a cosine, −1…1), `lexical_score` (BM25) and
    the ranks (from 1) are those of the legs that ran and hold the passage, else None. `metadata` is whole, the
    documented keys included, and read-only.
    """

    id: str
    source_id: str
    kind: str
    index: int
    text: str
    score: float
    title: str | None
    folder_id: str | None
    tags: tuple[str, ...]
    metadata: Mapping[str, MetadataValue]
    dense_score: float | None = None
    dense_rank: int | None = None
    lexical_score: float | None = None
    lexical_rank: int | None = None


@dataclass(frozen=True, slots=True)
class Answer(Sequence[Hit]):
    """The hits of a search, best first, and what there is to know about them.

    `complete` is False when the answer may lack a passage that belongs in it; `notes` then say why. An empty answer
    is complete when nothing matches.
    """

    hits: tuple[Hit, ...]
    mode: Mode
    complete: bool = True
    notes: tuple[Note, ...] = ()

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, index: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[index]

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """A source as a listing shows it: its properties and how many passages it has; `metadata` is its own."""

    source_id: str
    kind: str
    tenant_id: str
    acl_groups: tuple[str, ...]
    folder_id: str | None
    tags: tuple[str, ...]
    title: str | None
    metadata: Mapping[str, MetadataValue]
    passages: int
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    tier: Tier | None


@dataclass(frozen=True, slots=True)
class Indexed:
    """What index_source did: passages = embedded + reused; replaced = the passages of the version before."""

    passages: int
    replaced: int
    embedded: int
    reused: int


@dataclass(frozen=True, slots=True)
class Page(Sequence[T], Generic[T]):
    """A page of a listing. `next` is what `after` takes to go on behind it; None when nothing more matched."""

    items: tuple[T, ...]
    next: Any = field(default=None)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        return self.items[index]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)
