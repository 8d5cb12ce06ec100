"""How writes are run: their locks are tried first, and waited for without using up the connections.

While a write waits, its connection is of no use to anybody. So at most half of them wait in the database, where they
are served in turn; whoever comes later waits here. A pool of one connection is given back between tries.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from stackroom._errors import Conflict, StoreUnavailable
from stackroom.stores.postgres import _counts, _writes
from stackroom.stores.postgres._connections import TOO_LONG, Begin, Database, Statement
from stackroom.stores.postgres._locks import LocksAreTaken, Patience, WriteTransaction, locks, opening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from stackroom._filters import Filter
    from stackroom.stores.postgres._connections import Session
    from stackroom.stores.postgres._locks import Lock
    from stackroom.stores.postgres._reads import Place

T = TypeVar("T")

_TRIES: Final = 20
"""How often a replace gives its words numbers that others forget meanwhile."""

_FOR_ROWS: Final = 30.0

_PAUSE: Final = 0.05
"""Seconds between two tries on the only connection."""


@dataclass(slots=True)
class Writers:
    """The writers of one store: `settings` says what a transaction must say of itself first."""

    database: Database
    lock_timeout: float
    settings: Callable[[str, Filter], list[Statement]]
    _waiting: threading.BoundedSemaphore = field(init=False)

    def __post_init__(self) -> None:
        self._waiting = threading.BoundedSemaphore(max(1, (self.database.connections - 1) // 2))

    def write(self, place: Place, where: Filter, work: Callable[[WriteTransaction], T]) -> T:
        """Run `work` in a transaction that holds the locks of a write in a tenant."""
        return self._write(place, where, work, (), Patience(self.lock_timeout))

    def replace(self, place: Place, where: Filter, replacing: _writes.Replacing) -> int:
        """Run a replace; words that have no number yet get one first."""
        patience = Patience(self.lock_timeout)
        for _ in range(_TRIES):
            try:
                return self._write(place, where, replacing.run, replacing.batch.sources, patience)
            except _writes.TermsAreMissing as missing:
                terms = missing.terms
            for few in _counts.few_at_a_time(terms) if terms else [[]]:
                self._run(place, where, partial(_learn, place, few), [], patience, waits=False)
        raise StoreUnavailable("other writers forgot this write's words again and again; try again")

    def _write(
        self,
        place: Place,
        where: Filter,
        work: Callable[[WriteTransaction], T],
        sources: Iterable[str],
        patience: Patience,
    ) -> T:
        taken = locks(place.entry.names, place.entry.name, place.tenant_id, where, sources)
        run = partial(self._run, place, where, work, taken, patience)
        with suppress(LocksAreTaken):
            return run(waits=False)
        if self.lock_timeout == 0:
            raise Conflict("somebody else is writing this source just now; try again with fresh data")
        return self._again(run, patience) if self.database.connections == 1 else self._in_turn(run, patience)

    def _in_turn(self, run: Callable[..., T], patience: Patience) -> T:
        with patience.waiting():
            may_wait = self._waiting.acquire(timeout=max(0, patience.left))
        if not may_wait:
            raise StoreUnavailable(TOO_LONG)
        try:
            return run(waits=True)
        finally:
            self._waiting.release()

    def _again(self, run: Callable[..., T], patience: Patience) -> T:
        while patience.left > 0:
            with patience.waiting():
                threading.Event().wait(_PAUSE)
            with suppress(LocksAreTaken):
                return run(waits=False)
        raise StoreUnavailable(TOO_LONG)

    def _run(
        self,
        place: Place,
        where: Filter,
        work: Callable[[WriteTransaction], T],
        taken: Sequence[Lock],
        patience: Patience,
        *,
        waits: bool,
    ) -> T:
        to_forget: list[int] = []
        settings = self.settings(place.tenant_id, where)

        def run(session: Session) -> T:
            began = [*settings, *opening(taken, self._seconds(patience), waits=waits)]
            asks = WriteTransaction(session, place.entry, began, writes=True, patience=patience)
            done = work(asks)
            to_forget[:] = asks.to_forget
            return done

        done = self.database.run(Begin.WRITING, run)
        for few in _counts.few_at_a_time(to_forget):
            self._run(place, where, partial(_forget, place, few), [], patience, waits=False)
        return done

    def _seconds(self, patience: Patience) -> float:
        """Return how long a transaction may wait for others; for words and rows, also when it waits for no lock."""
        return max(patience.left, 0.0) if self.lock_timeout else _FOR_ROWS


def _learn(place: Place, terms: Sequence[str], asks: WriteTransaction) -> None:
    asks.ask(*_counts.learned(place, terms), last=True)


def _forget(place: Place, numbers: Sequence[int], asks: WriteTransaction) -> None:
    asks.ask(_counts.forgotten(place, numbers), last=True)
