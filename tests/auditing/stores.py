"""Stores that are broken in one way each, for a leak test to notice."""

from __future__ import annotations

import dataclasses
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias

from numpy.typing import ArrayLike
from tests.library.doubles import DropsConditions

from stackroom import CapabilityError, MetadataValue, Note
from stackroom._filters import conjuncts
from stackroom.filters import And, Eq, Exists, Filter, In, Or
from stackroom.stores import Cursor, LexicalQuery, Match, Matches, MemoryStore, Page, Record

Change: TypeAlias = Callable[["Rewrites", Filter], Filter]

READS = frozenset({"dense", "lexical", "scan", "count"})


class Rewrites(MemoryStore):
    """Once it is broken, it asks something else than it was asked, in the calls named and all parts of a condition."""

    def __init__(self, change: Change, calls: AbstractSet[str] = READS) -> None:
        super().__init__()
        self.change = change
        self.calls = calls
        self.is_broken = False

    def asked(self, call: str, where: Filter) -> Filter:
        return self._changed(where) if self.is_broken and call in self.calls else where

    def _changed(self, where: Filter) -> Filter:
        if isinstance(where, And):
            return And(*(self._changed(member) for member in where.filters))
        return self.change(self, where)

    def held(self, key: str) -> set[str]:
        """Return every value that some record holds under a key."""
        found: set[str] = set()
        for of_collection in self._collections.values():
            for record in of_collection.records.values():
                value = record.metadata.get(key)
                found.update(map(str, value) if isinstance(value, list) else [str(value)])
        return found

    def dense(
        self, name: str, vector: ArrayLike, *, where: Filter, limit: int, fingerprint: str | None = None
    ) -> list[Match]:
        return super().dense(name, vector, where=self.asked("dense", where), limit=limit, fingerprint=fingerprint)

    def lexical(self, name: str, query: LexicalQuery, *, where: Filter, limit: int) -> list[Match]:
        return super().lexical(name, query, where=self.asked("lexical", where), limit=limit)

    def scan(
        self, name: str, *, where: Filter, after: Cursor | None = None, limit: int, vectors: bool = False
    ) -> Page[Record]:
        return super().scan(name, where=self.asked("scan", where), after=after, limit=limit, vectors=vectors)

    def count(self, name: str, *, where: Filter) -> int:
        return super().count(name, where=self.asked("count", where))

    def update(self, name: str, patch: Mapping[str, MetadataValue | None], *, where: Filter) -> int:
        return super().update(name, patch, where=self.asked("update", where))

    def delete(self, name: str, *, where: Filter) -> int:
        return super().delete(name, where=self.asked("delete", where))


class LosesGroups(Rewrites):
    """In the calls named it forgets the groups of a scope when a condition has something else in it."""

    def __init__(self, has: Callable[[MemoryStore, Filter], bool], calls: AbstractSet[str] = READS) -> None:
        super().__init__(self._without_groups, calls)
        self.has = has

    @staticmethod
    def _without_groups(_store: Rewrites, where: Filter) -> Filter:
        return And() if isinstance(where, In) and where.key == "aclGroups" else where

    def asked(self, call: str, where: Filter) -> Filter:
        is_lost = any(self.has(self, member) for member in conjuncts(where))
        return super().asked(call, where) if is_lost else where


def names(key: str) -> Callable[[MemoryStore, Filter], bool]:
    """Tell whether a condition is about a key."""
    return lambda _store, where: getattr(where, "key", None) == key


def is_of_many(store: MemoryStore, where: Filter) -> bool:
    """Tell whether a condition names a tenant of more than 100 passages."""
    return isinstance(where, Eq) and where.key == "tenantId" and MemoryStore.count(store, "library", where=where) > 100


class SaysItDroppedNothing(DropsConditions):
    """Shows what it must not, with notes of its own in which all is well."""

    def dense(self, *given: Any, **asked: Any) -> list[Match]:
        return Matches(super().dense(*given, **asked), [Note("dropped_by_check", "0 were dropped")])

    def lexical(self, *given: Any, **asked: Any) -> list[Match]:
        return Matches(super().lexical(*given, **asked), [Note("dropped_by_check", "0 were dropped")])


class RefusesDense(MemoryStore):
    """Refuses what it declares that it can."""

    def dense(self, *_given: Any, **_asked: Any) -> list[Match]:
        raise CapabilityError("no vectors today")


def drops(key: str) -> Change:
    """Forget the condition on a key."""

    def change(_store: Rewrites, where: Filter) -> Filter:
        members = where.filters if isinstance(where, Or) else (where,)
        return And() if key in [getattr(member, "key", None) for member in members] else where

    return change


def folds(key: str, fold: Callable[[str], str]) -> Change:
    """Take values of a key for one another that are the same when folded."""

    def change(store: Rewrites, where: Filter) -> Filter:
        if not isinstance(where, Eq | In) or where.key != key:
            return where
        wanted = {fold(str(value)) for value in ((where.value,) if isinstance(where, Eq) else where.values)}
        return In(key, sorted(value for value in store.held(key) if fold(value) in wanted))

    return change


def takes_beginnings(key: str) -> Change:
    """Find a value of a key that begins with the one asked for."""

    def change(store: Rewrites, where: Filter) -> Filter:
        if not isinstance(where, Eq | In) or where.key != key:
            return where
        wanted = tuple(str(value) for value in ((where.value,) if isinstance(where, Eq) else where.values))
        return In(key, sorted(value for value in store.held(key) if value.startswith(wanted)))

    return change


def composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def compatible(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def with_wildcards(text: str) -> str:
    return text.replace("_", "-")


def finds_nothing(_store: Rewrites, where: Filter) -> Filter:
    """Find nothing of a tenant that is named."""
    return Or() if isinstance(where, Eq) else where


class TakesMore(MemoryStore):
    """Its removals in a collection called `library` take one more record: the last of a tenant with a short name."""

    def __init__(self, *, of_tenants: bool, begin: int = 1) -> None:
        super().__init__()
        self.of_tenants = of_tenants
        self.until = begin

    def delete(self, name: str, *, where: Filter) -> int:
        if name == "library" and isinstance(where, Eq) is self.of_tenants:
            self.until -= 1
            if self.until < 1:
                records = self._collections[name].records
                tenant_id, source_id, index = max(key for key in records if len(key[0]) == 1)
                where = Or(where, And(Eq("tenantId", tenant_id), Eq("sourceId", source_id), Eq("index", index)))
        return super().delete(name, where=where)


class BlursTenantRemovals(Rewrites):
    """Reaches too far when a whole tenant is removed, in every collection or in one; all else is sound."""

    def __init__(self, change: Change, only_in: str | None = None) -> None:
        super().__init__(change, {"delete"})
        self.only_in = only_in

    def delete(self, name: str, *, where: Filter) -> int:
        is_blurred = isinstance(where, Eq) and self.only_in in {None, name}
        return super().delete(name, where=where) if is_blurred else MemoryStore.delete(self, name, where=where)


class ForgetsTenantRemovals(MemoryStore):
    """Says that it removed a tenant, and did not; sources go."""

    def delete(self, name: str, *, where: Filter) -> int:
        return self.count(name, where=where) if isinstance(where, Eq) else super().delete(name, where=where)


class ForgetsRemovals(MemoryStore):
    """Says that it removed a source, and did not; whole tenants go."""

    def delete(self, name: str, *, where: Filter) -> int:
        return super().delete(name, where=where) if isinstance(where, Eq) else self.count(name, where=where)


class ForgetsUpdates(MemoryStore):
    """Says that it changed a source, and did not."""

    def update(self, name: str, patch: Mapping[str, MetadataValue | None], *, where: Filter) -> int:
        del patch
        return self.count(name, where=where)


class KeepsOldVersions(MemoryStore):
    """Leaves the records of an old version that the new one has no index for."""

    def replace(
        self,
        name: str,
        records: Iterable[Record],
        *,
        where: Filter,
        expect: AbstractSet[int] | None = None,
        fingerprint: str | None = None,
    ) -> int:
        del expect
        given = list(records)
        kept = list(self.scan(name, where=where, limit=1000, vectors=True))[len(given) :]
        source_keys = {"aclGroups", "folderId", "tags", "status", "kind", "title"}
        shared = {
            key: value
            for record in given[:1]
            for key, value in record.metadata.items()
            if key in source_keys or key.startswith("stackroom.")
        }
        old = [Record(record.text, record.vector, {**record.metadata, **shared}) for record in kept]
        return super().replace(name, [*given, *old], where=where, fingerprint=fingerprint)


class CountsAll(MemoryStore):
    """Counts what nobody asked for, unless it is asked about a whole tenant."""

    def count(self, name: str, *, where: Filter) -> int:
        return super().count(name, where=where if isinstance(where, Eq) else Exists("tenantId"))


class Fails(MemoryStore):
    """Raises something at one call of all that are made from `begin` on, counted from 1."""

    def __init__(self, calls: AbstractSet[str]) -> None:
        super().__init__()
        self.calls = calls
        self.made = 0
        self.fails_at: AbstractSet[int] = frozenset()
        self.error: BaseException = KeyboardInterrupt()

    def __getattribute__(self, name: str) -> Any:
        if name in {"replace", "update", "delete", "dense", "lexical", "scan", "count"} and name in self.calls:
            self.made += 1
            if self.made in self.fails_at:
                raise self.error
        return super().__getattribute__(name)


def without_words() -> MemoryStore:
    """Return a store that has no lexical leg."""
    store = MemoryStore()
    store.capabilities = dataclasses.replace(store.capabilities, lexical="refused", prefix="refused")
    return store
