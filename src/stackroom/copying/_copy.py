"""The copy itself: both ends are walked side by side until they are the same, and then the copy is searched."""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from stackroom._errors import Conflict, EmbedderMismatch, StoreError
from stackroom.copying._file import InFile
from stackroom.copying._places import Held, InStore
from stackroom.copying._spot_searches import check_searches
from stackroom.embedders import Fingerprint
from stackroom.indexing._reports import say

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from stackroom._cancel import CancelToken
    from stackroom.copying._places import Place
    from stackroom.stores import CollectionSpec, Record, VectorStore

_ROUNDS: Final = 10
_PASSAGES_AT_A_TIME: Final = 1000
_SOURCES_AT_A_TIME: Final = 256
_SPOTS: Final = 8
"""Scopes that are searched at the end, on both ends."""


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """How far a copy is: which round over the sources it is on, sources seen in it, and passages written by then."""

    round: int
    sources: int
    written: int


@dataclass(frozen=True, slots=True)
class CopyReport:
    """What a copy did. `sources` and `passages` are those of the origin, now at the target, too.

    `written`: passages that were; a copy that goes on where another ended writes the rest. `removed`: sources that only
    the target had, and that were taken away. `searched`: scopes that were asked the same on both ends.
    """

    sources: int
    passages: int
    written: int
    removed: int
    searched: int
    seconds: float


def copy_collection(
    origin: VectorStore,
    target: VectorStore,
    *,
    collection: str = "library",
    to: str | None = None,
    prune: bool = False,
    cancel: CancelToken | None = None,
    on_progress: Callable[[CopyProgress], object] | None = None,
) -> CopyReport:
    """Copy a collection from one store to another, under the name `to`, else the same.

    Run again after any end, it goes on where it was. Every record is compared at the end, value by value and bit by
    bit, the tenants' passages are counted, and some scopes are searched on both. What is written at the origin
    meanwhile is caught up with.

    EmbedderMismatch when the target has the collection of another embedder; StoreError when the origin has none, or the
    ends differ after all; Conflict when the target held sources before that the origin lacks, and `prune` does not say
    to remove them, or when the origin is written so often that there is no end to it; IndexingCancelled. What was
    copied by then is kept.
    """
    there = collection if to is None else to
    if origin is target and there == collection:
        raise ValueError("a collection cannot be copied onto itself; name another store, or another collection")
    return _Copy(InStore(origin, collection), InStore(target, there), prune, cancel, on_progress).to_its_end()


def export_collection(
    store: VectorStore,
    path: str | os.PathLike[str],
    *,
    collection: str = "library",
    cancel: CancelToken | None = None,
    on_progress: Callable[[CopyProgress], object] | None = None,
) -> CopyReport:
    """Export a collection into one portable file, made when missing; a file that is there becomes the same as it.

    As `copy_collection`, but for searches, which a file has none of. The file is marked as whole once all of it has
    been compared; until then `import_collection` refuses it.
    """
    with closing(InFile.made(path)) as file:
        return _Copy(InStore(store, collection), file, True, cancel, on_progress).to_its_end()


def import_collection(
    path: str | os.PathLike[str],
    store: VectorStore,
    *,
    collection: str = "library",
    prune: bool = False,
    cancel: CancelToken | None = None,
    on_progress: Callable[[CopyProgress], object] | None = None,
) -> CopyReport:
    """Bring what a file holds into a collection of a store, made when missing; as `copy_collection`.

    StoreError when there is no such file, it is no export, or it was not finished.
    """
    with closing(InFile.opened(path)) as file:
        return _Copy(file, InStore(store, collection), prune, cancel, on_progress).to_its_end()


@dataclass(slots=True)
class _Copy:
    """A run from the first source to the report."""

    origin: Place
    target: Place
    prune: bool
    cancel: CancelToken | None
    on_progress: Callable[[CopyProgress], object] | None
    _began: float = field(default_factory=time.perf_counter)
    _round: int = 0
    _began_empty: bool = False
    _written: int = 0
    _removed: int = 0
    _passages: Counter[str] = field(default_factory=Counter)
    _sources: int = 0
    _spots: list[Record] = field(default_factory=list)
    _draw: random.Random = field(default_factory=lambda: random.Random(1))  # noqa: S311 - which scopes are looked at

    def to_its_end(self) -> CopyReport:
        """Walk until nothing is left to do, then verify."""
        spec = self._agreed_spec()
        while self._walk():
            if self._round == _ROUNDS:
                raise Conflict(
                    f"the origin was written in each of {_ROUNDS} rounds; what was copied is kept: copy again when "
                    "there is less to do"
                )
            if self.origin.spec() != spec:
                raise Conflict("the origin was moved to another embedder or dropped meanwhile; begin anew")
        self._check_counts()
        searched = check_searches(self.origin, self.target, self._spots)
        self.target.finish()
        return CopyReport(
            sources=self._sources,
            passages=self._passages.total(),
            written=self._written,
            removed=self._removed,
            searched=searched,
            seconds=time.perf_counter() - self._began,
        )

    def _agreed_spec(self) -> CollectionSpec:
        """Return the spec of both ends; what would mix embedders is refused, and nothing is touched."""
        spec, there = self.origin.spec(), self.target.spec()
        if spec is None:
            raise StoreError("there is no such collection to copy; name one that is there")
        if there is not None and there != spec:
            stored, given = Fingerprint.parse(there.fingerprint), Fingerprint.parse(spec.fingerprint)
            raise EmbedderMismatch(
                f"the collection there belongs to {stored}, what is to be copied to {given}; copy into another "
                "collection, or re-embed one of them first (`stackroom reembed`)",
                stored=stored,
                given=given,
                problem="id" if stored.dimension == given.dimension else "dimension",
            )
        self.target.make(spec)
        return spec

    def _walk(self) -> bool:
        """Compare both ends, source by source, and mend the target; tell whether anything was to mend, or in motion."""
        self._round += 1
        self._sources, self._passages, self._spots = 0, Counter(), []
        batch = _Batch(self.target)
        only_there: list[tuple[str, str]] = []
        is_settled = True
        self._began_empty = self._began_empty or (self._round == 1 and next(self.target.sources(), None) is None)
        for origin, target in _side_by_side(self.origin.sources(), self.target.sources()):
            if self.cancel is not None and self.cancel.cancelled:
                batch.write()
                self.cancel.raise_if_cancelled()
            if origin is None:
                only_there += [] if target is None else [target.key]
                continue
            self._count(origin)
            is_settled = is_settled and origin.is_of_one_version
            if target is None or not _is_same(origin, target):
                self._written += batch.add(origin)
        batch.write()
        self._take_away(only_there)
        self._say()
        return bool(batch.passages or only_there) or not is_settled

    def _count(self, source: Held) -> None:
        self._sources += 1
        self._passages[source.tenant_id] += len(source.records)
        at = self._draw.randrange(self._sources)  # so that each source is as likely to be looked at (Vitter 1985)
        if len(self._spots) < _SPOTS:
            self._spots.append(source.records[0])
        elif at < _SPOTS:
            self._spots[at] = source.records[0]
        if self._sources % _SOURCES_AT_A_TIME == 0:
            self._say()

    def _take_away(self, only_there: list[tuple[str, str]]) -> None:
        """Remove what only the target has, when that is wished or it held nothing before; else say that it is there."""
        if only_there and not (self.prune or self._began_empty):
            raise Conflict(
                f"the target holds {len(only_there):,} sources that the origin does not: they were removed there, or "
                "stood here before; what was copied is kept: copy with prune to remove them, or under another name"
            )
        for tenant_id, source_id in only_there:
            self.target.remove(tenant_id, [source_id])
        self._removed += len(only_there)

    def _check_counts(self) -> None:
        """See that both ends count the same of every tenant."""
        for tenant_id, number in self._passages.items():
            if self.target.count(tenant_id) != number:
                raise StoreError(
                    "the target counts otherwise than it lists; prove the store with `stackroom check-store`"
                )

    def _say(self) -> None:
        say(self.on_progress, CopyProgress(self._round, self._sources, self._written))


@dataclass(slots=True)
class _Batch:
    """Sources of one tenant that are written in one call."""

    target: Place
    passages: int = 0
    _waiting: list[Held] = field(default_factory=list)
    _size: int = 0

    def add(self, source: Held) -> int:
        """Take a source; return how many passages it has."""
        if self._waiting and self._waiting[0].tenant_id != source.tenant_id:
            self.write()
        self._waiting.append(source)
        self._size += len(source.records)
        self.passages += len(source.records)
        if self._size >= _PASSAGES_AT_A_TIME or len(self._waiting) >= _SOURCES_AT_A_TIME:
            self.write()
        return len(source.records)

    def write(self) -> None:
        """Write what waits."""
        if self._waiting:
            self.target.write(self._waiting)
        self._waiting, self._size = [], 0


def _side_by_side(
    origin: Iterator[Held], target: Iterator[Held]
) -> Iterator[tuple[Held, Held] | tuple[Held, None] | tuple[None, Held]]:
    """Yield the sources of two places in order, paired where both have one."""
    one, other = next(origin, None), next(target, None)
    while one is not None or other is not None:
        if other is None or (one is not None and one.key < other.key):
            yield one, None  # type: ignore[misc] # one of them is there
            one = next(origin, None)
        elif one is None or other.key < one.key:
            yield None, other
            other = next(target, None)
        else:
            yield one, other
            one, other = next(origin, None), next(target, None)


def _is_same(one: Held, other: Held) -> bool:
    """Tell whether two places hold the same of a source: texts, metadata, the kinds of its values, and every bit."""
    return len(one.records) == len(other.records) and all(map(_is_same_record, one.records, other.records))


def _is_same_record(one: Record, other: Record) -> bool:
    return (
        one.text == other.text
        and one.metadata == other.metadata
        and all(_kinds(value) == _kinds(other.metadata[key]) for key, value in one.metadata.items())
        and one.vector is not None
        and other.vector is not None
        and np.array_equal(one.vector.view(np.uint32), other.vector.view(np.uint32))
    )


def _kinds(value: object) -> object:
    return [type(item) for item in value] if isinstance(value, list) else type(value)
