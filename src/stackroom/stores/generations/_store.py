"""A store over any engine that keeps rows and notes: whole sources without transactions, by generations."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from stackroom import _keys as keys
from stackroom._errors import CapabilityError, StoreError, StoreUnavailable
from stackroom._filters import named_values
from stackroom.stores import _door, _ranking
from stackroom.stores._protocol import (
    MAX_DIMENSION,
    Capabilities,
    CollectionSpec,
    Cursor,
    LexicalQuery,
    Match,
    Matches,
    Page,
    Record,
    all_filters,
    check_name,
)
from stackroom.stores._tokens import ALWAYS
from stackroom.stores.generations import _heads, _reads, _writes
from stackroom.stores.generations._catalogue import FORMAT, Catalogue, Entry
from stackroom.stores.generations._holding import HoldOff, is_held_off
from stackroom.stores.generations._turns import Turns
from stackroom.stores.generations._view import Selected, View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from numpy.typing import ArrayLike

    from stackroom._filters import Filter
    from stackroom._values import MetadataValue
    from stackroom.stores._protocol import Support
    from stackroom.stores.generations._engine import Engine
    from stackroom.stores.generations._turns import Turn

T = TypeVar("T")

LOCK_SECONDS: Final = 30.0
"""How long a write waits for another one to the same tenant."""

_LOOKS: Final = 10
"""How often a read begins anew because of writes, before it takes a writer's turn itself."""

_POLL_SECONDS: Final = 0.02


class GenerationStore:
    """A store on an engine. Subclasses open the engine and say what it can.

    Each tenant has a *head* that says which of its rows count. A replace of several sources, an update and a removal
    are each one step of one head: all or nothing, at every crash point, within a tenant.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        lexical: Support,
        exact: bool,
        durable: bool,
        shared: bool,
        max_dimension: int = MAX_DIMENSION,
        lock_timeout: float = LOCK_SECONDS,
    ) -> None:
        self._engine = engine
        self.capabilities = Capabilities(
            lexical=lexical,
            prefix="refused",
            update="emulated",
            transactions="emulated",
            swap="emulated",
            filters={**all_filters(), "Range": "emulated", "Contains": "emulated"},
            exact=exact,
            durable=durable,
            shared=shared,
            max_dimension=max_dimension,
        )
        self._catalogue = Catalogue(engine)
        self._turns = Turns(engine, lock_timeout)
        self._lock_timeout = lock_timeout
        self._closing = threading.Lock()
        self._is_closed = False

    @property
    def format(self) -> int:
        """The format of what the store keeps."""
        return FORMAT

    # Collections

    def create_collection(self, name: str, spec: CollectionSpec) -> None:
        """Make a collection, or find that an equal one is there."""
        self._check_open()
        self._catalogue.create(check_name(name), _door.check_spec(spec, self.capabilities.max_dimension))

    def collection(self, name: str) -> CollectionSpec | None:
        """Return a collection's spec, or None."""
        self._check_open()
        found = self._catalogue.find(check_name(name))
        return None if found is None else found.spec

    def drop_collection(self, name: str) -> None:
        """Take a collection away with all it holds."""
        self._check_open()
        self._catalogue.drop(check_name(name))

    def swap(
        self,
        name: str,
        side: str,
        *,
        expect: AbstractSet[int] | None = None,
        expect_side: AbstractSet[int] | None = None,
    ) -> None:
        """Let the collection `side` take the name, with all writers of both held off; what had the name is dropped."""
        self._check_open()
        entry, taking = self._entry(name), self._entry(side)
        with ExitStack() as stack:
            held = [stack.enter_context(HoldOff(self._engine, shelf)) for shelf in {entry.shelf, taking.shelf}]
            for each in held:
                self._await_writers(each)
            if (self._entry(name), self._entry(side)) != (entry, taking):
                raise StoreUnavailable(
                    "the collection was swapped or dropped meanwhile; nothing was changed: try again"
                )
            _door.check_expected(expect, self._versions(entry, held))
            _door.check_expected(expect_side, self._versions(taking, held))
            for each in held:
                each.renew()
            if side != name:
                self._catalogue.move(side, name)

    def _await_writers(self, held: HoldOff) -> None:
        for tenant_id in _heads.tenants_of(self._engine, held.shelf):
            held.renew()
            with self._turns.turn(held.shelf, tenant_id):
                pass

    def _versions(self, entry: Entry, held: list[HoldOff]) -> set[int]:
        versions: set[int] = set()
        for tenant_id in _heads.tenants_of(self._engine, entry.shelf):
            for each in held:
                each.renew()
            versions |= {place.written for place in self._view(entry.shelf, tenant_id).places(ALWAYS)}
        return versions

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
        self._check_open()
        check_name(name)
        given, tenant_id = _door.batch_of(records, where)
        entry = self._entry(name)
        _door.check_fingerprint(entry.spec, fingerprint)
        dimension = entry.spec.dimension
        batch = _door.check_batch(given, tenant_id, where, dimension)

        def work(turn: Turn, view: View, entry: Entry) -> int:
            _door.check_fingerprint(entry.spec, fingerprint)
            if entry.spec.dimension != dimension:  # it was swapped since the batch was checked
                _door.check_batch(given, tenant_id, where, entry.spec.dimension)
            return _writes.replace(turn, view, Selected.by(where, tenant_id), batch, expect)

        return self._write(name, tenant_id, work)

    def update(self, name: str, patch: Mapping[str, MetadataValue | None], *, where: Filter) -> int:
        """Set the keys of `patch` on every record that `where` matches; see `VectorStore.update`."""
        self._check_open()
        self._entry(name)
        checked = _door.check_patch(patch, _door.check_condition(where))
        return sum(
            self._write(
                name,
                tenant_id,
                lambda turn, view, _: _writes.update(turn, view, Selected.by(where, view.tenant), checked),
            )
            for tenant_id in self._holding(name, where)
        )

    def delete(self, name: str, *, where: Filter) -> int:
        """Take away what `where` matches and answer how many records went."""
        self._check_open()
        self._entry(name)
        _door.check_condition(where)
        return sum(
            self._write(
                name, tenant_id, lambda turn, view, _: _writes.delete(turn, view, Selected.by(where, view.tenant))
            )
            for tenant_id in self._holding(name, where)
        )

    def _write(self, name: str, tenant_id: str, work: Callable[[Turn, View, Entry], int]) -> int:
        """Do something in a turn of a tenant of a collection as it then is."""
        end = time.monotonic() + self._lock_timeout
        while True:
            entry = self._entry(name)
            with self._turns.turn(entry.shelf, tenant_id) as turn:
                if self._entry(name) == entry and not is_held_off(self._engine, entry.shelf):
                    return work(turn, View(self._engine, entry.shelf, tenant_id, turn.counts), entry)
            if time.monotonic() > end:
                raise StoreUnavailable("this collection is being swapped; nothing was changed: try again")
            time.sleep(_POLL_SECONDS)

    def sweep_abandoned(self, name: str) -> int:
        """Sweep what writers left that died: nothing that any answer shows, only space. Answer at how many tenants."""
        self._check_open()
        return self._turns.recover(self._entry(name).shelf)

    # Reading

    def dense(
        self, name: str, vector: ArrayLike, *, where: Filter, limit: int, fingerprint: str | None = None
    ) -> list[Match]:
        """Return the records nearest to a vector; see `VectorStore.dense`."""
        self._check_open()
        entry = self._entry(name)
        _door.check_fingerprint(entry.spec, fingerprint)
        query = _ranking.unit(_door.query_vector(vector, entry.spec.dimension))
        _door.check_where(where)
        _door.check_limit(limit)
        work = partial(_reads.dense, query=query, limit=limit)
        return self._ranked(self._read(entry, name, where, work, fingerprint), limit)

    def lexical(self, name: str, query: LexicalQuery, *, where: Filter, limit: int) -> list[Match]:
        """Return the best worded records, by BM25; see `VectorStore.lexical`."""
        self._check_open()
        entry = self._entry(name)
        if _door.check_query(query).prefix:
            raise CapabilityError("this store's lexical leg has no prefix search; ask without prefix")
        _door.check_where(where)
        _door.check_limit(limit)
        work = partial(_reads.lexical, query=query, limit=limit)
        return self._ranked(self._read(entry, name, where, work), limit)

    def scan(
        self, name: str, *, where: Filter, after: Cursor | None = None, limit: int, vectors: bool = False
    ) -> Page[Record]:
        """Return matching records behind `after` in the order of tenant id, source id, index."""
        self._check_open()
        entry = self._entry(name)
        _door.check_where(where)
        _door.check_limit(limit)
        begin = _door.check_cursor(after)
        while True:
            found = self._scanned(entry, name, where, begin, limit + 1, vectors=vectors)
            if found is not None:
                break
            entry = self._entry(name)
        if len(found) <= limit:
            return Page(tuple(found))
        last = found[limit - 1]
        return Page(tuple(found[:limit]), Cursor(last.tenant_id, last.source_id, last.index))

    def _scanned(
        self, entry: Entry, name: str, where: Filter, begin: Cursor | None, limit: int, *, vectors: bool
    ) -> list[Record] | None:
        """Return records in order, tenant by tenant; None when the collection is another by then."""
        found: list[Record] = []
        for tenant_id in self._tenants(entry, where):
            if begin is None or tenant_id >= begin.tenant_id:
                work = partial(_reads.scan, after=begin, limit=limit - len(found), vectors=vectors)
                page, now = self._of_tenant(entry, name, tenant_id, where, work)
                if now != entry:
                    return None
                found += page
                if len(found) == limit:
                    return found
        return found if self._entry(name) == entry else None

    def count(self, name: str, *, where: Filter) -> int:
        """Count the matching records."""
        self._check_open()
        entry = self._entry(name)
        _door.check_where(where)
        return sum(self._read(entry, name, where, _reads.count))

    def close(self) -> None:
        """Give back what the store opened."""
        with self._closing:
            if not self._is_closed:
                self._is_closed = True
                self._engine.close()

    # Inside

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreError("this store is closed; open it again")

    def _entry(self, name: str) -> Entry:
        return self._catalogue.entry(check_name(name))

    def _tenants(self, entry: Entry, where: Filter) -> list[str]:
        """Return the tenants, in order, that a filter may concern."""
        named = named_values(where, keys.TENANT)
        return sorted(named) if named is not None else _heads.tenants_of(self._engine, entry.shelf)

    def _holding(self, name: str, where: Filter) -> list[str]:
        """Return the tenants that a write may concern: of all, those that hold something that it matches now.

        So no other tenant's writers are troubled.
        """
        named = named_values(where, keys.TENANT)
        if named is not None:
            return sorted(named)
        while True:
            entry = self._entry(name)
            try:
                holding = [
                    tenant_id
                    for tenant_id in self._tenants(entry, where)
                    if self._view(entry.shelf, tenant_id).count(Selected.by(where, tenant_id).form)
                ]
            except StoreError:
                if self._entry(name) == entry:
                    raise
            else:
                if self._entry(name) == entry:
                    return holding

    def _view(self, shelf: str, tenant_id: str) -> View:
        return View(self._engine, shelf, tenant_id, _heads.head_of(self._engine, shelf, tenant_id).counts)

    def _read(
        self,
        entry: Entry,
        name: str,
        where: Filter,
        work: Callable[[View, Selected], T],
        fingerprint: str | None = None,
    ) -> list[T]:
        """Read every tenant that a filter may concern, one state each, all of one collection: at first of `entry`."""
        named = named_values(where, keys.TENANT)
        while True:
            read = self._of_every if named is None else self._of
            done, now = read(entry, name, where, work)
            if now == entry:
                return done
            entry = now
            _door.check_fingerprint(entry.spec, fingerprint)

    def _of(self, entry: Entry, name: str, where: Filter, work: Callable[[View, Selected], T]) -> tuple[list[T], Entry]:
        """Read the tenants that a filter names; no further when the collection is another by then."""
        done: list[T] = []
        for tenant_id in self._tenants(entry, where):
            found, now = self._of_tenant(entry, name, tenant_id, where, work)
            if now != entry:
                return done, now
            done.append(found)
        return done, entry

    def _of_every(
        self, entry: Entry, name: str, where: Filter, work: Callable[[View, Selected], T]
    ) -> tuple[list[T], Entry]:
        """Read all tenants, looking at their heads once before and once after; those that moved are read again."""
        heads = _heads.heads_of(self._engine, entry.shelf)
        try:
            found = {
                tenant_id: work(View(self._engine, entry.shelf, tenant_id, head.counts), Selected.by(where, tenant_id))
                for tenant_id, head in heads.items()
            }
        except StoreError:
            if self._entry(name) == entry:
                raise
            return [], self._entry(name)
        after = _heads.heads_of(self._engine, entry.shelf)
        for tenant_id, head in heads.items():
            if after.get(tenant_id, head).state != head.state:
                found[tenant_id], _ = self._of_tenant(entry, name, tenant_id, where, work)
        return list(found.values()), self._entry(name)

    def _of_tenant(
        self, entry: Entry, name: str, tenant_id: str, where: Filter, work: Callable[[View, Selected], T]
    ) -> tuple[T, Entry]:
        """Read one state of a tenant: what was asked while its head moved is asked again. Say of which entry it is."""
        selected = Selected.by(where, tenant_id)
        for _ in range(_LOOKS):
            head = _heads.head_of(self._engine, entry.shelf, tenant_id)
            try:
                done = work(View(self._engine, entry.shelf, tenant_id, head.counts), selected)
            except StoreError:
                if self._entry(name) == entry:
                    raise
            else:
                is_same = _heads.head_of(self._engine, entry.shelf, tenant_id).state == head.state
                if is_same and self._entry(name) == entry:
                    return done, entry
            entry = self._entry(name)
        with self._turns.turn(entry.shelf, tenant_id) as turn:
            return work(View(self._engine, entry.shelf, tenant_id, turn.counts), selected), entry

    def _ranked(self, found: list[list[_reads.Scored]], limit: int) -> list[Match]:
        ranked = _reads.ranked([scored for of_tenant in found for scored in of_tenant], limit)
        remarks = self._engine.remarks()
        return Matches(ranked, remarks) if remarks else ranked


__all__ = ["LOCK_SECONDS", "GenerationStore"]
