"""CancelToken: how a caller asks a long run to end, from any thread."""

from __future__ import annotations

import threading

from stackroom._errors import IndexingCancelled


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
