"""The collections of one library in a database: each method is one transaction, or one for each tenant it writes in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.schema import CreateTable

from stackroom import _keys as keys
from stackroom._errors import CapabilityError, Conflict, StoreError, StoreUnavailable, UnknownCollection
from stackroom._filters import named_values
from stackroom.stores import _door
from stackroom.stores._options import NoLibrary
from stackroom.stores.sql import _places, _writes
from stackroom.stores.sql._allowed import Place, count
from stackroom.stores.sql._database import Database, TablesAreMissing, lacks_its_file
from stackroom.stores.sql._numbers import Numbers, NumbersAreMissing
from stackroom.stores.sql._rows import counted
from stackroom.stores.sql._tables import FORMAT, tables
from stackroom.stores.sql._where import condition, everything
from stackroom.stores.sql._writes import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

    from sqlalchemy import URL, Connection, Engine

    from stackroom._filters import Filter
    from stackroom._values import MetadataValue
    from stackroom.stores._protocol import CollectionSpec
    from stackroom.stores.sql._places import Held

T = TypeVar("T")

_TRIES: Final = 20
"""How often a call begins anew that finds its collection changed, or the numbers used up."""

_NO_LIBRARY: Final = (
    "this database holds no library under this prefix; run the statements of stackroom.stores.sql.schema_sql() first"
)


class Shelves:
    """What a library's tables hold. Arguments have been checked as far as they can be without looking."""

    format: Final = FORMAT

    def __init__(
        self,
        url_or_engine: str | URL | Engine,
        *,
        prefix: str,
        manage_schema: bool,
        pool_size: int,
        connect_timeout: float,
        lock_timeout: float,
    ) -> None:
        self.tables = tables(prefix)
        if not manage_schema and lacks_its_file(url_or_engine):
            raise NoLibrary(_NO_LIBRARY)
        self._database = Database(
            url_or_engine, pool_size=pool_size, connect_timeout=connect_timeout, lock_timeout=lock_timeout
        )
        self._numbers = Numbers(self._taken)
        try:
            self.identity = self._opened(manage_schema=manage_schema)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close what was opened here."""
        self._database.close()

    # The tables

    def _opened(self, *, manage_schema: bool) -> str:
        """See that the tables are there and of our format, making them when that is wanted; answer whose they are."""
        if not self._has_tables():
            if not manage_schema:
                raise NoLibrary(_NO_LIBRARY)
            self._database.write(self._make)
        found = self._library() or self._database.write(self._begin)
        version, identity = found
        if version != FORMAT:
            raise StoreError(
                f"the library's tables are of format {version}, this version of Stackroom works with {FORMAT}"
            )
        return identity

    def _has_tables(self) -> bool:
        """Tell whether all tables are there: the one that is made last is."""
        try:
            self._database.read(lambda connection: connection.execute(sa.select(self.tables.all[-1]).limit(1)).all())
        except TablesAreMissing:
            return False
        return True

    def _make(self, connection: Connection) -> None:
        for table in self.tables.all:
            connection.execute(CreateTable(table, if_not_exists=True))

    def _library(self) -> tuple[int, str] | None:
        return self._database.read(self._said)

    def _begin(self, connection: Connection) -> tuple[int, str]:
        """Say what the library is, unless another process has said so."""
        said, identity = self._said(connection), uuid4().hex
        if said is not None:
            return said
        row = {"one": 1, "format": FORMAT, "identity": identity.encode(), "next": 1}
        connection.execute(sa.insert(self.tables.library), row)
        return FORMAT, identity

    def _said(self, connection: Connection) -> tuple[int, str] | None:
        of = self.tables.library.c
        row = connection.execute(sa.select(of.format, of.identity)).one_or_none()
        return None if row is None else (row[0], row[1].decode())

    def _taken(self, size: int) -> int:
        of = self.tables.library.c

        def take(connection: Connection) -> int:
            connection.execute(sa.update(self.tables.library).values(next=of.next + size))
            return int(connection.execute(sa.select(of.next)).scalar_one()) - size

        return self._database.write(take)

    # Collections

    def collection(self, name: str) -> CollectionSpec | None:
        """Return a collection's spec, or None."""
        held = self._database.read(lambda connection: _places.look(connection, self.tables, name))
        return None if held is None else held.spec

    def create(self, name: str, spec: CollectionSpec) -> None:
        """Make a collection, or find that an equal one is there."""
        there = self.collection(name)
        if there is None:
            there = self._write(lambda connection: self._create(connection, name, spec))
        if there != spec:
            raise Conflict(f"collection {name!r} exists with another dimension or fingerprint; choose another name")

    def _create(self, connection: Connection, name: str, spec: CollectionSpec) -> CollectionSpec:
        there = _places.look(connection, self.tables, name)
        if there is None:
            row = {
                "number": self._numbers.some(),
                "name": name.encode(),
                "dimension": spec.dimension,
                "fingerprint": spec.fingerprint.encode(),
            }
            connection.execute(sa.insert(self.tables.collections), row)
        return spec if there is None else there.spec

    def drop(self, name: str) -> None:
        """Take a collection away with all it holds, while nobody writes there."""

        def work(connection: Connection) -> None:
            held = _places.look(connection, self.tables, name, lock="alone")
            if held is not None:
                self._drop(connection, held)

        self._database.write(work)

    def swap(self, name: str, side: str, expect: AbstractSet[int] | None, expect_side: AbstractSet[int] | None) -> None:
        """Let the collection `side` take the name in one step, while nobody writes either."""
        of = self.tables.collections

        def work(connection: Connection) -> None:
            found = {one: _places.look(connection, self.tables, one, lock="alone") for one in sorted({name, side})}
            taken, taking = found[name], found[side]
            if taken is None or taking is None:
                raise UnknownCollection(name if taken is None else side)
            if expect is not None:
                _door.check_expected(expect, self._versions(connection, taken))
            if expect_side is not None:
                _door.check_expected(expect_side, self._versions(connection, taking))
            if side != name:
                self._drop(connection, taken)
                renamed = sa.update(of).where(of.c.number == taking.number).values(name=name.encode())
                connection.execute(renamed)

        self._database.write(work)

    def _versions(self, connection: Connection, held: Held) -> set[int]:
        s, t = self.tables.sources.c, self.tables.tenants.c
        every = sa.select(s.version).join(self.tables.tenants, t.number == s.tenant)
        return set(connection.execute(every.where(t.collection == held.number)).scalars())

    def _drop(self, connection: Connection, held: Held) -> None:
        _writes.clear(connection, self.tables, held, self._numbers)
        of = self.tables.collections
        connection.execute(sa.delete(of).where(of.c.number == held.number))

    # Writing

    def replace(
        self, name: str, check: Callable[[CollectionSpec], _door.Batch], expect: AbstractSet[int] | None
    ) -> int:
        """Replace what a batch's filter matches by its records; the words are counted before anything is locked."""
        for _ in range(_TRIES):
            seen = self._database.read(lambda connection: _places.known(connection, self.tables, name))
            batch = check(seen.spec)
            terms = {source_id: counted(of_source) for source_id, of_source in batch.sources.items()}

            def work(connection: Connection, seen: Held = seen, batch: _door.Batch = batch, terms: Any = terms) -> Any:
                held = _places.known(connection, self.tables, name, lock="share")
                if held != seen:
                    return None
                writer, place = self._writer(connection, held, batch.tenant_id, batch.where)
                return writer.replace(place, batch, terms, expect)

            went = self._write(work)
            if went is not None:
                return int(went)
        raise StoreUnavailable("the collection is dropped and made again and again; try again")

    def update(self, name: str, patch: Mapping[str, MetadataValue | None], where: Filter) -> int:
        """Lay a patch over what a filter matches."""
        return self._in_each(name, where, lambda writer, place: writer.update(place, patch))

    def delete(self, name: str, where: Filter) -> int:
        """Take away what a filter matches."""
        return self._in_each(name, where, lambda writer, place: writer.delete(place))

    def _in_each(self, name: str, where: Filter, work: Callable[[Writer, Place], int]) -> int:
        """Write in every tenant that a filter may concern, in a transaction each; add up the answers."""

        def concerned(connection: Connection) -> list[str]:
            held = _places.known(connection, self.tables, name)
            return [one.tenant_id for one in _places.tenants(connection, self.tables, held, where)]

        def within(connection: Connection, tenant_id: str) -> int:
            held = _places.known(connection, self.tables, name, lock="share")
            writer, place = self._writer(connection, held, tenant_id, where)
            return 0 if place is None else work(writer, place)

        owners = self._database.read(concerned)
        return sum(self._write(lambda connection, owner=owner: within(connection, owner)) for owner in owners)  # type: ignore[misc] # the loop's tenant is bound

    def _writer(self, connection: Connection, held: Held, tenant_id: str, where: Filter) -> tuple[Writer, Place | None]:
        """Return what writes in a tenant, which is then held, and its place, if it has one."""
        tenant = _places.tenant(connection, self.tables, held, tenant_id, locks=True)
        place = None if tenant is None else Place(self.tables, tenant, condition(where, self.tables, tenant))
        return Writer(connection, self.tables, held, tenant_id, self._numbers), place

    def _write(self, work: Callable[[Connection], T]) -> T:
        """Run a transaction that may need numbers: how many it does in all shows as it goes on."""
        for attempt in range(_TRIES):
            try:
                return self._database.write(work)
            except NumbersAreMissing as missing:
                needed = missing.count
            self._numbers.refill(needed << attempt)
        raise CapabilityError("this write needs more numbers than there are; write fewer sources at a time")

    # Reading

    def each(
        self,
        name: str,
        where: Filter,
        check: Callable[[CollectionSpec], T],
        work: Callable[[Connection, Place, T], None],
    ) -> None:
        """Do something in every tenant that a filter may concern, in their order, all of one state.

        `check` judges the arguments by the collection's spec before anything else is read.
        """

        def read(connection: Connection) -> None:
            held = _places.known(connection, self.tables, name)
            checked = check(held.spec)
            for tenant in _places.tenants(connection, self.tables, held, where):
                work(connection, Place(self.tables, tenant, condition(where, self.tables, tenant)), checked)

        self._database.read(read)

    def count(self, name: str, where: Filter) -> int:
        """Count what a filter matches: in one statement where the database judges all of it, whatever the tenants."""

        def read(connection: Connection) -> int:
            held = _places.known(connection, self.tables, name)
            s, t = self.tables.sources.c, self.tables.tenants.c
            over_all = condition(where, self.tables, None)
            is_whole = over_all.is_in_the_database and over_all.is_of_sources
            if is_whole and named_values(where, keys.TENANT) is None:
                total = sa.select(sa.func.coalesce(sa.func.sum(s.passages), 0)).join(
                    self.tables.tenants, t.number == s.tenant
                )
                within = everything([t.collection == held.number, *over_all.of_source])
                return int(connection.execute(total.where(within)).scalar_one())
            found = _places.tenants(connection, self.tables, held, where)
            return sum(
                count(connection, Place(self.tables, tenant, condition(where, self.tables, tenant))) for tenant in found
            )

        return self._database.read(read)
