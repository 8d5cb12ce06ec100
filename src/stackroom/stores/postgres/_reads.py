"""What one tenant's part of a collection answers: the four questions, and both legs of a search at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from stackroom import _keys as keys
from stackroom._model import Note
from stackroom._values import unstorable_at
from stackroom.stores import _ranking
from stackroom.stores._legs import Rankings
from stackroom.stores._protocol import Match, Matches, Record
from stackroom.stores.postgres._connections import Rows, Statement
from stackroom.stores.postgres._dense import JOINED, Graph, Question, Walk, nearest, nearest_by_index
from stackroom.stores.postgres._lexical import best_worded
from stackroom.stores.postgres._names import tenant_key
from stackroom.stores.postgres._rows import RECORD, original_of, record, vector_of

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Sequence

    from numpy.typing import NDArray

    from stackroom.stores._legs import Choose
    from stackroom.stores._protocol import Cursor, LexicalQuery
    from stackroom.stores.postgres._names import Entry
    from stackroom.stores.postgres._transaction import Transaction
    from stackroom.stores.postgres._where import Condition

_SMALL: Final = 4_000
"""Bytes of a passage's text and metadata, as stored, up to which they ride along with what a leg finds."""

_KEY: Final = "s.number, p.place"
_WHOLE: Final = f"{_KEY}, {RECORD}, p.text, p.metadata::text"
_IS_SMALL: Final = f"pg_column_size(p.text) + pg_column_size(p.metadata) <= {_SMALL}"
_IF_SMALL: Final = (
    f"{_KEY}, {RECORD}, CASE WHEN {_IS_SMALL} THEN p.text END, CASE WHEN {_IS_SMALL} THEN p.metadata::text END"
)
_DIRECTION: Final = "vector_send(p.direction)"


WALKED: Final = Note("scan_limit", "the vector index was walked, and not all that is allowed was compared")
"""What is said of an answer that the index gave: its graph may have no way to what is nearest."""


class Key(NamedTuple):
    """What a passage is known by within one state: its source's number and its place."""

    source: int
    place: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """What both legs are asked; `query` has length 1. A leg that is not asked answers nothing."""

    query: NDArray[np.float64] | None
    words: LexicalQuery | None
    limit: int
    across: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where a question is asked: a tenant's part of a collection, and what is allowed there."""

    entry: Entry
    tenant_id: str
    condition: Condition


@dataclass(frozen=True, slots=True)
class _Found:
    """A row that a leg found: all of its record, or all but a text and metadata that were too long to ride along."""

    key: Key
    columns: Sequence[Any]
    text: str | None
    own: str | None

    @property
    def id(self) -> str:
        return f"{self.columns[1]}#{self.columns[-1]}"

    @property
    def record(self) -> Record | None:
        return None if self.text is None or self.own is None else record(self.columns, self.text, self.own)


def _found(row: Sequence[Any]) -> _Found:
    """Read a row of `_WHOLE` or `_IF_SMALL`."""
    number, place, *columns, text, own = row
    return _Found(Key(number, place), columns, text, own)


class _Near(NamedTuple):
    """What the dense leg found, what others beside it answered, and what is to be said of it."""

    rows: Rows
    beside: list[Rows]
    notes: tuple[Note, ...]


class TextsAreLong(Exception):
    """A leg found texts that were too long to ride along, and its transaction has ended: search once more."""


class Sizes:
    """How many passages tenants had when they were last asked for: what decides how a search looks, never what for."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], int] = {}
        self._long: set[tuple[str, str]] = set()
        self._graphs: dict[tuple[str, str], Graph] = {}

    def has_long_texts(self, place: Place) -> bool:
        """Tell whether a search there has found texts that were too long to ride along."""
        return (place.entry.token, place.tenant_id) in self._long

    def learn_of_long_texts(self, place: Place) -> None:
        """Keep that there are such."""
        self._long.add((place.entry.token, place.tenant_id))

    def of(self, place: Place) -> int | None:
        """Return what was last seen."""
        return self._known.get((place.entry.token, place.tenant_id))

    def learn(self, place: Place, rows: Rows) -> None:
        """Keep what was seen now."""
        if len(self._known) > 100_000:  # noqa: PLR2004 - some megabytes
            self._known.clear()
            self._long.clear()
            self._graphs.clear()
        self._known[place.entry.token, place.tenant_id] = rows[0][0] if rows else 0

    def graph(self, place: Place) -> Graph | None:
        """Return what was last seen of the index that holds the tenant's vectors."""
        return self._graphs.get((place.entry.token, place.tenant_id))

    def learn_graph(self, place: Place, rows: Rows) -> Graph:
        """Keep what was seen now, and return it; an index holds no fewer vectors than the tenant has."""
        ((table, indexed, is_whole),) = rows
        graph = Graph(table, max(int(indexed), self.of(place) or 0), is_whole)
        self._graphs[place.entry.token, place.tenant_id] = graph
        return graph


@dataclass(frozen=True, slots=True)
class Dense:
    """How the dense leg looks: exactly up to `exact_limit` allowed passages; above by the index, where that is quicker.

    Without an `exact_limit` always exactly.
    `is_locked`: under row-level security, where the index tells nothing of what it passes.
    """

    exact_limit: int | None
    is_locked: bool
    sizes: Sizes

    def question(self, asks: Transaction, place: Place, wanted: Wanted, columns: str) -> Question | None:
        """Return what to ask, None for no dense leg. Asks how much is allowed when that is not known to be little."""
        if wanted.query is None:
            return None
        walk = self._walk(asks, place, wanted.limit)
        if walk is None:
            return nearest(place.entry, place.condition, wanted.query, wanted.limit, columns)
        return nearest_by_index(place.entry, place.condition, wanted.query, walk, columns)

    def _walk(self, asks: Transaction, place: Place, limit: int) -> Walk | None:
        """Return how to walk the index, None to compare all."""
        if self.exact_limit is None or not place.entry.has_vector_index:
            return None
        known = self.sizes.of(place)
        if known is None:
            (rows,) = asks.ask(size(place))
            self.sizes.learn(place, rows)
            known = self.sizes.of(place) or 0
        if known <= self.exact_limit:
            return None
        asked = _graph(place, is_locked=self.is_locked)
        graph = self.sizes.graph(place) or self.sizes.learn_graph(place, *asks.ask(asked))
        most = max(self.exact_limit + 1, graph.enough(limit))
        (((counted,),), found) = asks.ask(_count(place, most), asked)
        if counted <= self.exact_limit:
            return None
        return self.sizes.learn_graph(place, found).walk(limit, int(counted))


def _graph(place: Place, *, is_locked: bool) -> Statement:
    """Return the statement that asks what holds the tenant's vectors in one index, about how many, and if it is whole.

    It is whole where nothing is taken out of a walk before it is counted: no policy, and no tenant to name.
    """
    entry = place.entry
    if not entry.partitions:
        sql = "SELECT %(table)s::text, reltuples::float8, %(whole)s FROM pg_class WHERE oid = %(table)s::text::regclass"
        return Statement(sql, {"table": entry.passages, "whole": not is_locked})
    sql = (
        "SELECT CASE WHEN may THEN part ELSE %(table)s::text END, reltuples::float8, may FROM ("
        "SELECT part, c.reltuples, NOT %(is_locked)s AND has_table_privilege(c.oid, 'SELECT') AS may "
        "FROM generate_series(0, %(last)s) AS n(at) CROSS JOIN LATERAL (SELECT %(table)s::text || '_' || at) AS m(part)"
        " JOIN pg_class c ON c.oid = part::regclass "
        "WHERE satisfies_hash_partition(%(table)s::text::regclass, %(parts)s, at, %(tenant)s)) found"
    )
    values = {
        "table": entry.passages,
        "is_locked": is_locked,
        "last": entry.partitions - 1,
        "parts": entry.partitions,
        "tenant": tenant_key(place.tenant_id),
    }
    return Statement(sql, values)


def size(place: Place) -> Statement:
    """Return the statement that asks how many passages a tenant has."""
    sql = f"SELECT passages FROM {place.entry.tenants} WHERE tenant = %(tenant)s"
    return Statement(sql, {"tenant": tenant_key(place.tenant_id)})


def dense(asks: Transaction, place: Place, wanted: Wanted, how: Dense) -> list[Match]:
    """Return the nearest allowed records."""
    columns = f"{_DIRECTION}, {_WHOLE}"
    question = how.question(asks, place, wanted, columns)
    near = _near_rows(
        asks, place, wanted, how, columns, question, [], last=question is not None and not question.before
    )
    return Matches((Match(_whole(found), score) for found, score in _nearest(near.rows, wanted)), near.notes)


def _near_rows(
    asks: Transaction,
    place: Place,
    wanted: Wanted,
    how: Dense,
    columns: str,
    question: Question | None,
    beside: list[Statement],
    *,
    last: bool,
) -> _Near:
    """Ask the dense leg's question with others beside it, in one round trip.

    When the index found too little, all that is allowed is compared.
    """
    before, asked, after = (
        ((), (), ()) if question is None else (question.before, (question.statement,), question.after)
    )
    rows = asks.ask(*beside, *before, *asked, *after, size(place), last=last)
    how.sizes.learn(place, rows[-1])
    near = rows[len(beside) + len(before)] if question is not None else []
    is_walked = question is not None and question.needed > 0
    if question is not None and len(near) < question.needed and wanted.query is not None:
        near = asks.ask(nearest(place.entry, place.condition, wanted.query, wanted.limit, columns).statement)[0]
        is_walked = False
    return _Near(near, rows[: len(beside)], (WALKED,) if is_walked else ())


def _nearest(rows: Rows, wanted: Wanted) -> list[tuple[_Found, float]]:
    """Rank rows, each a direction and the rest, as every store does."""
    if not rows or wanted.query is None:
        return []
    width = len(rows[0]) - (1 if isinstance(rows[0][-1], int) else 0)  # an exact search counts twins behind the rest
    found = [_found(row[1:width]) for row in rows]
    scores = _cosines([row[0] for row in rows], wanted.query)
    chosen = _ranking.best(scores, wanted.limit, lambda at: (found[at].id, ""))
    return [(found[at], float(scores[at])) for at in chosen]


def _cosines(directions: Iterable[bytes], query: NDArray[np.float64]) -> NDArray[np.float64]:
    vectors = np.stack([vector_of(sent) for sent in directions])
    return _ranking.cosines(vectors, _ranking.row_norms(vectors), query)


def _whole(found: _Found) -> Record:
    whole = found.record
    if whole is None:
        raise AssertionError("asked for with its text")
    return whole


def lexical(asks: Transaction, place: Place, wanted: Wanted) -> list[Match]:
    """Return the best worded allowed records."""
    statement = _words(place, wanted, _WHOLE)
    rows = asks.ask(*statement, last=True)
    return [Match(_whole(_found(row)), score) for score, *row, _ in (rows[0] if statement else [])]


def _words(place: Place, wanted: Wanted, columns: str, only: Sequence[Key] | None = None) -> list[Statement]:
    if wanted.words is None:
        return []
    limit = wanted.limit if only is None else max(len(only), 1)
    return [best_worded(place.entry, place.tenant_id, place.condition, wanted.words, limit, columns, only)]


def legs(asks: Transaction, place: Place, wanted: Wanted, how: Dense, choose: Choose) -> list[Record]:
    """Let `choose` choose from what both legs found, in one state, and return the chosen records whole.

    All is asked in one round trip, unless texts are long or the index is walked. TextsAreLong when that came out late.
    """
    columns = f"{_DIRECTION}, {_IF_SMALL}"
    question = how.question(asks, place, wanted, columns)
    of_lexical = _words(place, wanted, columns if wanted.across else _IF_SMALL)
    needs_more = wanted.across or how.sizes.has_long_texts(place) or (question is not None and bool(question.before))
    answered = _near_rows(asks, place, wanted, how, columns, question, of_lexical, last=not needs_more)
    worded = answered.beside
    if not needs_more and any(_is_long(row) for answer in (answered.rows, *worded) for row in answer):
        how.sizes.learn_of_long_texts(place)
        raise TextsAreLong
    near = _nearest(answered.rows, wanted)
    found = {of.key: of for of, _ in near}
    rankings = replace(_rankings(asks, place, wanted, near, worded[0] if worded else [], found), notes=answered.notes)
    chosen: list[Any] = choose(rankings)
    return _read(asks, place, [found[key] for key in chosen])


def _is_long(row: Sequence[Any]) -> bool:
    """Tell whether a row of `_IF_SMALL`, with a count or id behind it, lacks its text."""
    return row[-3] is None


def _rankings(
    asks: Transaction,
    place: Place,
    wanted: Wanted,
    near: list[tuple[_Found, float]],
    worded: Rows,
    found: dict[Key, _Found],
) -> Rankings:
    """Put both legs together; `found` gets what the lexical leg found."""
    ranked = []
    directions: dict[Key, bytes] = {}
    for score, *row, _ in worded:
        of = _found(row[1:] if wanted.across else row)
        if wanted.across:
            directions[of.key] = row[0]
        found.setdefault(of.key, of)
        ranked.append((of.key, score))
    dense_ranked = [(of.key, score) for of, score in near]
    dense_across: list[tuple[Key, float]] = []
    lexical_across: list[tuple[Key, float]] = []
    if wanted.across:
        dense_across = _scored_by_cosine(directions, {key for key, _ in dense_ranked}, wanted)
        only_near = [key for key, _ in dense_ranked if key not in directions]
        lexical_across = _scored_by_words(asks, place, wanted, only_near)
    return Rankings(lambda key: found[_as_key(key)].id, dense_ranked, ranked, dense_across, lexical_across)


def _as_key(key: Hashable) -> Key:
    if not isinstance(key, Key):
        raise TypeError("this is no key of a record")
    return key


def _scored_by_cosine(directions: dict[Key, bytes], near: Collection[Key], wanted: Wanted) -> list[tuple[Key, float]]:
    missing = {key: sent for key, sent in directions.items() if key not in near}
    if not missing or wanted.query is None:
        return []
    return list(zip(missing, _cosines(missing.values(), wanted.query).tolist(), strict=True))


def _scored_by_words(asks: Transaction, place: Place, wanted: Wanted, only: Sequence[Key]) -> list[tuple[Key, float]]:
    statement = _words(place, wanted, _KEY, only) if only else []
    return [(Key(*key), score) for score, *key, _ in (asks.ask(*statement)[0] if statement else [])]


def _read(asks: Transaction, place: Place, chosen: Sequence[_Found]) -> list[Record]:
    """Return records whole, reading what was too long to ride along."""
    long = [of.key for of in chosen if of.record is None]
    texts: dict[Key, tuple[str, str]] = {}
    if long:
        sql = (
            f"SELECT p.source, p.place, p.text, p.metadata::text FROM {place.entry.passages} p "
            "WHERE p.tenant = %(tenant)s AND (p.source, p.place) IN "
            "(SELECT * FROM unnest(%(sources)s::bigint[], %(places)s::integer[]))"
        )
        values = {
            "tenant": tenant_key(place.tenant_id),
            "sources": [key.source for key in long],
            "places": [key.place for key in long],
        }
        texts = {Key(source, at): (text, own) for source, at, text, own in asks.ask(Statement(sql, values))[0]}
    return [of.record or record(of.columns, *texts[of.key]) for of in chosen]


def _count(place: Place, most: int | None = None) -> Statement:
    """Return the statement that counts what is allowed; from `most` on, that may be all it says."""
    if place.condition.of_passage is None:
        sql = f"SELECT coalesce(sum(s.passages), 0) FROM {place.entry.sources} s WHERE {place.condition.of_source}"
        return Statement(sql, place.condition.values)
    joined = JOINED.format(sources=place.entry.sources, passages=place.entry.passages)
    if most is None:
        return Statement(f"SELECT count(*) FROM {joined} WHERE {place.condition.whole}", place.condition.values)
    return Statement(
        f"SELECT count(*) FROM (SELECT FROM {joined} WHERE {place.condition.whole} LIMIT %(most)s) allowed",
        {**place.condition.values, "most": most},
    )


def count(asks: Transaction, place: Place) -> int:
    """Return how many records are allowed."""
    (((number,),),) = asks.ask(_count(place), last=True)
    return int(number)


def scan(asks: Transaction, place: Place, after: Cursor | None, limit: int, *, with_vectors: bool) -> list[Record]:
    """Return the first `limit` allowed records behind `after`, by source id and index."""
    vectors = f", {_DIRECTION}, p.exponent, vector_send(p.original)" if with_vectors else ""
    values: dict[str, Any] = {**place.condition.values, "limit": limit}
    behind = ""
    if after is not None:
        behind = " AND s.source_id >= %(id)s::text AND (s.source_id, p.place) > (%(id)s::text, %(place)s)"
        values["id"], values["place"] = _storable_place(after)
    joined = JOINED.format(sources=place.entry.sources, passages=place.entry.passages)
    sql = (
        f"SELECT {RECORD}, p.text, p.metadata::text{vectors} FROM {joined} WHERE {place.condition.whole}{behind} "
        "ORDER BY s.source_id, p.place LIMIT %(limit)s"
    )
    (rows,) = asks.ask(Statement(sql, values), last=True)
    width = len(RECORD.split(", "))
    return [
        record(row[:width], row[width], row[width + 1], original_of(*row[width + 2 :]) if with_vectors else None)
        for row in rows
    ]


def _storable_place(after: Cursor) -> tuple[str, int]:
    """Return a place that the same records lie behind, of characters that the database knows."""
    at = unstorable_at(after.source_id)
    if at is None:
        return after.source_id, after.index
    before = after.source_id[:at]
    return (before, keys.MAX_INDEX) if after.source_id[at] == "\0" else (f"{before}\ue000", -1)


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a collection holds, and the bytes of its tables and indexes."""

    tenants: int
    sources: int
    passages: int
    bytes: int


def totals(entry: Entry) -> list[Statement]:
    """Return the statements that ask for tenants and passages, and for bytes."""
    held = f"SELECT count(*), coalesce(sum(passages), 0)::bigint FROM {entry.tenants}"
    sizes = (
        "SELECT sum(pg_total_relation_size(coalesce(part.relid, t.name)))::bigint "
        "FROM unnest(%(tables)s::regclass[]) AS t(name) LEFT JOIN LATERAL pg_partition_tree(t.name) AS part ON TRUE"
    )
    return [Statement(held), Statement(sizes, {"tables": list(entry.tables)})]
