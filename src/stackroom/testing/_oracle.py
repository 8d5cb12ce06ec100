"""The right answers, found the slow way, and the judge that compares a store's answers with them.

Nothing here shares code with a store: cosines are summed by `math.fsum`, BM25 is the formula of the text page over
`index_terms`, word by word.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stackroom.filters import Filter, matches
from stackroom.stores import Match, Record
from stackroom.testing._records import content, place
from stackroom.text import index_terms, query_terms

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from stackroom.stores import LexicalQuery

COSINE_TOLERANCE = 1e-5
BM25_TOLERANCE = 1e-6

_EXCUSES = frozenset({"scan_limit", "lagging"})

_SPACELESS_SCRIPTS = (
    (0x0E00, 0x0EFF),
    (0x1000, 0x109F),
    (0x1100, 0x11FF),
    (0x1780, 0x17FF),
    (0x2E80, 0x9FFF),
    (0xA960, 0xA97F),
    (0xAC00, 0xD7FF),
    (0xF900, 0xFAFF),
    (0x1B000, 0x1B16F),
    (0x20000, 0x3FFFF),
)


@dataclass(frozen=True, slots=True)
class Scored:
    """A record that an answer may hold, with its score. Equal `twin`s have equal scores, bit for bit."""

    record: Record
    score: float
    twin: Hashable


def matching(records: Iterable[Record], where: Filter) -> list[Record]:
    """Return the records that `where` matches, in the order of a scan."""
    return sorted((of for of in records if matches(where, of.metadata)), key=place)


def nearest(records: Iterable[Record], vector: Sequence[float], where: Filter) -> list[Scored]:
    """Return every matching record with its cosine to `vector`."""
    found = []
    for of in matching(records, where):
        assert of.vector is not None
        found.append(Scored(of, cosine(of.vector.tolist(), vector), of.vector.tobytes()))
    return found


def cosine(left: Sequence[float], right: Sequence[float]) -> float:
    """Return the cosine of two vectors in float64, whatever their lengths are."""
    one, other = _scaled(left), _scaled(right)
    dot = math.fsum(a * b for a, b in zip(one, other, strict=True))
    return min(1.0, max(-1.0, dot / (_length(one) * _length(other))))


def _scaled(vector: Sequence[float]) -> list[float]:
    largest = max(abs(number) for number in vector)
    return [number / largest for number in vector]


def _length(vector: Sequence[float]) -> float:
    return math.sqrt(math.fsum(number * number for number in vector))


def best_worded(records: Sequence[Record], query: LexicalQuery, where: Filter) -> list[Scored]:
    """Return every record that matches the query and `where`, with its BM25 by the statistics of its own tenant."""
    found = []
    for tenant_id in {of.tenant_id for of in records}:
        words = {place(of): Counter(index_terms(of.text)) for of in records if of.tenant_id == tenant_id}
        holding = Counter(term for terms in words.values() for term in terms)
        for of in matching((of for of in records if of.tenant_id == tenant_id), where):
            terms = words[place(of)]
            parts = [_best_part(query, asked, terms, holding, len(words)) for asked in query_terms(query.text)]
            hit = [part for part in parts if part is not None]
            if hit and (query.match == "any" or len(hit) == len(parts)):
                found.append(Scored(of, math.fsum(hit), (tenant_id, frozenset(terms.items()))))
    return found


def _best_part(
    query: LexicalQuery, asked: str, terms: Counter[str], holding: Counter[str], passages: int
) -> float | None:
    """Return what one term of the query adds to a passage's score, or None when the passage has no such term."""
    expands = query.prefix and _expands(asked, query_terms(query.text))
    matched = [term for term in terms if (term.startswith(asked) if expands else term == asked)]
    length = terms.total()
    return max((_bm25(terms[term], length, passages, holding[term]) for term in matched), default=None)


def _bm25(tf: int, length: int, passages: int, holding: int) -> float:
    idf = math.log(1 + (passages - holding + 0.5) / (holding + 0.5))
    return idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * length / 128))


def _expands(term: str, terms: Sequence[str]) -> bool:
    """Tell whether a prefix search expands a term; see "prefix" on the text page."""
    if any(low <= ord(term[0]) <= high for low, high in _SPACELESS_SCRIPTS):
        return False
    return _units(term) > 1 or all(_units(other) == 1 for other in terms)


def _units(term: str) -> int:
    return sum(not unicodedata.category(char).startswith("M") for char in term)


def judge_nearest(found: list[Match], expected: list[Scored], limit: int) -> None:
    """Judge the answer of `dense`: cosines within 1e-5."""
    assert all(-1.0 <= match.score <= 1.0 for match in found), "a cosine lies outside −1…1"
    _judge(found, expected, limit, lambda _score: COSINE_TOLERANCE)


def judge_worded(found: list[Match], expected: list[Scored], limit: int) -> None:
    """Judge the answer of `lexical`: BM25 within 1e-6 of its size."""
    assert all(match.score > 0 for match in found), "a score of words is not above 0"
    _judge(found, expected, limit, lambda score: BM25_TOLERANCE * score)


def is_held_back(found: list[Match]) -> bool:
    """Tell whether the store itself says that an engine's limit or lag may have held matches back."""
    return any(note.code in _EXCUSES for note in getattr(found, "notes", ()))


def completed(
    found: list[Match], expected: list[Scored], limit: int, judge: Callable[[list[Match], list[Scored], int], None]
) -> list[Match]:
    """Judge an answer that its store says is held back, and return the whole right answer in its place."""
    judge(found, expected, limit)
    ranked = sorted(expected, key=lambda scored: (-scored.score, scored.record.id, scored.record.tenant_id))
    return [Match(_without_vector(scored.record), scored.score) for scored in ranked[:limit]]


def _without_vector(of: Record) -> Record:
    return Record(of.text, None, of.metadata, of.version)


def _judge(found: list[Match], expected: list[Scored], limit: int, tolerance: Callable[[float], float]) -> None:
    """Judge records, scores, order and number. Scores nearer than the tolerance may come in either order; twins not."""
    right = {place(scored.record): scored for scored in expected}
    places = [place(match.record) for match in found]
    assert len(places) == len(set(places)), "a record was answered twice"
    assert not set(places) - right.keys(), "a record was answered that does not match"
    for match in found:
        scored = right[place(match.record)]
        assert match.id == scored.record.id
        assert content(match.record) == content(scored.record)
        assert match.record.vector is None, "only a scan with vectors=True carries vectors"
        assert abs(match.score - scored.score) <= tolerance(scored.score), (match.id, match.score, scored.score)
    order = [(-match.score, match.id, match.record.tenant_id) for match in found]
    assert order == sorted(order), "not in the order of score down, id, tenant"
    _judge_twins(found, right)
    if is_held_back(found):
        return
    assert len(found) == min(limit, len(expected)), "fewer or more than min(limit, matching)"
    if found:
        _judge_cut(found, right, tolerance)


def _judge_twins(found: list[Match], right: dict[tuple[str, str, int], Scored]) -> None:
    first: dict[Hashable, float] = {}
    for match in found:
        twin = right[place(match.record)].twin
        assert match.score == first.setdefault(twin, match.score), "equal records have scores that differ in a bit"


def _judge_cut(
    found: list[Match], right: dict[tuple[str, str, int], Scored], tolerance: Callable[[float], float]
) -> None:
    """Judge what was left out: nothing better, and of twins at the cut only those with the larger ids."""
    places = {place(match.record) for match in found}
    lowest = min(right[at].score for at in places)
    last_of = {right[place(match.record)].twin: (match.id, match.record.tenant_id) for match in found}
    for at, scored in right.items():
        if at not in places:
            assert scored.score <= lowest + 2 * tolerance(scored.score), f"{scored.record.id} was left out"
            mine = (scored.record.id, scored.record.tenant_id)
            assert last_of.get(scored.twin, mine) <= mine, f"{scored.record.id} ties with one of a larger id"
