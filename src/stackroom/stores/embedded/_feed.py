"""The feed of a ranker: after each commit it is told what came and went; what fails is owed, kept, and tried again."""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from stackroom._errors import CapabilityError, StackroomError
from stackroom.rankers._failures import log
from stackroom.rankers._protocol import RankerHealth
from stackroom.stores.embedded import _told
from stackroom.stores.embedded._backoff import earliest, microseconds, newest_error, wait_of
from stackroom.stores.embedded._book import Book, Standing
from stackroom.stores.embedded._departures import Departures
from stackroom.stores.embedded._ledger import FORGET
from stackroom.stores.embedded._names import directory_name
from stackroom.stores.embedded._ranked import Consultation, Told
from stackroom.stores.embedded._shard import is_finished, number_of
from stackroom.stores.embedded._turns import MOST_FAILURES, Hooks, Report

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import Protocol, TypeAlias, TypeVar

    from stackroom.rankers._plug import Plug
    from stackroom.stores._protocol import Record
    from stackroom.stores.embedded._book import Owed
    from stackroom.stores.embedded._directory import Directory, Entry
    from stackroom.stores.embedded._reads import Propose
    from stackroom.stores.embedded._shard import Shard
    from stackroom.stores.embedded._turns import Turn

    T = TypeVar("T")
    State: TypeAlias = tuple[str, int, Standing]

    class Legs(Protocol):
        """Asks both legs of a shard."""

        def __call__(self, shard: Shard, *, propose: Propose | None) -> list[Record]: ...


_PATIENCE: Final = 30.0
"""Seconds that a write waits for another's deliveries when a hook may take as long as it likes."""

_SIDE: Final = ".side"

_ALL_IS_WELL: Final = (0, None, None, None, 0)
"""The failures and times of a feed that owes nothing."""


@dataclass(slots=True)
class _Run:
    """One round of deliveries to one tenant."""

    shard: Shard
    book: Book
    turn: Turn
    standing: Standing
    retries: bool
    in_row: int
    failures: int
    after: int = 0
    last_error: str | None = None
    is_over: bool = False

    def hear(self, report: Report) -> None:
        """Take in how calls went."""
        for kind in report.outcomes:
            self.in_row = 0 if kind is None else self.in_row + 1
            self.failures = 0 if kind is None else self.failures + 1
            self.last_error = kind or self.last_error
        self.is_over |= report.is_left or self.in_row >= MOST_FAILURES


class Feed:
    """Tells one store's ranker what it is to know. Without a hook there is nothing to tell but who went."""

    def __init__(self, plug: Plug, directory: Directory, clock: Callable[[], datetime], most_books: int) -> None:
        self._plug = plug
        self._directory = directory
        self._clock = clock
        self._most_books = most_books
        self._hooks = Hooks(plug.timeout)
        self._departures = Departures(plug, directory, self._hooks)
        self._lock = threading.RLock()
        self._books: OrderedDict[int, Book] = OrderedDict()
        self._in_use: dict[int, int] = {}
        self._seen: set[int] = set()
        self._name: str | None = None

    # Which collection it is about

    def admit(self, name: str, *, makes: bool = False) -> None:
        """Raise CapabilityError for a second collection: a ranker knows but one, and the side of a re-embedding."""
        there = self._directory.register().collections
        own = self._name if self._name is not None and self._name in there else name.removesuffix(_SIDE)
        others = set(there) - {own, own + _SIDE}
        if name not in {own, own + _SIDE} or (makes and others):
            raise CapabilityError(
                "a store with a vector ranker holds one collection; open another directory for a second one"
            )
        self._name = own

    @property
    def collection(self) -> str | None:
        """The one collection, None while there is none."""
        there = self._directory.register().collections
        if self._name is None:
            return next((name for name in sorted(there) if not name.endswith(_SIDE)), None)
        return self._name if self._name in there else None

    def concerns(self, entry: Entry) -> bool:
        """Tell whether shards of a generation are the ranker's business: those of a side are not, before the switch."""
        name = self.collection
        return name is not None and self._directory.register().entry(name).generation == entry.generation

    # When it is told

    def opened(self, shard: Shard) -> None:
        """Deliver what is owed when a shard is first opened."""
        if shard.number not in self._seen and self.concerns(shard.entry):
            self._seen.add(shard.number)
            self._forsake(lambda number, book: book.tenant_id == shard.tenant_id and number != shard.number)
            self._departures.look_again()
            self.catch_up(shard, retries=True, is_forced=True)

    def written(self, shard: Shard) -> None:
        """Deliver what a write has changed."""
        if self.concerns(shard.entry):
            self.catch_up(shard, seconds=self._patience)

    def sync(self, shard: Shard) -> None:
        """Deliver everything owed now."""
        self.catch_up(shard, seconds=self._patience, retries=True, is_forced=True)

    def rebuild(self, shard: Shard) -> None:
        """Let the ranker forget a tenant, then feed every passage again."""
        self._reset(shard)
        self.sync(shard)

    def told(self, shard: Shard) -> Told | None:
        """Return what a search must know, after delivering what another process has written; None without a hook."""
        if self._plug.hook is None:
            return None
        with shard.reading(_told.position_of) as (_, position):
            pass
        most = self._plug.max_candidates
        try:
            if self._with_book(shard, lambda book: book.standing.position != position):
                self.catch_up(shard)
            standing, owed = self._with_book(shard, lambda book: book.look(most + 1))
        except sqlite3.Error:  # another process is making the book
            return Told(0, [], is_behind=True)
        return Told(standing.position, owed, bool(standing.is_due or standing.is_filling or len(owed) > most))

    def consulted(self, legs: Legs) -> Callable[[Shard], list[Record]]:
        """Return how a search asks both legs of a shard, the dense one through the ranker."""
        consultation = Consultation(self._plug)

        def asked(shard: Shard) -> list[Record]:
            if not self.concerns(shard.entry):
                return legs(shard, propose=None)
            return legs(shard, propose=partial(consultation.propose, shard.tenant_id, self.told(shard)))

        return asked

    def catch_up(self, shard: Shard, *, seconds: float = 0.0, retries: bool = False, is_forced: bool = False) -> None:
        """Deliver what is owed of a tenant, unless somebody else is at it for longer than `seconds`.

        What was tried before is tried again when `retries`, or when its time has come. No failure is raised.
        """
        if self._plug.hook is None:
            return
        try:
            self._with_book(shard, partial(self._catch_up, shard, seconds, retries=retries, is_forced=is_forced))
        except (StackroomError, sqlite3.Error) as error:
            log.warning("a vector ranker could not be fed now (%s); it is at a later call", type(error).__name__)

    def _catch_up(self, shard: Shard, seconds: float, book: Book, *, retries: bool, is_forced: bool) -> None:
        turn = self._hooks.turn_of(shard.tenant_id)
        if not turn.take(seconds):
            return
        try:
            if book.begin_turn(seconds):
                try:
                    self._deliver_all(_run(shard, book, turn, self._now(), retries=retries, is_forced=is_forced))
                finally:
                    book.end_turn()
        finally:
            turn.give_back()

    def _deliver_all(self, run: _Run) -> None:
        is_paused = run.in_row >= MOST_FAILURES and not run.retries
        if is_paused:
            if not run.standing.is_filling:
                _told.note_news(run.shard, run.book)
            return
        try:
            if self._told_of_departed(run):
                is_more = True
                while is_more and not run.is_over:
                    is_more = _told.note_news(run.shard, run.book)
                    run.book.keep()
                    self._deliver(run)
        finally:
            self._settle(run)

    def _told_of_departed(self, run: _Run) -> bool:
        """Deliver first what is owed of an earlier tenant of this name, and a due forgetting; False if that failed."""
        tenant_id = run.shard.tenant_id
        entries = self._departures.entries(tenant_id)
        if run.standing.is_due or FORGET in entries:
            return self._is_forgotten(run)
        if entries and (run.retries or self._departures.wait.is_over(self._now())):
            with run.shard.reading(_told.position_of) as (reader, _):
                gone = [passage for passage in entries if not _told.holds(reader, passage)]
            self._departures.strike_off(tenant_id, set(entries) - set(gone))
            run.hear(self._departures.tell(tenant_id, gone, run.turn, self._now()))
        return not run.is_over

    def _is_forgotten(self, run: _Run) -> bool:
        """Let the ranker forget the tenant, when it is time to try, and begin a full feed; False if that failed."""
        report = Report()
        try:
            if run.retries or run.standing.next_try is None:
                self._departures.forget(run.shard.tenant_id, run.turn, report)
        finally:
            run.hear(report)
            run.is_over |= report.outcomes != [None]
        if not run.is_over:
            run.book.clear()
        return not run.is_over

    def _deliver(self, run: _Run) -> None:
        """Deliver what is noted as owed, in order."""
        while not run.is_over:
            owed = run.book.owed(run.after, _told.AT_A_TIME, with_tried=run.retries)
            if not owed:
                return
            run.after = owed[-1].sequence
            self._deliver_some(run, owed)
            if len(owed) == _told.AT_A_TIME:
                run.book.keep()

    def _deliver_some(self, run: _Run, owed: list[Owed]) -> None:
        hook = self._plug.hook
        if hook is None:
            return
        vectors = _told.states(run.shard, owed)
        steps = [
            partial(hook, tenant_id=run.shard.tenant_id, passage_id=item.passage_id, vector=vector)
            for item, vector in zip(owed, vectors, strict=True)
        ]
        report = Report()
        try:
            self._hooks.call(run.turn, steps, report, run.in_row, lambda place: run.book.owe_again(owed[place]))
        finally:
            run.hear(report)
            pairs = list(zip(owed, report.outcomes, strict=False))
            run.book.strike_off(item for item, kind in pairs if kind is None)
            run.book.mark_tried(item for item, kind in pairs if kind is not None)

    def _settle(self, run: _Run) -> None:
        """Note in the book how the round went, and when what failed is tried again."""
        now, before = self._now(), run.standing
        after = run.book.standing
        if not run.book.counted() and not after.is_due and not after.is_filling:
            if after[4:] != _ALL_IS_WELL:
                run.book.set(**dict(zip(Standing._fields[4:], _ALL_IS_WELL, strict=True)))
            return
        if run.last_error is not None:
            log.warning("a vector ranker failed with %s when it was told; passages are owed to it", run.last_error)
        level, next_try = before.level, before.next_try
        if run.last_error is not None and (next_try is None or run.retries):
            level += 1
            next_try = now + wait_of(level)
        run.book.set(
            failures=run.failures,
            last_error=run.last_error or before.last_error,
            owed_since=before.owed_since or now,
            next_try=next_try,
            level=level,
        )

    def _reset(self, shard: Shard) -> None:
        def reset(book: Book) -> None:
            turn = self._hooks.turn_of(shard.tenant_id)
            if self._plug.hook is None or not turn.take(self._patience):
                return
            try:
                if book.begin_turn(self._patience):
                    try:
                        with shard.reading(_told.position_of) as (reader, _):
                            book.refill(_told.gone(reader, book), forgets=self._plug.forget is not None)
                    finally:
                        book.end_turn()
            finally:
                turn.give_back()

        self._with_book(shard, reset)

    # Tenants that are gone

    def departed(self, tenant_id: str) -> None:
        """Tell that a tenant went; its shard is no longer there."""
        self._forsake(lambda _, book: book.tenant_id == tenant_id)
        self._departures.look_again()
        self.deliver_departed(tenant_id)

    def missed(self, tenant_id: str) -> None:
        """Tell that a search found no shard of a tenant: when there was one, another process has removed it."""
        with self._lock:
            was_there = any(book.tenant_id == tenant_id for book in self._books.values())
        if was_there:
            self.departed(tenant_id)

    def look_for_departed(self) -> None:
        """Find the tenants whose shards have gone or are of a generation that is no longer the collection's."""
        with self._lock:
            books = list(self._books.items())
        gone = {number for number, book in books if self._number_at(book.tenant_id) != number}
        self._forsake(lambda number, _: number in gone)
        self._departures.look_again()

    def _number_at(self, tenant_id: str) -> int | None:
        """Return the number of the shard that a tenant has now, None when it has none."""
        name = self.collection
        if name is None:
            return None
        path = self._directory.generation_path(self._directory.register().entry(name).generation)
        path /= directory_name(tenant_id)
        return number_of(path) if is_finished(path) else None

    def _forsake(self, is_meant: Callable[[int, Book], bool]) -> None:
        """Close the books of shards that are gone; of one in memory, what it says is noted in the ledger."""
        with self._lock:
            old = [(number, book) for number, book in self._books.items() if is_meant(number, book)]
            for number, _ in old:
                del self._books[number]
        for number, book in old:
            if self._plug.durable_id is None:
                pairs = {*book.look(-1)[1], *(pair for source in book.told() for pair in source.pairs)}
                self._departures.note(book.tenant_id, [f"{source_id}#{place}" for source_id, place in pairs])
            with self._lock:
                if not self._in_use.get(number):
                    book.close()

    def deliver_departed(self, tenant_id: str | None = None, *, is_forced: bool = True) -> None:
        """Deliver what is owed of tenants that are gone: of one, or of all, once their time has come or at once.

        One that is back hears of it in its own turn.
        """
        now = self._now()
        if self._plug.hook is None and tenant_id is None:
            return
        if not (is_forced or self._departures.wait.is_over(now)):
            return
        try:
            for name in sorted(self._departures.tenants()) if tenant_id is None else [tenant_id]:
                if self._number_at(name) is None:
                    self._departures.deliver(name, self._patience, now)
        except StackroomError as error:
            log.warning("a vector ranker could not be told who went (%s)", type(error).__name__)

    # Health

    def health(self, each: Callable[[Callable[[Shard], State]], list[State]]) -> RankerHealth:
        """Return how far the ranker was told; `each` asks every shard of the collection."""
        if self._plug.hook is None:
            return RankerHealth(self._plug.name, 0, 0, None, None, None, {})
        found = each(self._state_of)
        gone = self._departures.owed()
        tenants = {tenant_id: owed for tenant_id, owed, _ in found if owed}
        for tenant_id, owed in gone.items():
            tenants[tenant_id] = tenants.get(tenant_id, 0) + owed
        standings = [standing for _, _, standing in found]
        wait = self._departures.wait
        return RankerHealth(
            self._plug.name,
            sum(tenants.values()),
            sum(standing.failures for standing in standings) + wait.failures,
            newest_error(standings, wait) if tenants else None,
            earliest([*(standing.owed_since for standing in standings), wait.since if gone else None]),
            earliest([*(standing.next_try for standing in standings), wait.until if gone else None]),
            tenants,
        )

    def _state_of(self, shard: Shard) -> State:
        return self._with_book(shard, lambda book: (shard.tenant_id, len(_told.owed_pairs(shard, book)), book.standing))

    # Inside

    def _now(self) -> int:
        return microseconds(self._clock())

    @property
    def _patience(self) -> float:
        return _PATIENCE if self._plug.timeout is None else self._plug.timeout

    def _with_book(self, shard: Shard, work: Callable[[Book], T]) -> T:
        """Do something with a shard's book, which is made when it is not there."""
        number = shard.number
        with self._lock:
            book = self._books.get(number)
            if book is None:
                book = self._books[number] = Book(
                    shard.path, shard.tenant_id, self._plug.durable_id, forgets=self._plug.forget is not None
                )
            self._books.move_to_end(number)
            self._in_use[number] = self._in_use.get(number, 0) + 1
        try:
            return work(book)
        finally:
            with self._lock:
                self._in_use[number] -= 1
                if self._books.get(number) is not book and not self._in_use[number]:
                    book.close()
                self._close_idle()

    def _close_idle(self) -> None:
        """Close the books used least recently, as many as there are too many; those in memory must stay."""
        if self._plug.durable_id is None:
            return
        for number, book in list(self._books.items()):
            if len(self._books) <= self._most_books:
                return
            if not self._in_use.get(number):
                del self._books[number]
                book.close()

    def close(self) -> None:
        """Close the books; what is owed stays so."""
        with self._lock:
            books = list(self._books.values())
            self._books.clear()
        for book in books:
            book.close()
        self._departures.close()
        self._hooks.close()


def _run(shard: Shard, book: Book, turn: Turn, now: int, *, retries: bool, is_forced: bool) -> _Run:
    standing = book.standing
    is_time = retries or (standing.next_try is not None and now >= standing.next_try)
    in_row = 0 if is_forced else standing.failures
    if is_time:
        in_row = min(in_row, MOST_FAILURES - 1)  # one try shows whether it is better
    return _Run(shard, book, turn, standing, is_time, in_row, standing.failures)
