"""Telling a ranker of tenants that are gone: from the ledger, once more when it failed."""

from __future__ import annotations

import sqlite3
from functools import partial
from typing import TYPE_CHECKING

from stackroom.rankers._failures import log
from stackroom.stores.embedded._backoff import Wait
from stackroom.stores.embedded._ledger import FORGET, Ledger
from stackroom.stores.embedded._turns import Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stackroom.rankers._plug import Plug
    from stackroom.stores.embedded._directory import Directory
    from stackroom.stores.embedded._turns import Hooks, Turn


class Departures:
    """What one ranker is owed of tenants that are gone, and how it is told."""

    def __init__(self, plug: Plug, directory: Directory, hooks: Hooks) -> None:
        self._plug = plug
        self._hooks = hooks
        self._ledger = Ledger(directory, plug.durable_id)
        self._known: dict[str, int] | None = None
        self._waits: dict[str, Wait] = {}

    def owed(self) -> dict[str, int]:
        """Return the tenants of which something is owed, and how many passages; what other processes did included."""
        self._known = self._ledger.owed()
        return self._known

    def look_again(self) -> None:
        """Note that the ledger may have changed."""
        self._known = None

    def tenants(self) -> Iterable[str]:
        """Return the tenants of which something is owed, as far as was last looked."""
        return self.owed() if self._known is None else self._known

    def wait_of(self, tenant_id: str) -> Wait:
        """Return how tries to deliver what is owed of a tenant went."""
        return self._waits.get(tenant_id, Wait())

    def is_time(self, tenant_id: str, now: int) -> bool:
        """Tell whether what is owed of a tenant may be tried, or tried again."""
        return self.wait_of(tenant_id).is_over(now)

    def note(self, tenant_id: str, ids: Iterable[str]) -> None:
        """Note what the ranker holds of a tenant that went."""
        self._ledger.depart(tenant_id, ids, forgets=self._plug.forget is not None)
        self.look_again()

    def owe_again(self, tenant_id: str, entries: Iterable[str]) -> None:
        """Note entries of a tenant that a call has overtaken, or may have; whoever is told of them does no harm.

        A tenant that is there, by then or still, is told the newest state instead.
        """
        try:
            self._ledger.owe_again(tenant_id, entries)
        except sqlite3.Error as error:
            log.warning("it could not be noted that a vector ranker is owed a departure (%s)", type(error).__name__)
        self.look_again()

    def entries(self, tenant_id: str) -> list[str]:
        """Return the passages of a tenant whose going is owed; `FORGET` stands for all."""
        entries = self._all(tenant_id)
        if FORGET in entries and self._plug.hook is not None:
            if self._plug.forget is not None:
                return [FORGET]
            self.strike_off(tenant_id, [FORGET])
        return [entry for entry in entries if entry != FORGET or self._plug.hook is None]

    def _all(self, tenant_id: str) -> list[str]:
        return list(dict.fromkeys(self._ledger.entries(tenant_id))) if tenant_id in self.tenants() else []

    def strike_off(self, tenant_id: str, passages: Iterable[str]) -> None:
        """Strike off what need not be told."""
        self._ledger.strike_off(tenant_id, passages)
        self.look_again()

    def forget(self, tenant_id: str, turn: Turn, report: Report) -> None:
        """Let the ranker forget a tenant; `report` says how that went."""
        all_of_it = self._all(tenant_id)
        late = partial(self.owe_again, tenant_id, [FORGET])
        self._hooks.call(turn, [partial(self._forget, tenant_id)], report, when_late=lambda _place: late())
        if report.outcomes == [None]:
            self.strike_off(tenant_id, all_of_it)

    def _forget(self, tenant_id: str) -> object:
        return None if self._plug.forget is None else self._plug.forget(tenant_id=tenant_id)

    def tell(self, tenant_id: str, entries: list[str], turn: Turn, now: int) -> Report:
        """Tell that passages went, or a whole tenant; strike off what was delivered, and put behind what failed."""
        report = Report()
        all_of_it = self._all(tenant_id)
        try:
            self._hooks.call(
                turn,
                [self._step(tenant_id, entry) for entry in entries],
                report,
                when_late=lambda place: self.owe_again(tenant_id, [entries[place]]),
            )
        finally:
            self._hear(tenant_id, report, now)
            pairs = list(zip(entries, report.outcomes, strict=False))
            done = [entry for entry, kind in pairs if kind is None]
            if FORGET in done:
                done = all_of_it
            if done:
                self.strike_off(tenant_id, done)
            failed = [entry for entry, kind in pairs if kind is not None]
            if failed:
                self._ledger.stand_back(tenant_id, failed)
        return report

    def _hear(self, tenant_id: str, report: Report, now: int) -> None:
        wait = self._waits.setdefault(tenant_id, Wait())
        wait.hear(report, now)
        if not wait.level:
            del self._waits[tenant_id]

    def _step(self, tenant_id: str, entry: str) -> Callable[[], object]:
        if entry == FORGET or self._plug.hook is None:
            return partial(self._forget, tenant_id)
        return partial(self._plug.hook, tenant_id=tenant_id, passage_id=entry, vector=None)

    def deliver(self, tenant_id: str, seconds: float, now: int) -> None:
        """Deliver what is owed of a tenant that has no shard, unless a call of it is under way for longer."""
        entries = self.entries(tenant_id) if self._plug.hook is not None else [FORGET]
        turn = self._hooks.turn_of(tenant_id)
        if not entries or not turn.take(seconds):
            return
        try:
            self.tell(tenant_id, entries, turn, now)
        finally:
            turn.give_back()

    def close(self) -> None:
        """Let the ledger go."""
        self._ledger.close()
