"""What is read of one state of one tenant: the nearest, the best worded, all in order, how many.

An engine's scores are in single precision and its ties fall as they may. So it is asked for more than is wanted, what
it finds is ranked as everywhere, and it is asked for more again until nothing that it holds back could come before
the last that is answered.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stackroom.stores import _bm25, _ranking
from stackroom.stores._protocol import Cursor, Match, Record
from stackroom.stores._tokens import Form, Holds, conjunction
from stackroom.stores.generations._engine import Nearest, Worded
from stackroom.stores.generations._rows import direction, record_of, term_number, term_token, vector_of
from stackroom.text import index_terms, query_terms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from stackroom.stores._protocol import LexicalQuery
    from stackroom.stores.generations._engine import Found, Stored
    from stackroom.stores.generations._view import Selected, View

_SPARE: Final = 10
_WIDER: Final = 4
_ROUNDING: Final = 1e-5
"""More than an engine's cosine is off by, and than its inner products are, relatively."""


class Scored(NamedTuple):
    """A record and its score."""

    record: Record
    score: float


def dense(view: View, selected: Selected, query: NDArray[np.float64], limit: int) -> list[Scored]:
    """Return the `limit` nearest to a query of length 1, unordered; ties at the end as they come last."""

    def scores(rows: Sequence[Stored]) -> NDArray[np.float64]:
        vectors = _ranking.power_scaled(np.stack([vector_of(row) for row in rows]))
        return _ranking.cosines(vectors, _ranking.row_norms(vectors), query)

    asked = _Asked(
        view=view, selected=selected, form=selected.form, what=Nearest(direction(query)), limit=limit, vectors=True
    )
    return asked.best(scores, lambda score: score - _ROUNDING)


def lexical(view: View, selected: Selected, query: LexicalQuery, limit: int) -> list[Scored]:
    """Return the `limit` best worded, unordered."""
    terms = query_terms(query.text)
    if not terms:
        return []
    passages = view.count()
    idfs = {term: _bm25.idf(passages, view.holding(term)) for term in terms}

    def score(row: Stored) -> float:
        frequencies = Counter(index_terms(row.text))
        length = frequencies.total()
        found = [term for term in terms if term in frequencies]
        if query.match == "all" and len(found) < len(terms):
            return 0.0
        return sum(idfs[term] * float(_bm25.impacts(frequencies[term], length)) for term in found)

    weights: dict[int, float] = {}
    for term, idf in idfs.items():
        number = term_number(term)
        weights[number] = max(weights.get(number, 0.0), idf)
    form = conjunction([selected.form, *_holding(terms, query.match)])
    asked = _Asked(view=view, selected=selected, form=form, what=Worded(weights), limit=limit, vectors=False)
    found = asked.best(
        lambda rows: np.array([score(row) for row in rows], dtype=np.float64), lambda score: score * (1 - _ROUNDING)
    )
    return [scored for scored in found if scored.score > 0]


def _holding(terms: Sequence[str], match: str) -> list[Form]:
    tokens = [term_token(term) for term in terms]
    return [Holds(frozenset({token})) for token in tokens] if match == "all" else [Holds(frozenset(tokens))]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    view: View
    selected: Selected
    form: Form
    what: Nearest | Worded
    limit: int
    vectors: bool

    def best(
        self, scores: Callable[[Sequence[Stored]], NDArray[np.float64]], surely: Callable[[float], float]
    ) -> list[Scored]:
        """Return enough of the best that the `limit` best are among them.

        `surely` makes of a score one that the engine gives at least to whatever has it.
        """
        wanted = self.limit + _SPARE
        while True:
            found = self.view.best(self.form, self.what, wanted, vectors=self.vectors)
            scored = self._scored(found, scores)
            if len(found) < wanted or self._is_enough(found, scored, surely):
                return scored
            wanted *= _WIDER

    def _scored(
        self, found: Sequence[Found], scores: Callable[[Sequence[Stored]], NDArray[np.float64]]
    ) -> list[Scored]:
        kept = [(item.row, record) for item in found if self.selected.judges(record := record_of(item.row))]
        if not kept:
            return []
        exact = scores([row for row, _ in kept]).tolist()
        return [Scored(record, score) for (_, record), score in zip(kept, exact, strict=True)]

    def _is_enough(self, found: Sequence[Found], scored: list[Scored], surely: Callable[[float], float]) -> bool:
        """Tell whether nothing that was not found can be as good as the last of the `limit` best."""
        best = sorted((score for _, score in scored if score != 0 or self.vectors), reverse=True)
        return len(best) >= self.limit and min(item.score for item in found) < surely(best[self.limit - 1])


def ranked(found: list[Scored], limit: int) -> list[Match]:
    """Return matches in order: score down, then id, then tenant."""
    order = sorted(found, key=lambda scored: (-scored.score, scored.record.id, scored.record.tenant_id))
    return [Match(record, score) for record, score in order[:limit]]


def scan(view: View, selected: Selected, after: Cursor | None, limit: int, *, vectors: bool) -> list[Record]:
    """Return up to `limit` records behind a cursor, in order."""
    places = view.places(selected.form)
    if after is not None:
        places = [place for place in places if Cursor(view.tenant, place.source, place.place) > after]
    found: list[Record] = []
    for row in view.stored(places if not selected.is_exact else places[:limit], vectors=vectors):
        record = record_of(row, with_vector=vectors)
        if selected.judges(record):
            found.append(record)
            if len(found) == limit:
                break
    return found


def count(view: View, selected: Selected) -> int:
    """Return how many records a filter matches."""
    return view.count(selected.form) if selected.is_exact else len(view.matching(selected))
