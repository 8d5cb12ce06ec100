"""What one tenant's part of a collection takes: replace, update and delete, each one transaction under its locks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from stackroom import _keys as keys
from stackroom._errors import Conflict
from stackroom.stores import _door
from stackroom.stores.postgres import _json
from stackroom.stores.postgres._connections import Rows, Statement
from stackroom.stores.postgres._counts import forgotten_later, statistics
from stackroom.stores.postgres._dense import JOINED
from stackroom.stores.postgres._names import tenant_key
from stackroom.stores.postgres._policies import ANY_GROUP_SEEN, groups_seen
from stackroom.stores.postgres._rows import (
    COLUMNS,
    INSERT_PASSAGES,
    NewPassage,
    copied,
    counted,
    inserted,
    source_columns,
    source_json,
    words,
)
from stackroom.stores.postgres._schema import MOST_WORDS
from stackroom.stores.postgres._where import Condition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from stackroom._values import MetadataValue
    from stackroom.stores._door import Batch
    from stackroom.stores._protocol import Record
    from stackroom.stores.postgres._locks import WriteTransaction
    from stackroom.stores.postgres._reads import Place

_IN_A_SOURCE: Final = (
    "number bigint, tenant uuid, tenant_id text, source_id text, version bigint, passages integer, kind text, "
    "status text, folder_id text, title text, acl_groups text[], tags text[], metadata jsonb"
)
_SOURCE_COLUMNS: Final = ", ".join(column.split()[0] for column in _IN_A_SOURCE.split(", "))


class TermsAreMissing(Exception):
    """Some words have no number yet: they get one in a transaction of its own, and the write begins anew."""

    def __init__(self, terms: list[str]) -> None:
        super().__init__("words without a number")
        self.terms = terms


@dataclass(frozen=True, slots=True)
class _Touched:
    """A source that a write touches, and which of its passages are meant; None: all of them."""

    number: int
    source_id: str
    version: int
    passages: int
    meant: int
    places: list[int] | None

    @property
    def is_whole(self) -> bool:
        return self.meant == self.passages


@dataclass(frozen=True, slots=True)
class Taking:
    """What a write takes away: the sources that `where` touches, and how often each word stands in what goes."""

    touched: list[_Touched]
    words: Counter[int]

    @property
    def records(self) -> int:
        """How many records go."""
        return sum(source.meant for source in self.touched)

    @property
    def versions(self) -> set[int]:
        """The versions of what goes."""
        return {source.version for source in self.touched}


def _taking(place: Place) -> list[Statement]:
    """Return the statements that look up what goes."""
    joined = JOINED.format(sources=place.entry.sources, passages=place.entry.passages)
    where, values = place.condition.whole, place.condition.values
    touched = (
        "SELECT s.number, s.source_id, s.version, s.passages, count(*), array_agg(p.place) "
        f"FROM {joined} WHERE {where} GROUP BY s.number"
    )
    if place.condition.of_passage is None:
        touched = (
            "SELECT s.number, s.source_id, s.version, s.passages, s.passages, NULL "
            f"FROM {place.entry.sources} s WHERE {where}"
        )
    held = f"SELECT u.number, count(*) FROM {joined}, unnest(p.terms) AS u(number) WHERE {where} GROUP BY u.number"
    return [Statement(touched, values), Statement(held, values)]


def _taken(touched: Rows, held: Rows) -> Taking:
    return Taking([_Touched(*row) for row in touched], Counter(dict(held)))


@dataclass(slots=True)
class Replacing:
    """One replace within its transaction. The words are counted before it begins."""

    place: Place
    batch: Batch
    expect: AbstractSet[int] | None
    is_locked: bool
    terms: list[Counter[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.terms = counted(self._records)

    @property
    def _records(self) -> list[Record]:
        return [record for of_source in self.batch.sources.values() for record in of_source]

    def run(self, asks: WriteTransaction) -> int:
        """Take away what goes, put what comes; answer how much went."""
        wanted = sorted(set().union(*self.terms))
        look = [self._stored_sources()]
        if self.is_locked:  # what is there in groups that `where` does not name must be found, too
            look = [ANY_GROUP_SEEN, *look, groups_seen(self.batch.where)]
        touched, held, numbers, versions, tenant, *looked = asks.ask(
            *_taking(self.place), self._numbers(wanted), self._versions(), self._tenant(), *look
        )
        there = looked[1 if self.is_locked else 0]
        taking = _taken(touched, held)
        self._check(taking, {source_id for (source_id,) in there})
        number_of: dict[str, int] = dict(numbers)
        if self.batch.sources and (len(number_of) < len(wanted) or not tenant):
            raise TermsAreMissing([term for term in wanted if term not in number_of])
        passages = self._passages(number_of, [version for (version,) in versions])
        asks.ask(*_removals(self.place, taking), *self._sources(passages))
        self._write(asks, passages)
        change = Counter({number: -times for number, times in taking.words.items()})
        for passage in passages:
            change.update(passage.words.numbers.tolist())
        _end(asks, self.place, change, len(passages) - taking.records)
        return taking.records

    def _check(self, taking: Taking, there: set[str]) -> None:
        whole = {source.source_id for source in taking.touched if source.is_whole}
        if there - whole:
            raise Conflict(_door.SPLIT)
        _door.check_expected(self.expect, taking.versions)

    def _stored_sources(self) -> Statement:
        sql = (
            f"SELECT source_id FROM {self.place.entry.sources} WHERE tenant = %(tenant)s "
            "AND source_id = ANY(%(sources)s::text[])"
        )
        return Statement(sql, {"tenant": tenant_key(self.place.tenant_id), "sources": list(self.batch.sources)})

    def _numbers(self, terms: list[str]) -> Statement:
        sql = (
            f"SELECT term, number FROM {self.place.entry.terms} WHERE tenant = %(tenant)s "
            "AND term = ANY(%(terms)s::text[])"
        )
        return Statement(sql, {"tenant": tenant_key(self.place.tenant_id), "terms": terms})

    def _versions(self) -> Statement:
        sql = f"SELECT nextval('{self.place.entry.names.of('versions')}') FROM generate_series(1, %(number)s)"
        return Statement(sql, {"number": len(self.batch.sources)})

    def _tenant(self) -> Statement:
        sql = f"SELECT passages FROM {self.place.entry.tenants} WHERE tenant = %(tenant)s"
        return Statement(sql, {"tenant": tenant_key(self.place.tenant_id)})

    def _passages(self, number_of: dict[str, int], versions: list[int]) -> list[NewPassage]:
        counters = iter(self.terms)
        return [
            NewPassage(version, record, words(next(counters), number_of))
            for version, of_source in zip(versions, self.batch.sources.values(), strict=True)
            for record in of_source
        ]

    def _sources(self, passages: Sequence[NewPassage]) -> list[Statement]:
        if not passages:
            return []
        numbers = dict.fromkeys(passage.source for passage in passages)
        tenant = tenant_key(self.place.tenant_id)
        rows = [
            source_json(number, tenant, of_source)
            for number, of_source in zip(numbers, self.batch.sources.values(), strict=True)
        ]
        sql = (
            f"INSERT INTO {self.place.entry.sources} ({_SOURCE_COLUMNS}) SELECT {_SOURCE_COLUMNS} "
            f"FROM jsonb_to_recordset(%(rows)s::jsonb) AS given({_IN_A_SOURCE})"
        )
        return [Statement(sql, {"rows": f"[{','.join(rows)}]"})]

    def _write(self, asks: WriteTransaction, passages: Sequence[NewPassage]) -> None:
        """Write passages by COPY; those with too many words, and all under row-level security, by INSERT."""
        tenant = tenant_key(self.place.tenant_id)
        plain = [of for of in passages if not self.is_locked and len(of.words.numbers) <= MOST_WORDS]
        others = [of for of in passages if self.is_locked or len(of.words.numbers) > MOST_WORDS]
        if plain:
            sql = f"COPY {self.place.entry.passages} ({COLUMNS}) FROM STDIN (FORMAT binary)"
            asks.session.copy(sql, copied(tenant, plain))
        if others:
            sql = INSERT_PASSAGES.format(passages=self.place.entry.passages)
            asks.ask(Statement(sql, inserted(tenant, others)))


def _removals(place: Place, taking: Taking) -> list[Statement]:
    """Return the statements that take records away; what is left of a source gets another version."""
    whole = [source.number for source in taking.touched if source.is_whole]
    parts = [source for source in taking.touched if not source.is_whole]
    values: dict[str, Any] = {"tenant": tenant_key(place.tenant_id), "whole": whole}
    found = []
    if whole:
        for table, column in ((place.entry.passages, "source"), (place.entry.sources, "number")):
            sql = f"DELETE FROM {table} WHERE tenant = %(tenant)s AND {column} = ANY(%(whole)s::bigint[])"
            found.append(Statement(sql, values))
    for source in parts:
        numbered = {**values, "number": source.number, "places": source.places, "meant": source.meant}
        gone = (
            f"DELETE FROM {place.entry.passages} WHERE tenant = %(tenant)s AND source = %(number)s "
            "AND place = ANY(%(places)s::integer[])"
        )
        left = (
            f"UPDATE {place.entry.sources} SET passages = passages - %(meant)s, "
            f"version = nextval('{place.entry.names.of('versions')}') WHERE number = %(number)s"
        )
        found += [Statement(gone, numbered), Statement(left, numbered)]
    return found


def delete(asks: WriteTransaction, place: Place) -> int:
    """Take away what `where` matches; answer how many records went."""
    taking = _taken(*asks.ask(*_taking(place)))
    if not taking.touched:
        return 0
    change = {number: -times for number, times in taking.words.items()}
    _end(asks, place, change, -taking.records, *_removals(place, taking))
    return taking.records


def _end(asks: WriteTransaction, place: Place, change: Mapping[int, int], passages: int, *before: Statement) -> None:
    """Bring the tenant's counts up to date as the last of a transaction, and end it."""
    asks.to_forget = forgotten_later(change)
    asks.ask(*before, *statistics(place, change, passages), last=True)


def remove_tenant(asks: WriteTransaction, place: Place) -> int:
    """Take away all of a tenant, its words uncounted; answer how many records went. The tenant must be held alone."""
    values = {"tenant": tenant_key(place.tenant_id)}
    passages, *others = place.entry.tables
    gone = f"WITH gone AS (DELETE FROM {passages} WHERE tenant = %(tenant)s RETURNING 1) SELECT count(*) FROM gone"
    rest = [f"DELETE FROM {table} WHERE tenant = %(tenant)s" for table in others]
    (((number,),), *_) = asks.ask(*(Statement(sql, values) for sql in (gone, *rest)), last=True)
    return int(number)


def update(asks: WriteTransaction, place: Place, patch: Mapping[str, MetadataValue | None], *, is_locked: bool) -> int:
    """Lay a patch over what `where` matches; answer how many records matched. A source's keys are one row.

    Under row-level security a row that gets other groups must be seen with them, too: its source is looked up first.
    """
    of_source = {key: value for key, value in patch.items() if keys.is_source_key(key)}
    own = {key: value for key, value in patch.items() if key not in of_source}
    statements = [_own_update(place, own, touches=not of_source)] if own else []
    if is_locked and keys.GROUPS in of_source:
        found = f"SELECT s.number FROM {place.entry.sources} s WHERE {place.condition.of_source} FOR NO KEY UPDATE"
        *_, rows = asks.ask(*statements, Statement(found, place.condition.values))
        values = {"tenant": tenant_key(place.tenant_id), "numbers": [number for (number,) in rows]}
        named = Condition("s.tenant = %(tenant)s AND s.number = ANY(%(numbers)s::bigint[])", None, values)
        place, statements = replace(place, condition=named), [ANY_GROUP_SEEN]
    answers = asks.ask(*statements, *([_source_update(place, of_source)] if of_source else []), last=True)
    return sum(int(number) for (number,) in answers[-1])


def _own_update(place: Place, own: Mapping[str, MetadataValue | None], *, touches: bool) -> Statement:
    values = {**place.condition.values, **_patch_values(own)}
    changed = (
        f"UPDATE {place.entry.passages} p SET metadata = (p.metadata - %(gone)s::text[]) || %(given)s::jsonb "
        f"FROM {place.entry.sources} s WHERE p.tenant = s.tenant AND p.source = s.number AND {place.condition.whole} "
        "RETURNING p.source"
    )
    touched = (
        f"UPDATE {place.entry.sources} SET version = nextval('{place.entry.names.of('versions')}') "
        "WHERE number IN (SELECT source FROM changed) RETURNING number"
    )
    also = f", touched AS ({touched})" if touches else ""
    return Statement(f"WITH changed AS ({changed}){also} SELECT count(*) FROM changed", values)


def _source_update(place: Place, of_source: Mapping[str, MetadataValue | None]) -> Statement:
    columns, rest = source_columns(of_source)
    values = {**place.condition.values, **_patch_values(rest)}
    assigned = [f"version = nextval('{place.entry.names.of('versions')}')"]
    for column, value in columns.items():
        values[f"new_{column}"] = value
        assigned.append(f"{column} = %(new_{column})s::{'text[]' if column in ('acl_groups', 'tags') else 'text'}")
    if rest:
        assigned.append("metadata = (metadata - %(gone)s::text[]) || %(given)s::jsonb")
    sql = (
        f"UPDATE {place.entry.sources} s SET {', '.join(assigned)} WHERE {place.condition.of_source} "
        "RETURNING s.passages"
    )
    return Statement(sql, values)


def _patch_values(patch: Mapping[str, MetadataValue | None]) -> dict[str, Any]:
    given = {key: value for key, value in patch.items() if value is not None}
    return {"gone": [key for key in patch if key not in given], "given": _json.written(given)}
