"""Files beside a shard's database, memory-mapped by readers: its vectors in the order of the rows, and their codes.

They are derived. Only who holds the shard's write transaction writes them, before it commits, and makes them durable
first; so what a committed state speaks of is there, and what lies behind it is nobody's. Readers of any process map
the same pages. A file that is missing or too short is written anew from the database.
"""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


class SideFileIsTorn(Exception):  # an incident, not an error: the shard writes the file anew
    """A side file is missing, or shorter than the database says."""


class SideFile:
    """Equal items, each an array of one shape, one behind the other in a file."""

    def __init__(self, path: Path, dtype: np.dtype[Any] | str, shape: tuple[int, ...]) -> None:
        self.path = path
        self.dtype = np.dtype(dtype)
        self._shape = shape
        self._item = self.dtype.itemsize * int(np.prod(shape))
        self._mapped: NDArray[Any] = np.zeros((0, *shape), dtype=self.dtype)
        self._handle: int | None = None

    def view(self, items: int) -> NDArray[Any]:
        """Return the first `items` items, read-only and not copied; SideFileIsTorn when there are not so many."""
        if items > len(self._mapped):
            self._map()
        if items > len(self._mapped):
            raise SideFileIsTorn(self.path.name)
        return self._mapped[:items]

    def _map(self) -> None:
        try:
            with self.path.open("rb") as file:
                whole = os.fstat(file.fileno()).st_size // self._item
                if whole:
                    mapped = mmap.mmap(file.fileno(), whole * self._item, access=mmap.ACCESS_READ)
                    self._mapped = np.frombuffer(mapped, dtype=self.dtype).reshape(whole, *self._shape)
        except FileNotFoundError:
            raise SideFileIsTorn(self.path.name) from None

    def holds(self, items: int) -> bool:
        """Tell whether the file is there with at least so many items."""
        try:
            return self.path.stat().st_size >= items * self._item
        except FileNotFoundError:
            return items == 0

    def write(self, first: int, items: NDArray[Any]) -> None:
        """Write items at their place. The caller holds the shard's write transaction."""
        if self._handle is None:
            self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
        os.lseek(self._handle, first * self._item, os.SEEK_SET)
        rest = memoryview(np.ascontiguousarray(items, dtype=self.dtype).tobytes())
        while rest:
            rest = rest[os.write(self._handle, rest) :]

    def sync(self) -> None:
        """Make what was written durable."""
        if self._handle is not None:
            os.fdatasync(self._handle) if hasattr(os, "fdatasync") else os.fsync(self._handle)

    def close(self) -> None:
        """Let the file go; views that were handed out stay good."""
        self._mapped = np.zeros((0, *self._shape), dtype=self.dtype)
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
