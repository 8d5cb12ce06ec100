"""Records as rows and back: vectors bit for bit, words as sparse vectors, and the bytes that COPY takes."""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stackroom import _keys as keys
from stackroom.stores import _bm25, _door
from stackroom.stores._protocol import Record
from stackroom.stores.postgres import _json
from stackroom.stores.postgres._schema import MOST_WORDS, WORDS
from stackroom.text import index_terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from uuid import UUID

    from numpy.typing import NDArray

    from stackroom._values import MetadataValue

_COPY_BEGIN: Final = b"PGCOPY\n\xff\r\n\x00" + struct.pack(">ii", 0, 0)
_COPY_END: Final = struct.pack(">h", -1)
_INTEGER_OID: Final = 23
_PER_CHUNK: Final = 1 << 20

COLUMNS: Final = "tenant, source, place, text, metadata, direction, exponent, original, terms, weights, more"

_OF_SOURCE: Final = {
    keys.KIND: "kind",
    keys.STATUS: "status",
    keys.FOLDER: "folder_id",
    keys.TITLE: "title",
    keys.GROUPS: "acl_groups",
    keys.TAGS: "tags",
}
"""The columns of a source that hold a documented key; a key that is missing is NULL."""

RECORD: Final = (
    "s.tenant_id, s.source_id, s.version, s.kind, s.status, s.folder_id, s.title, s.acl_groups, s.tags, "
    "s.metadata::text, p.place"
)
"""What is read of a record beside its text and its own metadata."""


def record(row: Sequence[Any], text: str, own: str, vector: NDArray[np.float32] | None = None) -> Record:
    """Return the record of a row of `RECORD`, with the text and metadata of its passage."""
    tenant_id, source_id, version, *documented, shared, place = row
    metadata: dict[str, MetadataValue] = {keys.TENANT: tenant_id, keys.SOURCE: source_id, keys.INDEX: place}
    metadata.update({key: value for key, value in zip(_OF_SOURCE, documented, strict=True) if value is not None})
    for part in (shared, own):
        if part != "{}":
            metadata.update(_json.read(part))
    return Record.stored(text, vector, metadata, version)


def source_columns(metadata: Mapping[str, MetadataValue | None]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what of a source's keys, or of a patch for them, has columns, by column, and the rest, by key."""
    columns = {_OF_SOURCE[key]: value for key, value in metadata.items() if key in _OF_SOURCE}
    rest = {key: value for key, value in metadata.items() if key not in _OF_SOURCE and key not in keys.IDENTITY}
    return columns, rest


def source_json(number: int, tenant: UUID, records: Sequence[Record]) -> str:
    """Return a new source as a JSON object with a key for each column."""
    columns, rest = source_columns(_door.source_part(records[0].metadata))
    plain = {
        "number": number,
        "tenant": str(tenant),
        "tenant_id": records[0].tenant_id,
        "source_id": records[0].source_id,
        "version": number,
        "passages": len(records),
        **columns,
    }
    return f'{_json.written(plain)[:-1]},"metadata":{_json.written(rest)}}}'


@dataclass(frozen=True, slots=True)
class Directions:
    """Vectors as they are stored: scaled by a power of two each, so that no search over- or underflows.

    `originals` holds those whose bits do not come back from the scaling; others are None.
    """

    scaled: NDArray[np.float32]
    exponents: NDArray[np.int32]
    originals: list[NDArray[np.float32] | None]


def directions(vectors: NDArray[np.float32]) -> Directions:
    """Return rows of vectors as they are stored."""
    _, exponents = np.frexp(np.abs(vectors).max(axis=1, initial=0.0))
    scaled = np.ldexp(vectors, -exponents[:, None]).astype(np.float32)
    back = unscaled(scaled, exponents[:, None])
    is_same = (back.view(np.uint32) == np.ascontiguousarray(vectors).view(np.uint32)).all(axis=1)
    return Directions(
        scaled, exponents, [None if same else row for same, row in zip(is_same.tolist(), vectors, strict=True)]
    )


def unscaled(scaled: NDArray[np.float32], exponents: Any) -> NDArray[np.float32]:
    """Return vectors at the lengths that they were given with."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.ldexp(scaled, exponents), dtype=np.float32)


def vector_of(sent: bytes) -> NDArray[np.float32]:
    """Return the vector that `vector_send` wrote."""
    return np.frombuffer(sent, dtype=">f4", offset=4).astype(np.float32)


def original_of(sent: bytes, exponent: int, original: bytes | None) -> NDArray[np.float32]:
    """Return a stored vector as it was given, bit for bit."""
    return vector_of(original) if original is not None else unscaled(vector_of(sent), exponent)


def vector_text(vector: NDArray[Any]) -> str:
    """Return a vector as `vector` reads it; every float32 comes back bit for bit."""
    return "[" + ",".join(map(repr, vector.tolist())) + "]"


@dataclass(frozen=True, slots=True)
class Words:
    """A passage's words: their numbers, ascending, and what each adds to a score before its idf."""

    numbers: NDArray[np.int32]
    impacts: NDArray[np.float32]

    @property
    def parts(self) -> list[tuple[NDArray[np.int32], NDArray[np.float32]]]:
        """The same in as many parts as sparse vectors are needed; at least one."""
        starts = range(0, max(len(self.numbers), 1), MOST_WORDS)
        return [(self.numbers[at : at + MOST_WORDS], self.impacts[at : at + MOST_WORDS]) for at in starts]


def counted(records: Iterable[Record]) -> list[Counter[str]]:
    """Return how often each term stands in each record's text."""
    return [Counter(index_terms(of.text)) for of in records]


def words(counter: Counter[str], number_of: Mapping[str, int]) -> Words:
    """Return a passage's words by the numbers that its tenant's terms have."""
    numbers = np.fromiter((number_of[term] for term in counter), dtype=np.int32, count=len(counter))
    frequencies = np.fromiter(counter.values(), dtype=np.float64, count=len(counter))
    order = np.argsort(numbers)
    return Words(numbers[order], _bm25.impacts(frequencies[order], counter.total()))


@dataclass(frozen=True, slots=True)
class NewPassage:
    """A passage to be written."""

    source: int
    record: Record
    words: Words


def copied(tenant: UUID, passages: Sequence[NewPassage]) -> Iterator[bytes]:
    """Yield rows as PostgreSQL's COPY takes them in its binary format; none may have more words than a `sparsevec`."""
    stored = _stored(passages)
    buffer = bytearray(_COPY_BEGIN)
    for place, passage in enumerate(passages):
        original = stored.originals[place]
        fields = (
            tenant.bytes,
            struct.pack(">q", passage.source),
            struct.pack(">i", passage.record.index),
            passage.record.text.encode(),
            b"\x01" + _json.written(_door.own_part(passage.record.metadata)).encode(),
            _vector_bytes(stored.scaled[place]),
            struct.pack(">h", int(stored.exponents[place])),
            None if original is None else _vector_bytes(original),
            _integers_bytes(passage.words.numbers),
            _sparse_bytes(passage.words.numbers, passage.words.impacts),
            None,
        )
        buffer += struct.pack(">h", len(fields))
        for value in fields:
            buffer += struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
        if len(buffer) > _PER_CHUNK:
            yield bytes(buffer)
            buffer.clear()
    yield bytes(buffer) + _COPY_END


def _stored(passages: Sequence[NewPassage]) -> Directions:
    return directions(np.stack([of.record.vector for of in passages if of.record.vector is not None]))


def _vector_bytes(vector: NDArray[np.float32]) -> bytes:
    return struct.pack(">hh", len(vector), 0) + vector.astype(">f4").tobytes()


def _integers_bytes(numbers: NDArray[np.int32]) -> bytes:
    if not len(numbers):
        return struct.pack(">iii", 0, 0, _INTEGER_OID)
    pairs = np.empty((len(numbers), 2), dtype=">i4")
    pairs[:, 0], pairs[:, 1] = 4, numbers
    return struct.pack(">iiiii", 1, 0, _INTEGER_OID, len(numbers), 1) + pairs.tobytes()


def _sparse_bytes(numbers: NDArray[np.int32], impacts: NDArray[np.float32]) -> bytes:
    """Return a `sparsevec` as it is sent: its places count from 0, the numbers of terms from 1."""
    head = struct.pack(">iii", WORDS, len(numbers), 0)
    return head + (numbers - 1).astype(">i4").tobytes() + impacts.astype(">f4").tobytes()


def inserted(tenant: UUID, passages: Sequence[NewPassage]) -> dict[str, Any]:
    """Return the values of `INSERT_PASSAGES`: a list a column."""
    stored = _stored(passages)
    parts = [passage.words.parts for passage in passages]
    return {
        "tenant": tenant,
        "source": [passage.source for passage in passages],
        "place": [passage.record.index for passage in passages],
        "text": [passage.record.text for passage in passages],
        "metadata": [_json.written(_door.own_part(passage.record.metadata)) for passage in passages],
        "direction": [vector_text(row) for row in stored.scaled],
        "exponent": stored.exponents.tolist(),
        "original": [None if row is None else vector_text(row) for row in stored.originals],
        "terms": ["{" + ",".join(map(str, passage.words.numbers.tolist())) + "}" for passage in passages],
        "weights": [sparse_text(*first) for first, *_ in parts],
        "more": [_sparse_texts(rest) for _, *rest in parts],
    }


INSERT_PASSAGES: Final = (
    "INSERT INTO {passages} (" + COLUMNS + ") SELECT %(tenant)s, source, place, text, metadata::jsonb, "
    "direction::vector, exponent, original::vector, terms::integer[], weights::sparsevec, more::sparsevec[] "
    "FROM unnest(%(source)s::bigint[], %(place)s::integer[], %(text)s::text[], %(metadata)s::text[], "
    "%(direction)s::text[], %(exponent)s::smallint[], %(original)s::text[], %(terms)s::text[], %(weights)s::text[], "
    "%(more)s::text[]) AS given(source, place, text, metadata, direction, exponent, original, terms, weights, more)"
)


def sparse_text(numbers: NDArray[np.int32], impacts: NDArray[np.float32]) -> str:
    """Return a `sparsevec` as it is written."""
    pairs = zip(numbers.tolist(), impacts.tolist(), strict=True)
    return "{" + ",".join(f"{number}:{impact!r}" for number, impact in pairs) + f"}}/{WORDS}"


def _sparse_texts(parts: Sequence[tuple[NDArray[np.int32], NDArray[np.float32]]]) -> str | None:
    return "{" + ",".join(f'"{sparse_text(*part)}"' for part in parts) + "}" if parts else None
