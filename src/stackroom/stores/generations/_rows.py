"""Records as rows and back."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stackroom import _keys as keys
from stackroom._filters import Eq, In
from stackroom.stores import _bm25, _ranking
from stackroom.stores._protocol import Record
from stackroom.stores._tokens import Form, Holds, compiled, conjunction, digest, negation, tokens_of
from stackroom.stores.generations._engine import Row, Stored
from stackroom.text import index_terms

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

SINGLE: Final = np.dtype("<f4")


def row_of(record: Record, vector: NDArray[np.float32], written: int) -> Row:
    """Return the row of a record in the generation `written`."""
    frequencies = Counter(index_terms(record.text))
    length = frequencies.total()
    impacts = _bm25.impacts(list(frequencies.values()), length)
    weights: dict[int, float] = {}
    for term, impact in zip(frequencies, impacts.tolist(), strict=True):
        number = term_number(term)
        weights[number] = weights.get(number, 0.0) + impact
    return Row(
        key=_key(record, written),
        tenant=record.tenant_id,
        source=record.source_id,
        place=record.index,
        written=written,
        text=record.text,
        metadata=json.dumps(record.metadata, ensure_ascii=False, separators=(",", ":")),
        vector=vector.astype(SINGLE).tobytes(),
        direction=direction(vector.astype(np.float64)),
        tokens=[
            *tokens_of(record.metadata),
            *map(term_token, frequencies),
            written_token(written),
        ],
        terms=weights,
    )


def _key(record: Record, written: int) -> str:
    named = digest(record.tenant_id, record.source_id, str(record.index), str(written))
    return hashlib.blake2b(named.encode(), digest_size=16).hexdigest()


def direction(vector: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return a vector at length 1, whatever its own length, as an engine may search it."""
    return _ranking.unit(vector).astype(np.float32)


def record_of(stored: Stored, *, with_vector: bool = False) -> Record:
    """Return the record that a row was made of."""
    vector = vector_of(stored) if with_vector else None
    metadata: dict[str, Any] = json.loads(stored.metadata)
    return Record.stored(stored.text, vector, metadata, stored.place.written)


def vector_of(stored: Stored) -> NDArray[np.float32]:
    """Return a row's vector, bit for bit as it was given."""
    if stored.vector is None:
        raise AssertionError("the engine left out a vector that was asked for")
    return np.frombuffer(stored.vector, dtype=SINGLE).astype(np.float32)


def term_number(term: str) -> int:
    """Return a word's number. Two words may share one, very rarely: what is found by numbers is looked at again."""
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=4).digest(), "big")


def term_token(term: str) -> str:
    """Return the token of a passage that holds a word."""
    return digest("w", term, size=12)


def written_token(number: int) -> str:
    """Return the token of a generation's rows."""
    return digest("g", str(number), size=12)


def of_tenant(tenant_id: str) -> Form:
    """Return the condition of a tenant's rows."""
    return compiled(Eq(keys.TENANT, tenant_id)).form


def of_generation(number: int) -> Form:
    """Return the condition of a generation's rows."""
    return Holds(frozenset({written_token(number)}))


def going(sources: Iterable[str], number: int) -> Form:
    """Return the condition of rows that the generation `number` takes the place of: older ones of some sources."""
    return conjunction([of_sources(sources), negation(of_generation(number))])


def of_sources(sources: Iterable[str]) -> Form:
    """Return the condition of the rows of some sources."""
    return compiled(In(keys.SOURCE, sources)).form
