"""One write of one tenant, from its lease to the sweeping of what it replaced."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from stackroom._errors import StoreError, StoreUnavailable
from stackroom.stores._tokens import conjunction
from stackroom.stores.generations import _heads
from stackroom.stores.generations._engine import ShelfIsGone
from stackroom.stores.generations._rows import of_generation, of_tenant

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stackroom.stores._tokens import Form
    from stackroom.stores.generations._engine import Engine, Row
    from stackroom.stores.generations._heads import Head

LEASE_SECONDS: Final = 25.0
"""How long a writer may be silent before another takes its turn: less than the other is willing to wait."""

_POLL_SECONDS: Final = 0.02
_BATCH_ROWS: Final = 500
_BATCH_CHARACTERS: Final = 2_000_000

_log = logging.getLogger("stackroom.stores")


class Turn:
    """A writer's turn at one tenant. What it stages counts from `commit` on, all at once."""

    def __init__(self, engine: Engine, shelf: str, head: Head, content: bytes, overwritten: bytes | None) -> None:
        self._engine = engine
        self._overwritten = overwritten
        self._shelf = shelf
        self._head = head
        self._content = content
        self._staged = 0
        self._has_begun = False
        self.counts = head.counts
        """The condition of the rows that count while nothing is committed."""

    @property
    def number(self) -> int:
        """The number of this write, which becomes the version of all that it touches."""
        return self._head.number

    def stage(self, rows: Iterable[Row]) -> None:
        """Write rows that no reader takes yet."""
        for batch in _batches(rows):
            self._keep()
            self._has_begun = True
            self._engine.put(self._shelf, batch)
            self._staged += len(batch)

    def commit(self, sources: Iterable[str]) -> None:
        """Let what was staged count, and the older rows of `sources` no longer; then sweep those.

        StoreUnavailable, with nothing changed, when the engine lost rows or the turn went to another.
        """
        tenant, form = self._head.tenant, of_generation(self.number)
        if self._engine.count(self._shelf, tenant, self._of_tenant(form)) != self._staged:
            raise StoreUnavailable("the database did not keep all that was written; nothing was changed: try again")
        self._move(self._head.committed(tuple(sorted(sources))))
        try:
            self.sweep()
        except StoreError as error:
            _log.warning("replaced rows could not be swept (%s); the next write to the tenant does it", error)

    def leave(self) -> None:
        """Give the turn back; what was staged and not committed goes. A head that was not there before goes, too."""
        if self._head.phase == "staged" and not self._has_begun:
            self._engine.write_note(_heads.name_of(self._shelf, self._head.tenant), self._overwritten, self._content)
        elif self._head.phase != "idle":
            self.sweep()

    def sweep(self) -> None:
        """Erase what no longer counts, or never came to, and say that nothing is under way."""
        abandoned = self._head.abandoned
        if abandoned is not None:
            with suppress(ShelfIsGone):
                self._engine.erase(self._shelf, self._head.tenant, self._of_tenant(abandoned))
        self._move(self._head.ended())

    def _of_tenant(self, form: Form) -> Form:
        return conjunction([of_tenant(self._head.tenant), form])

    def _keep(self) -> None:
        """Renew the lease when half of it is over."""
        if self._head.until - time.time() < LEASE_SECONDS / 2:
            self._move(self._head.begun(self.number, self._head.holder, time.time() + LEASE_SECONDS))

    def _move(self, head: Head) -> None:
        content = _heads.written(head)
        if not self._engine.write_note(_heads.name_of(self._shelf, head.tenant), content, self._content):
            raise StoreUnavailable("this write took so long that another writer got its turn; nothing was changed")
        self._head, self._content = head, content


def _a_number() -> int:
    """Return a number that grows with the time, and that no other tenant has: milliseconds, then 21 random bits."""
    return (time.time_ns() // 1_000_000 << 21) | secrets.randbits(21)


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    characters = 0
    for row in rows:
        batch.append(row)
        characters += len(row.text) + len(row.metadata) + len(row.vector)
        if len(batch) >= _BATCH_ROWS or characters >= _BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


class Turns:
    """Gives turns: one writer a tenant, in this process by a lock, between processes by a lease on the head."""

    def __init__(self, engine: Engine, lock_timeout: float) -> None:
        self._engine = engine
        self._lock_timeout = lock_timeout
        self._mutex = threading.Lock()
        self._locks: dict[tuple[str, str], threading.Lock] = {}
        self._holder = secrets.token_hex(8)

    @contextmanager
    def turn(self, shelf: str, tenant_id: str) -> Iterator[Turn]:
        """Wait for a turn at a tenant, sweep what a dead writer left, and end it, whatever happens.

        StoreUnavailable when another writer keeps it for too long.
        """
        end = time.monotonic() + self._lock_timeout
        with self._mutex:
            lock = self._locks.setdefault((shelf, tenant_id), threading.Lock())
        if not lock.acquire(timeout=self._lock_timeout):
            raise StoreUnavailable(f"another write to this tenant has gone on for over {self._lock_timeout:g} s")
        try:
            turn = self._taken(shelf, tenant_id, end)
            try:
                yield turn
            except BaseException:
                with suppress(StoreError):
                    turn.leave()
                raise
            turn.leave()
        finally:
            lock.release()

    def _taken(self, shelf: str, tenant_id: str, end: float) -> Turn:
        name = _heads.name_of(shelf, tenant_id)
        while True:
            content = self._engine.note(name)
            head = _heads.Head(tenant_id) if content is None else _heads.read(content)
            now = time.time()
            if head.holder and head.until > now:
                if time.monotonic() > end:
                    raise StoreUnavailable(
                        f"another process has written to this tenant for over {self._lock_timeout:g} s; try again"
                    )
                time.sleep(_POLL_SECONDS)
            elif head.abandoned is not None:
                self._recover(shelf, head, content)
            else:
                begun = head.begun(max(head.number + 1, _a_number()), self._holder, now + LEASE_SECONDS)
                if self._engine.write_note(name, _heads.written(begun), content):
                    return Turn(self._engine, shelf, begun, _heads.written(begun), content)

    def _recover(self, shelf: str, head: Head, content: bytes | None) -> None:
        """Sweep what a dead writer left, under a lease; whoever is quicker does it."""
        held = replace(head, holder=self._holder, until=time.time() + LEASE_SECONDS)
        if self._engine.write_note(_heads.name_of(shelf, head.tenant), _heads.written(held), content):
            Turn(self._engine, shelf, held, _heads.written(held), content).sweep()

    def recover(self, shelf: str) -> int:
        """Sweep what dead writers left on a shelf; answer at how many tenants."""
        found = 0
        for content in self._engine.notes_of(_heads.prefix(shelf)).values():
            head = _heads.read(content)
            if head.abandoned is not None and head.until <= time.time():
                with self.turn(shelf, head.tenant):
                    found += 1
        return found
