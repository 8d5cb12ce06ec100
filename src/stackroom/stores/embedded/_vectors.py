"""The dense leg: a shard's vectors in memory, scanned exactly. A follower of the shard's tables, row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from stackroom.stores import _ranking
from stackroom.stores.embedded._catalogue import Catalogue, Growing, Rows

if TYPE_CHECKING:
    import sqlite3

    from numpy.typing import NDArray

_EXACT_AT_ONCE: Final = 2048
"""Up to so many rows are scored in float64 straight away; above, float32 chooses the rows that are."""

_SINGLE: Final = float(np.finfo(np.float32).eps)


class Vectors:
    """The vectors of a catalogue's rows. Rows of sources that went stay in place and are never allowed again."""

    def __init__(self, dimension: int) -> None:
        self._rows = Growing(np.float32, dimension)
        self._norms = Growing(np.float64)
        self._dimension = dimension

    def follow(self, reader: sqlite3.Connection, catalogue: Catalogue) -> None:
        """Read the vectors of the catalogue's rows that came since; the reader sees the catalogue's position."""
        behind = len(self._norms)
        total = len(catalogue.row_slots)
        for slot in catalogue.live_slots_from(behind):
            self._fill_up_to(catalogue.rows_of(slot).start)
            read = reader.execute("SELECT rows FROM vectors WHERE source = ?", (int(catalogue.numbers[slot]),))
            self._append(vectors_of(read.fetchone()[0], self._dimension))
        self._fill_up_to(total)

    def _append(self, rows: NDArray[np.float32]) -> None:
        scaled = _ranking.power_scaled(rows)
        self._rows.append(scaled)
        self._norms.append(_ranking.row_norms(scaled))

    def _fill_up_to(self, row: int) -> None:
        """Stand in for rows whose source went before it was read."""
        missing = row - len(self._norms)
        if missing > 0:
            self._rows.append(np.zeros((missing, self._dimension), dtype=np.float32))
            self._norms.append(np.ones(missing))

    def snapshot(self) -> Snapshot:
        """Return what is there now; later rows do not change it."""
        return Snapshot(self._rows.view(), self._norms.view())


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Vectors as of one place in the journal, to be ranked without a lock."""

    rows: NDArray[np.float32]
    norms: NDArray[np.float64]

    def scores(self, allowed: Rows, query: NDArray[np.float64], limit: int) -> tuple[Rows, NDArray[np.float64]]:
        """Return rows that hold the best `limit` of the allowed, and their exact cosines, in no order.

        Many rows are judged in float32 first. A float32 cosine is off by less than dimension · 2⁻²³ on either side
        (Higham 2002, §3.1), so whatever lies within twice that of the last place is scored exactly.
        """
        chosen = allowed
        if len(allowed) > max(_EXACT_AT_ONCE, limit):
            rough = self._rough(allowed, query.astype(np.float32))
            last = np.partition(rough, len(rough) - limit)[len(rough) - limit]
            chosen = allowed[rough >= last - 2 * _SINGLE * self.rows.shape[1]]
        return chosen, _ranking.cosines(self.rows[chosen], self.norms[chosen], query)

    def _rough(self, allowed: Rows, query: NDArray[np.float32]) -> NDArray[np.float64]:
        products = self.rows @ query
        return np.asarray(products[allowed] / self.norms[allowed], dtype=np.float64)


def vectors_of(stored: bytes, dimension: int) -> NDArray[np.float32]:
    """Return a source's vectors, shape (passages, dimension), read-only, from what its row holds."""
    return np.frombuffer(stored, dtype="<f4").reshape(-1, dimension)


def stored_vectors(vectors: list[NDArray[np.float32]]) -> bytes:
    """Return what a source's row holds of its vectors: float32, little-endian, in the order of the passages."""
    return np.stack(vectors).astype("<f4", copy=False).tobytes()
