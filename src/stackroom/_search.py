"""How a search runs: door → plan → legs → fusion → check → answer."""

from __future__ import annotations

import logging
import os
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar, get_args

from stackroom import _keys as keys
from stackroom._errors import CapabilityError
from stackroom._filters import And, Filter, In, Or, check_supported, matches
from stackroom._fusion import Candidate, Fusion, check_fusion
from stackroom._model import Answer, Hit, Mode, Note
from stackroom._records import hit_of
from stackroom._values import unstorable_at
from stackroom.stores import LexicalQuery, Match, VectorStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")
Legs: TypeAlias = tuple[list[Match], list[Match]]

MAX_TOP_K: Final = 10_000
_ATTEMPTS: Final = 3
"""How often the legs are asked, in all, when writes between them show a source under two versions."""
_NODES_AT_A_TIME: Final = 300
"""Sources named by a filter of their own in one call, so that no filter grows beyond what every store serves."""

_log = logging.getLogger("stackroom")


class Notes:
    """What can be said about an answer: the messages by code, and which of them leave it complete."""

    MESSAGES: Final[Mapping[str, str]] = {
        "empty_query": "the text is blank: there is nothing to look for",
        "no_words": "the text holds no words: the lexical leg finds nothing",
        "clipped_query": "the text is longer than the embedder takes in; the dense leg may stand on its beginning",
        "no_lexical_leg": "this store has no lexical leg: the dense leg answers alone",
        "changed_meanwhile": "a source was written again and again while it was searched; passages may be missing",
    }
    COMPLETE: Final = frozenset({"empty_query", "no_words", "clipped_query", "no_lexical_leg"})

    @classmethod
    def of(cls, code: str) -> Note:
        """Return the note of a code with its standing message."""
        return Note(code, cls.MESSAGES[code])

    @classmethod
    def dropped(cls, number: int) -> Note:
        """Return the note that hits of the store did not pass the check."""
        return Note("dropped_by_check", f"{number} of the store's hits did not pass the check and were dropped")


def check_text(text: object) -> str:
    """Return a search's text when it can be looked for, else raise a ValueError."""
    if not isinstance(text, str):
        raise ValueError(f"text must be a string, not {type(text).__name__}")
    at = unstorable_at(text.replace("\x00", " "))
    if at is not None:
        raise ValueError(f"text has a lone surrogate at position {at}; decode it properly first")
    return text


def check_number(value: object, what: str) -> int:
    """Return a number of hits or sources asked for: an int of 1…10,000, else ValueError."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_TOP_K:
        raise ValueError(f"{what} must be an int of 1…{MAX_TOP_K:,}")
    return value


@dataclass(frozen=True, slots=True)
class Wish:
    """What a search asks for, scope and narrowings aside; a ValueError says which argument is wrong."""

    text: str
    mode: Mode
    top_k: int
    match: Literal["any", "all"]
    prefix: bool
    min_score: float | None
    fusion: Fusion

    def __post_init__(self) -> None:
        check_text(self.text)
        check_number(self.top_k, "top_k")
        if self.mode not in get_args(Mode):
            raise ValueError('mode must be "hybrid", "lexical" or "dense"')
        LexicalQuery(self.text, self.match, self.prefix)
        check_fusion(self.fusion)
        if self.min_score is not None:
            is_number = isinstance(self.min_score, int | float) and not isinstance(self.min_score, bool)
            if not is_number or not -float("inf") < self.min_score < float("inf"):
                raise ValueError("min_score must be None or a finite number")

    @property
    def leg_length(self) -> int:
        """How many candidates a leg gives."""
        return max(3 * self.top_k, 50)


def check_capabilities(store: VectorStore, wish: Wish, where: Filter) -> bool:
    """Raise when the store cannot do what is asked; answer whether the lexical leg takes part."""
    capabilities = store.capabilities
    has_lexical = capabilities.lexical != "refused"
    if wish.mode == "lexical" and not has_lexical:
        raise CapabilityError('this store has no lexical leg; search with mode="dense"')
    uses_lexical = has_lexical and wish.mode != "dense"
    if uses_lexical and wish.prefix and capabilities.prefix == "refused":
        raise CapabilityError("this store's lexical leg has no prefix search; ask without prefix")
    check_supported(where, capabilities.filters)
    return uses_lexical


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


@dataclass(slots=True)
class Search:
    """One search within a condition that stands: asks the legs, checks what they answer, fuses and cuts."""

    store: VectorStore
    collection: str
    fingerprint: str
    side_by_side: SideBySide
    wish: Wish
    where: Filter
    vector: NDArray[np.float32] | None
    has_words: bool
    notes: dict[str, Note] = field(default_factory=dict)
    dropped: int = 0

    def answer(self) -> Answer:
        """Return the answer: at most top_k hits in the total order, and what there is to know."""
        candidates, best_lexical = self._candidates()
        if self.dropped:
            _log.warning("%d hits of the store did not pass the check and were dropped", self.dropped)
            self.note(Notes.dropped(self.dropped))
        scored = [(self._score(candidate, best_lexical), candidate) for candidate in candidates]
        if self.wish.min_score is not None:
            scored = [pair for pair in scored if pair[0] >= self.wish.min_score]
        scored.sort(key=lambda pair: (-pair[0], pair[1].record.id))
        hits = tuple(hit_of(candidate, score) for score, candidate in scored[: self.wish.top_k])
        return finished(hits, self.wish.mode, self.notes.values())

    def note(self, note: Note) -> None:
        """Keep a note; the first of its code stands."""
        self.notes.setdefault(note.code, note)

    def _score(self, candidate: Candidate, best_lexical: float) -> float:
        if self.wish.mode == "dense":
            return candidate.dense_score or 0.0
        if self.wish.mode == "lexical":
            return candidate.lexical_score or 0.0
        return self.wish.fusion.score(candidate, best_lexical)

    def _candidates(self) -> tuple[list[Candidate], float]:
        """Ask the legs until they agree on every source's version, at most three times; return the candidates."""
        for attempt in range(1, _ATTEMPTS + 1):
            self.dropped = 0
            legs = self._legs()
            extra, some_are_gone = self._scores_across(*legs)
            changed = _two_versions(*legs, *extra)
            if not changed and not some_are_gone:
                break
            if attempt == _ATTEMPTS:
                self.note(Notes.of("changed_meanwhile"))
                stands = _versions(legs[0], extra[0], legs[1], extra[1])
                legs, extra = _as_it_stands(legs, stands), _as_it_stands(extra, stands)
        dense, lexical = legs
        best_lexical = lexical[0].score if lexical else 0.0
        candidates = _candidates(dense, lexical)
        if not self._fuses_scores:
            return list(candidates.values()), best_lexical
        return _with_scores(candidates, *extra, unmatched=0.0 if self.has_words else None), best_lexical

    @property
    def _fuses_scores(self) -> bool:
        return self.wish.mode == "hybrid" and self.wish.fusion.needs_both_scores

    def _legs(self) -> Legs:
        length = self.wish.leg_length
        if self.vector is None:
            return [], self._lexical(self.where, length)
        if not self.has_words:
            return self._dense(self.where, length), []
        return self.side_by_side.run(lambda: self._dense(self.where, length), lambda: self._lexical(self.where, length))

    def _dense(self, where: Filter, limit: int) -> list[Match]:
        if self.vector is None:
            return []
        found = self.store.dense(self.collection, self.vector, where=where, limit=limit, fingerprint=self.fingerprint)
        return self._checked(found, where)

    def _lexical(self, where: Filter, limit: int) -> list[Match]:
        query = LexicalQuery(self.wish.text, self.wish.match, self.wish.prefix)
        return self._checked(self.store.lexical(self.collection, query, where=where, limit=limit), where)

    def _checked(self, found: list[Match], where: Filter) -> list[Match]:
        """Judge every match again by the reference evaluator; drop and count what fails or comes twice."""
        for note in getattr(found, "notes", ()):
            self.note(note)
        kept: dict[str, Match] = {}
        for match in found:
            if match.id not in kept and matches(where, match.record.metadata):
                kept[match.id] = match
        self.dropped += len(found) - len(kept)
        return list(kept.values())

    def _scores_across(self, dense: list[Match], lexical: list[Match]) -> tuple[Legs, bool]:
        """Score what only the other leg found, when the fusion needs it; tell whether some of it is gone."""
        if not self._fuses_scores:
            return ([], []), False
        only_lexical = _missing(lexical, dense)
        only_dense = _missing(dense, lexical)
        extra_dense = [match for where, limit in self._naming(only_lexical) for match in self._dense(where, limit)]
        extra_lexical = (
            [match for where, limit in self._naming(only_dense) for match in self._lexical(where, limit)]
            if self.has_words
            else []
        )
        return (extra_dense, extra_lexical), len(extra_dense) < len(only_lexical)

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
            yield And(self.where, Or(*(named for named, _ in part))), sum(number for _, number in part)


def finished(hits: tuple[Hit, ...], mode: Mode, notes: Iterable[Note]) -> Answer:
    """Return an answer; it is complete when every note leaves it so."""
    kept = tuple(notes)
    return Answer(hits, mode, all(note.code in Notes.COMPLETE for note in kept), kept)


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


def _two_versions(*matches_of: list[Match]) -> bool:
    """Tell whether some source shows under two versions."""
    seen = _versions(*matches_of)
    return any(seen[match.record.source_id] != match.record.version for of_leg in matches_of for match in of_leg)


def _as_it_stands(legs: Legs, stands: Mapping[str, int | None]) -> Legs:
    """Leave out the passages of another version than the one that stands."""
    dense, lexical = (
        [match for match in leg if stands[match.record.source_id] == match.record.version] for leg in legs
    )
    return dense, lexical


def _candidates(dense: list[Match], lexical: list[Match]) -> dict[str, Candidate]:
    found: dict[str, Candidate] = {}
    for rank, match in enumerate(dense, start=1):
        found[match.id] = Candidate(match.record, dense_score=match.score, dense_rank=rank)
    for rank, match in enumerate(lexical, start=1):
        candidate = found.setdefault(match.id, Candidate(match.record))
        candidate.lexical_score, candidate.lexical_rank = match.score, rank
    return found


def _with_scores(
    candidates: dict[str, Candidate], dense: list[Match], lexical: list[Match], *, unmatched: float | None
) -> list[Candidate]:
    """Fill in the scores that a leg gave afterwards; leave out what has none because it is gone.

    `unmatched` is the BM25 of what the lexical leg would not match: 0, or None when that leg did not run.
    """
    for match in dense:
        if match.id in candidates:
            candidates[match.id].dense_score = match.score
    for match in lexical:
        if match.id in candidates:
            candidates[match.id].lexical_score = match.score
    for candidate in candidates.values():
        if candidate.lexical_score is None:
            candidate.lexical_score = unmatched
    return [candidate for candidate in candidates.values() if candidate.dense_score is not None]
