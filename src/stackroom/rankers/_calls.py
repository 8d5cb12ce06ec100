"""Calling what may never return: on a thread of its own, waited for as long as it may take, then left behind."""

from __future__ import annotations

import threading
from contextvars import copy_context
from queue import SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from stackroom.rankers._failures import TIMED_OUT, Failure, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

T = TypeVar("T")

NOT_BEGUN: Final = Failure("RuntimeError")
"""There was no thread for a call."""

_IDLE_THREADS: Final = 4
"""Threads kept for the next calls; more are made while more run at once."""


class Call(Generic[T]):
    """One call on its way. Work that consists of steps tells when each begins: the time allowed is a step's."""

    def __init__(self, work: Callable[[Call[T]], T], context: Context) -> None:
        self.began = monotonic()
        self.is_abandoned = False
        self.is_done = threading.Event()
        self.result: T | None = None
        self.raised: BaseException | None = None
        self._work = work
        self._context = context

    def step(self) -> bool:
        """Begin a step; False when nobody waits for it any more."""
        self.began = monotonic()
        return not self.is_abandoned

    def run(self) -> None:
        """Do the work, and keep what it answers or raises."""
        try:
            self.result = self._context.run(self._work, self)
        except BaseException as error:  # noqa: BLE001 - handed over to who waits
            self.raised = error


class Calls:
    """Runs calls within `timeout` seconds each; None runs them on the caller's thread and waits.

    While `most_abandoned` calls have not returned, no new one is begun.
    """

    def __init__(self, timeout: float | None, most_abandoned: int | None = None) -> None:
        self.timeout = timeout
        self._most_abandoned = most_abandoned
        self._lock = threading.Lock()
        self._abandoned = 0
        self._idle: list[SimpleQueue[Call[object] | None]] = []
        self._is_closed = False

    def run(self, work: Callable[[Call[T]], T], *, keeps_cause: bool = False) -> T | Failure:
        """Return what `work` answers, or its failure. What is no `Exception` is raised as it is."""
        with self._lock:
            if self._most_abandoned is not None and self._abandoned >= self._most_abandoned:
                return TIMED_OUT
        call = Call(work, copy_context())
        if self.timeout is None:
            call.run()
        else:
            try:
                worker = self._worker()
            except RuntimeError:  # the system has no more threads
                return NOT_BEGUN
            if not self._finished_in_time(call, worker, self.timeout):
                return TIMED_OUT
        raised, call.raised = call.raised, None
        if raised is None:
            return call.result  # type: ignore[return-value] # there, when nothing was raised
        if not isinstance(raised, Exception):
            raise raised
        return Failure(kind_of(raised), raised if keeps_cause else None)

    def _finished_in_time(self, call: Call[T], worker: SimpleQueue[Call[object] | None], timeout: float) -> bool:
        try:
            worker.put(call)  # type: ignore[arg-type] # what it answers is the caller's business
            while not call.is_done.wait(max(0.0, call.began + timeout - monotonic())):
                if monotonic() >= call.began + timeout:
                    return self._has_ended(call)
        except BaseException:  # whoever waits is interrupted: nobody does any more
            self._has_ended(call)
            raise
        return True

    def _has_ended(self, call: Call[T]) -> bool:
        """Tell whether a call has just ended after all; if not, leave it behind."""
        with self._lock:
            if not call.is_done.is_set():
                call.is_abandoned = True
                self._abandoned += 1
            return not call.is_abandoned

    def _worker(self) -> SimpleQueue[Call[object] | None]:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        calls: SimpleQueue[Call[object] | None] = SimpleQueue()
        threading.Thread(target=self._serve, args=(calls,), name="stackroom-ranker", daemon=True).start()
        return calls

    def _serve(self, calls: SimpleQueue[Call[object] | None]) -> None:
        while (call := calls.get()) is not None:
            call.run()
            with self._lock:
                self._abandoned -= call.is_abandoned
                is_kept = not self._is_closed and len(self._idle) < _IDLE_THREADS
                if is_kept:
                    self._idle.append(calls)
                call.is_done.set()
            del call  # what it holds of a ranker's exception must not wait for the next call
            if not is_kept:
                return

    def close(self) -> None:
        """Let the threads end; one that has been left behind ends when its call returns."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for calls in idle:
            calls.put(None)
