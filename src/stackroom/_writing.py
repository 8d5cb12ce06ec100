"""Writing sources whole: what is stored of them is looked at, then new versions take its place in one step."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stackroom import _keys as keys
from stackroom._errors import Conflict, EmbedderMismatch, ScopeError, SourceError
from stackroom._filters import And, Eq, Filter, In
from stackroom._model import name_of
from stackroom._records import records_of
from stackroom.embedders import Fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from stackroom._claims import Claim, Claims
    from stackroom._model import Source
    from stackroom._reading import Reading
    from stackroom._values import MetadataValue
    from stackroom.stores import CollectionSpec, Record


@dataclass(slots=True)
class Stored:
    """What is stored of a source, whoever may see it, and the vectors of the texts that come again."""

    versions: set[int] = field(default_factory=set)
    passages: int = 0
    created_at: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    vectors: dict[str, NDArray[np.float32]] = field(default_factory=dict)

    def add(self, record: Record, wanted: Container[str]) -> None:
        """Take note of one of its passages."""
        self.versions.add(record.version or 0)
        self.passages += 1
        metadata: Mapping[str, Any] = record.metadata
        self.metadata = metadata
        self.created_at = metadata.get(keys.CREATED, self.created_at)
        if record.vector is not None and record.text in wanted:
            self.vectors[record.text] = record.vector


@dataclass(frozen=True, slots=True)
class Prepared:
    """A source with all its vectors, and what its new version is to take the place of."""

    source: Source
    vectors: Sequence[NDArray[np.float32]]
    stored: Stored
    claim: Claim
    own: Mapping[str, MetadataValue] = field(default_factory=dict)
    """What the Library itself keeps with the source, under keys of its own."""


@dataclass(frozen=True, slots=True)
class Writing:
    """Writes the sources of one collection, embedded by the embedder of one fingerprint. `now` in microseconds."""

    reading: Reading
    claims: Claims
    fingerprint: Fingerprint
    now: Callable[[], int]

    def look(self, tenant_id: str, wanted: Mapping[str, Container[str]]) -> dict[str, Stored]:
        """Return what is stored of some sources of a tenant; of each, vectors of the texts wanted are kept."""
        found = {source_id: Stored() for source_id in wanted}
        for record in self.reading.records(of_sources(tenant_id, list(wanted)), vectors=True):
            found[record.source_id].add(record, wanted[record.source_id])
        return found

    def write(self, prepared: Sequence[Prepared]) -> list[int | Conflict]:
        """Write new versions of different sources of one tenant: at once, or one by one when that meets a Conflict.

        Answers of each how many passages its old version had, or the Conflict because of which it was not written.
        EmbedderMismatch when the collection has moved to another embedder; nothing more is written then.
        """
        try:
            self._replace(prepared)
        except Conflict as conflict:
            return [conflict] if len(prepared) == 1 else [self.write([one])[0] for one in prepared]
        return [one.stored.passages for one in prepared]

    def _replace(self, prepared: Sequence[Prepared]) -> None:
        now = self.now()
        records = [record for one in prepared for record in _records(one, now)]
        tenant_id = prepared[0].source.tenant_id
        with _telling_what_to_do(), self.claims.writing(*(one.claim for one in prepared)), self.telling_mismatch():
            self.reading.store.replace(
                self.reading.collection,
                records,
                where=of_sources(tenant_id, [one.source.source_id for one in prepared]),
                expect=set().union(*(one.stored.versions for one in prepared)),
                fingerprint=str(self.fingerprint),
            )

    def check_fingerprint(self) -> None:
        """Raise EmbedderMismatch when the collection belongs to another embedder."""
        spec = self.reading.store.collection(self.reading.collection)
        given = self.fingerprint
        if spec is None or (spec.fingerprint, spec.dimension) == (str(given), given.dimension):
            return
        stored = _fingerprint_of(spec)
        raise EmbedderMismatch(
            f"collection {self.reading.collection!r} belongs to embedder {stored}, not to {given}: open it with that "
            "one, or move it to the new one with stackroom.indexing.reembed",
            stored=stored,
            given=given,
            problem="dimension" if stored.dimension != given.dimension else "id",
        )

    @contextmanager
    def telling_mismatch(self) -> Iterator[None]:
        """Say EmbedderMismatch instead of Conflict when the collection has moved to another embedder."""
        try:
            yield
        except Conflict:
            self.check_fingerprint()
            raise


def of_sources(tenant_id: str, source_ids: Sequence[str]) -> Filter:
    """Return the filter of all passages of some sources of a tenant."""
    named = [name_of(source_id, SourceError, "source_id") for source_id in source_ids]
    return And(
        Eq(keys.TENANT, name_of(tenant_id, ScopeError, "tenant_id")),
        Eq(keys.SOURCE, named[0]) if len(named) == 1 else In(keys.SOURCE, named),
    )


def _records(one: Prepared, now: int) -> list[Record]:
    created_at = now if one.stored.created_at is None else one.stored.created_at
    return records_of(one.source, one.vectors, created_at=created_at, updated_at=now, own=one.own)


@contextmanager
def _telling_what_to_do() -> Iterator[None]:
    """Say of a Conflict what it means for a source."""
    try:
        yield
    except Conflict as error:
        raise Conflict(
            "this source was written, re-scoped or removed by somebody else while its new version was being "
            "embedded; nothing was written: call index_source again"
        ) from error


def _fingerprint_of(spec: CollectionSpec) -> Fingerprint:
    """Return whose vectors a collection holds; it may have been made by others, who write fingerprints otherwise."""
    try:
        parsed = Fingerprint.parse(spec.fingerprint)
    except ValueError:
        readable = "".join(char for char in spec.fingerprint if char.isprintable())[:200].strip()
        return Fingerprint(readable or "unreadable", spec.dimension)
    return Fingerprint(parsed.id, spec.dimension)
