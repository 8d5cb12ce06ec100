"""PostgresStore: the collections of one library in a PostgreSQL database."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from stackroom import _keys as keys
from stackroom._errors import StackroomError, StoreError, StoreUnavailable
from stackroom._filters import Eq, Filter, leaves, matches, named_values
from stackroom.stores import _door, _ranking
from stackroom.stores._legs import Rankings
from stackroom.stores._options import check_flags, check_lengths, check_limit, check_seconds
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
from stackroom.stores.postgres import _reads, _writes
from stackroom.stores.postgres._connections import Begin, Database, Statement, TablesAreGone, setting
from stackroom.stores.postgres._dense import JOINED
from stackroom.stores.postgres._names import FORMAT, Entry, Names
from stackroom.stores.postgres._policies import settings_of
from stackroom.stores.postgres._reads import Place
from stackroom.stores.postgres._register import Register
from stackroom.stores.postgres._replica import check_replica
from stackroom.stores.postgres._schema import MAX_DIMENSION, check_partitions
from stackroom.stores.postgres._transaction import Transaction
from stackroom.stores.postgres._where import condition
from stackroom.stores.postgres._writing import Writers
from stackroom.text._arguments import require_size

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from numpy.typing import ArrayLike
    from psycopg_pool import ConnectionPool

    from stackroom._model import Page
    from stackroom._values import MetadataValue
    from stackroom.stores._legs import Choose, LegsQuery
    from stackroom.stores.postgres._locks import WriteTransaction

T = TypeVar("T")
Checked = TypeVar("Checked")

_TRIES: Final = 20
"""How often a call looks again for a collection that is dropped, made and swapped while it looks."""


class PostgresStore:
    """A library in PostgreSQL with pgvector: durable, and shared by any number of processes and machines.

    `dsn_or_pool`: with a DSN the store makes a pool of at most `pool_size` connections and closes it; a
    `psycopg_pool.ConnectionPool` is used and left open. The tables lie in `schema`, their names begin with `prefix`;
    with `manage_schema=False` the store runs no DDL (see `schema_sql`). StoreUnavailable when the server does not
    answer within `connect_timeout` seconds.

    Dense search compares all that is allowed: its answers are exact, and take longer the more is allowed. With an
    `exact_limit` (at least 1,000) collections get an HNSW index, and a search that is allowed more passages than that
    walks it where that is quicker. Then nothing is promised of how many of the nearest it finds, for the index may have
    no way to some: such an answer says so (the note `scan_limit`, so it is not `complete`). All is compared after all
    when the walk brings too little, and with `exact=True`. `vector_index=False` makes collections without the index,
    for `build_vector_index` to make it once they are loaded; `partitions` splits a collection's passages by tenant.

    A write waits up to `lock_timeout` seconds for another one of the same source, then StoreUnavailable; with 0 it
    does not wait: Conflict. `row_level_security=True` serves only where the database keeps every scope as a second
    lock, and sees to that before it reads anything (StoreError). With `read_dsn`, a synchronous streaming replica,
    searches and listings are answered there, and a write returns when the replica shows it. A store belongs to the
    process that made it.
    """

    def __init__(
        self,
        dsn_or_pool: str | ConnectionPool[Any],
        *,
        schema: str = "public",
        prefix: str = "stackroom_",
        manage_schema: bool = True,
        exact: bool = False,
        exact_limit: int | None = None,
        partitions: int = 0,
        vector_index: bool = True,
        row_level_security: bool = False,
        lock_timeout: float = 30.0,
        pool_size: int = 10,
        connect_timeout: float = 5.0,
        read_dsn: str | None = None,
    ) -> None:
        check_flags(
            manage_schema=manage_schema, exact=exact, vector_index=vector_index, row_level_security=row_level_security
        )
        if row_level_security and manage_schema:
            raise ValueError(
                "row_level_security needs manage_schema=False: who makes tables owns them, and can lift the lock"
            )
        names = Names(schema, prefix)
        if exact_limit is not None:
            require_size("exact_limit", exact_limit, least=1_000)
        walks_index = exact_limit is not None and not exact
        require_size("pool_size", pool_size, least=1)
        check_partitions(partitions)
        check_seconds("lock_timeout", lock_timeout, least=0)
        check_seconds("connect_timeout", connect_timeout, least=0.001)
        self._is_locked = row_level_security
        self._how = _reads.Dense(exact_limit if walks_index else None, row_level_security, _reads.Sizes())
        self._process = os.getpid()
        self._close_lock = threading.Lock()
        self._is_closed = False
        if read_dsn is not None and not isinstance(read_dsn, str):
            raise ValueError(f"read_dsn must be a DSN or None, not {type(read_dsn).__name__}")
        self._database = self._readers = Database(
            dsn_or_pool,
            pool_size=pool_size,
            connect_timeout=connect_timeout,
            waits_for_replica=read_dsn is not None,
        )
        self._writers = Writers(self._database, lock_timeout, self._settings)
        self._register = Register(
            self._database,
            names,
            manages_schema=manage_schema,
            is_locked=row_level_security,
            lock_timeout=lock_timeout,
            partitions=partitions,
            vector_index=vector_index and walks_index,
        )
        try:
            self._identity = self._register.open()
            if read_dsn is not None:
                self._readers = Database(read_dsn, pool_size=pool_size, connect_timeout=connect_timeout)
                check_replica(self._database, self._readers, names)
        except BaseException:
            self._readers.close()
            self._database.close()
            raise
        self.capabilities = Capabilities(
            lexical="native",
            prefix="native",
            update="native",
            transactions="native",
            swap="native",
            filters=all_filters(),
            exact=not walks_index,
            durable=True,
            shared=True,
            max_dimension=MAX_DIMENSION,
        )

    @property
    def stands_on(self) -> Hashable:
        """What all handles on this library have in common."""
        return type(self), self._identity

    # Collections

    def create_collection(self, name: str, spec: CollectionSpec) -> None:
        """Make a collection, or find that an equal one is there."""
        self._check_open()
        self._register.create(check_name(name), _door.check_spec(spec, MAX_DIMENSION))

    def collection(self, name: str) -> CollectionSpec | None:
        """Return a collection's spec, or None."""
        self._check_open()
        entry = self._register.look(name)
        return None if entry is None else entry.spec

    def drop_collection(self, name: str) -> None:
        """Take a collection away with all it holds."""
        self._check_open()
        self._register.drop(name)

    def swap(
        self,
        name: str,
        side: str,
        *,
        expect: AbstractSet[int] | None = None,
        expect_side: AbstractSet[int] | None = None,
    ) -> None:
        """Let the collection `side` take the name, in one step, while nobody writes either."""
        self._check_open()
        self._register.swap(check_name(name), side, expect, expect_side)

    def build_vector_index(self, name: str) -> None:
        """Make the vector index of a collection that was made without one; its writers wait meanwhile.

        It is walked by stores with an `exact_limit`.
        """
        self._check_open()
        self._register.index(check_name(name))

    # Looking after it

    @property
    def format(self) -> int:
        """The version of the tables' layout."""
        return FORMAT

    def statistics(self, name: str) -> _reads.Statistics:
        """Return what a collection holds, and its size in the database: for whoever runs the store.

        Under row-level security the sources are counted tenant by tenant.
        """
        self._check_open()
        entry = self._register.fresh_entry(name)
        (sums,), (sizes,) = self._database.run(
            Begin.READING, lambda session: session.ask(*_reads.totals(entry), last=True)
        )
        sources = self.count(name, where=Eq(keys.INDEX, 0))
        return _reads.Statistics(tenants=sums[0], sources=sources, passages=sums[1], bytes=sizes[0])

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

        def check(entry: Entry) -> _door.Batch:
            _door.check_fingerprint(entry.spec, fingerprint)
            batch = _door.check_batch(given, tenant_id, where, entry.spec.dimension)
            for record in given:
                check_lengths(record.metadata)
            return batch

        def work(place: Place, batch: _door.Batch) -> int:
            replacing = _writes.Replacing(place, batch, expect, is_locked=self._is_locked)
            return self._writers.replace(place, where, replacing)

        return self._at_once(name, tenant_id, where, check, work)

    def update(self, name: str, patch: Mapping[str, MetadataValue | None], *, where: Filter) -> int:
        """Set the keys of `patch` on every record that `where` matches; see `VectorStore.update`."""
        self._check_open()
        checked = _door.check_patch(patch, _door.check_condition(where))
        check_lengths(checked)
        return self._write_each(name, where, partial(_writes.update, patch=checked, is_locked=self._is_locked))

    def delete(self, name: str, *, where: Filter) -> int:
        """Take away what `where` matches and answer how many records went."""
        self._check_open()
        _door.check_condition(where)
        is_whole_tenant = isinstance(where, Eq) and where.key == keys.TENANT
        return self._write_each(name, where, _writes.remove_tenant if is_whole_tenant else _writes.delete)

    # Reading

    def dense(
        self, name: str, vector: ArrayLike, *, where: Filter, limit: int, fingerprint: str | None = None
    ) -> list[Match]:
        """Return the nearest records that `where` matches, by their exact cosine."""
        self._check_open()

        def check(entry: Entry) -> _reads.Wanted:
            _door.check_fingerprint(entry.spec, fingerprint)
            query = _ranking.unit(_door.query_vector(vector, entry.spec.dimension))
            _door.check_where(where)
            return _reads.Wanted(query, None, check_limit(limit))

        def work(asks: Transaction, place: Place, wanted: _reads.Wanted) -> list[Match]:
            return _reads.dense(asks, place, wanted, self._how)

        return merged(self._read_each(name, where, check, work), limit)

    def lexical(self, name: str, query: LexicalQuery, *, where: Filter, limit: int) -> list[Match]:
        """Return the best worded records that `where` matches, by BM25."""
        self._check_open()
        _door.check_query(query)
        _door.check_where(where)
        wanted = _reads.Wanted(None, query, check_limit(limit))
        return merged(self._read_each(name, where, lambda _: wanted, _reads.lexical), limit)

    def legs(self, name: str, asked: LegsQuery, choose: Choose, *, fingerprint: str) -> list[Record]:
        """Let a Library choose from what both legs of its search find, of one state; return the chosen records whole.

        All is one round trip; further ones read chosen texts that are long, or walk the vector index. `asked.where`
        names one tenant, or two that no passage can be of.
        """
        self._check_open()

        def check(entry: Entry) -> _reads.Wanted:
            query = None
            if asked.vector is not None:
                _door.check_fingerprint(entry.spec, fingerprint)
                query = _ranking.unit(_door.query_vector(asked.vector, entry.spec.dimension))
            return _reads.Wanted(query, asked.words, asked.limit, asked.across)

        def work(asks: Transaction, place: Place, wanted: _reads.Wanted) -> list[Record]:
            return _reads.legs(asks, place, wanted, self._how, choose)

        for records in self._twice_when_long(lambda: self._read_each(name, asked.where, check, work)):
            return records
        choose(Rankings(str))
        return []

    def _twice_when_long(self, search: Callable[[], T]) -> T:
        with suppress(_reads.TextsAreLong):
            return search()
        return search()  # by now it is known that texts are long

    def scan(
        self, name: str, *, where: Filter, after: Cursor | None = None, limit: int, vectors: bool = False
    ) -> Page[Record]:
        """Return matching records behind `after` in the order of tenant id, source id, index."""
        self._check_open()
        _door.check_where(where)
        limit = check_limit(limit)
        begin = _door.check_cursor(after)
        found: list[Record] = []

        def look(asks: Transaction, place: Place, _: None) -> None:
            if len(found) <= limit and (begin is None or place.tenant_id >= begin.tenant_id):
                within = begin if begin is not None and place.tenant_id == begin.tenant_id else None
                found.extend(_reads.scan(asks, place, within, limit + 1 - len(found), with_vectors=vectors))

        def begin_anew(_: Entry) -> None:
            found.clear()

        self._read_each(name, where, begin_anew, look)
        return page_of(found, limit)

    def count(self, name: str, *, where: Filter) -> int:
        """Count the records that `where` matches."""
        self._check_open()
        _door.check_where(where)
        if self._is_locked or named_values(where, keys.TENANT) is not None:
            return sum(self._read_each(name, where, lambda _: None, lambda asks, place, _: _reads.count(asks, place)))
        return self._again_when_gone(name, partial(self._count_all, where))

    def _count_all(self, where: Filter, entry: Entry) -> int:
        """Count what matches in all tenants, in one statement."""
        place = Place(entry, "", condition(where, None))
        return self._readers.run(Begin.READING, lambda session: _reads.count(Transaction(session, entry, ()), place))

    def close(self) -> None:
        """Close the store's own pool; one that was given stays open. Twice is fine."""
        with self._close_lock:
            if not self._is_closed and self._process == os.getpid():
                self._is_closed = True
                self._readers.close()
                self._database.close()

    # Inside

    def _check_open(self) -> None:
        if self._process != os.getpid():
            raise StoreError("this store was opened before a fork; open another one in this process")
        if self._is_closed:
            raise StoreError("this store is closed; open another one")

    def _read_each(
        self,
        name: str,
        where: Filter,
        check: Callable[[Entry], Checked],
        work: Callable[[Transaction, Place, Checked], T],
    ) -> list[T]:
        """Do something in every tenant that a filter may concern, in their order, all of one state of the register.

        `check` judges the arguments by the collection's spec, anew when that has changed.
        """
        for _ in range(_TRIES):
            entry, checked = self._checked(name, check)
            try:
                return [self._read(entry, tenant, where, checked, work) for tenant in self._tenants(entry, where)]
            except TablesAreGone:
                pass  # looked for anew below, where no error is in the way
            self._register.fresh_entry(name)
        raise StoreUnavailable("the collection is dropped and made again and again; try again")

    def _read(
        self,
        entry: Entry,
        tenant_id: str,
        where: Filter,
        checked: Checked,
        work: Callable[[Transaction, Place, Checked], T],
    ) -> T:
        place = Place(entry, tenant_id, condition(where, tenant_id))
        opening = self._settings(tenant_id, where)
        return self._readers.run(
            Begin.READING, lambda session: work(Transaction(session, entry, opening), place, checked)
        )

    def _write_each(self, name: str, where: Filter, work: Callable[[WriteTransaction, Place], int]) -> int:
        """Do something in every tenant that a filter may concern, each a transaction of its own; add up the answers."""

        def in_tenant(place: Place, _: None) -> int:
            return self._writers.write(place, where, lambda asks: work(asks, place))

        tenants = self._again_when_gone(name, lambda entry: self._tenants(entry, where))
        return sum(self._at_once(name, tenant_id, where, lambda _: None, in_tenant) for tenant_id in tenants)

    def _at_once(
        self,
        name: str,
        tenant_id: str,
        where: Filter,
        check: Callable[[Entry], Checked],
        work: Callable[[Place, Checked], T],
    ) -> T:
        """Do something in one tenant of the collection as it is now."""

        def in_entry(_: Entry) -> T:
            entry, checked = self._checked(name, check)
            return work(Place(entry, tenant_id, condition(where, tenant_id)), checked)

        return self._again_when_gone(name, in_entry)

    def _again_when_gone(self, name: str, work: Callable[[Entry], T]) -> T:
        for _ in range(_TRIES):
            entry = self._register.entry(name)
            try:
                return work(entry)
            except TablesAreGone:
                pass  # as in _read_each
            self._register.fresh_entry(name)
        raise StoreUnavailable("the collection is dropped and made again and again; try again")

    def _checked(self, name: str, check: Callable[[Entry], Checked]) -> tuple[Entry, Checked]:
        """Check arguments against a collection as last seen; what does not fit is judged by how it is now."""
        entry = self._register.entry(name)
        try:
            return entry, check(entry)
        except (StackroomError, ValueError) as error:
            refused = error
        now = self._register.fresh_entry(name)
        if now == entry:
            raise refused
        return now, check(now)

    def _settings(self, tenant_id: str, where: Filter) -> list[Statement]:
        """Return what a transaction must say of itself to see anything under row-level security."""
        return [setting(*said) for said in settings_of(tenant_id, where).items()] if self._is_locked else []

    def _tenants(self, entry: Entry, where: Filter) -> list[str]:
        """Return the tenants, in order, that a filter may concern."""
        named = named_values(where, keys.TENANT)
        if named is not None:
            return sorted(named) or self._nobody(entry)
        of_tenants = all(getattr(leaf, "key", "") == keys.TENANT for leaf in leaves(where))
        asked = Statement(f"SELECT tenant_id FROM {entry.tenants}")
        if not self._is_locked and not of_tenants:
            every = condition(where, None)
            joined = JOINED.format(sources=entry.sources, passages=entry.passages)
            place = f"{entry.sources} s" if every.of_passage is None else joined
            asked = Statement(f"SELECT DISTINCT s.tenant_id FROM {place} WHERE {every.whole}", every.values)
        (rows,) = self._database.run(
            Begin.READING, lambda session: Transaction(session, entry, ()).ask(asked, last=True)
        )
        found = sorted(tenant_id for (tenant_id,) in rows)
        return [one for one in found if matches(where, {keys.TENANT: one})] if of_tenants else found

    def _nobody(self, entry: Entry) -> list[str]:
        """Return no tenants, of a collection that must yet be there."""
        self._register.fresh_entry(entry.name)
        return []
