"""Doing something in shards, whatever goes on meanwhile: tenants that go, generations that change, torn files."""

from __future__ import annotations

import enum
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from stackroom import _keys as keys
from stackroom._errors import StoreUnavailable
from stackroom._filters import named_values
from stackroom.stores import _door
from stackroom.stores._protocol import check_name
from stackroom.stores.embedded import _derived
from stackroom.stores.embedded._shard import Shard, ShardIsClosed, ShardIsGone
from stackroom.stores.embedded._sidefiles import SideFileIsTorn

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stackroom._filters import Filter
    from stackroom.stores.embedded._directory import Directory, Entry
    from stackroom.stores.embedded._feed import Feed
    from stackroom.stores.embedded._shards import Shards

T = TypeVar("T")

TRIES: Final = 4
"""How often torn side files are tried and made anew."""


class Again(enum.Enum):
    """Why something is to be done again."""

    TORN = enum.auto()
    GONE = enum.auto()


class Access:
    """The way to the shards of one store. A ranker's feed hears of each that is opened."""

    def __init__(self, directory: Directory, shards: Shards, feed: Feed | None) -> None:
        self._directory = directory
        self._shards = shards
        self._feed = feed

    def entry(self, name: str) -> Entry:
        """Return a collection's entry; StoreError (a LookupError) when there is none."""
        return self._directory.register().entry(check_name(name))

    def tenants(self, name: str, where: Filter) -> list[str]:
        """Return the tenants, in order, whose shards a filter may concern."""
        entry = self.entry(name)
        named = named_values(where, keys.TENANT)
        if named is not None:
            return sorted(named)
        tenants = []
        for path in self._shards.paths_of(entry):
            with self._shards.used(path, entry) as shard:
                if shard is not None:
                    tenants.append(shard.tenant_id)
        return sorted(tenants)

    def in_shard(
        self, name: str, tenant_id: str, work: Callable[[Shard], T], fingerprint: str | None = None
    ) -> T | None:
        """Do something in a tenant's shard, None when there is none. A shard that goes meanwhile is looked for anew.

        Side files that are torn may belong to a state that has passed: the work is tried once more before they are
        written anew.
        """
        for torn in range(TRIES):
            entry = self.entry(name)
            _door.check_fingerprint(entry.spec, fingerprint)
            done = self.tried(self._shards.path_of(entry, tenant_id), entry, work, mends=torn > 0)
            while done is Again.GONE:
                entry = self.entry(name)
                _door.check_fingerprint(entry.spec, fingerprint)
                done = self.tried(self._shards.path_of(entry, tenant_id), entry, work, mends=torn > 0)
            if done is not Again.TORN:
                return done
        raise StoreUnavailable("a shard's codes.* files cannot be made anew: see `stackroom doctor`")

    def tried(self, path: Path, entry: Entry, work: Callable[[Shard], T], *, mends: bool) -> T | Again | None:
        """Do something in the shard of a directory, once; None when there is none."""
        with self._shards.used(path, entry) as shard:
            if shard is None:
                return None
            try:
                if mends:
                    _derived.renumber(shard)
                if self._feed is not None:
                    self._feed.opened(shard)
                return work(shard)
            except SideFileIsTorn:
                return Again.TORN
            except ShardIsClosed:
                self._directory.await_swap(entry)
                return Again.GONE
            except ShardIsGone:
                self._shards.forget(shard)
                return Again.GONE

    def in_shards(
        self, name: str, where: Filter, work: Callable[[Shard], T], fingerprint: str | None = None
    ) -> list[T]:
        """Do something in every shard that a filter may concern, in the order of tenants, all of one generation."""
        while True:
            generation = self.entry(name).generation
            done = [self.in_shard(name, tenant_id, work, fingerprint) for tenant_id in self.tenants(name, where)]
            if self.entry(name).generation == generation:
                return [result for result in done if result is not None]

    def look_at_all(self, work: Callable[[Shard], T]) -> list[T]:
        """Ask every shard that the ranker is about, delivering nothing."""
        found: list[T] = []
        name = None if self._feed is None else self._feed.collection
        if name is not None:
            for path in self._shards.paths_of(self.entry(name)):
                with self._shards.used(path, self.entry(name)) as shard, suppress(ShardIsGone):
                    found += [] if shard is None else [work(shard)]
        return found
