"""The two ends of a copy: a collection in a store, or a file. Both are read in order and written source by source."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Protocol

from stackroom import _keys as keys
from stackroom._filters import Eq, Exists
from stackroom._reading import Reading
from stackroom._writing import of_sources

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stackroom.stores import CollectionSpec, Record, VectorStore


@dataclass(frozen=True, slots=True)
class Held:
    """A source as a place holds it: its records in the order of their indexes, with their vectors."""

    records: Sequence[Record]

    @property
    def tenant_id(self) -> str:
        """Whose it is."""
        return self.records[0].tenant_id

    @property
    def source_id(self) -> str:
        """Its id."""
        return self.records[0].source_id

    @property
    def key(self) -> tuple[str, str]:
        """Its place in the order of every scan."""
        return self.tenant_id, self.source_id

    @property
    def is_of_one_version(self) -> bool:
        """Whether nobody wrote it while it was read."""
        return len({record.version for record in self.records}) == 1


class Place(Protocol):
    """Where sources come from or go to."""

    def spec(self) -> CollectionSpec | None:
        """Return what the collection is made for; None when there is none yet."""

    def make(self, spec: CollectionSpec) -> None:
        """Make the collection, or find an equal one there."""

    def sources(self) -> Iterator[Held]:
        """Yield all sources by tenant and id; what is written behind the reader meanwhile does not come."""

    def write(self, sources: Sequence[Held]) -> None:
        """Put sources of one tenant in the place of what it has under their ids, each whole."""

    def remove(self, tenant_id: str, source_ids: Sequence[str]) -> None:
        """Take sources of a tenant away."""

    def count(self, tenant_id: str) -> int:
        """Return how many passages of a tenant there are."""

    def finish(self) -> None:
        """Note that what is there now is the whole of a copy."""


@dataclass(frozen=True, slots=True)
class InStore:
    """A collection of a store."""

    store: VectorStore
    collection: str

    def spec(self) -> CollectionSpec | None:
        """Return the collection's spec."""
        return self.store.collection(self.collection)

    def make(self, spec: CollectionSpec) -> None:
        """Make the collection."""
        self.store.create_collection(self.collection, spec)

    def sources(self) -> Iterator[Held]:
        """Yield the sources, page by page."""
        records = Reading(self.store, self.collection).records(Exists(keys.TENANT), vectors=True)
        return grouped(records)

    def write(self, sources: Sequence[Held]) -> None:
        """Replace them in one call."""
        spec = self.spec()
        self.store.replace(
            self.collection,
            [record for source in sources for record in source.records],
            where=of_sources(sources[0].tenant_id, [source.source_id for source in sources]),
            fingerprint=None if spec is None else spec.fingerprint,
        )

    def remove(self, tenant_id: str, source_ids: Sequence[str]) -> None:
        """Delete them in one call."""
        self.store.delete(self.collection, where=of_sources(tenant_id, source_ids))

    def count(self, tenant_id: str) -> int:
        """Count by the store's own count."""
        return self.store.count(self.collection, where=Eq(keys.TENANT, tenant_id))

    def finish(self) -> None:
        """Nothing to note: a store is whole at all times."""


def grouped(records: Iterator[Record]) -> Iterator[Held]:
    """Yield the sources of records that come in order."""
    for _, of_source in groupby(records, key=lambda record: (record.tenant_id, record.source_id)):
        yield Held(list(of_source))
