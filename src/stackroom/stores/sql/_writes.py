"""What one tenant's part of a collection takes: replace, update and delete, each within one transaction.

Whoever writes in a tenant holds its row: writers of one tenant take turns, those of others never wait. A source is
written and taken away whole; what is left of one is written anew. Words are counted in the same transaction.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import sqlalchemy as sa

from stackroom import _keys as keys
from stackroom._errors import Conflict
from stackroom.stores import _door
from stackroom.stores.sql import _rows
from stackroom.stores.sql._allowed import Place, narrowed, passages
from stackroom.stores.sql._places import Held, Tenant, pieces
from stackroom.stores.sql._records import records
from stackroom.stores.sql._rows import NewSource, counted, span

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from sqlalchemy import Connection, Table

    from stackroom._values import MetadataValue
    from stackroom.stores._door import Batch
    from stackroom.stores._protocol import Record
    from stackroom.stores.sql._numbers import Numbers
    from stackroom.stores.sql._tables import Tables

_ROWS: Final = 10_000
"""Rows that are handed to the driver at a time: bounds memory."""
_SOURCES: Final = 100
"""Sources whose words are counted at a time: likewise."""


@dataclass(frozen=True, slots=True)
class _Touched:
    """A source that a write touches, and which of its passages are meant; None: all of them."""

    number: int
    source_id: str
    version: int
    passages: int
    meant: Sequence[int] | None

    @property
    def going(self) -> int:
        """How many of its passages are meant."""
        return self.passages if self.meant is None else len(self.meant)

    @property
    def is_whole(self) -> bool:
        return self.going == self.passages


def touched(connection: Connection, place: Place) -> list[_Touched]:
    """Return the sources that a filter touches."""
    s = place.tables.sources.c
    meant: dict[int, list[int]] | None = None
    only = None
    if not place.condition.is_of_sources:
        numbers = passages(connection, place)
        meant = _by_source(connection, place, numbers)
        only = np.array(sorted(meant), dtype=np.int64)
    found = []
    for within in narrowed(connection, place, only):
        asked = sa.select(s.number, s.source_id, s.version, s.passages).where(within)
        for number, source_id, version, held in connection.execute(asked):
            found.append(_Touched(number, source_id.decode(), version, held, None if meant is None else meant[number]))
    return found


def _by_source(connection: Connection, place: Place, numbers: Iterable[int]) -> dict[int, list[int]]:
    p = place.tables.passages.c
    found: dict[int, list[int]] = {}
    for part in pieces(int(number) for number in numbers):
        for number, source in connection.execute(sa.select(p.number, p.source).where(p.number.in_(part))):
            found.setdefault(source, []).append(number)
    return found


@dataclass(slots=True)
class Writer:
    """Writes within one transaction, which holds the tenant."""

    connection: Connection
    tables: Tables
    held: Held
    tenant_id: str
    numbers: Numbers

    def replace(
        self,
        place: Place | None,
        batch: Batch,
        terms: Mapping[str, Sequence[Counter[str]]],
        expect: AbstractSet[int] | None,
    ) -> int:
        """Take away what goes, put what comes; answer how much went. Without a place the tenant has nothing."""
        going = [] if place is None else touched(self.connection, place)
        whole = {source.source_id for source in going if source.is_whole}
        if place is not None and self._stored(place.tenant, batch.sources) - whole:
            raise Conflict(_door.SPLIT)
        _door.check_expected(expect, {source.version for source in going})
        coming = [self._numbered(of_source, terms[source_id]) for source_id, of_source in batch.sources.items()]
        self._exchange(None if place is None else place.tenant, going, coming)
        return sum(source.going for source in going)

    def delete(self, place: Place) -> int:
        """Take away what is allowed; answer how many records went."""
        going = touched(self.connection, place)
        self._exchange(place.tenant, going, [])
        return sum(source.going for source in going)

    def update(self, place: Place, patch: Mapping[str, MetadataValue | None]) -> int:
        """Lay a patch over what is allowed; answer how many records matched, changed or not."""
        changing = touched(self.connection, place)
        of_source = {key: value for key, value in patch.items() if keys.is_source_key(key)}
        own = {key: value for key, value in patch.items() if key not in of_source}
        if own:
            self._update_passages(changing, own)
        for part in pieces(source.number for source in changing):
            if of_source:
                self._update_sources(place.tenant, part, of_source)
            else:
                self._update_rows(part, [{} for _ in part])
        return sum(source.going for source in changing)

    def _stored(self, tenant: Tenant, source_ids: Iterable[str]) -> set[str]:
        s = self.tables.sources.c
        found: set[str] = set()
        for part in pieces(source_ids):
            asked = sa.select(s.source_id).where(
                s.tenant == tenant.number, s.source_id.in_([source_id.encode() for source_id in part])
            )
            found.update(source_id.decode() for source_id in self.connection.execute(asked).scalars())
        return found

    def _numbered(self, of_source: Sequence[Record], terms: Sequence[Counter[str]]) -> NewSource:
        return NewSource(self.numbers.some(span(of_source)), of_source, terms)

    def _exchange(self, tenant: Tenant | None, going: Sequence[_Touched], coming: list[NewSource]) -> None:
        """Take sources away and put others in their place; what is left of one that is not meant whole comes back."""
        if tenant is not None:
            for source in going:
                if not source.is_whole:
                    left = self._left(tenant, source)
                    coming.append(self._numbered(left, counted(left)))
        gone, coming_passages = sum(source.passages for source in going), sum(len(of.records) for of in coming)
        change = Counter[int]()
        if tenant is not None:
            change = self._take(tenant, [source.number for source in going], gone)
        if coming:
            tenant = tenant or self._new_tenant()
            self._put(tenant, coming, change)
        if tenant is not None:
            self._count(tenant, change, tenant.passages + coming_passages - gone)

    def _left(self, tenant: Tenant, source: _Touched) -> list[Record]:
        p = self.tables.passages.c
        asked = sa.select(p.number).where(p.source == source.number).order_by(p.number)
        every = self.connection.execute(asked).scalars().all()
        left = sorted(set(every) - set(source.meant or ()))
        return records(self.connection, self.tables, tenant, left, vectors=True)

    def _new_tenant(self) -> Tenant:
        made = Tenant(self.numbers.some(), self.tenant_id, 0, has_odd=False)
        row = {
            "number": made.number,
            "collection": self.held.number,
            "tenant_id": self.tenant_id.encode(),
            "passages": 0,
        }
        self.connection.execute(sa.insert(self.tables.tenants), row)
        return made

    def _take(self, tenant: Tenant, sources: list[int], gone: int) -> Counter[int]:
        """Take sources away; return by how much the counts of terms change."""
        change = Counter[int]()
        if gone == tenant.passages:
            self._take_all_postings(tenant.number)
        else:
            for part in pieces(sources, _SOURCES):
                change.subtract(self._take_postings(part))
        for part in pieces(sources):
            self._take_rows(part)
        return change

    def _take_postings(self, sources: Sequence[int]) -> Counter[int]:
        """Take away where sources' terms stand; return how many of their passages held each."""
        b, o = self.tables.blocks.c, self.tables.postings.c
        held = {source: Counter[int]() for source in sources}
        asked = sa.select(b.source, b.terms, b.holding).where(b.source.in_(sources))
        for source, terms, holding in self.connection.execute(asked):
            numbers = np.frombuffer(terms, dtype=_rows.NUMBER).tolist()
            held[source].update(dict(zip(numbers, np.frombuffer(holding, dtype=_rows.INT).tolist(), strict=True)))
        for source, counts in held.items():
            for part in pieces(counts):
                self.connection.execute(sa.delete(self.tables.postings).where(o.source == source, o.term.in_(part)))
        return sum(held.values(), Counter[int]())

    def _take_rows(self, sources: Sequence[int]) -> None:
        p = self.tables.passages.c
        long = sa.select(p.number).where(p.source.in_(sources), p.rests > 0)
        self._delete(self.tables.rests, "passage", self.connection.execute(long).scalars().all())
        for table in (self.tables.passages, self.tables.blocks, self.tables.labels):
            self._delete(table, "source", sources)
        self._delete(self.tables.sources, "number", sources)

    def forget(self, tenant: int, sources: Sequence[int]) -> None:
        """Take a tenant away, with these sources, which are all it has."""
        self._take_all_postings(tenant)
        for part in pieces(sources):
            self._take_rows(part)
        self._delete(self.tables.tenants, "number", [tenant])

    def _take_all_postings(self, tenant: int) -> None:
        """Take all of a tenant's terms away, and where they stand."""
        t = self.tables.terms.c
        every = self.connection.execute(sa.select(t.number).where(t.tenant == tenant)).scalars().all()
        self._delete(self.tables.postings, "term", every)
        self.connection.execute(sa.delete(self.tables.terms).where(t.tenant == tenant))

    def _delete(self, table: Table, column: str, values: Iterable[int]) -> None:
        for part in pieces(values):
            self.connection.execute(sa.delete(table).where(table.c[column].in_(part)))

    def _put(self, tenant: Tenant, coming: Sequence[NewSource], change: Counter[int]) -> None:
        """Write sources; add to `change` by how much the counts of terms change."""
        number_of = self._numbers_of(tenant, {term for of in coming for counter in of.terms for term in counter})
        for of in coming:
            change.update(number_of[term] for counter in of.terms for term in counter)
        self._insert(self.tables.sources, (self._source(tenant, of) for of in coming))
        self._label(tenant, {of.number: of.metadata for of in coming})
        self._insert(self.tables.passages, (row for of in coming for row in _passages(of)))
        self._insert(self.tables.rests, (row for of in coming for row in _rests(of)))
        self._insert(self.tables.blocks, (row for of in coming for row in _rows.blocks(of, number_of)))
        self._insert(self.tables.postings, (row for of in coming for row in _rows.postings(of, number_of)))

    def _numbers_of(self, tenant: Tenant, terms: set[str]) -> dict[str, int]:
        """Return the numbers of a tenant's terms, giving those one that have none."""
        t = self.tables.terms.c
        found: dict[str, int] = {}
        for part in pieces(sorted(terms)):
            asked = sa.select(t.term, t.number).where(
                t.tenant == tenant.number, t.term.in_([term.encode() for term in part])
            )
            found.update((term.decode(), number) for term, number in self.connection.execute(asked))
        new = sorted(terms - found.keys())
        first = self.numbers.some(len(new)) if new else 0
        found.update((term, first + place) for place, term in enumerate(new))
        rows = ({"number": found[term], "tenant": tenant.number, "term": term.encode(), "holding": 0} for term in new)
        self._insert(self.tables.terms, rows)
        return found

    def _source(self, tenant: Tenant, of: NewSource) -> dict[str, Any]:
        columns = _rows.source_row(of.metadata)
        return {
            "number": of.number,
            "tenant": tenant.number,
            "source_id": of.records[0].source_id.encode(),
            "version": of.number,
            "passages": len(of.records),
            "odd": tenant.number if columns.pop("is_odd") else None,
            **columns,
        }

    def _label(self, tenant: Tenant, metadata_of: Mapping[int, Mapping[str, MetadataValue]]) -> None:
        rows = (
            {"source": number, "what": what, "value": value, "tenant": tenant.number}
            for number, metadata in metadata_of.items()
            for what, value in _rows.labels(metadata)
        )
        self._insert(self.tables.labels, rows)

    def _insert(self, table: Table, rows: Iterable[dict[str, Any]]) -> None:
        """Insert rows as they are: SQLAlchemy would look at each value once more, and take longer than the database."""
        every, names = iter(rows), [column.name for column in table.columns]
        made: Any = sa.insert(table).compile(dialect=self.connection.dialect, column_keys=names, for_executemany=True)
        while part := list(islice(every, _ROWS)):
            given: Any = [tuple(row[name] for name in made.positiontup) for row in part] if made.positional else part
            self.connection.exec_driver_sql(str(made), given)

    def _count(self, tenant: Tenant, change: Mapping[int, int], passages: int) -> None:
        """Bring the tenant's counts up to date; words that nothing holds any more, and empty tenants, are forgotten."""
        t, of_tenants = self.tables.terms.c, self.tables.tenants
        if not passages:
            self.forget(tenant.number, [])
            return
        by_change: dict[int, list[int]] = {}
        for number, by in change.items():
            by_change.setdefault(by, []).append(number)
        by_change.pop(0, None)
        for by, numbers in by_change.items():
            for part in pieces(numbers):
                added = sa.update(self.tables.terms).where(t.number.in_(part)).values(holding=t.holding + by)
                self.connection.execute(added)
        fewer = [number for number, by in change.items() if by < 0]
        for part in pieces(fewer):
            self.connection.execute(sa.delete(self.tables.terms).where(t.number.in_(part), t.holding == 0))
        if passages != tenant.passages:
            counted_now = sa.update(of_tenants).where(of_tenants.c.number == tenant.number).values(passages=passages)
            self.connection.execute(counted_now)

    def _update_sources(
        self, tenant: Tenant, numbers: Sequence[int], patch: Mapping[str, MetadataValue | None]
    ) -> None:
        """Lay a patch over what is said of sources."""
        s = self.tables.sources.c
        stored = sa.select(s.number, s.metadata).where(s.number.in_(numbers))
        metadata_of = {
            number: _door.patched(_rows.read(metadata), patch) for number, metadata in self.connection.execute(stored)
        }
        rows = [_rows.source_row(metadata) for metadata in metadata_of.values()]
        for row in rows:
            row["odd"] = tenant.number if row.pop("is_odd") else None
        self._update_rows(list(metadata_of), rows)
        self._delete(self.tables.labels, "source", metadata_of)
        self._label(tenant, metadata_of)

    def _update_rows(self, numbers: Sequence[int], rows: Sequence[Mapping[str, Any]]) -> None:
        """Write columns of sources, all the same ones, each with another version."""
        table, first = self.tables.sources, self.numbers.some(len(numbers))
        given = [
            {"at": number, **{f"new_{name}": value for name, value in {**row, "version": first + place}.items()}}
            for place, (number, row) in enumerate(zip(numbers, rows, strict=True))
        ]
        values: dict[str, Any] = {name: sa.bindparam(f"new_{name}") for name in {**rows[0], "version": None}}
        self.connection.execute(sa.update(table).where(table.c.number == sa.bindparam("at")).values(values), given)

    def _update_passages(self, changing: Sequence[_Touched], own: Mapping[str, MetadataValue | None]) -> None:
        """Lay a patch over the passages that are meant; those that then hold the same are written in one statement."""
        p = self.tables.passages.c
        written: dict[bytes, list[int]] = {}
        for source in changing:
            meant = None if source.meant is None else set(source.meant)
            asked = sa.select(p.number, p.metadata).where(p.source == source.number)
            for number, metadata in self.connection.execute(asked):
                if meant is None or number in meant:
                    patched = _rows.written(_door.patched(_rows.read(metadata), own))
                    written.setdefault(patched, []).append(number)
        for metadata, numbers in written.items():
            for part in pieces(numbers):
                laid = sa.update(self.tables.passages).where(p.number.in_(part)).values(metadata=metadata)
                self.connection.execute(laid)


def clear(connection: Connection, tables: Tables, held: Held, numbers: Numbers) -> None:
    """Take away all that a collection holds, where nobody else may be writing."""
    s, of = tables.sources.c, tables.tenants.c
    writer = Writer(connection, tables, held, "", numbers)
    for tenant in connection.execute(sa.select(of.number).where(of.collection == held.number)).scalars().all():
        writer.forget(tenant, connection.execute(sa.select(s.number).where(s.tenant == tenant)).scalars().all())


def _passages(of: NewSource) -> Iterable[dict[str, Any]]:
    for record in of.records:
        first, *rests = _rows.parts(record.text)
        yield {
            "number": of.number + record.index,
            "source": of.number,
            "text": first,
            "rests": len(rests),
            "metadata": _rows.written(_door.own_part(record.metadata)),
        }


def _rests(of: NewSource) -> Iterable[dict[str, Any]]:
    for record in of.records:
        for part, text in enumerate(_rows.parts(record.text)[1:]):
            yield {"passage": of.number + record.index, "part": part, "text": text}
