"""How the legs of a search are asked: apart, by any store, until they show one state; or at once, where a store can."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from stackroom import _keys as keys
from stackroom._filters import And, Filter, In, Or
from stackroom.stores._legs import Rankings, answers_legs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from stackroom._check import Check
    from stackroom.stores import Match, Record, VectorStore
    from stackroom.stores._legs import Choose, LegsQuery

T = TypeVar("T")

_ATTEMPTS: Final = 3
"""How often the legs are asked, in all, when writes between them show a source under two versions."""

_NODES_AT_A_TIME: Final = 300
"""Sources named by a filter of their own in one call, so that no filter grows beyond what every store serves."""


class SideBySide:
    """Runs two calls at the same time: one here, one in a thread that is kept for the next search."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._process = os.getpid()

    def run(self, here: Callable[[], T], there: Callable[[], T]) -> tuple[T, T]:
        """Return both results; what either raises is raised when both have ended."""
        future = self._workers().submit(copy_context().run, there)
        try:
            first = here()
        except BaseException:
            future.exception()
            raise
        return first, future.result()

    def _workers(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None or self._process != os.getpid():  # a fork leaves no threads behind
                self._pool = ThreadPoolExecutor(thread_name_prefix="stackroom-leg")
                self._process = os.getpid()
            return self._pool

    def close(self) -> None:
        """Let the threads end."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None and self._process == os.getpid():
            pool.shutdown()


@dataclass(frozen=True, slots=True)
class Legs:
    """What the legs found, best first, and what each scored afterwards of that which only the other had found."""

    dense: list[Match] = field(default_factory=list)
    lexical: list[Match] = field(default_factory=list)
    dense_across: list[Match] = field(default_factory=list)
    lexical_across: list[Match] = field(default_factory=list)

    @property
    def lists(self) -> tuple[list[Match], list[Match], list[Match], list[Match]]:
        """All four lists, those of the dense leg first."""
        return self.dense, self.dense_across, self.lexical, self.lexical_across

    @property
    def records(self) -> dict[str, Record]:
        """The records by id, as the first list that holds one saw it."""
        found: dict[str, Record] = {}
        for matches in (self.dense, self.lexical):
            for match in matches:
                found.setdefault(match.id, match.record)
        return found

    @property
    def rankings(self) -> Rankings:
        """The same as keys and scores; a record's key is its id."""
        ranked = ([(match.id, match.score) for match in matches] for matches in self.lists)
        dense, dense_across, lexical, lexical_across = ranked
        return Rankings(str, dense, lexical, dense_across, lexical_across)


@dataclass(frozen=True, slots=True)
class Asking:
    """Asks the legs of one search."""

    store: VectorStore
    collection: str
    fingerprint: str
    asked: LegsQuery
    side_by_side: SideBySide

    def at_once(self, choose: Choose) -> list[Record] | None:
        """Let a store that can answer both legs of one state, and return what `choose` chose; None when it cannot."""
        if not answers_legs(type(self.store)):
            return None
        legs: Any = self.store
        chosen: list[Record] = legs.legs(self.collection, self.asked, choose, fingerprint=self.fingerprint)
        return chosen

    def apart(self, check: Check) -> tuple[Legs, bool]:
        """Ask leg by leg, at most three times, until no source shows under two versions; tell whether none does.

        After the third time such a source stands as the dense leg saw it.
        """
        for _ in range(_ATTEMPTS):
            check.begin()
            legs, is_all_there = self._scored_across(self._legs(check), check)
            if is_all_there and not _has_two_versions(legs):
                return legs, True
        return _as_it_stands(legs), False

    def _legs(self, check: Check) -> Legs:
        if self.asked.vector is None:
            return Legs(lexical=self._lexical(check, self.asked.where, self.asked.limit))
        if self.asked.words is None:
            return Legs(self._dense(check, self.asked.where, self.asked.limit))
        dense, lexical = self.side_by_side.run(
            lambda: self._dense(check, self.asked.where, self.asked.limit),
            lambda: self._lexical(check, self.asked.where, self.asked.limit),
        )
        return Legs(dense, lexical)

    def _dense(self, check: Check, where: Filter, limit: int) -> list[Match]:
        if self.asked.vector is None:
            return []
        return check.kept(
            self.store.dense(
                self.collection, self.asked.vector, where=where, limit=limit, fingerprint=self.fingerprint
            ),
            where,
        )

    def _lexical(self, check: Check, where: Filter, limit: int) -> list[Match]:
        if self.asked.words is None:
            return []
        return check.kept(self.store.lexical(self.collection, self.asked.words, where=where, limit=limit), where)

    def _scored_across(self, legs: Legs, check: Check) -> tuple[Legs, bool]:
        """Score what only the other leg found, when that is asked; tell whether all of it is still there."""
        if not self.asked.across:
            return legs, True
        only_lexical = _missing(legs.lexical, legs.dense)
        only_dense = _missing(legs.dense, legs.lexical)
        dense = [match for where, limit in self._naming(only_lexical) for match in self._dense(check, where, limit)]
        lexical = [match for where, limit in self._naming(only_dense) for match in self._lexical(check, where, limit)]
        return Legs(legs.dense, legs.lexical, dense, lexical), len(dense) >= len(only_lexical)

    def _naming(self, wanted: Sequence[Match]) -> Iterator[tuple[Filter, int]]:
        """Yield filters within the search's own that name certain records, and how many each names."""
        indexes: dict[str, set[int]] = defaultdict(set)
        for match in wanted:
            indexes[match.record.source_id].add(match.record.index)
        alike: dict[frozenset[int], list[str]] = defaultdict(list)
        for source_id, of_source in indexes.items():
            alike[frozenset(of_source)].append(source_id)
        groups = [
            (And(In(keys.SOURCE, sources), In(keys.INDEX, sorted(places))), len(sources) * len(places))
            for places, sources in alike.items()
        ]
        for start in range(0, len(groups), _NODES_AT_A_TIME):
            part = groups[start : start + _NODES_AT_A_TIME]
            yield And(self.asked.where, Or(*(named for named, _ in part))), sum(number for _, number in part)


def _missing(of_leg: list[Match], other: list[Match]) -> list[Match]:
    there = {match.id for match in other}
    return [match for match in of_leg if match.id not in there]


def _versions(*matches_of: list[Match]) -> dict[str, int | None]:
    """Return each source's version as the first of these lists that holds it saw it."""
    seen: dict[str, int | None] = {}
    for of_leg in matches_of:
        for match in of_leg:
            seen.setdefault(match.record.source_id, match.record.version)
    return seen


def _has_two_versions(legs: Legs) -> bool:
    """Tell whether some source shows under two versions."""
    seen = _versions(*legs.lists)
    return any(seen[match.record.source_id] != match.record.version for found in legs.lists for match in found)


def _as_it_stands(legs: Legs) -> Legs:
    """Leave out the passages of another version than the dense leg saw."""
    stands: Mapping[str, int | None] = _versions(*legs.lists)
    dense, dense_across, lexical, lexical_across = (
        [match for match in found if stands[match.record.source_id] == match.record.version] for found in legs.lists
    )
    return Legs(dense, lexical, dense_across, lexical_across)
