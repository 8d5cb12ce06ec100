"""The dense leg: which of the allowed rows are nearest to a query.

Few rows are compared one by one. Of many, their codes choose candidates, and the vectors decide among those.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from stackroom.stores import _ranking
from stackroom.stores.embedded import _codes
from stackroom.stores.embedded._columns import Growing
from stackroom.stores.embedded._sidefiles import SideFile

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from numpy.typing import NDArray

    from stackroom.stores.embedded._catalogue import Rows

EXACT_ROWS: Final = 2048
"""Up to so many allowed rows are compared one by one: cheaper than codes, and certain."""

_SINGLE: Final = float(np.finfo(np.float32).eps)


class RowsFile:
    """The file of a shard's vectors, scaled by powers of two, and of their lengths, in the order of the rows."""

    def __init__(self, directory: Path, layout: int, dimension: int) -> None:
        item = np.dtype([("vector", "<f4", (dimension,)), ("norm", "<f8")])
        self._file = SideFile(directory / f"codes.{layout}.vectors", item, ())
        self.path = self._file.path

    def vectors(self, rows: int) -> NDArray[np.float32]:
        """Return the vectors of the first `rows` rows, not copied; SideFileIsTorn when there are not so many."""
        found: NDArray[np.float32] = self._file.view(rows)["vector"]
        return found

    def norms(self, rows: int) -> NDArray[np.float64]:
        """Return the lengths of those vectors, not copied."""
        found: NDArray[np.float64] = self._file.view(rows)["norm"]
        return found

    def holds(self, rows: int) -> bool:
        """Tell whether it is there with at least so many rows."""
        return self._file.holds(rows)

    def write(self, first: int, vectors: NDArray[np.float32]) -> None:
        """Write vectors from row `first` on. Only who holds the shard's write transaction does."""
        items = np.empty(len(vectors), dtype=self._file.dtype)
        items["vector"] = _ranking.power_scaled(vectors)
        items["norm"] = _ranking.row_norms(items["vector"])
        self._file.write(first, items)

    def reach(self, rows: int) -> None:
        """Make it as long as `rows` rows; rows that were never written have a vector of zeros."""
        if rows and not self.holds(rows):
            self.write(rows - 1, np.zeros((1, self._file.dtype["vector"].shape[0]), dtype=np.float32))

    def sync(self) -> None:
        """Make what was written durable."""
        self._file.sync()

    def close(self) -> None:
        """Let the file go."""
        self._file.close()


def codes_file(directory: Path, layout: int, quantiser: _codes.Quantiser) -> SideFile:
    """Return the file of the codes that a quantiser made, block by block."""
    name = f"codes.{layout}.{quantiser.epoch}.bits"
    return SideFile(directory / name, "<u8", (quantiser.words, _codes.BLOCK))


def stored_quantiser(reader: sqlite3.Connection) -> _codes.Quantiser | None:
    """Return the shard's quantiser, or None while it has too few rows for one."""
    found = reader.execute("SELECT * FROM quantiser").fetchone()
    return None if found is None else _codes.quantiser_of(found)


class Vectors:
    """Follows one numbering of a shard's rows: maps its side files, and keeps the codes of the unfinished block."""

    def __init__(self, directory: Path, layout: int, dimension: int) -> None:
        self._directory = directory
        self._layout = layout
        self._rows = RowsFile(directory, layout, dimension)
        self._codes: SideFile | None = None
        self._quantiser: _codes.Quantiser | None = None
        self._newest: Growing | None = None

    def follow(self, reader: sqlite3.Connection, coded: int, rows: int) -> Snapshot:
        """Return what there is of `rows` rows, `coded` of them with codes; SideFileIsTorn when it is not all there."""
        vectors, norms = self._rows.vectors(rows), self._rows.norms(rows)
        if not coded:
            return Snapshot(vectors, norms, None, None, None)
        self._follow_quantiser(reader)
        if self._quantiser is None or self._codes is None or self._newest is None:
            return Snapshot(vectors, norms, None, None, None)
        blocks = self._codes.view(coded // _codes.BLOCK)
        if self._behind != coded:
            self._behind, self._newest = coded, Growing(np.uint64, self._quantiser.words)
        done = coded + len(self._newest)
        if rows > done:
            self._newest.append(self._quantiser.encode(vectors[done:rows]))
        return Snapshot(vectors, norms, self._quantiser, blocks, self._newest.view()[: rows - coded])

    def _follow_quantiser(self, reader: sqlite3.Connection) -> None:
        epoch, calibrated = reader.execute("SELECT epoch, calibrated FROM quantiser").fetchone()
        known = self._quantiser
        if known is not None and (known.epoch, known.calibrated) == (epoch, calibrated):
            return
        fresh = stored_quantiser(reader)
        if fresh is not None and (known is None or known.epoch != epoch):
            self._codes = codes_file(self._directory, self._layout, fresh)
            self._behind, self._newest = 0, Growing(np.uint64, fresh.words)
        self._quantiser = fresh

    _behind = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Vectors and codes as of one place in the journal, to be ranked without a lock."""

    vectors: NDArray[np.float32]
    norms: NDArray[np.float64]
    quantiser: _codes.Quantiser | None
    blocks: NDArray[np.uint64] | None
    newest: NDArray[np.uint64] | None

    def scores(
        self, allowed: Rows, query: NDArray[np.float64], limit: int, *, exact: bool
    ) -> tuple[Rows, NDArray[np.float64]]:
        """Return rows that hold the best `limit` of the allowed, and their exact cosines, in no order."""
        rows = allowed
        if not exact and len(rows) > EXACT_ROWS:
            rows = self._candidates(rows, query, limit)
        if len(rows) > limit:
            rows = self._near(rows, query.astype(np.float32), limit)
        return rows, self.exact_scores(rows, query)

    def exact_scores(self, rows: Rows, query: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the cosines of rows."""
        return _ranking.cosines(self.vectors[rows], self.norms[rows], query)

    def _candidates(self, allowed: Rows, query: NDArray[np.float64], limit: int) -> Rows:
        """Return the allowed rows whose codes are nearest, as many as were measured to be enough."""
        if self.quantiser is None or self.blocks is None or self.newest is None:
            return allowed
        wanted = self.quantiser.needed(len(allowed), limit)
        if wanted is None:
            return allowed
        code = self.quantiser.encode(query.astype(np.float32)[None, :])[0]
        coded = len(self.blocks) * _codes.BLOCK
        split = int(np.searchsorted(allowed, coded))
        if split > coded // 4:
            distance = _codes.distances(self.blocks, code)[allowed[:split]]
        else:
            distance = _codes.distances_of(self.blocks, allowed[:split], code)
        newest = np.bitwise_count(self.newest[allowed[split:] - coded] ^ code).sum(axis=1, dtype=np.uint32)
        found: Rows = allowed[_codes.within(np.concatenate([distance, newest]), wanted)]
        return found

    def _near(self, rows: Rows, query: NDArray[np.float32], limit: int) -> Rows:
        """Return the rows whose cosine in float32 may be among the best `limit`.

        It is off by less than dimension · 2⁻²³ (Higham 2002, §3.1), so what lies within twice that of the last place
        is kept, to be compared exactly.
        """
        rough = np.empty(len(rows), dtype=np.float32)
        for first in range(0, len(rows), _codes.BLOCK):
            some = rows[first : first + _codes.BLOCK]
            products = np.einsum("ij,j->i", self.vectors[some], query)  # BLAS would wake threads for so little
            rough[first : first + _codes.BLOCK] = products / self.norms[some]
        last = np.partition(rough, len(rough) - limit)[len(rough) - limit]
        found: Rows = rows[rough >= last - 2 * _SINGLE * self.vectors.shape[1]]
        return found


def vectors_of(stored: bytes, dimension: int) -> NDArray[np.float32]:
    """Return a source's vectors, shape (passages, dimension), read-only, from what its row holds."""
    return np.frombuffer(stored, dtype="<f4").reshape(-1, dimension)


def stored_vectors(vectors: NDArray[np.float32]) -> bytes:
    """Return what a source's row holds of its vectors: float32, little-endian, in the order of the passages."""
    return vectors.astype("<f4", copy=False).tobytes()
