"""How a caller asks for the end of a long run: by a CancelToken, from any thread, or by cancelling its task."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from stackroom._errors import IndexingCancelled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CHECK: Final[ContextVar[Callable[[], object] | None]] = ContextVar("stackroom_interruption", default=None)


class CancelToken:
    """Asks what it was handed to to end soon. Any thread may cancel or look; cancelling twice is fine."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def cancel(self) -> None:
        """Ask for the end."""
        self._event.set()

    @property
    def cancelled(self) -> bool:
        """Whether the end was asked for."""
        return self._event.is_set()

    def raise_if_cancelled(self) -> None:
        """Raise IndexingCancelled when the end was asked for."""
        if self.cancelled:
            raise IndexingCancelled("cancelled by the caller's token")

    def wait(self, seconds: float) -> None:
        """Wait so long, and no longer than until the end is asked for: IndexingCancelled then, at once."""
        self._event.wait(seconds)
        self.raise_if_cancelled()


@contextmanager
def interrupted_by(check: Callable[[], object]) -> Iterator[None]:
    """Let `check` end the calls within, by what it raises, where they would wait or write."""
    before = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(before)


def raise_if_interrupted() -> None:
    """Raise what ends the present call, if anything does."""
    check = _CHECK.get()
    if check is not None:
        check()
