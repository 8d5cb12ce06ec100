"""SqlStore: the collections of one library in an SQL database that knows nothing of vectors."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from stackroom._errors import StoreError
from stackroom.stores import _door, _ranking
from stackroom.stores._legs import Rankings
from stackroom.stores._options import check_flags, check_lengths, check_seconds
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
from stackroom.text._arguments import require_size

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from numpy.typing import ArrayLike
    from sqlalchemy import URL, Connection, Engine

    from stackroom._filters import Filter
    from stackroom._model import Page
    from stackroom._values import MetadataValue
    from stackroom.stores._legs import Choose, LegsQuery
    from stackroom.stores.sql._allowed import Place
    from stackroom.stores.sql._reads import Wanted
    from stackroom.stores.sql._shelves import Shelves


class SqlStore:
    """A library in SQLite, PostgreSQL without pgvector, MariaDB or MySQL: durable, shared, exact.

    `url_or_engine`: with a URL, written as for SQLAlchemy, the store makes an engine with a pool of at most `pool_size`
    connections and closes it; a `sqlalchemy.Engine` is used and left open. The names of its tables begin with `prefix`;
    with `manage_schema=False` the store runs no DDL (see `schema_sql`). StoreUnavailable when the server does not
    answer within `connect_timeout` seconds.

    A dense search compares all that is allowed in NumPy. CapabilityError, before any vector is read, when the database
    allows more than `max_rows` passages of a tenant; None: no limit. Writers of one tenant take turns (on SQLite, all
    writers of the file); one waits up to `lock_timeout` seconds, then StoreUnavailable. A store belongs to the process
    that made it.
    """

    def __init__(
        self,
        url_or_engine: str | URL | Engine,
        *,
        prefix: str = "stackroom_",
        manage_schema: bool = True,
        max_rows: int | None = 100_000,
        lock_timeout: float = 30.0,
        pool_size: int = 10,
        connect_timeout: float = 5.0,
    ) -> None:
        check_flags(manage_schema=manage_schema)
        if max_rows is not None:
            require_size("max_rows", max_rows, least=1_000)
        require_size("pool_size", pool_size, least=1)
        check_seconds("lock_timeout", lock_timeout, least=0.001)
        check_seconds("connect_timeout", connect_timeout, least=0.001)
        check_sqlalchemy()
        from stackroom.stores.sql import _reads
        from stackroom.stores.sql._shelves import Shelves
        from stackroom.stores.sql._tables import check_prefix

        self._process = os.getpid()
        self._close_lock = threading.Lock()
        self._is_closed = False
        self._most = max_rows
        self._reads = _reads
        self._shelves = Shelves(
            url_or_engine,
            prefix=check_prefix(prefix),
            manage_schema=manage_schema,
            pool_size=pool_size,
            connect_timeout=connect_timeout,
            lock_timeout=lock_timeout,
        )
        self.capabilities = Capabilities(
            lexical="emulated",
            prefix="emulated",
            update="emulated",
            transactions="native",
            swap="native",
            filters=all_filters("emulated"),
            exact=True,
            durable=True,
            shared=True,
        )

    @property
    def stands_on(self) -> Hashable:
        """What all handles on this library have in common."""
        return type(self), self._shelves.identity

    @property
    def format(self) -> int:
        """The version of the tables' layout."""
        return self._shelves.format

    # Collections

    def create_collection(self, name: str, spec: CollectionSpec) -> None:
        """Make a collection, or find that an equal one is there."""
        self._open().create(check_name(name), _door.check_spec(spec))

    def collection(self, name: str) -> CollectionSpec | None:
        """Return a collection's spec, or None."""
        return self._open().collection(check_name(name))

    def drop_collection(self, name: str) -> None:
        """Take a collection away with all it holds."""
        self._open().drop(check_name(name))

    def swap(
        self,
        name: str,
        side: str,
        *,
        expect: AbstractSet[int] | None = None,
        expect_side: AbstractSet[int] | None = None,
    ) -> None:
        """Let the collection `side` take the name, in one step, while nobody writes either."""
        self._open().swap(check_name(name), check_name(side), expect, expect_side)

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

        def check(spec: CollectionSpec) -> _door.Batch:
            _door.check_fingerprint(spec, fingerprint)
            batch = _door.check_batch(given, tenant_id, where, spec.dimension)
            for record in given:
                check_lengths(record.metadata)
            return batch

        return self._open().replace(check_name(name), check, expect)

    def update(self, name: str, patch: Mapping[str, MetadataValue | None], *, where: Filter) -> int:
        """Set the keys of `patch` on every record that `where` matches; see `VectorStore.update`."""
        shelves = self._open()
        checked = _door.check_patch(patch, _door.check_condition(where))
        check_lengths(checked)
        return shelves.update(check_name(name), checked, where)

    def delete(self, name: str, *, where: Filter) -> int:
        """Take away what `where` matches and answer how many records went."""
        return self._open().delete(check_name(name), _door.check_condition(where))

    # Reading

    def dense(
        self, name: str, vector: ArrayLike, *, where: Filter, limit: int, fingerprint: str | None = None
    ) -> list[Match]:
        """Return the nearest records that `where` matches, by their exact cosine."""
        found: list[list[Match]] = []

        def check(spec: CollectionSpec) -> Wanted:
            _door.check_fingerprint(spec, fingerprint)
            query = _ranking.unit(_door.query_vector(vector, spec.dimension))
            wanted: Wanted = self._reads.Wanted(query, None, _door.check_limit(limit))
            return wanted

        def look(connection: Connection, place: Place, wanted: Wanted) -> None:
            found.append(self._reads.dense(connection, place, wanted, self._most))

        self._open().each(check_name(name), _door.check_where(where), check, look)
        return merged(found, limit)

    def lexical(self, name: str, query: LexicalQuery, *, where: Filter, limit: int) -> list[Match]:
        """Return the best worded records that `where` matches, by BM25."""
        found: list[list[Match]] = []
        wanted = self._reads.Wanted(None, _door.check_query(query), _door.check_limit(limit))

        def look(connection: Connection, place: Place, _: None) -> None:
            found.append(self._reads.lexical(connection, place, wanted))

        self._open().each(check_name(name), _door.check_where(where), lambda _: None, look)
        return merged(found, limit)

    def legs(self, name: str, asked: LegsQuery, choose: Choose, *, fingerprint: str) -> list[Record]:
        """Let a Library choose from what both legs of its search find, of one state; return the chosen records whole.

        `asked.where` names one tenant, or two that no passage can be of.
        """
        found: list[list[Record]] = []

        def check(spec: CollectionSpec) -> Wanted:
            query = None
            if asked.vector is not None:
                _door.check_fingerprint(spec, fingerprint)
                query = _ranking.unit(_door.query_vector(asked.vector, spec.dimension))
            wanted: Wanted = self._reads.Wanted(query, asked.words, asked.limit, asked.across)
            return wanted

        def look(connection: Connection, place: Place, wanted: Wanted) -> None:
            found.append(self._reads.legs(connection, place, wanted, self._most, choose))

        self._open().each(check_name(name), asked.where, check, look)
        if not found:
            choose(Rankings(str))
        return [record for records in found for record in records]

    def scan(
        self, name: str, *, where: Filter, after: Cursor | None = None, limit: int, vectors: bool = False
    ) -> Page[Record]:
        """Return matching records behind `after` in the order of tenant id, source id, index."""
        _door.check_limit(limit)
        begin = _door.check_cursor(after)
        found: list[Record] = []

        def look(connection: Connection, place: Place, _: Any) -> None:
            tenant_id = place.tenant.tenant_id
            if len(found) <= limit and (begin is None or tenant_id >= begin.tenant_id):
                within = begin if begin is not None and tenant_id == begin.tenant_id else None
                wanted = limit + 1 - len(found)
                found.extend(self._reads.scan(connection, place, within, wanted, vectors=vectors))

        self._open().each(check_name(name), _door.check_where(where), lambda _: found.clear(), look)
        return page_of(found, limit)

    def count(self, name: str, *, where: Filter) -> int:
        """Count the records that `where` matches."""
        return self._open().count(check_name(name), _door.check_where(where))

    def close(self) -> None:
        """Close the store's own engine; one that was given stays open. Twice is fine."""
        with self._close_lock:
            if not self._is_closed and self._process == os.getpid():
                self._is_closed = True
                self._shelves.close()

    def _open(self) -> Shelves:
        if self._process != os.getpid():
            raise StoreError("this store was opened before a fork; open another one in this process")
        if self._is_closed:
            raise StoreError("this store is closed; open another one")
        return self._shelves


def check_sqlalchemy() -> None:
    """Raise ImportError, with what to install, when SQLAlchemy is missing."""
    try:
        import sqlalchemy  # noqa: F401 - looked for here, used where it is needed
    except ImportError as error:
        raise ImportError('SqlStore needs SQLAlchemy: pip install "stackroom[sql]"') from error
