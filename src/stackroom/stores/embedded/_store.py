"""EmbeddedStore: the collections of one directory, each a generation of shards, one a tenant."""

from __future__ import annotations

import os
import threading
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from stackroom import _keys as keys
from stackroom._commits import committed
from stackroom._errors import StoreError, StoreUnavailable
from stackroom._filters import Eq, Exists, Filter, named_values
from stackroom._model import Page, utc_now
from stackroom.rankers._plug import plugged
from stackroom.rankers._protocol import NO_RANKER
from stackroom.stores import _door, _ranking
from stackroom.stores._legs import Rankings
from stackroom.stores._protocol import (
    Capabilities,
    CollectionSpec,
    Cursor,
    LexicalQuery,
    Match,
    Record,
    all_filters,
    check_name,
)
from stackroom.stores._tenants import merged, page_of
from stackroom.stores.embedded import _maintenance, _reads, _writes
from stackroom.stores.embedded._access import TRIES, Access, Again
from stackroom.stores.embedded._book import book_of, drop_book, names_of
from stackroom.stores.embedded._directory import LOCK_SECONDS, Directory, Entry
from stackroom.stores.embedded._feed import Feed
from stackroom.stores.embedded._ledger import owed_in, strike_off_state
from stackroom.stores.embedded._maintenance import Problem, ShardStatistics
from stackroom.stores.embedded._shard import Shard, ShardIsGone
from stackroom.stores.embedded._shards import Shards
from stackroom.stores.embedded._upgrade import upgrade_shard
from stackroom.text._arguments import require_size

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping
    from collections.abc import Set as AbstractSet
    from datetime import datetime
    from pathlib import Path

    from numpy.typing import ArrayLike

    from stackroom._model import Page
    from stackroom._values import MetadataValue
    from stackroom.rankers._plug import Policy
    from stackroom.rankers._protocol import RankerFallback, RankerHealth, RanksPassages
    from stackroom.stores._legs import Choose, LegsQuery

T = TypeVar("T")

_LONG: Final = 86_400


class EmbeddedStore:
    """A library in a directory: durable, and shared by any number of processes.

    `path` is made when it is missing or empty; StoreError when it is something else, holds another program's files,
    or a library of a newer format; nothing is touched then. One writer a tenant at a time, in all processes: another
    waits up to `lock_timeout` seconds, then StoreUnavailable names who holds the lock. Readers never wait, and see
    what was committed before their call.

    Dense search compares all that is allowed when that is little, else what codes choose of it (recall@10 of at least
    0.999 on the shard's own vectors); with `exact=True`, always all. At most `max_open_shards` tenants' files are
    open at a time. A store belongs to the process that made it: after a fork, the child must open its own.

    `ranker` proposes candidates for the dense leg of a Library's searches; what is done when it fails, says
    `ranker_fallback`, and `on_ranker_fallback` hears of it. Its calls may take `ranker_timeout` seconds (None: as long
    as they like). TypeError and ValueError when it cannot be one. `ranker_clock` says when what it is owed is due.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        ranker: RanksPassages | None = None,
        ranker_fallback: Policy = "exact",
        on_ranker_fallback: Callable[[RankerFallback], object] | None = None,
        sanitize_ranker_errors: bool = True,  # noqa: FBT001, FBT002 - fixed by the public surface; so is exact
        ranker_timeout: float | None = 5.0,
        exact: bool = False,  # noqa: FBT001, FBT002
        *,
        lock_timeout: float = LOCK_SECONDS,
        max_open_shards: int = 32,
        ranker_clock: Callable[[], datetime] = utc_now,
    ) -> None:
        if not isinstance(exact, bool):
            raise ValueError(f"exact must be True or False, not {type(exact).__name__}")
        if isinstance(lock_timeout, bool) or not isinstance(lock_timeout, int | float) or not 0 <= lock_timeout < _LONG:
            raise ValueError(f"lock_timeout must be a number of seconds of 0 to {_LONG:,}")
        require_size("max_open_shards", max_open_shards, least=1)
        plug = plugged(
            ranker, ranker_fallback, on_ranker_fallback, sanitizes=sanitize_ranker_errors, timeout=ranker_timeout
        )
        self._directory = Directory(path, lock_timeout, upgrade_shard)
        self._exact = exact
        self._shards = Shards(self._directory, lock_timeout, max_open_shards)
        self._feed = None if plug is None else Feed(plug, self._directory, ranker_clock, max_open_shards)
        self._access = Access(self._directory, self._shards, self._feed)
        self._process = os.getpid()
        self._close_lock = threading.Lock()
        self._is_closed = False
        self.capabilities = Capabilities(
            lexical="native",
            prefix="native",
            update="native",
            transactions="native",
            swap="native",
            filters=all_filters(),
            exact=exact,
            durable=True,
            shared=True,
        )

    @property
    def path(self) -> Path:
        """The library's directory."""
        return self._directory.path

    @property
    def stands_on(self) -> Hashable:
        """What all handles on this directory have in common."""
        return type(self), os.path.realpath(self._directory.path)

    # Collections

    def create_collection(self, name: str, spec: CollectionSpec) -> None:
        """Make a collection, or find that an equal one is there."""
        self._check_open()
        self._admit(check_name(name), makes=True)
        self._directory.create(name, _door.check_spec(spec))

    def collection(self, name: str) -> CollectionSpec | None:
        """Return a collection's spec, or None."""
        self._check_open()
        entry = self._directory.register().collections.get(check_name(name))
        if entry is not None:
            self._admit(name)
        return None if entry is None else entry.spec

    def drop_collection(self, name: str) -> None:
        """Take a collection away with all it holds."""
        self._check_open()
        check_name(name)
        with self._directory.locked():
            register = self._directory.register()
            if name in register.collections:
                self._directory.rewrite(register.without(name))
                self._shards.forget_unnamed()
        self._let_go_of_unnamed()

    def swap(
        self,
        name: str,
        side: str,
        *,
        expect: AbstractSet[int] | None = None,
        expect_side: AbstractSet[int] | None = None,
    ) -> None:
        """Let the collection `side` take the name, in one step; writes of either wait meanwhile, searches do not."""
        self._check_open()
        check_name(name)
        check_name(side)
        while True:
            try:
                self._swap(name, side, expect, expect_side)
            except ShardIsGone:  # a tenant was removed meanwhile, perhaps by another process
                self._shards.forget_all()
            else:
                self._let_go_of_unnamed()
                return

    def _swap(
        self, name: str, side: str, expect: AbstractSet[int] | None, expect_side: AbstractSet[int] | None
    ) -> None:
        with self._directory.locked():
            register = self._directory.register()
            taken, taking = register.entry(name), register.entry(side)
            with self._directory.swapping(taken, taking):
                _door.check_expected(expect, self._settled_versions(taken))
                _door.check_expected(expect_side, self._settled_versions(taking))
                if side != name:
                    self._directory.rewrite(register.moved(side, name))
            self._shards.forget_unnamed()

    def _settled_versions(self, entry: Entry) -> set[int]:
        return set().union(*(shard.settled_versions() for shard in self._shards.every(entry)))

    # Writing

    def replace(
        self,
        name: str,
        records: Iterable[Record],
        *,
        where: Filter,
        expect: AbstractSet[int] | None = None,
        fingerprint: str | None = None,
    ) -> int:
        """Take away what `where` matches and put `records` in its place; see `VectorStore.replace`."""
        given, tenant_id = _door.batch_of(records, where)
        self._check_open()
        entry = self._access.entry(name)
        self._admit(name)
        _door.check_fingerprint(entry.spec, fingerprint)
        batch = _door.check_batch(given, tenant_id, where, entry.spec.dimension)
        work = partial(_writes.replace, batch=batch, expect=expect)
        went = self._access.in_shard(name, tenant_id, work, fingerprint)
        while went is None:
            _door.check_expected(expect, set())
            if not batch.sources:
                return 0
            self._make_shard(name, tenant_id)
            went = self._access.in_shard(name, tenant_id, work, fingerprint)
        self._shards.care_soon(entry, tenant_id)
        self._tell(name, where)
        return went

    def update(self, name: str, patch: Mapping[str, MetadataValue | None], *, where: Filter) -> int:
        """Set the keys of `patch` on every record that `where` matches; see `VectorStore.update`."""
        self._check_open()
        checked = _door.check_patch(patch, _door.check_condition(where))
        changed = sum(self._access.in_shards(name, where, lambda shard: _writes.update(shard, checked, where)))
        self._tell(name, where)
        return changed

    def delete(self, name: str, *, where: Filter) -> int:
        """Take away what `where` matches; a whole tenant goes with its directory."""
        self._check_open()
        _door.check_condition(where)
        if isinstance(where, Eq) and where.key == keys.TENANT and isinstance(where.value, str):
            return self._remove_tenant(name, where.value)
        went: dict[int, int] = {}

        def work(shard: Shard) -> int:
            generation = shard.entry.generation
            went[generation] = went.get(generation, 0) + _writes.delete(shard, where)
            return generation

        done = self._access.in_shards(name, where, work)  # once more for all tenants, when a swap came between
        self._tell(name, where)
        return went[done[-1]] if done else 0

    # Reading

    def dense(
        self, name: str, vector: ArrayLike, *, where: Filter, limit: int, fingerprint: str | None = None
    ) -> list[Match]:
        """Return the nearest records that `where` matches, by their exact cosine."""
        self._check_open()
        spec = self._access.entry(name).spec
        _door.check_fingerprint(spec, fingerprint)
        query = _ranking.unit(_door.query_vector(vector, spec.dimension))
        _door.check_where(where)
        _door.check_limit(limit)
        wanted = _reads.Wanted(query, None, where, limit, self._exact)
        return merged(self._access.in_shards(name, where, partial(_reads.dense, wanted=wanted), fingerprint), limit)

    def lexical(self, name: str, query: LexicalQuery, *, where: Filter, limit: int) -> list[Match]:
        """Return the best worded records that `where` matches, by BM25."""
        self._check_open()
        _door.check_query(query)
        _door.check_where(where)
        _door.check_limit(limit)
        wanted = _reads.Wanted(None, query, where, limit, self._exact)
        return merged(self._access.in_shards(name, where, partial(_reads.lexical, wanted=wanted)), limit)

    def legs(self, name: str, asked: LegsQuery, choose: Choose, *, fingerprint: str) -> list[Record]:
        """Let a Library choose from what both legs of its search find, of one state; return the chosen records whole.

        The scope is judged once, and only what is chosen is read. `asked.where` names one tenant, or two that no
        passage can be of.
        """
        self._check_open()
        spec = self._access.entry(name).spec
        self._admit(name)
        query = None
        if asked.vector is not None:
            _door.check_fingerprint(spec, fingerprint)
            query = _ranking.unit(_door.query_vector(asked.vector, spec.dimension))
        wanted = _reads.Wanted(query, asked.words, asked.where, asked.limit, self._exact, asked.across)
        work: Callable[[Shard], list[Record]] = partial(_reads.legs, wanted=wanted, choose=choose)
        if self._feed is not None and query is not None:
            work = self._feed.consulted(partial(_reads.legs, wanted=wanted, choose=choose))
        for tenant_id in named_values(asked.where, keys.TENANT) or ():
            found = self._access.in_shard(name, tenant_id, work, None if query is None else fingerprint)
            if found is not None:
                return found
            if self._feed is not None:
                self._feed.missed(tenant_id)
        choose(Rankings(str))
        return []

    def scan(
        self, name: str, *, where: Filter, after: Cursor | None = None, limit: int, vectors: bool = False
    ) -> Page[Record]:
        """Return matching records behind `after` in the order of tenant id, source id, index."""
        self._check_open()
        _door.check_where(where)
        _door.check_limit(limit)
        begin = _door.check_cursor(after)
        while True:
            generation = self._access.entry(name).generation
            found = self._scanned(name, where, begin, limit, with_vectors=vectors)
            if self._access.entry(name).generation == generation:
                return page_of(found, limit)

    def _scanned(
        self, name: str, where: Filter, begin: Cursor | None, limit: int, *, with_vectors: bool
    ) -> list[Record]:
        """Return one record more than a page has, if there are so many."""
        found: list[Record] = []
        for tenant_id in self._access.tenants(name, where):
            if begin is None or tenant_id >= begin.tenant_id:
                within = begin if begin is not None and tenant_id == begin.tenant_id else None
                missing = limit + 1 - len(found)
                look = partial(_reads.scan, where=where, after=within, limit=missing, with_vectors=with_vectors)
                found += self._access.in_shard(name, tenant_id, look) or []
            if len(found) > limit:
                break
        return found

    def count(self, name: str, *, where: Filter) -> int:
        """Count the records that `where` matches."""
        self._check_open()
        _door.check_where(where)
        return sum(self._access.in_shards(name, where, lambda shard: _reads.count(shard, where)))

    # The ranker

    def ranker_health(self) -> RankerHealth:
        """Return how far the ranker was told, in all tenants; without one, that there is none."""
        self._check_open()
        return NO_RANKER if self._feed is None else self._feed.health(self._access.look_at_all)

    def sync_ranker(self, *, tenant_id: str | None = None) -> RankerHealth:
        """Deliver everything that the ranker is owed now, of one tenant or of all; no failure of its is raised."""
        return self._fed(tenant_id, Feed.sync)

    def rebuild_ranker(self, *, tenant_id: str | None = None) -> RankerHealth:
        """Let the ranker forget a tenant, or all, then feed every passage again; no failure of its is raised."""
        return self._fed(tenant_id, Feed.rebuild)

    def forget_ranker(self, name: str) -> int:
        """Strike off what is owed to a ranker that never comes back; return how many passages of removed tenants.

        `name` is its `durable_id`, or the name under which `problems` shows it. Should it come back after all, it is
        fed in full, and of removed tenants it keeps what it had. StoreError for the one that is plugged in,
        ValueError for no name.
        """
        self._check_open()
        books = names_of(name)
        if self._feed is not None and self._feed.book in books:
            raise StoreError("this ranker is plugged in: open the library without it to forget it")
        with self._directory.locked() as ledger:
            owed = sum(strike_off_state(ledger, book) for book in books)
        for entry in self._directory.register().collections.values():
            for path in self._shards.paths_of(entry):
                for book in books:
                    drop_book(path / book)
        return owed

    def _fed(self, tenant_id: str | None, work: Callable[[Feed, Shard], None]) -> RankerHealth:
        self._check_open()
        where = Exists(keys.TENANT) if tenant_id is None else Eq(keys.TENANT, tenant_id)
        if self._feed is not None:
            if self._feed.collection is not None:
                for path in self._shards.paths_of(self._access.entry(self._feed.collection)):
                    self._shards.remove_gone(path)
            self._feed.look_for_departed()
            if self._feed.collection is not None:
                self._access.in_shards(self._feed.collection, where, partial(work, self._feed))
            self._feed.deliver_departed(tenant_id)
        return self.ranker_health()

    def _admit(self, name: str, *, makes: bool = False) -> None:
        if self._feed is not None:
            self._feed.admit(name, makes=makes)

    def _tell(self, name: str, where: Filter) -> None:
        """Tell the ranker what a write has changed."""
        committed()
        if self._feed is not None:
            self._access.in_shards(name, where, self._feed.written)
            self._feed.deliver_departed(is_forced=False)

    # Looking after it

    def statistics(self, name: str) -> list[ShardStatistics]:
        """Return what a collection holds, tenant by tenant, in their order: for whoever runs the store."""
        self._check_open()
        return self._access.in_shards(name, Exists(keys.TENANT), _maintenance.statistics)

    def problems(self) -> list[Problem]:
        """Look whether everything fits together: databases, what is derived from them, files that nothing names.

        Reads all there is. Places are paths within the library; no tenant is named but by its directory.
        """
        self._check_open()
        found = [
            Problem(str(path.relative_to(self.path)), what, is_mended_by_compact=True)
            for path, what in self._directory.orphans()
        ]
        with self._directory.locked() as ledger:
            owed = owed_in(ledger)
        for durable_id, passages in owed.items():
            what = f"{passages} passages of removed tenants are owed to a vector ranker ({book_of(durable_id)})"
            found.append(Problem("ledger.db", f"{what}: {_maintenance.DELIVER_OR_FORGET}", is_mended_by_compact=False))
        for entry in self._directory.register().collections.values():
            for path in self._shards.paths_of(entry):
                found += self._problems_at(path, entry)
        return found

    def _problems_at(self, path: Path, entry: Entry) -> list[Problem]:
        place = str(path.relative_to(self.path))
        seen: list[tuple[str, bool]] | Again | None = Again.GONE
        for _ in range(TRIES):
            if isinstance(seen, Again):
                try:
                    seen = self._access.tried(
                        path, entry, lambda shard: list(_maintenance.problems(shard)), mends=False
                    )
                except StoreUnavailable as error:
                    return [Problem(place, str(error), is_mended_by_compact=False)]
        if seen is None or isinstance(seen, Again):
            return [Problem(place, "no finished shard: what is left of a removed tenant", is_mended_by_compact=True)]
        return [Problem(place, *problem) for problem in seen]

    def compact(self) -> None:
        """Write everything derived anew, without the rows and the space of what was removed, and erase orphans."""
        self._check_open()
        self._directory.clear()
        for entry in self._directory.register().collections.values():
            for path in self._shards.paths_of(entry):
                self._shards.remove_gone(path)
        for name in self._directory.register().collections:
            self._access.in_shards(name, Exists(keys.TENANT), _maintenance.compact)

    def close(self) -> None:
        """Erase what was removed from the files, and close them. Twice is fine."""
        if self._process != os.getpid():  # a fork's: what is open is the parent's
            return
        with self._close_lock:
            if self._is_closed:
                return
            self._is_closed = True
            if self._feed is not None:
                self._feed.close()
            self._shards.close()
            self._directory.close()

    # Inside

    def _check_open(self) -> None:
        if self._process != os.getpid():
            raise StoreError("this store was opened before a fork; open the directory again in this process")
        if self._is_closed:
            raise StoreError("this store is closed; open the directory again")

    def _make_shard(self, name: str, tenant_id: str) -> None:
        self._shards.remove_gone(self._shards.path_of(self._access.entry(name), tenant_id))
        number = self._directory.next_shard_number()
        with self._directory.locked():
            self._shards.make(self._access.entry(name), tenant_id, number)

    def _let_go_of_unnamed(self) -> None:
        """Erase the shards that no collection has any more, and tell the ranker."""
        self._directory.clear()
        if self._feed is not None:
            self._feed.look_for_departed()
            self._feed.deliver_departed()

    def _remove_tenant(self, name: str, tenant_id: str) -> int:
        """Take a tenant's shard away: at once for every reader, then its files. No other tenant waits for that."""
        went = self._access.in_shard(name, tenant_id, _writes.end)
        path = self._shards.path_of(self._access.entry(name), tenant_id)
        if went is not None:
            self._shards.forget_at(path)
        self._shards.remove_gone(path)
        committed()
        if self._feed is not None and went is not None:
            self._feed.departed(tenant_id)
        return went or 0
