"""Holding off the writers of a shelf while a swap looks at all of it: a note with a lease, which writers look for."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Final, Self

from stackroom._errors import StoreUnavailable

if TYPE_CHECKING:
    from stackroom.stores.generations._engine import Engine

LEASE_SECONDS: Final = 60.0
"""How long a swap may be silent before writers go on."""


class HoldOff:
    """No writer begins on a shelf between its begin and its end, as long as it is renewed in time."""

    def __init__(self, engine: Engine, shelf: str) -> None:
        self.shelf = shelf
        self._engine = engine
        self._mark = b""
        self._until = 0.0

    def __enter__(self) -> Self:
        there = self._engine.note(_name(self.shelf))
        if there is not None and _end(there) > time.time():
            raise StoreUnavailable("this collection is being swapped by somebody else; try again")
        self._write(there)
        return self

    def renew(self) -> None:
        """Go on for another lease. StoreUnavailable when the last one was over: a writer may have begun."""
        if time.time() > self._until:
            raise StoreUnavailable("the swap took too long, and writers have gone on; nothing was changed: try again")
        if self._until - time.time() < LEASE_SECONDS / 2:
            self._write(self._mark)

    def _write(self, expected: bytes | None) -> None:
        until = time.time() + LEASE_SECONDS
        mark = f"{until} {secrets.token_hex(8)}".encode()
        if not self._engine.write_note(_name(self.shelf), mark, expected):
            raise StoreUnavailable("this collection is being swapped by somebody else; try again")
        self._mark, self._until = mark, until

    def __exit__(self, *_: object) -> None:
        self._engine.write_note(_name(self.shelf), None, self._mark)


def is_held_off(engine: Engine, shelf: str) -> bool:
    """Tell whether writers of a shelf must wait."""
    content = engine.note(_name(shelf))
    return content is not None and _end(content) > time.time()


def _name(shelf: str) -> str:
    return f"swap.{shelf}"


def _end(content: bytes) -> float:
    return float(content.split()[0])
