"""The shelf: a collection of the kit's own in the store under test, and the calls that tests make of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stackroom.filters import And, Eq, Filter, In
from stackroom.stores import Cursor, LexicalQuery, Match, Page, Record, VectorStore
from stackroom.testing._oracle import best_worded, completed, is_held_back, judge_nearest, judge_worded, nearest
from stackroom.testing._records import EVERYTHING, PAGE, source

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from numpy.typing import ArrayLike


@dataclass(frozen=True, slots=True)
class Shelf:
    """One collection of one store, and the calls that tests make of it; the answers are the store's own.

    Where a store says by a note that it holds matches back, those it answers are judged, and the rest is filled in.
    """

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
        found = self.store.dense(self.name, vector, where=where, limit=limit, fingerprint=fingerprint)
        if not is_held_back(found):
            return found
        query = np.asarray(vector, dtype=np.float64).tolist()
        return completed(found, nearest(self.state(), query, where), limit, judge_nearest)

    def lexical(
        self,
        query: LexicalQuery | str,
        where: Filter = EVERYTHING,
        limit: int = PAGE,
    ) -> list[Match]:
        """Ask for the best worded; a str asks for any of its words."""
        asked = LexicalQuery(query) if isinstance(query, str) else query
        found = self.store.lexical(self.name, asked, where=where, limit=limit)
        if not is_held_back(found):
            return found
        return completed(found, best_worded(self.state(), asked, where), limit, judge_worded)

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
