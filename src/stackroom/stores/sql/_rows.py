"""Records as rows and back: metadata as JSON, vectors and words as arrays of bytes."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stackroom import _keys as keys
from stackroom.stores import _bm25, _door, _ranking
from stackroom.stores.sql._tables import GROUPS, TAGS
from stackroom.text import index_terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from stackroom._values import MetadataValue
    from stackroom.stores._protocol import Record

INT: Final = np.dtype("<i4")
NUMBER: Final = np.dtype("<i8")
SINGLE: Final = np.dtype("<f4")
DOUBLE: Final = np.dtype("<f8")

_BLOCK_BYTES: Final = 1 << 17
_BLOCK_PASSAGES: Final = 256

TEXT_PART: Final = 1 << 20
"""Bytes of a text in one row: what MariaDB takes in a statement is 16 MB, and a driver writes two digits a byte."""

_LABELED: Final = ((keys.GROUPS, GROUPS), (keys.TAGS, TAGS))


def written(metadata: Mapping[str, MetadataValue]) -> bytes:
    """Return metadata as JSON: an int stays an int, a float a float, to the bit."""
    return json.dumps(metadata, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def read(stored: bytes) -> dict[str, MetadataValue]:
    """Return what `written` wrote."""
    metadata: dict[str, MetadataValue] = json.loads(stored)
    return metadata


def counted(records: Iterable[Record]) -> list[Counter[str]]:
    """Return how often each term stands in each record's text."""
    return [Counter(index_terms(of.text)) for of in records]


def source_row(metadata: Mapping[str, MetadataValue]) -> dict[str, Any]:
    """Return the columns that a source's metadata fills; all of it but its identity is kept as JSON beside them."""
    kept = {key: value for key, value in metadata.items() if key not in keys.IDENTITY}
    expires = kept.get(keys.EXPIRES)
    is_odd = keys.EXPIRES in kept and (isinstance(expires, bool) or not isinstance(expires, int))
    return {
        "kind": _bytes(kept.get(keys.KIND)),
        "status": _bytes(kept.get(keys.STATUS)),
        "folder_id": _bytes(kept.get(keys.FOLDER)),
        "groups_held": _length(kept.get(keys.GROUPS)),
        "tags_held": _length(kept.get(keys.TAGS)),
        "expires_at": None if is_odd else expires,
        "is_odd": is_odd,
        "metadata": written(kept),
    }


def labels(metadata: Mapping[str, MetadataValue]) -> Iterator[tuple[int, bytes]]:
    """Yield a source's groups and tags, each once: what it is, and its bytes."""
    for key, what in _LABELED:
        values = metadata.get(key)
        for value in dict.fromkeys(values if isinstance(values, list) else []):
            yield what, str(value).encode()


def _bytes(value: MetadataValue | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else None


def _length(value: MetadataValue | None) -> int | None:
    return len(value) if isinstance(value, list) else None


@dataclass(frozen=True, slots=True)
class NewSource:
    """A source to be written: its number, what is said of all of it, its records by index, and their words."""

    number: int
    records: Sequence[Record]
    terms: Sequence[Counter[str]]

    @property
    def metadata(self) -> dict[str, MetadataValue]:
        """What is said of all of it."""
        return _door.source_part(self.records[0].metadata)


def span(records: Iterable[Record]) -> int:
    """Return how many numbers a source keeps to itself: one for each index up to the last."""
    return max(record.index for record in records) + 1


def blocks(source: NewSource, number_of: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a source's blocks."""
    vectors = np.stack([record.vector for record in source.records if record.vector is not None])
    size = min(_BLOCK_PASSAGES, max(1, _BLOCK_BYTES // (4 * vectors.shape[1])))
    lengths = _ranking.row_norms(vectors)
    for place, at in enumerate(range(0, len(vectors), size)):
        part = slice(at, at + size)
        holding = Counter(term for counter in source.terms[part] for term in counter)
        numbers = [number_of[term] for term in holding]
        yield {
            "source": source.number,
            "block": place,
            "places": np.array([record.index for record in source.records[part]], dtype=INT).tobytes(),
            "lengths": lengths[part].astype(DOUBLE).tobytes(),
            "vectors": vectors[part].astype(SINGLE).tobytes(),
            "terms": np.array(numbers, dtype=NUMBER).tobytes(),
            "holding": np.array(list(holding.values()), dtype=INT).tobytes(),
        }


def postings(source: NewSource, number_of: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a source's postings, in the order of their terms."""
    terms = [term for counter in source.terms for term in counter]
    sizes = [len(counter) for counter in source.terms]
    totals = np.repeat([counter.total() for counter in source.terms], sizes)
    frequencies = [frequency for counter in source.terms for frequency in counter.values()]
    impacts = _bm25.impacts(frequencies, totals).astype(SINGLE)
    places = np.repeat(np.array([record.index for record in source.records], dtype=INT), sizes)
    numbers = np.array([number_of[term] for term in terms], dtype=NUMBER)
    if not terms:
        return
    order = np.argsort(numbers, kind="stable")
    firsts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    in_order = places[order].tobytes(), impacts[order].tobytes()
    for term, begin, end in zip(
        numbers[order][firsts].tolist(), (4 * firsts).tolist(), [*(4 * firsts[1:]).tolist(), None], strict=True
    ):
        of_places, of_impacts = (every[begin:end] for every in in_order)
        yield {"term": term, "source": source.number, "places": of_places, "impacts": of_impacts}


def parts(text: str) -> list[bytes]:
    """Return a text in parts that fit into a statement each; at least one."""
    every = text.encode()
    return [every[at : at + TEXT_PART] for at in range(0, max(len(every), 1), TEXT_PART)]
