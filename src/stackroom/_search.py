"""How a search runs: door → plan → legs → fusion → check → answer."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, TypeVar, get_args

from stackroom._errors import CapabilityError, StoreError
from stackroom._filters import Filter, check_supported
from stackroom._fusion import Candidate, Fusion, check_fusion
from stackroom._model import Answer, Hit, Mode, Note
from stackroom._records import hit_of
from stackroom._values import unstorable_at
from stackroom.rankers._notes import RANKER_NOTES
from stackroom.stores import LexicalQuery, Record, VectorStore
from stackroom.text import query_terms
from stackroom.text._arguments import is_whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from stackroom._check import Check
    from stackroom._legs import Asking
    from stackroom.stores._legs import Rankings


T = TypeVar("T")

MAX_TOP_K: Final = 10_000


class Notes:
    """What can be said about an answer: the messages by code, and which of them leave it complete."""

    MESSAGES: Final[Mapping[str, str]] = {
        "empty_query": "the text is blank: there is nothing to look for",
        "no_words": "the text holds no words: the lexical leg finds nothing",
        "clipped_query": "the text is longer than the embedder takes in; the dense leg may stand on its beginning",
        "no_lexical_leg": "this store has no lexical leg: the dense leg answers alone",
        "changed_meanwhile": "a source was written again and again while it was searched; passages may be missing",
    }
    COMPLETE: Final = frozenset({"empty_query", "no_words", "clipped_query", "no_lexical_leg", *RANKER_NOTES})

    @classmethod
    def of(cls, code: str) -> Note:
        """Return the note of a code with its standing message."""
        return Note(code, cls.MESSAGES[code])

    @classmethod
    def dropped(cls, number: int) -> Note:
        """Return the note that hits of the store did not pass the check."""
        return Note("dropped_by_check", f"{number} of the store's hits did not pass the check and were dropped")

    @classmethod
    def dropped_in(cls, note: Note) -> int:
        """Return how many hits a note says were dropped: 0 for a note of something else, 1 when it names no number."""
        number = note.message.partition(" ")[0]
        return 0 if note.code != "dropped_by_check" else int(number) if number.isdecimal() else 1


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
    if not is_whole_number(value) or not 1 <= value <= MAX_TOP_K:
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
        if not isinstance(self.mode, str) or self.mode not in get_args(Mode):
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


@dataclass(slots=True)
class Search:
    """One search within a condition that stands: asks the legs, checks what they answer, fuses and cuts."""

    asking: Asking
    wish: Wish
    check: Check
    notes: dict[str, Note] = field(default_factory=dict)
    hits: list[Hit] = field(default_factory=list)
    instead: str | None = None

    def answer(self) -> Answer:
        """Return the answer: at most top_k hits in the total order, and what there is to know."""
        if not self._answered_at_once():
            self._answer_apart()
        if self.instead is not None:
            return self._answer_instead()
        for note in self.check.notes.values():
            self.note(note)
        if self.check.report():
            self.note(Notes.dropped(self.check.dropped))
        return finished(tuple(self.hits), self.wish.mode, self.notes.values())

    def note(self, note: Note) -> None:
        """Keep a note; the first of its code stands."""
        self.notes.setdefault(note.code, note)

    def _answered_at_once(self) -> bool:
        """Choose from what a store found in one state; what it then reads whole is judged, as it is what is shown."""
        chosen: list[tuple[float, Candidate]] = []
        expected: list[str] = []

        def choose(rankings: Rankings) -> list[Hashable]:
            self.check.begin()
            self.instead = rankings.instead
            for note in rankings.notes:
                if note.code in RANKER_NOTES:  # a store speaks for its ranker and for nobody else
                    self.note(note)
            self.check.heed(rankings.notes)
            dense, lexical = self.check.distinct(rankings.dense), self.check.distinct(rankings.lexical)
            chosen[:] = self._chosen(replace(rankings, dense=dense, lexical=lexical))
            expected[:] = [rankings.id_of(candidate.key) for _, candidate in chosen]
            return [candidate.key for _, candidate in chosen]

        records = self.asking.at_once(choose)
        if records is None:
            return False
        if len(records) != len(chosen) or not all(isinstance(record, Record) for record in records):
            raise StoreError(
                "the store answered other than the records that were chosen; prove it with `stackroom check-store`"
            )
        self.hits = [
            hit_of(record, score, candidate)
            for (score, candidate), name, record in zip(chosen, expected, records, strict=True)
            if self.check.passes(record, name)
        ]
        return True

    def _answer_instead(self) -> Answer:
        """Answer what a lexical search answers to the same call, or nothing: a ranker failed and its policy says so."""
        hits: tuple[Hit, ...] = ()
        if self.instead == "lexical":
            worded = self._worded()
            hits = worded.hits
            for note in worded.notes:
                self.note(note)
        return Answer(hits, self.wish.mode, complete=False, notes=tuple(self.notes.values()))

    def _worded(self) -> Answer:
        wish = replace(self.wish, mode="lexical")
        if not query_terms(wish.text):
            return finished((), wish.mode, [Notes.of("no_words")])
        words = LexicalQuery(wish.text, wish.match, wish.prefix)
        asked = replace(self.asking.asked, vector=None, words=words, across=False)
        return Search(replace(self.asking, asked=asked), wish, replace(self.check, dropped=0, notes={})).answer()

    def _answer_apart(self) -> None:
        """Ask leg by leg; what they answer is judged before it is chosen from."""
        legs, is_one_state = self.asking.apart(self.check)
        if not is_one_state:
            self.note(Notes.of("changed_meanwhile"))
        records = legs.records
        self.hits = [
            hit_of(records[str(candidate.key)], score, candidate) for score, candidate in self._chosen(legs.rankings)
        ]

    def _chosen(self, rankings: Rankings) -> list[tuple[float, Candidate]]:
        """Fuse the legs and return the best top_k in the total order."""
        candidates = _candidates(rankings)
        best_lexical = rankings.lexical[0][1] if rankings.lexical else 0.0
        found = list(candidates.values())
        if self.asking.asked.across:
            found = _with_scores(candidates, rankings, unmatched=None if self.asking.asked.words is None else 0.0)
        scored = [(self._score(candidate, best_lexical), candidate) for candidate in found]
        if self.wish.min_score is not None:
            scored = [pair for pair in scored if pair[0] >= self.wish.min_score]
        return _best(scored, self.wish.top_k, rankings.id_of)

    def _score(self, candidate: Candidate, best_lexical: float) -> float:
        if self.wish.mode == "dense":
            return candidate.dense_score or 0.0
        if self.wish.mode == "lexical":
            return candidate.lexical_score or 0.0
        return self.wish.fusion.score(candidate, best_lexical)


def finished(hits: tuple[Hit, ...], mode: Mode, notes: Iterable[Note]) -> Answer:
    """Return an answer; it is complete when every note leaves it so."""
    kept = tuple(notes)
    return Answer(hits, mode, all(note.code in Notes.COMPLETE for note in kept), kept)


def _best(
    scored: list[tuple[float, Candidate]], number: int, id_of: Callable[[Hashable], str]
) -> list[tuple[float, Candidate]]:
    """Return the best in the total order: score, highest first, then id."""
    if number < len(scored):
        last = heapq.nlargest(number, (score for score, _ in scored))[-1]
        scored = [pair for pair in scored if pair[0] >= last]
    return sorted(scored, key=lambda pair: (-pair[0], id_of(pair[1].key)))[:number]


def _candidates(rankings: Rankings) -> dict[Hashable, Candidate]:
    found: dict[Hashable, Candidate] = {}
    for rank, (key, score) in enumerate(rankings.dense, start=1):
        found[key] = Candidate(key, score, rank)
    for rank, (key, score) in enumerate(rankings.lexical, start=1):
        candidate = found.get(key)
        if candidate is None:
            candidate = found[key] = Candidate(key)
        candidate.lexical_score, candidate.lexical_rank = score, rank
    return found


def _with_scores(
    candidates: dict[Hashable, Candidate], rankings: Rankings, *, unmatched: float | None
) -> list[Candidate]:
    """Fill in the scores that a leg gave afterwards; leave out what has none because it is gone.

    `unmatched` is the BM25 of what the lexical leg would not match: 0, or None when that leg did not run.
    """
    for key, score in rankings.dense_across:
        if key in candidates:
            candidates[key].dense_score = score
    for key, score in rankings.lexical_across:
        if key in candidates:
            candidates[key].lexical_score = score
    for candidate in candidates.values():
        if candidate.lexical_score is None:
            candidate.lexical_score = unmatched
    return [candidate for candidate in candidates.values() if candidate.dense_score is not None]
