"""The feed of a ranker: after each commit it is told what came and went; what fails is owed, kept, and tried again."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from stackroom._errors import CapabilityError, StackroomError, StoreUnavailable
from stackroom.rankers._failures import log
from stackroom.rankers._protocol import RankerHealth
from stackroom.stores.embedded import _told
from stackroom.stores.embedded._backoff import earliest, microseconds, newest_error
from stackroom.stores.embedded._book import BookIsTorn, file_name
from stackroom.stores.embedded._books import Books
from stackroom.stores.embedded._departures import Departures
from stackroom.stores.embedded._directory import database_errors
from stackroom.stores.embedded._ledger import FORGET
from stackroom.stores.embedded._names import directory_name
from stackroom.stores.embedded._ranked import Consultation, Told
from stackroom.stores.embedded._rounds import Round
from stackroom.stores.embedded._shard import ShardIsGone, is_finished, number_of
from stackroom.stores.embedded._turns import Hooks, patience

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from typing import Protocol, TypeAlias, TypeVar

    from stackroom.rankers._plug import Plug
    from stackroom.stores._protocol import Record
    from stackroom.stores.embedded._backoff import Wait
    from stackroom.stores.embedded._book import Book, Standing
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


class Feed:
    """Tells one store's ranker what it is to know. Without a hook there is nothing to tell but who went."""

    def __init__(self, plug: Plug, directory: Directory, clock: Callable[[], datetime], most_books: int) -> None:
        self._plug = plug
        self._directory = directory
        self._clock = clock
        self._hooks = Hooks(plug.ranker, plug.timeout)
        self._departures = Departures(plug, directory, self._hooks)
        self._books = Books(plug.durable_id, most_books, forgets=plug.forget is not None)
        self._seen: dict[str, int] = {}
        self._name: str | None = None

    @property
    def book(self) -> str | None:
        """The name of the book of the ranker's state, None when that dies with the process."""
        return None if self._plug.durable_id is None else file_name(self._plug.durable_id)

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
        if self._seen.get(shard.tenant_id) != shard.number and self.concerns(shard.entry):
            self._seen[shard.tenant_id] = shard.number
            self._forsake(lambda number, book: book.tenant_id == shard.tenant_id and number != shard.number)
            self._departures.look_again()
            self.catch_up(shard, is_forced=True)

    def written(self, shard: Shard) -> None:
        """Deliver what a write has changed."""
        if self.concerns(shard.entry):
            self.catch_up(shard, seconds=self._patience)

    def sync(self, shard: Shard) -> None:
        """Deliver everything owed now."""
        self.catch_up(shard, seconds=self._patience, is_forced=True)

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
        except StoreUnavailable:  # another process is making the book
            return Told(0, [], is_behind=True)
        entries = self._departures.entries(shard.tenant_id)
        owed += [_told.pair_of(entry) for entry in entries if entry != FORGET]
        is_behind = standing.is_due or standing.is_filling or FORGET in entries or len(owed) > most
        return Told(standing.position, owed, bool(is_behind))

    def consulted(self, legs: Legs) -> Callable[[Shard], list[Record]]:
        """Return how a search asks both legs of a shard, the dense one through the ranker."""
        consultation = Consultation(self._plug)

        def asked(shard: Shard) -> list[Record]:
            if not self.concerns(shard.entry):
                return legs(shard, propose=None)
            return legs(shard, propose=partial(consultation.propose, shard.tenant_id, self.told(shard)))

        return asked

    def catch_up(self, shard: Shard, *, seconds: float = 0.0, is_forced: bool = False) -> None:
        """Deliver what is owed of a tenant, unless somebody else is at it for longer than `seconds`.

        What was tried before is tried again when `is_forced`, or when its time has come. No failure is raised.
        """
        if self._plug.hook is None:
            return
        try:
            self._with_book(shard, partial(self._catch_up, shard, seconds, is_forced=is_forced))
        except ShardIsGone:
            self._departures.look_again()
            self.deliver_departed(shard.tenant_id)
            raise
        except StackroomError as error:
            log.warning("a vector ranker could not be fed now (%s); it is at a later call", type(error).__name__)

    def _catch_up(self, shard: Shard, seconds: float, book: Book, *, is_forced: bool) -> None:
        with self._turn(shard, book, seconds) as turn:
            if turn is not None:
                Round(
                    self._plug, self._hooks, self._departures, shard, book, turn, self._now(), is_forced=is_forced
                ).deliver()

    @contextmanager
    def _turn(self, shard: Shard, book: Book, seconds: float) -> Iterator[Turn | None]:
        """Hold the right to deliver to a tenant, in this process and among all; None when it cannot be had in time."""
        turn = self._hooks.turn_of(shard.tenant_id)
        if not turn.take(seconds):
            yield None
            return
        try:
            if not book.begin_turn(patience(seconds)):
                yield None
                return
            try:
                yield turn
            finally:
                book.end_turn()
        finally:
            turn.give_back()

    def _reset(self, shard: Shard) -> None:
        def reset(book: Book) -> None:
            with self._turn(shard, book, self._patience) as turn:
                if turn is not None:
                    with shard.reading(_told.position_of) as (reader, _):
                        book.refill(_told.gone(reader, book), forgets=self._plug.forget is not None)

        if self._plug.hook is not None:
            self._with_book(shard, reset)

    # Tenants that are gone

    def departed(self, tenant_id: str) -> None:
        """Tell that a tenant went; its shard is no longer there."""
        self._seen.pop(tenant_id, None)
        self._forsake(lambda _, book: book.tenant_id == tenant_id)
        self._departures.look_again()
        self.deliver_departed(tenant_id)

    def missed(self, tenant_id: str) -> None:
        """Tell that a search found no shard of a tenant: when there was one, another process has removed it."""
        if tenant_id in self._seen:
            self.departed(tenant_id)

    def look_for_departed(self) -> None:
        """Find the tenants whose shards have gone or are of a generation that is no longer the collection's."""
        gone = {number for number, tenant_id in self._books.tenants() if self._number_at(tenant_id) != number}
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
        for book in self._books.take_out(is_meant):
            try:
                if self._plug.durable_id is None:
                    pairs = {*book.look(-1)[1], *(pair for source in book.told() for pair in source.pairs)}
                    self._departures.note(book.tenant_id, [f"{source_id}#{place}" for source_id, place in pairs])
            finally:
                self._books.give_back(book)

    def deliver_departed(self, tenant_id: str | None = None, *, is_forced: bool = True) -> None:
        """Deliver what is owed of tenants that are gone: of one, or of all, once their time has come or at once.

        One that is back hears of it in its own turn.
        """
        now = self._now()
        if self._plug.hook is None and tenant_id is None:
            return
        try:
            for name in sorted(self._departures.tenants()) if tenant_id is None else [tenant_id]:
                if (is_forced or self._departures.is_time(name, now)) and self._number_at(name) is None:
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
        tries: list[Standing | Wait] = [standing for _, _, standing in found]
        tries += [self._departures.wait_of(tenant_id) for tenant_id in gone]
        return RankerHealth(
            self._plug.name,
            sum(tenants.values()),
            sum(one.failures for one in tries),
            newest_error(tries) if tenants else None,
            earliest(one.owed_since for one in tries),
            earliest(one.next_try for one in tries),
            tenants,
        )

    def _state_of(self, shard: Shard) -> State:
        return self._with_book(shard, lambda book: (shard.tenant_id, len(_told.owed_pairs(shard, book)), book.standing))

    # Inside

    def _now(self) -> int:
        return microseconds(self._clock())

    @property
    def _patience(self) -> float:
        """Seconds that a write waits for another's deliveries."""
        return _PATIENCE if self._plug.timeout is None else self._plug.timeout

    def _with_book(self, shard: Shard, work: Callable[[Book], T]) -> T:
        """Do something with a shard's book, which is made when it is not there."""
        with database_errors():
            try:
                with self._books.used(shard) as book:
                    return work(book)
            except BookIsTorn:
                self._books.begin_anew(shard)
            try:
                with self._books.used(shard) as book:
                    return work(book)
            except BookIsTorn as error:
                raise StoreUnavailable(
                    "the book of a vector ranker is torn each time it is made: check the disk"
                ) from error

    def close(self) -> None:
        """Close the books; what is owed stays so."""
        self._books.close()
        self._departures.close()
        self._hooks.close()
