"""The dense leg with a ranker plugged in: it proposes, and all that it proposes is judged and scored here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from stackroom.rankers._failures import Failure
from stackroom.rankers._judging import Judged, Place
from stackroom.rankers._notes import BEHIND, SCALE, SHORT, dropped_note, fallback_note
from stackroom.stores.embedded._told import changed_since, reaches_back

if TYPE_CHECKING:
    import sqlite3

    from numpy.typing import NDArray

    from stackroom._errors import RankerError
    from stackroom._model import Note
    from stackroom.rankers._judging import Locate
    from stackroom.rankers._plug import Plug, Policy
    from stackroom.stores.embedded._book import Pair
    from stackroom.stores.embedded._catalogue import Catalogue, Rows


@dataclass(frozen=True, slots=True)
class Leg:
    """What the dense leg of one search is about, in one state."""

    reader: sqlite3.Connection
    catalogue: Catalogue
    position: int
    passages: int
    allowed: Rows
    query: NDArray[np.float64]
    limit: int


@dataclass(frozen=True, slots=True)
class Told:
    """What a search must know of the feed: what was noted up to a place in the journal, and of that still owed."""

    position: int
    owed: list[Pair]
    is_behind: bool


@dataclass(slots=True)
class Proposal:
    """What came of asking: rows to be scored (None: the store searches by itself), notes, and what failed."""

    rows: Rows | None = None
    notes: list[Note] = field(default_factory=list)
    instead: Policy | None = None
    error: RankerError | None = None


class Consultation:
    """One search's dealings with the ranker. A search that is begun anew after a failure does not ask again."""

    def __init__(self, plug: Plug) -> None:
        self._plug = plug
        self._failed: Proposal | None = None

    def propose(self, tenant_id: str, told: Told | None, leg: Leg) -> Proposal:
        """Ask the ranker for the passages nearest to a query; `told` is what it knows, None when it is told nothing."""
        if self._failed is not None:
            return self._failed
        if not len(leg.allowed):
            return Proposal()
        owed = _owed_rows(told, leg)
        if owed is None:
            return Proposal(notes=[BEHIND])
        asked = _Asked(self._plug, tenant_id, leg, owed)
        failure = asked.ask()
        if failure is not None:
            self._failed = self._fallen_back(tenant_id, failure)
            return self._failed
        return asked.proposal()

    def _fallen_back(self, tenant_id: str, failure: Failure) -> Proposal:
        policy = self._plug.policy
        self._plug.tell_failure(tenant_id, failure)
        if policy == "raise":
            return Proposal(error=failure.error())
        return Proposal(notes=[fallback_note(policy, failure.kind)], instead=None if policy == "exact" else policy)


class _Asked:
    """One leg's question, and what was kept of the answers."""

    def __init__(self, plug: Plug, tenant_id: str, leg: Leg, owed: set[int]) -> None:
        self._plug = plug
        self._tenant_id = tenant_id
        self._leg = leg
        self._owed = owed
        self._judged = Judged()
        self._needed = min(leg.limit, len(leg.allowed))
        self._query = leg.query.astype(np.float32)

    def ask(self) -> Failure | None:
        """Ask, and once more where that may bring more; return what failed."""
        if len(self._leg.allowed) <= self._plug.max_candidates:
            ids = self._leg.catalogue.row_ids(self._leg.allowed)
            rows = dict(zip(ids, self._leg.allowed.tolist(), strict=True))
            limit = min(self._needed, self._plug.max_limit)
            return self._ask(tuple(ids), limit, lambda passage_id: rows.get(passage_id, Place.UNKNOWN))
        most = min(self._leg.passages, self._plug.max_limit)
        limit = min(most, _first_limit(self._leg))
        locate = _locating(self._leg)
        failure = self._ask(None, limit, locate)
        if failure is None and self._is_short and limit < most:
            failure = self._ask(None, most, locate)
        return failure

    def _ask(self, ids: tuple[str, ...] | None, limit: int, locate: Locate) -> Failure | None:
        answered = self._plug.ask(tenant_id=self._tenant_id, query=self._query, candidate_ids=ids, limit=limit)
        if isinstance(answered, Failure):
            return answered
        before, self._judged = self._judged, Judged()
        self._judged.judge(answered.items, locate)
        self._judged.rows |= before.rows
        self._judged.dropped += before.dropped
        self._judged.has_odd_scores |= before.has_odd_scores
        self._judged.dropped["too_many"] += answered.unread
        return None

    @property
    def _is_short(self) -> bool:
        return len(self._judged.rows.keys() | self._owed) < self._needed

    def proposal(self) -> Proposal:
        """Return what is to be scored, and what there is to say."""
        found = Proposal(np.asarray(sorted(self._judged.rows.keys() | self._owed), dtype=np.int64))
        if self._judged.dropped.total():
            found.notes.append(dropped_note(self._judged.dropped))
        if self._judged.has_odd_scores:
            found.notes.append(SCALE)
        if self._is_short:
            found.rows = None
            found.notes.append(SHORT)
        return found


def _first_limit(leg: Leg) -> int:
    """Return how many to ask for when the ranker ranks the whole tenant: max(2 · L, ⌈1.5 · L · T / A⌉)."""
    return max(2 * leg.limit, -(-3 * leg.limit * leg.passages // (2 * len(leg.allowed))))


def _locating(leg: Leg) -> Locate:
    last = len(leg.allowed) - 1

    def locate(passage_id: str) -> int | Place:
        row = leg.catalogue.row_of(passage_id)
        if row is None:
            return Place.UNKNOWN
        return row if leg.allowed[min(int(np.searchsorted(leg.allowed, row)), last)] == row else Place.OUT_OF_SCOPE

    return locate


def _owed_rows(told: Told | None, leg: Leg) -> set[int] | None:
    """Return the allowed rows that the ranker may not have heard of; None when it is too far behind to be asked."""
    if told is None:
        return set()
    if told.is_behind:
        return None
    rows = {leg.catalogue.row_of(f"{source_id}#{place}") for source_id, place in told.owed}
    if told.position != leg.position:
        if not reaches_back(leg.reader, told.position, leg.position):
            return None
        for number in changed_since(leg.reader, told.position):
            found = leg.reader.execute("SELECT first_row, passages FROM source WHERE number = ?", (number,)).fetchone()
            rows.update(range(found[0], sum(found)) if found is not None else ())
    wanted = np.asarray([row for row in rows if row is not None], dtype=np.int64)
    return set(np.intersect1d(wanted, leg.allowed).tolist())
