"""What is stored of a folder: its sources as the plan compares them, and the vectors of their texts."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stackroom import _keys as keys
from stackroom._filters import And, Eq, In
from stackroom._values import items_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stackroom._writing import Stored
    from stackroom.indexing._inside import Inside
    from stackroom.stores import Record

CORPUS: Final = "corpus"
PATH: Final = "path"
CONTENT_HASH: Final = "contentHash"

_SOURCES_AT_A_TIME: Final = 64


class Everything:
    """Holds whatever it is asked for."""

    def __contains__(self, _item: object) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Head:
    """A stored source: its own metadata and what the Library keeps of it, from one of its passages."""

    metadata: Mapping[str, Any]

    def belongs_to(self, corpus: str) -> bool:
        """Tell whether it was indexed from the folder of this corpus: only that may replace or remove it."""
        return keys.SETTINGS in self.metadata and self.own(CORPUS) == corpus

    @property
    def is_of_a_folder(self) -> bool:
        """Whether a folder's run wrote it."""
        return keys.SETTINGS in self.metadata

    def own(self, key: str) -> Any:
        """Return a value of the source's own metadata; one that only a passage has does not count."""
        return self.metadata.get(key) if key in self.metadata.get(keys.SOURCE_METADATA, ()) else None

    @property
    def settings(self) -> object:
        """The digest of how it was loaded and split."""
        return self.metadata.get(keys.SETTINGS)


@dataclass(slots=True)
class StoredFolder:
    """What one tenant has of one corpus, looked up when it is needed."""

    parts: Inside
    tenant_id: str
    corpus: str
    _places: dict[bytes, int] | None = None
    _sources: list[str] = field(default_factory=list)
    _replaced: set[str] = field(default_factory=set)
    _kept: _KeptVectors | None = None

    def heads(self, source_ids: Sequence[str]) -> dict[str, Head]:
        """Return the stored ones among some sources of the tenant, whatever corpus they are of."""
        if not source_ids:
            return {}
        where = And(Eq(keys.TENANT, self.tenant_id), In(keys.SOURCE, source_ids), Eq(keys.INDEX, 0))
        return {record.source_id: Head(record.metadata) for record in self.parts.writing.reading.records(where)}

    def all_heads(self) -> Iterator[tuple[str, Head]]:
        """Yield every source of the corpus."""
        where = And(Eq(keys.TENANT, self.tenant_id), Eq(CORPUS, self.corpus), Eq(keys.INDEX, 0))
        for record in self.parts.writing.reading.records(where):
            if (head := Head(record.metadata)).belongs_to(self.corpus):
                yield record.source_id, head

    def vectors(self, texts: Collection[str]) -> dict[str, NDArray[np.float32]]:
        """Return vectors of those texts that the corpus held when this was first asked."""
        found = self._kept_vectors(texts)
        missing = [text for text in texts if text not in found]
        places = self._all_places() if missing else {}
        elsewhere: dict[str, set[str]] = {}
        for text in missing:
            place = places.get(_digest(text))
            if place is not None and self._sources[place] not in self._replaced:
                elsewhere.setdefault(self._sources[place], set()).add(text)
        for names in _slices(list(elsewhere), _SOURCES_AT_A_TIME):
            looked_at = self.parts.writing.look(self.tenant_id, {name: elsewhere[name] for name in names})
            for stored in looked_at.values():
                found.update(stored.vectors)
        return found

    def _kept_vectors(self, texts: Collection[str]) -> dict[str, NDArray[np.float32]]:
        if self._kept is None:
            return {}
        kept = {text: self._kept.get(_digest(text)) for text in texts}
        return {text: vector for text, vector in kept.items() if vector is not None}

    def let_go(self, source_id: str, stored: Stored) -> None:
        """Keep the vectors of a source that is about to be replaced: its texts may come again in another one."""
        self._replaced.add(source_id)
        if self._kept is None:
            self._kept = _KeptVectors(self.parts.limits.fingerprint.dimension)
        for text, vector in stored.vectors.items():
            self._kept.keep(_digest(text), vector)

    def close(self) -> None:
        """Give back what was kept."""
        if self._kept is not None:
            self._kept.close()

    def _all_places(self) -> Mapping[bytes, int]:
        if self._places is None:
            self._places = {}
            numbers: dict[str, int] = {}
            for record in self._all_records():
                if record.source_id not in numbers:
                    numbers[record.source_id] = len(self._sources)
                    self._sources.append(record.source_id)
                self._places.setdefault(_digest(record.text), numbers[record.source_id])
        return self._places

    def _all_records(self) -> Iterator[Record]:
        where = And(Eq(keys.TENANT, self.tenant_id), Eq(CORPUS, self.corpus))
        for record in self.parts.writing.reading.records(where):
            if Head(record.metadata).belongs_to(self.corpus):
                yield record


class _KeptVectors:
    """Vectors in a file that has no name: they would not fit into memory when much of a large folder has changed."""

    def __init__(self, dimension: int) -> None:
        self._file = tempfile.TemporaryFile(prefix="stackroom-")  # noqa: SIM115 - closed with its owner
        self._size = dimension * np.dtype(np.float32).itemsize
        self._rows: dict[bytes, int] = {}

    def keep(self, digest: bytes, vector: NDArray[np.float32]) -> None:
        if digest not in self._rows:
            self._file.seek(len(self._rows) * self._size)
            self._file.write(vector.tobytes())
            self._rows[digest] = len(self._rows)

    def get(self, digest: bytes) -> NDArray[np.float32] | None:
        row = self._rows.get(digest)
        if row is None:
            return None
        self._file.seek(row * self._size)
        return np.frombuffer(self._file.read(self._size), dtype=np.float32)

    def close(self) -> None:
        self._file.close()


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _slices(names: list[str], size: int) -> Iterable[list[str]]:
    return (names[first : first + size] for first in range(0, len(names), size))


def strings(value: object, error: type[Exception], what: str) -> list[str]:
    """Return a string alone as a list of one, else the strings of an iterable."""
    found = [value] if isinstance(value, str) else items_of(value, error, what)
    for item in found:
        if not isinstance(item, str):
            raise error(f"{what} must hold strings, not {type(item).__name__}")
    return found
