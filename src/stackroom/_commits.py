"""Word from a store to whoever writes to it: what was written is durable, though the call goes on."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_HEARD: Final[ContextVar[Callable[[], object] | None]] = ContextVar("stackroom_heard_of_the_commit", default=None)


@contextmanager
def hearing_of_the_commit(hear: Callable[[], object]) -> Iterator[None]:
    """Call `hear` when a store says that it has committed what is written within; a store need not say so."""
    before = _HEARD.set(hear)
    try:
        yield
    finally:
        _HEARD.reset(before)


def committed() -> None:
    """Say that what the present call writes is durable: whoever waits for that alone need wait no longer."""
    hear = _HEARD.get()
    if hear is not None:
        hear()
