"""The counter of numbers: taken in large pieces, each in a transaction of its own, and never given out twice.

Tenants thus never wait for each other because of it. What a process does not use is lost, which does not matter: there
are enough for a million years of writes.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from stackroom._errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

_PIECE: Final = 1 << 20
_END: Final = 1 << 62


class NumbersAreMissing(Exception):
    """The piece at hand is used up: take another outside of any transaction, and begin anew."""

    def __init__(self, count: int) -> None:
        super().__init__("no numbers left")
        self.count = count


class Numbers:
    """Gives out numbers. `take` is told how many, and answers the first of so many that were never given before."""

    def __init__(self, take: Callable[[int], int]) -> None:
        self._take = take
        self._lock = threading.Lock()
        self._refilling = threading.Lock()
        self._next = 0
        self._end = 0

    def some(self, count: int = 1) -> int:
        """Return the first of `count` numbers that nobody else has; NumbersAreMissing when there are too few."""
        with self._lock:
            if self._next + count > self._end:
                raise NumbersAreMissing(count)
            first = self._next
            self._next += count
            return first

    def refill(self, count: int) -> None:
        """See that so many are at hand; called outside of transactions.

        Nobody within one ever waits for this: it may have to wait for that very transaction to end.
        """
        with self._refilling:
            if self._next + count <= self._end:
                return
            size = max(_PIECE, count)
            first = self._take(size)
            if first + size > _END:
                raise StoreError("the library has used up its numbers; copy it into a new one")
            with self._lock:
                self._next, self._end = first, first + size
