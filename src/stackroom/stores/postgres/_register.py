"""The register: which collections there are, made, dropped and swapped in one step under the locks of all writers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stackroom._errors import CapabilityError, Conflict, StoreError, UnknownCollection
from stackroom._filters import And
from stackroom.stores import _door
from stackroom.stores._options import NoLibrary
from stackroom.stores._protocol import CollectionSpec, check_name
from stackroom.stores.postgres._connections import Begin, Database, Session, Statement, setting
from stackroom.stores.postgres._locks import Lock, opening
from stackroom.stores.postgres._names import FORMAT, Entry, Names, token_of
from stackroom.stores.postgres._policies import check_locked, check_open, settings_of
from stackroom.stores.postgres._schema import (
    EXTENSION,
    MAX_INDEXED_DIMENSION,
    collection_statements,
    has_index,
    library_statements,
    schema_statement,
    upgrade_statements,
    vector_index_statement,
)
from stackroom.stores.postgres._transaction import entry_of, registered

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet


_PGVECTOR: Final = Statement("SELECT extversion FROM pg_extension WHERE extname = 'vector'")

_OLDEST_SERVER: Final = 14
_OLDEST_PGVECTOR: Final = (0, 8)

_SPARE: Final = "~"
"""What the name of empty tables begins with that were a collection's; no collection's name does."""

_LONG_ENOUGH: Final = 30
"""Seconds that changes of the register wait for each other."""


def _check_server(session: Session) -> None:
    """Raise a StoreError when the server cannot hold a library."""
    ((encoding, version),) = session.ask(
        Statement("SELECT current_setting('server_encoding'), current_setting('server_version_num')::integer")
    )[0]
    if encoding != "UTF8":
        raise StoreError(f"the database's encoding is {encoding}; make one with ENCODING 'UTF8'")
    if version < _OLDEST_SERVER * 10_000:
        raise StoreError(f"the server is PostgreSQL {version // 10_000}; it must be {_OLDEST_SERVER} or newer")


def _check_pgvector(session: Session) -> None:
    """Raise a StoreError when pgvector is missing or too old: before 0.8 an index answers fewer than match."""
    rows, ((is_found,),) = session.ask(_PGVECTOR, Statement("SELECT to_regtype('vector') IS NOT NULL"))
    there = tuple(int(part) for part in rows[0][0].split(".")[:2]) if rows else None
    if there is None or there < _OLDEST_PGVECTOR:
        raise StoreError("the database needs the extension pgvector, version 0.8 or newer: CREATE EXTENSION vector")
    if not is_found:
        raise StoreError(
            "pgvector lies in a schema that is not on the role's search_path; put it there: ALTER ROLE … SET"
        )


class Register:
    """The collections of one library. What was read of one is kept, and looked at again by each transaction."""

    def __init__(
        self,
        database: Database,
        names: Names,
        *,
        manages_schema: bool,
        is_locked: bool,
        lock_timeout: float,
        partitions: int,
        vector_index: bool,
    ) -> None:
        self._database = database
        self._names = names
        self._manages_schema = manages_schema
        self._is_locked = is_locked
        self._lock_timeout = lock_timeout
        self._partitions = partitions
        self._vector_index = vector_index
        self._known: dict[str, Entry] = {}

    def open(self) -> str:
        """See that the library's tables are there and of our format, making them when that is wanted.

        Answers what tells this library from all others.
        """
        self._database.run(Begin.READING, _check_server)
        found = self._library()
        if found is None and self._manages_schema:
            self._database.run(Begin.WRITING, self._make)
            found = self._library()
        if found is None:
            raise NoLibrary("this database holds no library here; run the statements of schema_sql() first")
        self._database.run(Begin.READING, _check_pgvector)
        if found[0] < FORMAT and self._manages_schema:
            self._database.run(Begin.WRITING, self._upgrade)
            found = self._library() or found
        version, identity = found
        if version != FORMAT:
            raise StoreError(
                f"the library's tables are of format {version}, this version of Stackroom works with {FORMAT}: "
                + (self._upgrade_call(version) if version < FORMAT else "install a newer one")
            )
        if self._is_locked:
            for name in self._all_names():
                self.look(name)  # which sees that its lock holds
        return str(identity)

    def _upgrade_call(self, version: int) -> str:
        """Return what prints the statements that this very library needs."""
        names = f"schema={self._names.schema!r}, prefix={self._names.prefix!r}"
        return f"run the statements of schema_sql({names}, upgrade_from={version})"

    def _all_names(self) -> list[str]:
        asked = Statement(f"SELECT name FROM {self._names.of('collections')} WHERE left(name, 1) <> '{_SPARE}'")
        (rows,) = self._database.run(Begin.READING, lambda session: session.ask(asked, last=True))
        return [name for (name,) in rows]

    def _library(self) -> tuple[int, str] | None:
        def look(session: Session) -> tuple[int, str] | None:
            table = self._names.of("library")
            (((there,),),) = session.ask(Statement("SELECT to_regclass(%(table)s) IS NOT NULL", {"table": table}))
            if not there:
                return None
            (rows,) = session.ask(Statement(f"SELECT format, identity::text FROM {table}"))
            return (rows[0][0], rows[0][1]) if rows else None

        return self._database.run(Begin.READING, look)

    def _make(self, session: Session) -> None:
        """Make the library's tables, and what they stand on where it is missing: both need more privileges."""
        *_, ((has_schema,),), pgvector = session.ask(
            *opening([Lock(self._names.key("library"), shared=False)], _LONG_ENOUGH),
            Statement("SELECT to_regnamespace(%(schema)s) IS NOT NULL", {"schema": self._names.schema}),
            _PGVECTOR,
        )
        missing = [*([] if pgvector else [EXTENSION]), *([] if has_schema else [schema_statement(self._names)])]
        session.ask(*(Statement(sql) for sql in (*missing, *library_statements(self._names))), last=True)

    def _upgrade(self, session: Session) -> None:
        lock = Lock(self._names.key("library"), shared=False)
        held = Statement(f"SELECT format FROM {self._names.of('library')}")
        *_, ((since,),) = session.ask(*opening([lock], _LONG_ENOUGH), held)
        if since < FORMAT:
            session.ask(*(Statement(sql) for sql in upgrade_statements(self._names, since)), last=True)

    def entry(self, name: str) -> Entry:
        """Return a collection's entry as last seen, or as it is now; UnknownCollection when there is none."""
        known = self._known.get(check_name(name))
        return known if known is not None else self.fresh_entry(name)

    def fresh_entry(self, name: str) -> Entry:
        """Return a collection's entry as it is now."""
        entry = self.look(name)
        if entry is None:
            raise UnknownCollection(name)
        return entry

    def look(self, name: str) -> Entry | None:
        """Return a collection's entry as it is now, or None."""
        check_name(name)
        (rows,) = self._database.run(
            Begin.READING, lambda session: session.ask(registered(self._names, name), last=True)
        )
        entry = entry_of(self._names, name, rows)
        if entry is None:
            self._known.pop(name, None)
            return None
        if entry != self._known.get(name):
            (check_locked if self._is_locked else check_open)(self._database, entry)
        self._known[name] = entry
        return entry

    def create(self, name: str, spec: CollectionSpec) -> None:
        """Make a collection, or find that an equal one is there."""
        there = self.look(name)
        if there is None:
            make = self._create if self._manages_schema else self._take_spare
            self._database.run(Begin.WRITING, lambda session: make(session, name, spec))
            there = self.look(name)
        if there is None or there.spec != spec:
            raise Conflict(f"collection {name!r} exists with another dimension or fingerprint; choose another name")

    def _create(self, session: Session, name: str, spec: CollectionSpec) -> None:
        taken = f"SELECT token FROM {self._names.of('collections')}"
        *_, rows, tokens = session.ask(
            *opening([Lock(self._names.key("library"), shared=False)], _LONG_ENOUGH),
            registered(self._names, name),
            Statement(taken),
        )
        if rows:
            return
        used = {token for (token,) in tokens}
        token = next(token for attempt in range(len(used) + 1) if (token := token_of(name, spec, attempt)) not in used)
        entry = Entry(self._names, name, token, spec, self._partitions, has_index(spec, wanted=self._vector_index))
        values = {
            "name": name,
            "token": token,
            "dimension": spec.dimension,
            "fingerprint": spec.fingerprint,
            "partitions": entry.partitions,
            "has_vector_index": entry.has_vector_index,
        }
        insert = (
            f"INSERT INTO {self._names.of('collections')} VALUES (%(name)s::text, %(token)s, %(dimension)s, "
            "%(fingerprint)s::text, %(partitions)s, %(has_vector_index)s)"
        )
        session.ask(*(Statement(sql) for sql in collection_statements(entry)), Statement(insert, values), last=True)

    def _take_spare(self, session: Session, name: str, spec: CollectionSpec) -> None:
        """Give the name to empty tables that a dropped collection of the same dimension left."""
        spares = (
            f"SELECT token FROM {self._names.of('collections')} "
            f"WHERE left(name, 1) = '{_SPARE}' AND dimension = %(dimension)s "
            "ORDER BY has_vector_index DESC, name LIMIT 1"
        )
        *_, rows, found = session.ask(
            *opening([Lock(self._names.key("library"), shared=False)], _LONG_ENOUGH),
            registered(self._names, name),
            Statement(spares, {"dimension": spec.dimension}),
        )
        if rows:
            return
        if not found:
            raise CapabilityError(
                f"this store runs no DDL, and there is no collection {name!r}, nor one of this dimension that was "
                "dropped; run the statements of schema_sql(name, spec) first"
            )
        values = {"name": name, "fingerprint": spec.fingerprint, "token": found[0][0]}
        taken = (
            f"UPDATE {self._names.of('collections')} SET name = %(name)s::text, fingerprint = %(fingerprint)s::text "
            "WHERE token = %(token)s"
        )
        session.ask(Statement(taken, values), last=True)

    def drop(self, name: str) -> None:
        """Take a collection away with all it holds; without DDL, its tables stay, empty, for one to come."""
        check_name(name)

        def work(session: Session) -> None:
            entry = entry_of(self._names, name, session.ask(*self._alone(name), registered(self._names, name))[-1])
            if entry is not None:
                session.ask(*self._drop(session, entry), self._unregistered(entry), last=True)

        self._database.run(Begin.WRITING, work)
        self._known.pop(name, None)

    def swap(self, name: str, side: str, expect: AbstractSet[int] | None, expect_side: AbstractSet[int] | None) -> None:
        """Let the collection `side` take the name in one step, while nobody writes either."""
        check_name(side)

        def work(session: Session) -> None:
            *_, of_name, of_side = session.ask(
                *self._alone(name, side), registered(self._names, name), registered(self._names, side)
            )
            taken, taking = entry_of(self._names, name, of_name), entry_of(self._names, side, of_side)
            if taken is None:
                raise UnknownCollection(name)
            if taking is None:
                raise UnknownCollection(side)
            if expect is not None:
                _door.check_expected(expect, self._versions(session, taken))
            if expect_side is not None:
                _door.check_expected(expect_side, self._versions(session, taking))
            if side != name:
                moved = f"UPDATE {self._names.of('collections')} SET name = %(name)s::text WHERE token = %(token)s"
                session.ask(
                    *self._drop(session, taken),
                    self._unregistered(taken),
                    Statement(moved, {"name": name, "token": taking.token}),
                    last=True,
                )

        self._database.run(Begin.WRITING, work)
        self._known.pop(name, None)
        self._known.pop(side, None)

    def index(self, name: str) -> None:
        """Make a collection's vector index, where it has none."""
        if not self._manages_schema:
            raise CapabilityError("this store runs no DDL; run the statement that schema_sql() shows for the index")

        def work(session: Session) -> None:
            entry = entry_of(self._names, name, session.ask(*self._alone(name), registered(self._names, name))[-1])
            if entry is None:
                raise UnknownCollection(name)
            if not has_index(entry.spec, wanted=True):
                raise CapabilityError(f"pgvector indexes vectors of at most {MAX_INDEXED_DIMENSION:,} dimensions")
            flag = f"UPDATE {self._names.of('collections')} SET has_vector_index = true WHERE token = %(token)s"
            if not entry.has_vector_index:
                made = Statement(vector_index_statement(entry))
                session.ask(made, Statement(flag, {"token": entry.token}), last=True)

        self._database.run(Begin.WRITING, work)
        self._known.pop(name, None)

    def _alone(self, *names: str) -> list[Statement]:
        keys = sorted({self._names.key("collection", name) for name in names})
        return opening([Lock(key, shared=False) for key in keys], self._lock_timeout or _LONG_ENOUGH)

    def _drop(self, session: Session, entry: Entry) -> list[Statement]:
        """Return the statements that take a collection's tables away, or without DDL all that is in them."""
        if self._manages_schema:
            return [Statement(f"DROP TABLE {', '.join(entry.tables)}")]
        return self._of_every_tenant(session, entry, *(Statement(f"DELETE FROM {table}") for table in entry.tables))

    def _versions(self, session: Session, entry: Entry) -> set[int]:
        asked = self._of_every_tenant(session, entry, Statement(f"SELECT version FROM {entry.sources}"))
        return {row[0] for rows in session.ask(*asked) for row in rows if isinstance(row[0], int)}

    def _of_every_tenant(self, session: Session, entry: Entry, *statements: Statement) -> list[Statement]:
        """Return statements as they reach all tenants: under row-level security, once for each of them."""
        if not self._is_locked:
            return list(statements)
        (rows,) = session.ask(Statement(f"SELECT tenant_id FROM {entry.tenants}"))
        return [
            statement
            for (tenant_id,) in rows
            for statement in (*(setting(*said) for said in settings_of(tenant_id, And()).items()), *statements)
        ]

    def _unregistered(self, entry: Entry) -> Statement:
        """Return the statement that takes a name out of the register; tables that stay get one nobody can ask for."""
        if self._manages_schema:
            sql = f"DELETE FROM {self._names.of('collections')} WHERE token = %(token)s"
            return Statement(sql, {"token": entry.token})
        sql = f"UPDATE {self._names.of('collections')} SET name = %(spare)s::text WHERE token = %(token)s"
        return Statement(sql, {"spare": f"{_SPARE}{entry.token}", "token": entry.token})
