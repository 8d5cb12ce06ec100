"""Calling a ranker's hooks: one tenant's calls never overlap, each has its time, and what fails is told by its kind."""

from __future__ import annotations

import threading
from collections import defaultdict
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from stackroom.rankers._calls import NOT_BEGUN, Calls
from stackroom.rankers._failures import TIMED_OUT, kind_of
from stackroom.rankers._plug import refuse_coroutine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stackroom.rankers._calls import Call

MOST_FAILURES: Final = 8
"""After so many failures in a row the feed pauses."""


_IS_IN_A_HOOK: Final = ContextVar("stackroom_is_in_a_hook", default=False)


def patience(seconds: float) -> float:
    """Return how long to wait for others' deliveries: not at all within a hook, as they may be waiting for it."""
    return 0.0 if _IS_IN_A_HOOK.get() else seconds


class Turn:
    """The right to call the hooks of one tenant.

    It ends when both whoever took it and the calls have ended: a call that was given up keeps it until it returns.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._guard = threading.Lock()
        self._parts = 0
        self._is_calling = False
        self._is_left = False
        self._was_missed = False

    def take(self, seconds: float) -> bool:
        """Wait for it, at most so long; False when somebody else has it still.

        At once within a hook, or when a call was given up: it may never return.
        """
        if not self._lock.acquire(timeout=0 if self._is_left else patience(seconds)):
            self._was_missed = True
            return False
        self._parts, self._was_missed = 1, False
        return True

    def was_missed(self) -> bool:
        """Tell whether somebody has asked for it in vain since it was taken, or since this was last asked."""
        missed, self._was_missed = self._was_missed, False
        return missed

    def give_back(self) -> None:
        """End one's part in it; the last one ends it."""
        with self._guard:
            self._parts -= 1
            is_over = not self._parts
        if is_over:
            self._lock.release()

    def begin_calls(self) -> None:
        """Note that calls begin: they have a part in it."""
        with self._guard:
            self._parts += 1
            self._is_calling = True

    def end_calls(self) -> bool:
        """Note that calls have ended; True when nobody waits for them any more. Their part is to be given back."""
        with self._guard:
            was_left, self._is_left, self._is_calling = self._is_left, False, False
            return was_left

    def leave(self) -> bool:
        """Give up waiting for a call; False when it has just ended."""
        with self._guard:
            self._is_left = self._is_calling
            return self._is_left


@dataclass(slots=True)
class Report:
    """How a series of calls went: of each that returned the kind of its failure, or None."""

    outcomes: list[str | None] = field(default_factory=list)
    is_left: bool = False


class _Turns:
    """The turns of one ranker's tenants, whatever stores of this process it is plugged into, one after another too."""

    def __init__(self, ranker: object) -> None:
        self._ranker = ranker  # held, so that no other object has its identity meanwhile
        self._lock = threading.Lock()
        self._turns: dict[str, Turn] = defaultdict(Turn)

    def of(self, tenant_id: str) -> Turn:
        with self._lock:
            return self._turns[tenant_id]


_EVERY: Final[WeakValueDictionary[int, _Turns]] = WeakValueDictionary()
"""The turns of each ranker, by its identity: kept by the stores it is plugged into, and by calls under way."""

_EVERY_LOCK: Final = threading.Lock()


def _turns_of(ranker: object) -> _Turns:
    with _EVERY_LOCK:
        turns = _EVERY.get(id(ranker))
        if turns is None:
            turns = _EVERY[id(ranker)] = _Turns(ranker)
        return turns


class Hooks:
    """Calls a ranker's hooks, each within `timeout` seconds."""

    def __init__(self, ranker: object, timeout: float | None) -> None:
        self._calls = Calls(timeout)
        self._turns = _turns_of(ranker)

    def turn_of(self, tenant_id: str) -> Turn:
        """Return the turn of a tenant: all that use this ranker in this process share it."""
        return self._turns.of(tenant_id)

    def call(
        self,
        turn: Turn,
        steps: Sequence[Callable[[], object]],
        report: Report,
        in_row: int = 0,
        *,
        may_go_on: Callable[[], bool] = lambda: True,
        when_late: Callable[[int], object] = lambda _place: None,
    ) -> None:
        """Call one after the other, until the last, or the eighth failure in a row, or one that takes too long.

        Before each, `may_go_on` is asked. One that takes too long has failed with TimeoutError; when it returns after
        all, `when_late` hears its place. `report` is filled while they run: what is no `Exception` is raised, and what
        came before it stands there.
        """
        outcomes: list[str | None] = []
        turn.begin_calls()
        try:
            result = self._calls.run(partial(_call, self._turns, turn, steps, outcomes, in_row, may_go_on, when_late))
        except BaseException:  # a hook's, or of who waits: then a call may still be under way
            report.is_left = turn.leave()
            report.outcomes += outcomes
            raise
        report.is_left = result is TIMED_OUT and turn.leave()
        report.outcomes += outcomes
        if result is NOT_BEGUN:
            turn.end_calls()
            turn.give_back()
            report.outcomes.append(NOT_BEGUN.kind)
        if report.is_left:
            report.outcomes.append(TIMED_OUT.kind)

    def close(self) -> None:
        """Let the threads end."""
        self._calls.close()


def _call(
    _turns: _Turns,  # kept while the call is under way, also when every store has let it go
    turn: Turn,
    steps: Sequence[Callable[[], object]],
    outcomes: list[str | None],
    in_row: int,
    may_go_on: Callable[[], bool],
    when_late: Callable[[int], object],
    call: Call[None],
) -> None:
    _IS_IN_A_HOOK.set(True)  # in this call's own context
    try:
        for step in steps:
            if not call.step() or in_row >= MOST_FAILURES or not may_go_on():
                return
            outcome = _outcome(step)
            if call.is_abandoned:
                return
            outcomes.append(outcome)
            in_row = 0 if outcome is None else in_row + 1
    finally:
        try:
            if turn.end_calls():
                when_late(len(outcomes))
        finally:
            turn.give_back()


def _outcome(step: Callable[[], object]) -> str | None:
    try:
        refuse_coroutine(step())
    except Exception as error:  # noqa: BLE001 - a hook may raise anything; its kind is all that is told
        return kind_of(error)
    return None
