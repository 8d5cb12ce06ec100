"""Listings: sources page by page, one source, its passages. What is not visible looks like what does not exist."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from stackroom import _keys as keys
from stackroom._errors import StoreError
from stackroom._filters import And, Eq, Exists, Filter, as_dict
from stackroom._fusion import Candidate
from stackroom._records import hit_of, info_of
from stackroom._scoping import NARROWING_NAMES, is_given
from stackroom.stores import Cursor, Record, VectorStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stackroom._model import Hit, Narrowing, Scope, SourceInfo

_RECORDS_AT_A_TIME: Final = 1000
_ATTEMPTS: Final = 3
_BEHIND_ALL: Final = "\U0010ffff" * 512
"""No source id comes behind it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Reads one collection of a store within conditions that stand."""

    store: VectorStore
    collection: str

    def records(self, where: Filter, *, vectors: bool = False, after: Cursor | None = None) -> Iterator[Record]:
        """Yield all matching records in order, page by page."""
        while True:
            page = self.store.scan(self.collection, where=where, after=after, limit=_RECORDS_AT_A_TIME, vectors=vectors)
            yield from page
            after = page.next
            if after is None:
                return

    def tenants(self) -> Iterator[str]:
        """Yield every tenant that the store holds, in order, one look for each; a store that mixes them ends it."""
        after: Cursor | None = None
        while page := self.store.scan(self.collection, where=Exists(keys.TENANT), after=after, limit=1):
            if after is not None and page[0].tenant_id <= after.tenant_id:
                return
            yield page[0].tenant_id
            after = Cursor(page[0].tenant_id, _BEHIND_ALL, keys.MAX_INDEX)

    def passages(self, where: Filter) -> list[Hit]:
        """Return the passages of the one source that matches, all of one version, in order."""
        for _ in range(_ATTEMPTS):
            found = list(self.records(where))
            if len({record.version for record in found}) <= 1:
                break
        last = found[-1].version if found else None
        return [hit_of(record, 0.0, Candidate(record.id)) for record in found if record.version == last]

    def source(self, where: Filter) -> SourceInfo | None:
        """Return the one source that matches, or None."""
        for record in self.store.scan(self.collection, where=where, limit=1):
            return info_of(record)
        return None

    def sources(
        self, where: Filter, tenant_id: str, after: str | None, limit: int, *, judges_passages: bool
    ) -> tuple[list[SourceInfo], str | None]:
        """Return up to `limit` sources behind source id `after`, and the id to go on behind, or None.

        A source is found by its first passage, or, when the filter judges passages, by any that matches.
        """
        wanted = where if judges_passages else And(where, Eq(keys.INDEX, 0))
        found: dict[str, Record] = {}
        place = None if after is None else Cursor(tenant_id, after, keys.MAX_INDEX)
        while len(found) <= limit:
            page = self.store.scan(self.collection, where=wanted, after=place, limit=limit + 1)
            for record in page:
                found.setdefault(record.source_id, record)
            if page.next is None:
                break
            place = _behind(place, Cursor(tenant_id, page[-1].source_id, keys.MAX_INDEX))
        listed = list(found.values())
        following = listed[limit - 1].source_id if len(listed) > limit else None
        return [info_of(record) for record in listed[:limit]], following


def _behind(place: Cursor | None, following: Cursor) -> Cursor:
    """Return where a listing goes on; a store that would let it go on for ever is told."""
    if place is not None and not following > place:
        raise StoreError(
            "the store answered a page with what lies before it, or with another tenant's; a listing of it would not "
            "end: prove the store with stackroom.testing"
        )
    return following


def cursor_after(source_id: str, listing: str) -> str:
    """Return the cursor that goes on behind a source in one listing (`listing_of`)."""
    seal = _seal(source_id, listing)
    return base64.urlsafe_b64encode(json.dumps([source_id, seal]).encode()).decode()


def place_of(cursor: object, listing: str) -> str | None:
    """Return the source id that a cursor of this listing goes on behind; a ValueError for any other cursor."""
    if cursor is None:
        return None
    try:
        source_id = json.loads(base64.urlsafe_b64decode(str(cursor).encode()))[0]
        if isinstance(source_id, str) and cursor == cursor_after(source_id, listing):
            return source_id
    except (ValueError, TypeError, LookupError, RecursionError):
        pass
    raise ValueError("this cursor comes from no page of this scope and narrowing; begin again without after") from None


def listing_of(collection: str, scope: Scope, narrowing: Narrowing) -> str:
    """Return what a cursor belongs to: collection, scope, and what the narrowing means, however it is written."""
    given = {name: getattr(narrowing, name) for name in NARROWING_NAMES if is_given(name, getattr(narrowing, name))}
    where = given.pop("where", None)
    lists = {name: sorted(value) if isinstance(value, tuple) else value for name, value in given.items()}
    filtered = None if where is None else as_dict(where)
    return json.dumps([collection, scope.tenant_id, sorted(scope.acl_groups), lists, filtered], sort_keys=True)


def _seal(source_id: str, listing: str) -> str:
    return hashlib.blake2b(json.dumps([source_id, listing]).encode(), digest_size=16).hexdigest()
