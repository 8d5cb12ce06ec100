"""The lexical leg: which rows hold a term and how often. A follower of the passages' term lists.

A passage's terms are written beside its text, as numbers of the shard's `term` table, so that following them costs no
analysis. Statistics are counted among the rows that are live, so they are exact after every replace and removal.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stackroom.stores import _bm25
from stackroom.stores.embedded._catalogue import Catalogue, Growing, Mask, Rows
from stackroom.text import expanding_terms, query_terms

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from stackroom.stores._protocol import LexicalQuery

Posting: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]
"""The rows that hold a term, ascending, and how often it stands in each."""

_NONE: Final[Posting] = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))

_HIGHEST: Final = "\U0010ffff"
"""Stands in no term (it is no letter or digit), and behind every term that begins as what it follows."""


class Postings:
    """The terms of a catalogue's rows: those of the first load sorted by term, those that came since listed apart."""

    def __init__(self) -> None:
        self._lengths = Growing(np.int64)
        self._begins = np.zeros(1, dtype=np.int64)
        self._rows = np.zeros(0, dtype=np.int64)
        self._frequencies = np.zeros(0, dtype=np.int64)
        self._since: dict[int, list[tuple[int, int]]] = defaultdict(list)

    def follow(self, reader: sqlite3.Connection, catalogue: Catalogue) -> None:
        """Read the terms of the catalogue's rows that came since; the reader sees the catalogue's position."""
        is_first = len(self._lengths) == 0
        lists: list[NDArray[np.int64]] = []
        rows: list[int] = []
        for slot in catalogue.live_slots_from(len(self._lengths)):
            of_slot = catalogue.rows_of(slot)
            self._fill_up_to(of_slot.start)
            read = reader.execute(
                "SELECT terms FROM passage WHERE source = ? ORDER BY place", (int(catalogue.numbers[slot]),)
            )
            for row, (stored,) in zip(of_slot, read, strict=True):
                terms = _terms_of(stored)
                self._lengths.append([terms[:, 1].sum()])
                lists.append(terms)
                rows.append(row)
        self._fill_up_to(len(catalogue.row_slots))
        if is_first:
            self._sort(lists, rows)
        else:
            self._list(lists, rows)

    def _fill_up_to(self, row: int) -> None:
        """Stand in for rows whose source went before it was read."""
        missing = row - len(self._lengths)
        if missing > 0:
            self._lengths.append(np.zeros(missing))

    def _sort(self, lists: Sequence[NDArray[np.int64]], rows: Sequence[int]) -> None:
        if not lists:
            return
        terms = np.concatenate(lists)
        of_row = np.repeat(np.asarray(rows, dtype=np.int64), [len(found) for found in lists])
        order = np.argsort(terms[:, 0], kind="stable")
        counts = np.bincount(terms[:, 0])
        self._begins = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
        self._rows, self._frequencies = of_row[order], terms[order, 1]

    def _list(self, lists: Sequence[NDArray[np.int64]], rows: Sequence[int]) -> None:
        for row, terms in zip(rows, lists, strict=True):
            for number, frequency in terms.tolist():
                self._since[number].append((row, frequency))

    def _posting(self, number: int) -> Posting:
        sorted_ones = _NONE
        if number < len(self._begins) - 1:
            part = slice(int(self._begins[number]), int(self._begins[number + 1]))
            sorted_ones = self._rows[part], self._frequencies[part]
        since = self._since.get(number)
        if not since:
            return sorted_ones
        added = np.asarray(since, dtype=np.int64)
        return np.concatenate([sorted_ones[0], added[:, 0]]), np.concatenate([sorted_ones[1], added[:, 1]])

    def asked(self, query: LexicalQuery, reader: sqlite3.Connection, row_is_live: Mask) -> Asked:
        """Return the postings of a query's terms and the tenant's statistics, to be scored without a lock."""
        expanding = expanding_terms(query.text) if query.prefix else frozenset[str]()
        words = [
            [
                _Term(*posting, int(np.count_nonzero(row_is_live[posting[0]])))
                for posting in self._found(word, expanding, reader)
            ]
            for word in query_terms(query.text)
        ]
        passages = int(np.count_nonzero(row_is_live))
        return Asked(words, passages, self._lengths.view(), needs_all=query.match == "all")

    def _found(self, word: str, expanding: frozenset[str], reader: sqlite3.Connection) -> list[Posting]:
        if word in expanding:
            numbers = reader.execute("SELECT number FROM term WHERE term >= ? AND term < ?", (word, word + _HIGHEST))
        else:
            numbers = reader.execute("SELECT number FROM term WHERE term = ?", (word,))
        return [self._posting(number) for (number,) in numbers]


@dataclass(frozen=True, slots=True)
class _Term:
    rows: NDArray[np.int64]
    frequencies: NDArray[np.int64]
    holding: int


@dataclass(frozen=True, slots=True)
class Asked:
    """A query's words, each with the stored terms that stand for it, as of one place in the journal."""

    words: list[list[_Term]]
    passages: int
    lengths: NDArray[np.int64]
    needs_all: bool

    def scores(self, allowed: Rows) -> tuple[Rows, NDArray[np.float64]]:
        """Return the allowed rows that hold the words, and their BM25, in no order."""
        is_allowed = np.zeros(len(self.lengths), dtype=np.bool_)
        is_allowed[allowed] = True
        total = np.zeros(len(self.lengths), dtype=np.float64)
        held = np.zeros(len(self.lengths), dtype=np.int64)
        for terms in self.words:
            best = self._best(terms, is_allowed)
            total += best
            held += best > 0
        needed = len(self.words) if self.needs_all else 1
        found = np.flatnonzero(held >= needed) if self.words else np.zeros(0, dtype=np.int64)
        return np.asarray(found, dtype=np.int64), total[found]

    def _best(self, terms: list[_Term], is_allowed: Mask) -> NDArray[np.float64]:
        """Return for each row the best score of the stored terms that stand for one word, 0 where it holds none."""
        best = np.zeros(len(self.lengths), dtype=np.float64)
        for term in terms:
            kept = is_allowed[term.rows]
            rows = term.rows[kept]
            scores = _bm25.idf(self.passages, term.holding) * _bm25.impact(term.frequencies[kept], self.lengths[rows])
            best[rows] = np.maximum(best[rows], scores)
        return best


def term_counts(terms: Sequence[str]) -> Counter[str]:
    """Return how often each term stands in a passage."""
    return Counter(terms)


def stored_terms(counted: Sequence[tuple[int, int]]) -> bytes:
    """Return what a passage's row holds of its terms: pairs (term's number, how often), uint32, little-endian."""
    return np.asarray(counted, dtype="<u4").reshape(-1, 2).tobytes()


def _terms_of(stored: bytes) -> NDArray[np.int64]:
    return np.frombuffer(stored, dtype="<u4").reshape(-1, 2).astype(np.int64)


def term_numbers(stored: bytes) -> NDArray[np.int64]:
    """Return the numbers of the terms that a passage's row names."""
    return _terms_of(stored)[:, 0]
