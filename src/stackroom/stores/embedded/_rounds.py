"""One round of deliveries to a ranker: what is new is noted as owed, then told in order; what fails stands back."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from time import monotonic
from typing import TYPE_CHECKING, Final

from stackroom._errors import StackroomError
from stackroom.rankers._failures import log
from stackroom.stores.embedded import _told
from stackroom.stores.embedded._backoff import wait_of
from stackroom.stores.embedded._book import Standing
from stackroom.stores.embedded._ledger import FORGET
from stackroom.stores.embedded._shard import ShardIsGone
from stackroom.stores.embedded._turns import MOST_FAILURES, Report

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from stackroom.rankers._plug import Plug
    from stackroom.stores.embedded._book import Book, Owed
    from stackroom.stores.embedded._departures import Departures
    from stackroom.stores.embedded._shard import Shard
    from stackroom.stores.embedded._turns import Hooks, Turn

_MOST_ECHOES: Final = 4
"""So often a round looks again for what its own hooks have written; more waits for the next round."""

_BETWEEN_LOOKS: Final = 0.05
"""Seconds within which calls go on without a look whether their tenant is still there."""

_ALL_IS_WELL: Final = (0, None, None, None, 0, 0)
"""The failures and times of a feed that owes nothing."""


class Round:
    """A round for one tenant, by whoever has the tenant's turn and its book's.

    A passage that fails stands back behind the others, and is tried again only in a round that `retries`. Eight
    failures in a row of what is told for the first time pause the feed; then a round that retries tries one passage
    first. Eight of what had failed before end but the retrying: it may be that these fail for ever.
    """

    def __init__(
        self,
        plug: Plug,
        hooks: Hooks,
        departures: Departures,
        shard: Shard,
        book: Book,
        turn: Turn,
        now: int,
        *,
        is_forced: bool,
    ) -> None:
        self._plug = plug
        self._hooks = hooks
        self._departures = departures
        self._shard = shard
        self._book = book
        self._turn = turn
        self._now = now
        self._before = book.standing
        next_try = self._before.next_try
        self._retries = is_forced or (next_try is not None and now >= next_try)
        self._in_row = 0 if is_forced else self._before.in_row
        self._failures = self._before.failures
        self._tried_in_row = 0
        self._tried_until = 0
        self._after = 0
        self._last_error: str | None = None
        self._is_over = False
        self._has_gone = False
        self._looked = 0.0

    def deliver(self) -> None:
        """Deliver what is owed."""
        if self._is_paused and not self._retries:
            if not self._before.is_filling:
                _told.note_news(self._shard, self._book)
            return
        try:
            if self._told_of_departed():
                self._tried_until = self._book.newest() if self._retries else 0
                self._deliver_all()
        finally:
            self._settle()

    @property
    def _is_paused(self) -> bool:
        return self._in_row >= MOST_FAILURES

    def _told_of_departed(self) -> bool:
        """Deliver first what is owed of an earlier tenant of this name, or a due forgetting; False to stop there."""
        tenant_id = self._shard.tenant_id
        entries = self._departures.entries(tenant_id)
        if self._before.is_due or FORGET in entries:
            return self._is_forgotten()
        if entries and (self._retries or self._departures.is_time(tenant_id, self._now)):
            with self._shard.reading(_told.position_of) as (reader, _):
                gone = [passage for passage in entries if not _told.holds(reader, passage)]
            there = set(entries) - set(gone)
            if there:  # whoever told of the earlier tenant may have overtaken what was told of this one
                self._book.owe(_told.pair_of(passage) for passage in there)
                self._book.keep()
                self._departures.strike_off(tenant_id, there)
            self._is_over = self._departures.tell(tenant_id, gone, self._turn, self._now).is_left
        return not self._is_over

    def _is_forgotten(self) -> bool:
        """Let the ranker forget the tenant, when it is time to try, and begin a full feed; False if that failed."""
        report = Report()
        try:
            if self._retries or self._before.next_try is None:
                self._departures.forget(self._shard.tenant_id, self._turn, report)
        finally:
            self._hear(report, were_tried=True)
            self._is_over |= report.outcomes != [None]
            self._see_whether_it_went([FORGET])
        self._stop_if_it_went()
        if not self._is_over:
            self._book.clear()
        return not self._is_over

    def _see_whether_it_went(self, told: Sequence[str]) -> None:
        """Look, after every series of calls, whether the tenant went meanwhile: then what was told is owed again.

        Whoever removed the tenant may have told of that before these calls ended.
        """
        if not self._is_there():
            self._departures.owe_again(self._shard.tenant_id, told)
            self._has_gone = True

    def _stop_if_it_went(self) -> None:
        if self._has_gone:
            raise ShardIsGone

    def _may_go_on(self) -> bool:
        """Look between calls whether the tenant is still there, though not after each of many quick ones."""
        now = monotonic()
        if now < self._looked + _BETWEEN_LOOKS:
            return True
        self._looked = now
        return self._is_there()

    def _is_there(self) -> bool:
        try:
            return self._shard.is_there()
        except StackroomError:  # it cannot be seen: then what is owed of it is owed as if it were gone
            return False

    def _hear_late(self, late: Owed) -> None:
        """Take in that a call that had been given up has returned."""
        is_noted = self._book.owe_again(late, self._now, self._now + wait_of(1))
        if not is_noted or not self._is_there():
            self._departures.owe_again(self._shard.tenant_id, [late.passage_id])

    def _deliver_all(self) -> None:
        """Note what is new and deliver it, until there is no more; what the hooks themselves have written included."""
        echoes = 0
        is_more = True
        while is_more and not self._is_over:
            is_more = _told.note_news(self._shard, self._book)
            self._book.keep()
            if self._is_paused:
                self._try_one()
            self._deliver_noted()
            if not is_more and echoes < _MOST_ECHOES and self._turn.was_missed():
                echoes, is_more = echoes + 1, True

    def _try_one(self) -> None:
        """Tell one passage, to see whether the ranker takes any; else the round is over."""
        owed = self._book.next_to_try()
        if owed is not None:
            self._deliver_some([owed], _told.states(self._shard, [owed]), were_tried=owed.was_tried)
            self._is_over |= self._is_paused

    def _deliver_noted(self) -> None:
        """Deliver what is noted as owed, in order."""
        while not self._is_over:
            owed = self._book.owed(self._after, _told.AT_A_TIME, tried_until=self._tried_until)
            if not owed:
                return
            self._after = owed[-1].sequence
            vectors = iter(_told.states(self._shard, owed))
            for were_tried, group in groupby(owed, lambda item: item.was_tried):
                some = list(group)
                self._deliver_some(some, [next(vectors) for _ in some], were_tried=were_tried)
            if len(owed) == _told.AT_A_TIME:
                self._book.keep()

    def _deliver_some(
        self, owed: Sequence[Owed], vectors: Sequence[NDArray[np.float32] | None], *, were_tried: bool
    ) -> None:
        hook = self._plug.hook
        if hook is None or self._is_over or (were_tried and self._tried_in_row >= MOST_FAILURES):
            return
        steps = [
            partial(hook, tenant_id=self._shard.tenant_id, passage_id=item.passage_id, vector=vector)
            for item, vector in zip(owed, vectors, strict=True)
        ]
        in_row = self._tried_in_row if were_tried else min(self._in_row, MOST_FAILURES - 1)
        report = Report()
        try:
            self._hooks.call(
                self._turn,
                steps,
                report,
                in_row,
                may_go_on=self._may_go_on,
                when_late=lambda place: self._hear_late(owed[place]),
            )
        finally:
            self._see_whether_it_went([item.passage_id for item in owed])
            self._hear(report, were_tried=were_tried)
            pairs = list(zip(owed, report.outcomes, strict=False))
            self._book.strike_off(item for item, kind in pairs if kind is None)
            self._book.stand_back(item for item, kind in pairs if kind is not None)
        self._stop_if_it_went()

    def _hear(self, report: Report, *, were_tried: bool) -> None:
        """Take in how calls went."""
        for kind in report.outcomes:
            self._last_error = kind or self._last_error
            self._failures = 0 if kind is None else self._failures + 1
            if kind is None:
                self._in_row, self._tried_in_row = 0, 0 if were_tried else self._tried_in_row
            elif were_tried:
                self._tried_in_row += 1
            else:
                self._in_row += 1
        self._is_over |= report.is_left or (self._is_paused and not were_tried)

    def _settle(self) -> None:
        """Note in the book how the round went, and when what failed is tried again."""
        before, after = self._before, self._book.standing
        if not self._book.counted() and not after.is_due and not after.is_filling:
            if after[4:] != _ALL_IS_WELL:
                self._book.set(**dict(zip(Standing._fields[4:], _ALL_IS_WELL, strict=True)))
            return
        if self._last_error is not None:
            log.warning("a vector ranker failed with %s when it was told; passages are owed to it", self._last_error)
        level, next_try = max(before.level, after.level), before.next_try or after.next_try
        if self._last_error is not None and (next_try is None or self._retries):
            level += 1
            next_try = self._now + wait_of(level)
        self._book.set(
            failures=self._failures,
            last_error=self._last_error or before.last_error,
            owed_since=before.owed_since or self._now,
            next_try=next_try,
            level=level,
            in_row=self._in_row,
        )
