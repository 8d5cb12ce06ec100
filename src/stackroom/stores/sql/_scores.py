"""Both legs, scored in NumPy over what the database narrowed down: cosines of all of it, BM25 from postings."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import sqlalchemy as sa

from stackroom._errors import CapabilityError
from stackroom.stores import _bm25, _ranking
from stackroom.stores.sql import _rows
from stackroom.stores.sql._allowed import narrowed, passages, streamed, to_be_read
from stackroom.stores.sql._places import pieces
from stackroom.text import expanding_terms, query_terms

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from stackroom.stores._protocol import LexicalQuery
    from stackroom.stores.sql._allowed import Place

_BLOCKS: Final = 64
"""Blocks that are taken from the database at a time: bounds memory."""

_BEYOND: Final = b"\xff"
"""No byte of UTF-8: a term and this behind it is beyond all that begin with the term."""


@dataclass(slots=True)
class Scores:
    """Scores of passages, and by what ids their sources go."""

    numbers: NDArray[np.int64]
    sources: NDArray[np.int64]
    values: NDArray[np.float64]
    ids: dict[int, str] = field(default_factory=dict)

    def best(self, limit: int) -> list[tuple[int, float]]:
        """Return the numbers and scores of the best: score down, then id up."""
        chosen = _ranking.best(self.values, limit, lambda at: (self._id(at), ""))
        return [(int(self.numbers[at]), float(self.values[at])) for at in chosen]

    def of(self, numbers: list[int]) -> list[tuple[Hashable, float]]:
        """Return certain passages with their scores, those that have one."""
        there = np.flatnonzero(np.isin(self.numbers, np.array(numbers, dtype=np.int64)))
        score_of = dict(zip(self.numbers[there].tolist(), self.values[there].tolist(), strict=True))
        return [(number, score_of[number]) for number in numbers if number in score_of]

    def named(self, numbers: Iterable[int]) -> dict[Hashable, str]:
        """Return the ids of passages that have a score."""
        order = sorted(self.ids)
        return {
            number: f"{self.ids[source]}#{number - source}" for number in numbers for source in [_before(order, number)]
        }

    def _id(self, at: int) -> str:
        source = int(self.sources[at])
        return f"{self.ids[source]}#{int(self.numbers[at]) - source}"

    def kept(self, mask: NDArray[np.bool_]) -> Scores:
        """Return a part of them."""
        return Scores(self.numbers[mask], self.sources[mask], self.values[mask], self.ids)


def _before(order: list[int], number: int) -> int:
    """Return the source that a passage's number belongs to: the last that is not greater."""
    return order[bisect_right(order, number) - 1]


def none() -> Scores:
    """Return no scores."""
    return Scores(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


def cosines(connection: Connection, place: Place, query: NDArray[np.float64], most: int | None) -> Scores:
    """Return the cosine of each allowed passage to a query of length 1.

    CapabilityError before any vector is read when the database allows more than `most` passages.
    """
    _check_number(connection, place, most)
    b, s = place.tables.blocks.c, place.tables.sources.c
    ids: dict[int, str] = {}
    found: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []
    for within in narrowed(connection, place):
        asked = (
            sa.select(b.source, s.source_id, b.places, b.lengths, b.vectors)
            .join(place.tables.sources, s.number == b.source)
            .where(within)
        )
        for rows in streamed(connection, asked, _BLOCKS):
            ids.update((row[0], row[1].decode()) for row in rows)
            found.append(_of_blocks(rows, query))
    if not found:
        return none()
    numbers, sources, values = (np.concatenate(part) for part in zip(*found, strict=True))
    return _judged(connection, place, Scores(numbers, sources, values, ids))


def _check_number(connection: Connection, place: Place, most: int | None) -> None:
    if most is None or place.tenant.passages <= most:
        return
    number = to_be_read(connection, place)
    if number > most:
        raise CapabilityError(
            f"a dense search would have to compare {number:,} passages one by one, more than max_rows={most:,}: narrow "
            "the scope (groups, folder, tags, kinds), raise max_rows, or take a store with a vector index"
        )


def _of_blocks(rows: Any, query: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    places = [np.frombuffer(row[2], dtype=_rows.INT) for row in rows]
    sources = np.repeat(np.array([row[0] for row in rows], dtype=np.int64), [len(of) for of in places])
    lengths = np.frombuffer(b"".join(row[3] for row in rows), dtype=_rows.DOUBLE)
    vectors = np.frombuffer(b"".join(row[4] for row in rows), dtype=_rows.SINGLE).reshape(len(lengths), -1)
    return sources + np.concatenate(places), sources, _ranking.cosines(vectors, lengths, query)


def _judged(connection: Connection, place: Place, scores: Scores) -> Scores:
    """Return what is left of scores when passages are judged one by one."""
    if place.condition.is_of_sources or not len(scores.numbers):
        return scores
    allowed = passages(connection, place, np.unique(scores.sources))
    return scores.kept(np.isin(scores.numbers, allowed))


@dataclass(frozen=True, slots=True)
class _Word:
    """A word of a query: the numbers of the stored terms that it matches, and the idf of each."""

    idfs: dict[int, float]


def bm25(connection: Connection, place: Place, query: LexicalQuery) -> Scores:
    """Return the BM25 of each allowed passage that matches a query, by the tenant's own statistics."""
    words = _words(connection, place, query)
    if not words or not (all if query.match == "all" else any)(word.idfs for word in words):
        return none()
    scores = _summed(_Postings.read(connection, place, words), words, len(words) if query.match == "all" else 1)
    return _judged(connection, place, scores)


def _words(connection: Connection, place: Place, query: LexicalQuery) -> list[_Word]:
    asked = query_terms(query.text)
    expanding = expanding_terms(query.text) if query.prefix else frozenset[str]()
    whole = dict(_terms(connection, place, [term for term in asked if term not in expanding]))
    return [
        _Word(_prefixed(connection, place, term) if term in expanding else whole.get(term.encode(), {}))
        for term in asked
    ]


def _terms(connection: Connection, place: Place, terms: list[str]) -> Iterator[tuple[bytes, dict[int, float]]]:
    t = place.tables.terms.c
    for part in pieces(terms):
        asked = sa.select(t.term, t.number, t.holding).where(
            t.tenant == place.tenant.number, t.term.in_([term.encode() for term in part])
        )
        for term, number, holding in connection.execute(asked):
            yield term, {number: _bm25.idf(place.tenant.passages, holding)}


def _prefixed(connection: Connection, place: Place, term: str) -> dict[int, float]:
    t, begin = place.tables.terms.c, term.encode()
    asked = sa.select(t.number, t.holding).where(
        t.tenant == place.tenant.number, t.term >= begin, t.term < begin + _BEYOND
    )
    return {number: _bm25.idf(place.tenant.passages, holding) for number, holding in connection.execute(asked)}


@dataclass(slots=True)
class _Postings:
    """The postings of some terms in allowed sources: by term, passages and impacts."""

    of_term: dict[int, list[tuple[NDArray[np.int64], NDArray[np.float32]]]]
    ids: dict[int, str]

    @classmethod
    def read(cls, connection: Connection, place: Place, words: list[_Word]) -> _Postings:
        """Read them."""
        found = cls({}, {})
        numbers = sorted({number for word in words for number in word.idfs})
        o, s = place.tables.postings.c, place.tables.sources.c
        for within in narrowed(connection, place):
            for part in pieces(numbers):
                asked = (
                    sa.select(o.term, o.source, s.source_id, o.places, o.impacts)
                    .join(place.tables.sources, s.number == o.source)
                    .where(o.term.in_(part), within)
                )
                for rows in streamed(connection, asked):
                    found._take(rows)
        return found

    def _take(self, rows: Any) -> None:
        for term, source, source_id, places, impacts in rows:
            numbers = np.frombuffer(places, dtype=_rows.INT) + np.int64(source)
            self.of_term.setdefault(term, []).append((numbers, np.frombuffer(impacts, dtype=_rows.SINGLE)))
            self.ids[source] = source_id.decode()


def _summed(found: _Postings, words: list[_Word], needed: int) -> Scores:
    """Add up the words' shares in the order of the query, as every store does; of an expanded word the best counts."""
    shares = [_share(found, word) for word in words]
    numbers = np.unique(np.concatenate([numbers for numbers, _ in shares]))
    values = np.zeros(len(numbers))
    times = np.zeros(len(numbers), dtype=np.int64)
    for of_word, share in shares:
        at = np.searchsorted(numbers, of_word)
        values[at] += share
        times[at] += 1
    every = np.array(sorted(found.ids), dtype=np.int64)
    sources = every[np.searchsorted(every, numbers, side="right") - 1] if len(numbers) else numbers
    return Scores(numbers, sources, values, found.ids).kept(times >= needed)


def _share(found: _Postings, word: _Word) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the passages that hold a word, each once, and what it adds to their scores."""
    parts = [
        (numbers, idf * impacts.astype(np.float64))
        for term, idf in word.idfs.items()
        for numbers, impacts in found.of_term.get(term, [])
    ]
    if not parts:
        return np.empty(0, np.int64), np.empty(0)
    numbers, places = np.unique(np.concatenate([of for of, _ in parts]), return_inverse=True)
    best = np.full(len(numbers), -np.inf)
    np.maximum.at(best, places, np.concatenate([share for _, share in parts]))
    return numbers, best
