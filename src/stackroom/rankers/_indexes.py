"""One index a tenant, under ids: what the rankers share whose index knows but numbers.

Held in memory, saved at closing. A directory that was closed cleanly is loaded; one that was not begins a state with a
new name, as what was told since the last saving is lost: so the store feeds all again. So does one that is torn, which
is put aside: no file is handed to an index that is not, byte for byte, what was saved.
"""

from __future__ import annotations

import json
import threading
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from stackroom.rankers._protocol import Ranked
from stackroom.rankers._torn import TornFile, checksum, put_aside

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from numpy.typing import NDArray

_STATE: Final = "state.json"
_FILES: Final = "*.index*"

_TORN: Final = (TornFile, FileNotFoundError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, EOFError)
"""What comes of reading a state that is torn, or was saved by another version."""


class NearestIndex(Protocol):
    """An index of one tenant under numbers; a number that was removed never comes again."""

    def put(self, label: int, vector: NDArray[np.float32]) -> None:
        """Take in a vector of length 1 under a new number."""
        ...

    def remove(self, label: int) -> None:
        """Take a number out that is in it."""
        ...

    def nearest(
        self, query: NDArray[np.float32], limit: int, labels: NDArray[np.int64] | None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return numbers and similarities of at most `limit` nearest, of `labels` where given: all are in it."""
        ...

    def save(self, file: Path) -> None:
        """Write it into a file."""
        ...


class IndexKind(Protocol):
    """Makes indexes."""

    def __call__(self, dimension: int, file: Path | None) -> NearestIndex:
        """Make an empty index, or load a saved one."""
        ...


@dataclass(slots=True)
class _Tenant:
    index: NearestIndex
    dimension: int
    labels: dict[str, int] = field(default_factory=dict)
    ids: dict[int, str] = field(default_factory=dict)
    next_label: int = 0

    def tell(self, passage_id: str, vector: NDArray[np.float32] | None) -> None:
        old = self.labels.pop(passage_id, None)
        if old is not None:
            del self.ids[old]
            self.index.remove(old)
        if vector is not None:
            label = self.next_label
            self.next_label += 1
            self.index.put(label, np.asarray(vector, dtype=np.float32))
            self.labels[passage_id], self.ids[label] = label, passage_id

    def nearest(self, query: NDArray[np.float32], candidate_ids: Sequence[str] | None, limit: int) -> list[Ranked]:
        labels = None
        if candidate_ids is not None:
            held = [self.labels[passage_id] for passage_id in candidate_ids if passage_id in self.labels]
            labels = np.asarray(held, dtype=np.int64)
        most = min(limit, len(self.labels) if labels is None else len(labels))
        if not most:
            return []
        found, scores = self.index.nearest(query, most, labels)
        return [
            Ranked(self.ids[label], score)
            for label, score in zip(found.tolist(), scores.tolist(), strict=True)
            if label in self.ids
        ]


class RankerIsClosed(Exception):
    """A ranker was asked or told after it was closed; what it was told stays owed."""


class TenantIndexes:
    """The indexes of all tenants; one lock, for none of them bears a search while it is written."""

    def __init__(self, make: IndexKind, path: str | os.PathLike[str] | None) -> None:
        self._make = make
        self._path = None if path is None else Path(path)
        self._lock = threading.Lock()
        self._tenants: dict[str, _Tenant] = {}
        self._is_closed = False
        self.durable_id = None if self._path is None else self._load(self._path)

    def _load(self, path: Path) -> str:
        """Load what was closed cleanly, and take its mark away; the name of a state begun anew is a new one."""
        path.mkdir(parents=True, exist_ok=True)
        mark = path / _STATE
        if not mark.exists():
            return uuid.uuid4().hex
        try:
            name = self._loaded(path, json.loads(mark.read_text(encoding="utf-8")))
        except _TORN:
            self._tenants.clear()
            put_aside([mark, *path.glob(_FILES)], path / "bad")
            return uuid.uuid4().hex
        mark.unlink()
        return name

    def _loaded(self, path: Path, saved: dict[str, Any]) -> str:
        if any(checksum(path / name) != expected for name, expected in saved["files"].items()):
            raise TornFile
        for one in saved["tenants"]:
            index = self._make(one["dimension"], path / one["file"])
            ids = {label: passage_id for passage_id, label in one["labels"].items()}
            self._tenants[one["tenant"]] = _Tenant(index, one["dimension"], one["labels"], ids, one["next_label"])
        return str(saved["id"])

    def rank(
        self, tenant_id: str, query: NDArray[np.float32], candidate_ids: Sequence[str] | None, limit: int
    ) -> list[Ranked]:
        """Return the nearest of a tenant's candidates."""
        with self._lock:
            self._check_open()
            tenant = self._tenants.get(tenant_id)
            return [] if tenant is None else tenant.nearest(query, candidate_ids, limit)

    def tell(self, tenant_id: str, passage_id: str, vector: NDArray[np.float32] | None) -> None:
        """Take a passage in, or out."""
        with self._lock:
            self._check_open()
            tenant = self._tenants.get(tenant_id)
            if tenant is None and vector is not None:
                tenant = self._tenants[tenant_id] = _Tenant(self._make(len(vector), None), len(vector))
            if tenant is not None:
                tenant.tell(passage_id, vector)

    def forget(self, tenant_id: str) -> None:
        """Drop a tenant."""
        with self._lock:
            self._check_open()
            self._tenants.pop(tenant_id, None)

    def _check_open(self) -> None:
        """Refuse what would be lost: nothing is saved any more, and the name on disk promises what was told by then."""
        if self._is_closed:
            raise RankerIsClosed("this ranker is closed; make another one on its path")

    def close(self) -> None:
        """Save what is held, where there is a path. Twice is fine; afterwards every call is refused."""
        with self._lock:
            if self._path is not None and not self._is_closed:
                self._save(self._path)
            self._is_closed = True
            self._tenants.clear()

    def _save(self, path: Path) -> None:
        old = set(path.glob(_FILES))
        token = uuid.uuid4().hex
        saved = []
        for number, (tenant_id, tenant) in enumerate(self._tenants.items()):
            name = f"{token}-{number}.index"
            tenant.index.save(path / name)
            saved.append(
                {
                    "tenant": tenant_id,
                    "file": name,
                    "dimension": tenant.dimension,
                    "labels": tenant.labels,
                    "next_label": tenant.next_label,
                }
            )
        fresh = path / f"{_STATE}.new"
        files = {file.name: checksum(file) for file in path.glob(f"{token}{_FILES}")}
        fresh.write_text(json.dumps({"id": self.durable_id, "tenants": saved, "files": files}), encoding="utf-8")
        fresh.replace(path / _STATE)
        for file in old:
            file.unlink(missing_ok=True)


def best_of(
    labels: NDArray[np.int64], vectors: NDArray[np.float32], query: NDArray[np.float32], limit: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Score vectors directly and return the labels and similarities of the best, highest first."""
    scores = np.asarray(vectors @ query)
    order = np.argsort(-scores, kind="stable")[:limit]
    return labels[order], scores[order]
