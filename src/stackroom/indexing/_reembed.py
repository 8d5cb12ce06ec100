"""reembed: a collection moves to another embedder beside its own use, by one switch that loses no write."""

from __future__ import annotations

import inspect
import time
from collections import defaultdict
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from stackroom import _keys as keys
from stackroom._claims import Claim
from stackroom._errors import CapabilityError, Conflict, EmbedderError, StackroomError, StoreError
from stackroom._filters import Eq, Exists
from stackroom._reading import Reading
from stackroom._writing import Stored, of_sources
from stackroom.embedders._door import check_embedder, gate_of
from stackroom.indexing._calls import Calls, Patience
from stackroom.indexing._engine import Engine, Job
from stackroom.indexing._inside import Inside, inside
from stackroom.indexing._options import check_shared
from stackroom.indexing._reports import Progress, ReembedReport, say
from stackroom.stores import CollectionSpec, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from stackroom._cancel import CancelToken
    from stackroom._library import Library
    from stackroom.embedders import Embedder, Fingerprint
    from stackroom.stores import VectorStore

_ROUNDS: Final = 10
_SOURCES_AT_A_TIME: Final = 64
_IDS_AT_A_TIME: Final = 1000

_Key: TypeAlias = tuple[str, str]


def reembed(
    library: Library,
    embedder: Embedder,
    *,
    cancel: CancelToken | None = None,
    on_progress: Callable[[Progress], object] | None = None,
    max_concurrency: int = 8,
) -> ReembedReport:
    """Move the collection of a library to another embedder: only vectors and the fingerprint change.

    New vectors are kept in the collection `<name>.side` while searches and writes go on in the old one; what is
    written meanwhile is caught up, and one switch moves all tenants at once. A run that was ended by anything goes on
    where it was. Afterwards Libraries of the old embedder get EmbedderMismatch: open the collection with the new one.

    CapabilityError when the store cannot switch, EmbedderError when the new embedder fails, IndexingCancelled,
    Conflict when writers left no room for the switch in ten rounds: the old vectors stay in use then, and the error
    has the `report`. The fingerprint that the collection has already: nothing happens.
    """
    parts = inside(library)
    check_shared(
        cancel=cancel, on_embedding=None, on_progress=on_progress, max_concurrency=max_concurrency, max_chunk_chars=None
    )
    limits = check_embedder(embedder)
    if parts.store.capabilities.swap == "refused":
        raise CapabilityError("this store cannot let one collection take the place of another; index into a new one")
    spec = parts.store.collection(parts.collection)
    if spec is None or spec.fingerprint == str(limits.fingerprint):
        return ReembedReport(0, 0, 0, 0.0)
    gate = gate_of(embedder, limits)

    def calls() -> Calls:
        return Calls(embedder, limits, gate, max_concurrency, cancel, Patience())

    batch = parts.batch_size if limits.max_batch is None else min(limits.max_batch, parts.batch_size)
    side = _Side(parts.store, parts.collection, limits.fingerprint)
    return _Move(parts, spec, side, calls, batch, cancel, on_progress).to_its_end()


@dataclass(frozen=True, slots=True)
class _Copy:
    """A source as the collection in use holds it."""

    passages: Sequence[Record]

    @property
    def tenant_id(self) -> str:
        return self.passages[0].tenant_id

    @property
    def source_id(self) -> str:
        return self.passages[0].source_id

    @property
    def key(self) -> _Key:
        return self.tenant_id, self.source_id

    @property
    def version(self) -> int | None:
        """Its version; None when it was written while it was read."""
        versions = {record.version for record in self.passages}
        return versions.pop() if len(versions) == 1 else None


@dataclass(frozen=True, slots=True)
class _Side:
    """The collection that is filled beside the one in use."""

    store: VectorStore
    collection: str
    fingerprint: Fingerprint

    @property
    def name(self) -> str:
        return f"{self.collection}.side"

    @property
    def spec(self) -> CollectionSpec:
        """What it is made for."""
        return CollectionSpec(self.fingerprint.dimension, str(self.fingerprint))

    def prepare(self) -> None:
        """Make it, or go on with what is there; one of a third embedder is discarded."""
        there = self.store.collection(self.name)
        if there is not None and there != self.spec:
            self.store.drop_collection(self.name)
        self.store.create_collection(self.name, self.spec)

    def records(self, tenant_id: str, source_ids: Sequence[str]) -> dict[str, list[Record]]:
        """Return what it holds of some sources."""
        found: dict[str, list[Record]] = defaultdict(list)
        where = of_sources(tenant_id, source_ids)
        for record in Reading(self.store, self.name).records(where, vectors=True):
            found[record.source_id].append(record)
        return found

    def write(self, jobs: list[Job[_Copy]]) -> list[int | Conflict]:
        """Write sources with their new vectors, all else as it was."""
        by_tenant: dict[str, list[Job[_Copy]]] = defaultdict(list)
        for job in jobs:
            by_tenant[job.source.tenant_id].append(job)
        for tenant_id, those in by_tenant.items():
            records = [
                Record(record.text, vector, record.metadata)
                for job in those
                for record, vector in zip(job.source.passages, job.whole_vectors, strict=True)
            ]
            where = of_sources(tenant_id, [job.source.source_id for job in those])
            self.store.replace(self.name, records, where=where, fingerprint=str(self.fingerprint))
        return [job.stored.passages for job in jobs]

    def keep_part(self, job: Job[_Copy]) -> None:
        """Keep what was embedded of a source that was not finished: a later run goes on with the rest."""
        pairs = zip(job.source.passages, job.vectors, strict=True)
        records = [Record(record.text, vector, record.metadata) for record, vector in pairs if vector is not None]
        if records:
            where = of_sources(job.source.tenant_id, [job.source.source_id])
            with suppress(StoreError):  # that is what has ended the run, or nothing worse is lost than some vectors
                self.store.replace(self.name, records, where=where, fingerprint=str(self.fingerprint))

    def versions(self) -> dict[_Key, int | None]:
        """Return the version of each source that it holds, also of one that is not whole."""
        records = Reading(self.store, self.name).records(Exists(keys.TENANT))
        return {(record.tenant_id, record.source_id): record.version for record in records}

    def keep_only(self, those: set[_Key]) -> set[int]:
        """Remove the sources that are no longer in use; return the versions of the others."""
        there = self.versions()
        gone: dict[str, list[str]] = defaultdict(list)
        for tenant_id, source_id in there.keys() - those:
            gone[tenant_id].append(source_id)
        for tenant_id, source_ids in gone.items():
            for first in range(0, len(source_ids), _IDS_AT_A_TIME):
                self.store.delete(self.name, where=of_sources(tenant_id, source_ids[first : first + _IDS_AT_A_TIME]))
        return {there[key] or 0 for key in there.keys() & those}

    def switch(self, expect: set[int], expect_side: set[int]) -> None:
        """Let it take the collection's name, when both are as they were last seen; Conflict otherwise."""
        swap: Any = self.store.swap
        if "expect_side" in inspect.signature(swap).parameters:
            swap(self.collection, self.name, expect=expect, expect_side=expect_side)
        else:
            swap(self.collection, self.name, expect=expect)


@dataclass(slots=True)
class _Move:
    """A run from the first source to the switch."""

    parts: Inside
    spec: CollectionSpec
    side: _Side
    calls: Callable[[], Calls]
    batch: int
    cancel: CancelToken | None
    on_progress: Callable[[Progress], object] | None
    caught_up: dict[_Key, int] = field(default_factory=dict)
    embedded: int = 0
    reused: int = 0
    total: int = 0
    done: int = 0
    _is_first_round: bool = True
    _of_side: set[int] = field(default_factory=set)
    _seen: dict[_Key, int | None] = field(default_factory=dict)
    _began: float = field(default_factory=time.perf_counter)

    def to_its_end(self) -> ReembedReport:
        """Fill the side, catch up, switch; what ends it early has the report."""
        try:
            if self.cancel is not None:
                self.cancel.raise_if_cancelled()
            self.side.prepare()
            with self._telling_of_others():
                self._rounds()
        except StackroomError as error:
            error.report = self._report()
            raise
        return self._report()

    @contextmanager
    def _telling_of_others(self) -> Iterator[None]:
        """Say Conflict for a side that went or changed hands; all is well when the collection was moved as wished."""
        try:
            yield
        except StoreError as error:
            if self.parts.store.collection(self.side.name) == self.side.spec:
                raise
            if self.parts.store.collection(self.parts.collection) != self.side.spec:
                raise Conflict(
                    "another re-embedding of this collection was begun meanwhile; let one of them end, then call again"
                ) from error

    def _rounds(self) -> None:
        for _ in range(_ROUNDS):
            self._check_spec(self.spec)
            if not self._is_first_round and set(self.side.versions().values()) != self._of_side:
                self.caught_up.clear()  # somebody else re-embeds the same: what was brought may be gone
            self.total = max(self.total, self.parts.store.count(self.parts.collection, where=Eq(keys.INDEX, 0)))
            self._catch_up()
            versions = {version for version in self._seen.values() if version is not None}
            if len(versions) < len(self._seen):  # written while it was read
                continue
            try:
                self.side.switch(versions, self._of_side)
            except Conflict:
                continue
            self._check_spec(self.side.spec)
            self.done = self.total
            self._say_progress()
            return
        raise Conflict(
            f"the collection was written in each of {_ROUNDS} rounds before the switch; what was embedded is kept: "
            "call reembed again when there is less to do"
        )

    def _check_spec(self, spec: CollectionSpec) -> None:
        """See that nobody else has moved the collection meanwhile."""
        if self.parts.store.collection(self.parts.collection) != spec:
            self.parts.writing.check_fingerprint()
            raise Conflict("the collection was moved or dropped by somebody else meanwhile; call reembed again")

    def _catch_up(self) -> None:
        """Bring to the side what has changed since the last round, and take away what is gone."""
        self._seen = {}
        engine = Engine(
            self.side.write,
            self._keep_part,
            self.calls(),
            self.batch,
            self.cancel,
            self._written,
            _failed,
            self._say_progress,
        )
        ending = engine.run(self._jobs())
        if ending is not None:
            raise ending
        self._of_side = self.side.keep_only(set(self._seen))
        self._is_first_round = False

    def _jobs(self) -> Generator[Job[_Copy]]:
        for group in self._changed_groups():
            there = self.side.records(group[0].tenant_id, [copy.source_id for copy in group])
            for copy in group:
                job = _job(copy, there.get(copy.source_id, []))
                if job is None:
                    self._note(copy, embedded=0)
                else:
                    yield job

    def _changed_groups(self) -> Iterator[list[_Copy]]:
        """Yield the sources that are not as they were last caught up with, some of one tenant at a time."""
        group: list[_Copy] = []
        for copy in self._sources():
            self._seen[copy.key] = copy.version
            if copy.version is not None and self.caught_up.get(copy.key) == copy.version:
                continue
            if group and (group[0].tenant_id != copy.tenant_id or len(group) == _SOURCES_AT_A_TIME):
                yield group
                group = []
            group.append(copy)
        if group:
            yield group

    def _sources(self) -> Iterator[_Copy]:
        records = Reading(self.parts.store, self.parts.collection).records(Exists(keys.TENANT))
        for _, of_source in groupby(records, key=lambda record: (record.tenant_id, record.source_id)):
            yield _Copy(list(of_source))

    def _written(self, job: Job[_Copy]) -> None:
        self._note(job.source, embedded=job.embedded)

    def _keep_part(self, job: Job[_Copy]) -> None:
        """Keep what is embedded of a source that will not be finished now, and count it."""
        if job.missing:
            self.side.keep_part(job)
            self.embedded += job.embedded - job.missing

    def _note(self, copy: _Copy, *, embedded: int) -> None:
        if copy.version is not None:
            self.caught_up[copy.key] = copy.version
        self.embedded += embedded
        if self._is_first_round:
            self.reused += len(copy.passages) - embedded
            self.done += 1

    def _say_progress(self) -> None:
        say(self.on_progress, Progress(min(self.done, self.total), self.total, self.embedded, self.reused))

    def _report(self) -> ReembedReport:
        return ReembedReport(self.embedded + self.reused, self.embedded, self.reused, time.perf_counter() - self._began)


def _job(copy: _Copy, there: Sequence[Record]) -> Job[_Copy] | None:
    """Return what is to be done to bring a source to the side; None when it is there as it is."""
    if len(there) == len(copy.passages) and all(
        (old.text, old.metadata) == (new.text, new.metadata) for old, new in zip(there, copy.passages, strict=True)
    ):
        return None
    known = {record.text: record.vector for record in there}
    claim = Claim(copy.tenant_id, copy.source_id)
    return Job(copy, Stored(passages=len(there)), claim, [known.get(record.text) for record in copy.passages])


def _failed(_job: Job[_Copy], error: EmbedderError | Conflict) -> None:
    raise error
