"""The dense leg: which of the allowed rows are nearest to a query.

Few rows are compared one by one. Of many, their codes choose candidates, and the vectors decide among those.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from stackroom.stores import _ranking
from stackroom.stores.embedded import _codes
from stackroom.stores.embedded._columns import Growing
from stackroom.stores.embedded._sidefiles import SideFile, SideFileIsTorn

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from numpy.typing import NDArray

    from stackroom.stores.embedded._catalogue import Rows

EXACT_ROWS: Final = 2048
"""Up to so many allowed rows are compared one by one: cheaper than codes, and certain."""

_NEAREST: Final = 10
_SAMPLES: Final = 8

_SINGLE: Final = float(np.finfo(np.float32).eps)


Numbering: TypeAlias = tuple[int, int]
"""A shard's number and the numbering of its rows: together they name side files that never mean anything else."""


def prefix_of(numbering: Numbering) -> str:
    """Return how the names of a numbering's side files begin."""
    shard, layout = numbering
    return f"codes.{shard}.{layout}."


class RowsFile:
    """The file of a shard's vectors, scaled by powers of two, and of their lengths, in the order of the rows."""

    def __init__(self, directory: Path, numbering: Numbering, dimension: int) -> None:
        item = np.dtype([("vector", "<f4", (dimension,)), ("norm", "<f8")])
        self._file = SideFile(directory / f"{prefix_of(numbering)}vectors", item, ())
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


def codes_file(directory: Path, numbering: Numbering, quantiser: _codes.Quantiser) -> SideFile:
    """Return the file of the codes that a quantiser made, block by block."""
    name = f"{prefix_of(numbering)}{quantiser.epoch}.bits"
    return SideFile(directory / name, "<u8", (quantiser.words, _codes.BLOCK))


def stored_quantiser(reader: sqlite3.Connection) -> _codes.Quantiser | None:
    """Return the shard's quantiser, or None while it has too few rows for one."""
    found = reader.execute("SELECT * FROM quantiser").fetchone()
    return None if found is None else _codes.quantiser_of(found)


class Vectors:
    """Follows one numbering of a shard's rows: maps its side files, and keeps the codes of the unfinished block."""

    def __init__(self, directory: Path, numbering: Numbering, dimension: int) -> None:
        self._directory = directory
        self._numbering = numbering
        self._rows = RowsFile(directory, numbering, dimension)
        self._is_trusted = False
        self._codes: SideFile | None = None
        self._quantiser: _codes.Quantiser | None = None
        self._newest: Growing | None = None

    def follow(self, reader: sqlite3.Connection, coded: int, rows: int) -> Snapshot:
        """Return what there is of `rows` rows, `coded` of them with codes; SideFileIsTorn when it is not all there."""
        vectors, norms = self._rows.vectors(rows), self._rows.norms(rows)
        if not self._is_trusted:
            self._look_at_samples(reader, vectors)
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

    def _look_at_samples(self, reader: sqlite3.Connection, vectors: NDArray[np.float32]) -> None:
        """Compare some vectors of the file with the database's; SideFileIsTorn when they are others.

        A file may be long enough and yet hold something else: a lost page, a restored backup.
        """
        samples = reader.execute(
            "SELECT first_row, rows FROM source JOIN vectors ON vectors.source = source.number"
            " WHERE source.number IN (SELECT number FROM source WHERE number % ? = 0 LIMIT ?)",
            (1 + len(vectors) // 1000, _SAMPLES),
        )
        for first, stored in samples:
            scaled = _ranking.power_scaled(vectors_of(stored, vectors.shape[1]))
            if not np.array_equal(vectors[first : first + len(scaled)], scaled):
                raise SideFileIsTorn(self._rows.path.name)
        self._is_trusted = True

    def _follow_quantiser(self, reader: sqlite3.Connection) -> None:
        epoch, calibrated = reader.execute("SELECT epoch, calibrated FROM quantiser").fetchone()
        known = self._quantiser
        if known is not None and (known.epoch, known.calibrated) == (epoch, calibrated):
            return
        fresh = stored_quantiser(reader)
        if fresh is not None and (known is None or known.epoch != epoch):
            self._codes = codes_file(self._directory, self._numbering, fresh)
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
        """Return rows that hold the best `limit` of the allowed, and their exact cosines, in no order.

        SideFileIsTorn when a row turns out to be none.
        """
        single = query.astype(np.float32)
        wanted = None
        if not exact and len(allowed) > EXACT_ROWS and self.quantiser is not None:
            wanted = self.quantiser.needed(len(allowed), limit)
        rows = allowed
        if wanted is not None:
            rows, rough = self._candidates(allowed, single, wanted, limit)
            rows = self._near(rows, rough, limit)
        elif len(allowed) > limit:
            rows = self._near(allowed, self._rough(allowed, single), limit)
        return rows, self.exact_scores(rows, query)

    def _near(self, rows: Rows, rough: NDArray[np.float32], limit: int) -> Rows:
        """Return the rows that may be among the best `limit`, as float32 is off by twice its bound at most."""
        if len(rows) <= limit:
            return rows
        found: Rows = rows[rough >= _ranking.lowest_of_best(rough, limit) - 2 * _SINGLE * self.vectors.shape[1]]
        return found

    def exact_scores(self, rows: Rows, query: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the cosines of rows."""
        return _ranking.cosines(self.vectors[rows], self._norms(rows), query)

    def _norms(self, rows: Rows) -> NDArray[np.float64]:
        norms: NDArray[np.float64] = self.norms[rows]
        if not (norms > 0).all():  # NaN too
            raise SideFileIsTorn("vectors")
        return norms

    def _candidates(
        self, allowed: Rows, query: NDArray[np.float32], wanted: int, limit: int
    ) -> tuple[Rows, NDArray[np.float32]]:
        """Return allowed rows whose codes are nearest, and their cosines in float32.

        At first as many as were measured to be enough. As long as the last half still brought some of the best, twice
        as many: queries need not be like what is stored, nor what is stored like what was measured.
        """
        distance = self._distances(allowed, query)
        reached = np.cumsum(np.bincount(distance))
        places: list[NDArray[np.int64]] = []
        scores: list[NDArray[np.float32]] = []
        last = -1
        while True:
            bound = int(np.searchsorted(reached, min(wanted, len(allowed))))
            fresh = np.flatnonzero((distance > last) & (distance <= bound))
            rough = self._rough(allowed[fresh], query)
            is_enough = bool(places) and not _brings_some_of_the_best(scores, rough, limit)
            places.append(fresh)
            scores.append(rough)
            last = bound
            found = int(reached[bound])
            if is_enough or found == len(allowed):
                return allowed[np.concatenate(places)], np.concatenate(scores)
            wanted = len(allowed) if 2 * found > len(allowed) // 2 else 2 * found

    def _distances(self, allowed: Rows, query: NDArray[np.float32]) -> NDArray[np.unsignedinteger[Any]]:
        """Return the Hamming distances of the codes of allowed rows to a query's."""
        if self.quantiser is None or self.blocks is None or self.newest is None:
            raise AssertionError("only a quantiser says how many candidates are needed")
        code = self.quantiser.encode(query[None, :])[0]
        coded = len(self.blocks) * _codes.BLOCK
        split = int(np.searchsorted(allowed, coded))
        if split > coded // 4:
            distance = _codes.distances(self.blocks, code)[allowed[:split]]
        else:
            distance = _codes.distances_of(self.blocks, allowed[:split], code)
        newest = np.bitwise_count(self.newest[allowed[split:] - coded] ^ code).sum(axis=1, dtype=distance.dtype)
        return np.concatenate([distance, newest])

    def _rough(self, rows: Rows, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the cosines of rows in float32: off by less than dimension · 2⁻²³ (Higham 2002, §3.1)."""
        rough = np.empty(len(rows), dtype=np.float32)
        for first in range(0, len(rows), _codes.BLOCK):
            some = rows[first : first + _codes.BLOCK]
            products = np.einsum("ij,j->i", self.vectors[some], query)  # BLAS would wake threads for so little
            rough[first : first + _codes.BLOCK] = products / self._norms(some)
        return rough


def _brings_some_of_the_best(scores: list[NDArray[np.float32]], fresh: NDArray[np.float32], limit: int) -> bool:
    """Tell whether some of the newest candidates are among the best `limit`, or among the best ten."""
    every = np.concatenate([*scores, fresh])
    best = max(limit, _NEAREST)
    return len(every) <= best or bool((fresh >= _ranking.lowest_of_best(every, best)).any())


def vectors_of(stored: bytes, dimension: int) -> NDArray[np.float32]:
    """Return a source's vectors, shape (passages, dimension), read-only, from what its row holds."""
    return np.frombuffer(stored, dtype="<f4").reshape(-1, dimension)


def stored_vectors(vectors: NDArray[np.float32]) -> bytes:
    """Return what a source's row holds of its vectors: float32, little-endian, in the order of the passages."""
    return vectors.astype("<f4", copy=False).tobytes()
