"""A process of its own, for what a test of two handles in one process cannot see."""

from __future__ import annotations

import os
import signal
import time
import traceback
import warnings
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from stackroom.stores import VectorStore

_PATIENCE: Final = 60.0
_FAILED: Final = 1


def in_a_child(reopen: Callable[[], VectorStore], work: Callable[[VectorStore], object]) -> None:
    """Do something with a handle of a child process's own, which is killed at once afterwards: nothing is closed.

    What fails in the child fails here, with its traceback printed. Skips where the system has no fork.
    """
    if not hasattr(os, "fork"):
        pytest.skip("not applicable: this system has no fork")
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # of a fork beside threads: the child execs nothing and dies
        child = os.fork()
    if child == 0:
        _work_and_die(reopen, work)
    status = _waited_for(child)
    was_killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert was_killed, "another process could not do its part; what it raised is on stderr"


def _work_and_die(reopen: Callable[[], VectorStore], work: Callable[[VectorStore], object]) -> None:
    try:
        work(reopen())
        os.kill(os.getpid(), signal.SIGKILL)
    except BaseException:  # noqa: BLE001 - told to the parent by the exit code
        traceback.print_exc()
    os._exit(_FAILED)


def _waited_for(child: int) -> int:
    """Return how a child ended; one that hangs is killed and fails the test."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.005)
    os.kill(child, signal.SIGTERM)
    os.waitpid(child, 0)
    pytest.fail("another process hangs with a handle of its own")
