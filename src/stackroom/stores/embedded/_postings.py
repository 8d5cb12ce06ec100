"""The lexical leg: the lists of a query's terms, from the segments and from what has come since, scored by BM25.

A follower of the passages' term lists. Statistics are counted among the rows that are live, so they are exact after
every replace and removal.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stackroom.stores import _bm25
from stackroom.stores.embedded import _segments
from stackroom.text import expanding_terms, query_terms

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

    from stackroom.stores._protocol import LexicalQuery
    from stackroom.stores.embedded._catalogue import Catalogue, Rows
    from stackroom.stores.embedded._columns import Mask

Posting: TypeAlias = tuple[NDArray[np.int64], NDArray[np.float32]]
"""The rows that hold a term, ascending, and its impact in each."""

_NONE: Final[Posting] = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32))

_HIGHEST: Final = "\U0010ffff"
"""Stands in no term (it is no letter or digit), and behind every term that begins as what it follows."""

CacheKey: TypeAlias = tuple[tuple[int, int], int, int, int]
"""A shard's number and the numbering of its rows, its last segment, its last row, a term."""

_AT_A_TIME: Final = 900
"""Lists asked for by one statement: SQLite takes 999 parameters everywhere."""

_LOOKUPS: Final = 16
"""So many times more rows than allowed ones make looking those up cheaper than reading lists through."""

_COUNTED: Final = 100_000

CACHE_BYTES: Final = 64 * 2**20
"""How much all shards of a store keep of lists that were read."""


class ListCache:
    """Lists that were read, the least recently used forgotten first; shared by the shards of a store."""

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self._limit = limit
        self._held: OrderedDict[CacheKey, Posting] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: CacheKey) -> Posting | None:
        """Return a list if it is held."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
            return self._held.get(key)

    def put(self, key: CacheKey, posting: Posting) -> None:
        """Hold a list, and forget others when there are too many."""
        with self._lock:
            if key not in self._held:
                self._held[key] = posting
                self._bytes += _size(posting)
            while self._bytes > self._limit:
                _, gone = self._held.popitem(last=False)
                self._bytes -= _size(gone)


def _size(posting: Posting) -> int:
    return posting[0].nbytes + posting[1].nbytes + 400


class Postings:
    """The lists of a catalogue's rows: those of segments are read on demand, those that came since are held here."""

    def __init__(self, numbering: tuple[int, int], cache: ListCache) -> None:
        self._numbering = numbering
        self._cache = cache
        self._counted: dict[int, int] = {}
        self._counted_at = 0
        self._begin_at(0)

    def _begin_at(self, row: int) -> None:
        self._first = self._end = row
        self._terms = np.zeros(0, dtype=np.uint32)
        self._begins = np.zeros(1, dtype=np.int64)
        self._rows = np.zeros(0, dtype=np.uint32)
        self._impacts = np.zeros(0, dtype=np.float32)
        self._since: dict[int, list[tuple[int, float]]] = defaultdict(list)

    def follow(self, reader: sqlite3.Connection, segmented: int, rows: int) -> None:
        """Read the terms of the rows that came since; `segmented` rows are in segments, `rows` are there in all."""
        if segmented > self._first or self._first > rows:
            self._begin_at(segmented)
        if rows == self._end:
            return
        passages = _segments.passages_between(reader, self._end, rows)
        if passages:
            lists = _segments.lists_of(passages)
            if self._end == self._first:
                self._terms, self._begins, self._rows, self._impacts = _segments.sorted_by_term(lists)
            else:
                for term, row, impact in zip(*(part.tolist() for part in lists), strict=True):
                    self._since[term].append((row, impact))
        self._end = rows

    def asked(self, query: LexicalQuery, reader: sqlite3.Connection, catalogue: Catalogue) -> Asked:
        """Return the lists of a query's terms and the tenant's statistics, to be scored without a lock."""
        expanding = expanding_terms(query.text) if query.prefix else frozenset[str]()
        words = [self._numbers(word, reader, expands=word in expanding) for word in query_terms(query.text)]
        lists = self._lists({number for numbers in words for number in numbers}, reader)
        terms = {
            number: _Term(*posting, self._holding(number, posting, catalogue)) for number, posting in lists.items()
        }
        return Asked(
            [[terms[number] for number in numbers] for numbers in words],
            catalogue.live_rows,
            len(catalogue.row_slots),
            needs_all=query.match == "all",
        )

    def _holding(self, term: int, posting: Posting, catalogue: Catalogue) -> int:
        """Return how many live rows hold a term; counted once, until something is written."""
        if catalogue.live_rows == len(catalogue.row_slots):
            return len(posting[0])
        if self._counted_at != catalogue.position or len(self._counted) > _COUNTED:
            self._counted, self._counted_at = {}, catalogue.position
        if term not in self._counted:
            self._counted[term] = int(np.count_nonzero(catalogue.row_is_live[posting[0]]))
        return self._counted[term]

    def _numbers(self, word: str, reader: sqlite3.Connection, *, expands: bool) -> list[int]:
        """Return the numbers of the stored terms that stand for a word."""
        if expands:
            found = reader.execute("SELECT number FROM term WHERE term >= ? AND term < ?", (word, word + _HIGHEST))
        else:
            found = reader.execute("SELECT number FROM term WHERE term = ?", (word,))
        return [number for (number,) in found]

    def _lists(self, terms: Iterable[int], reader: sqlite3.Connection) -> dict[int, Posting]:
        """Return the whole list of each term."""
        segments = [number for (number,) in reader.execute("SELECT number FROM segment ORDER BY first_row")]
        newest = max(segments, default=0)
        found: dict[int, Posting] = {}
        missing = []
        for term in terms:
            held = self._cache.get((self._numbering, newest, self._end, term))
            if held is None:
                missing.append(term)
            else:
                found[term] = held
        for term, posting in self._read(missing, segments, reader).items():
            found[term] = self._with_newer(term, posting)
            self._cache.put((self._numbering, newest, self._end, term), found[term])
        return found

    def _read(self, terms: list[int], segments: list[int], reader: sqlite3.Connection) -> dict[int, Posting]:
        keys = [_segments.key_of(segment, term) for term in terms for segment in segments]
        parts: dict[int, bytes] = {}
        for start in range(0, len(keys), _AT_A_TIME):
            some = keys[start : start + _AT_A_TIME]
            marks = ",".join("?" * len(some))
            parts.update(reader.execute(f"SELECT key, rows FROM posting WHERE key IN ({marks})", some))  # noqa: S608 - only question marks
        found = {}
        for term in terms:
            lists = [
                _segments.posting_of(parts[key])
                for segment in segments
                if (key := _segments.key_of(segment, term)) in parts
            ]
            found[term] = _joined(lists)
        return found

    def _with_newer(self, term: int, posting: Posting) -> Posting:
        """Put what came since the last segment behind a term's list."""
        lists = [posting]
        place = int(np.searchsorted(self._terms, term))
        if place < len(self._terms) and self._terms[place] == term:
            part = slice(int(self._begins[place]), int(self._begins[place + 1]))
            lists.append((self._rows[part].astype(np.int64), self._impacts[part]))
        since = self._since.get(term)
        if since:
            rows, impacts = zip(*since, strict=True)
            lists.append((np.asarray(rows, dtype=np.int64), np.asarray(impacts, dtype=np.float32)))
        return _joined(lists)


def _joined(lists: list[Posting]) -> Posting:
    if len(lists) == 1:
        return lists[0]
    if not lists:
        return _NONE
    return np.concatenate([rows for rows, _ in lists]), np.concatenate([impacts for _, impacts in lists])


@dataclass(frozen=True, slots=True)
class _Term:
    rows: NDArray[np.int64]
    impacts: NDArray[np.float32]
    holding: int


Places: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.float64]]"
Scored: TypeAlias = "Callable[[_Term], Places]"


@dataclass(frozen=True, slots=True)
class Asked:
    """A query's words, each with the stored terms that stand for it, as of one place in the journal."""

    words: list[list[_Term]]
    passages: int
    rows: int
    needs_all: bool

    def scores(self, allowed: Rows) -> tuple[Rows, NDArray[np.float64]]:
        """Return the allowed rows that hold the words, and their BM25, in no order.

        Few allowed rows are looked up in the lists; many are marked, and the lists are read through. Either way sums
        run over the words in their order, so scores are the same bit for bit.
        """
        if len(allowed) * _LOOKUPS < self.rows:
            found, scores = self._summed(len(allowed), lambda term: self._looked_up(term, allowed))
            return allowed[found], scores
        is_allowed = np.zeros(self.rows, dtype=np.bool_)
        is_allowed[allowed] = True
        return self._summed(self.rows, lambda term: self._read_through(term, is_allowed))

    def _summed(self, size: int, scored: Scored) -> tuple[Rows, NDArray[np.float64]]:
        """Return the places (of `size`) that hold the words, and their scores; `scored` answers those of one term."""
        total = np.zeros(size, dtype=np.float64)
        held = np.zeros(size if self.needs_all else 0, dtype=np.int32)
        for terms in self.words:
            places, scores = self._best(size, [scored(term) for term in terms])
            total[places] += scores
            if self.needs_all:
                held[places] += 1
        found = np.flatnonzero(
            held == len(self.words) if self.needs_all and self.words else total
        )  # scores are above 0
        return found, total[found]

    def _best(self, size: int, scored: list[Places]) -> Places:
        """Return the places that hold a word, and the best score of the stored terms that stand for it."""
        if len(scored) == 1:
            return scored[0]
        best = np.zeros(size if scored else 0, dtype=np.float64)
        for places, scores in scored:
            best[places] = np.maximum(best[places], scores)
        places = np.flatnonzero(best)
        return places, best[places]

    def _read_through(self, term: _Term, is_allowed: Mask) -> Places:
        kept = is_allowed[term.rows]
        return term.rows[kept], self._idf(term) * term.impacts[kept].astype(np.float64)

    def _looked_up(self, term: _Term, allowed: Rows) -> Places:
        at = np.searchsorted(term.rows, allowed)
        at[at == len(term.rows)] = 0
        places = np.flatnonzero(term.rows[at] == allowed) if len(term.rows) else np.zeros(0, dtype=np.int64)
        return places, self._idf(term) * term.impacts[at[places]].astype(np.float64)

    def _idf(self, term: _Term) -> float:
        return _bm25.idf(self.passages, term.holding)
