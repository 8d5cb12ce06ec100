"""One run over a folder: what is planned is done in order, counted, and reported."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from stackroom import _keys as keys
from stackroom._claims import Claim
from stackroom._errors import Conflict, EmbedderError, EmbedderMismatch, IndexingCancelled, StackroomError, StoreError
from stackroom._filters import And, Eq, Filter, Or
from stackroom._reading import Reading
from stackroom._scoping import microseconds
from stackroom._writing import Stored, of_sources
from stackroom.indexing._calls import Patience
from stackroom.indexing._engine import Engine, Job
from stackroom.indexing._plan import Empty, Entry, Planner, ToWrite, Unchanged
from stackroom.indexing._reports import EmbeddingReport, Failed, IndexReport, Progress, Stopped, cost_of, say
from stackroom.indexing._stored import PATH, Everything, Head, StoredFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
    from pathlib import Path

    from stackroom._cancel import CancelToken
    from stackroom._model import Source
    from stackroom._values import MetadataValue
    from stackroom.indexing._calls import Calls
    from stackroom.indexing._inside import Inside
    from stackroom.indexing._walk import FolderFile, Walked

_FILES_AT_A_TIME: Final = 64
_CHARACTERS_AT_A_TIME: Final = 1_000_000
_NOTHING: Final[Mapping[str, MetadataValue | None]] = MappingProxyType({})

Outcome: TypeAlias = Literal["new", "changed", "rescoped", "removed"]
OUTCOMES: Final[tuple[Outcome, ...]] = ("new", "changed", "rescoped", "removed")
"""What may become of a source."""


@dataclass(slots=True)
class _Tally:
    """What was counted so far."""

    new: int = 0
    changed: int = 0
    unchanged: int = 0
    rescoped: int = 0
    removed: int = 0
    embedded: int = 0
    reused: int = 0
    characters: int = 0
    over_ceiling: int = 0
    done: int = 0
    failed: list[Failed] = field(default_factory=list)

    def take(self, job: Job[Source]) -> None:
        """Count a source that was written."""
        is_new = not job.stored.passages
        self.new += is_new
        self.changed += not is_new
        self.embedded += job.embedded
        self.reused += job.reused
        self.characters += job.characters
        self.done += 1

    def fail(self, failed: Failed) -> None:
        """Count a file that was not indexed."""
        self.failed.append(failed)
        self.done += 1


@dataclass(slots=True, kw_only=True)
class FolderRun:
    """A run from the files that were found to its report."""

    parts: Inside
    planner: Planner
    stored: StoredFolder
    walked: Walked
    root: Path
    ceiling: int
    budget: int | None
    price: float | None
    dry_run: bool
    prune: bool
    cancel: CancelToken | None
    on_progress: Callable[[Progress], object] | None
    on_source: Callable[[Job[Source]], object] | None = None
    empty: dict[str, bool] = field(default_factory=dict)
    """Names of the files that hold no text, and whether an earlier version did."""
    stopped_at: tuple[str, int] | None = None
    """The source that the budget did not allow, and how many of its characters were to be embedded."""
    named: dict[Outcome, list[str]] = field(default_factory=lambda: {outcome: [] for outcome in OUTCOMES})
    """The ids of the sources that were, or of a dry run would be, written, re-scoped or removed."""
    _tally: _Tally = field(default_factory=_Tally)
    _ignored: Counter[str] = field(default_factory=Counter)
    _planned: int = 0
    _on_the_way: dict[str, ToWrite] = field(default_factory=dict)
    _settled: set[str] = field(default_factory=set)
    """Sources that are as this run is to leave them."""
    _began: float = field(default_factory=time.perf_counter)

    def count_over_ceiling(self) -> tuple[int, int]:
        """Return how many passages of what is to be written are over the ceiling, and of how many."""
        over = of = 0
        for entries in self._groups():
            for entry in entries:
                if isinstance(entry, ToWrite):
                    of += len(entry.source.passages)
                    over += self._over(entry)
        return over, of

    def to_its_end(
        self, width: int, attempts: int, on_embedding: Callable[[EmbeddingReport], object] | None
    ) -> IndexReport:
        """Do what is planned, prune, and report; what ends it early is raised with the report."""
        self._ignored = Counter(self.walked.ignored)
        for name, message in self.walked.unreadable:
            self._tally.failed.append(Failed(self.planner.prefix + name, "unreadable", message))
        for name in self.walked.misnamed:
            message = "its name is no valid Unicode; rename it"
            self._tally.failed.append(Failed(self.planner.prefix + name, "name", message))
        calls = self.parts.calls(width, self.cancel, Patience(attempts, halves=True))
        try:
            ending = self._imagine() if self.dry_run else self._engine(calls, attempts).run(self._jobs())
            if ending is None and self.stopped_at is None:
                ending = self._pruned()
            ending = self._rest_rescoped(ending)
        finally:
            self.stored.close()
        if not self.dry_run:
            self._say_progress()
        if embedded := calls.report():
            say(on_embedding, embedded)
        return self._ended(ending)

    def _engine(self, calls: Calls, attempts: int) -> Engine[Source]:
        return Engine(
            self.parts.write,
            self.parts.let_go,
            calls,
            self.parts.batch,
            self.cancel,
            self._written,
            self._failed,
            self._say_progress,
            attempts,
        )

    # Planning

    def _groups(self) -> Iterator[list[Entry]]:
        """Yield what is to be done, some files at a time."""
        names: set[str] = set()
        files = self.walked.files
        for first in range(0, len(files), _FILES_AT_A_TIME):
            group = files[first : first + _FILES_AT_A_TIME]
            heads = self.stored.heads([self.planner.source_id(file) for file in group])
            entries: list[Entry] = []
            characters = 0
            for file in group:
                entries.append(self._entry(file, heads, names))
                characters += _characters(entries[-1])
                if characters > _CHARACTERS_AT_A_TIME:
                    yield entries
                    entries, characters = [], 0
            yield entries

    def _entry(self, file: FolderFile, heads: dict[str, Head], names: set[str]) -> Entry:
        source_id = self.planner.source_id(file)
        if file.name in names:
            return Failed(source_id, "name", "another file has the same name in another normal form; rename one")
        names.add(file.name)
        return self.planner.entry(file, heads.get(source_id))

    def _jobs(self) -> Generator[Job[Source]]:
        """Yield the sources to write in order, each claimed and looked at; the rest is done meanwhile."""
        self.parts.writing.check_fingerprint()
        for entries in self._groups():
            if (
                self.cancel is not None and self.cancel.cancelled
            ):  # a folder of unchanged files yields no job to stop at
                return
            to_write = [entry for entry in entries if isinstance(entry, ToWrite)]
            claims = {
                entry.source.source_id: self.parts.writing.claims.take(entry.source.tenant_id, entry.source.source_id)
                for entry in to_write
            }
            try:
                for job in self._done_in_order(entries, self._looked_at(to_write), claims):
                    del claims[job.source.source_id]
                    self.stored.let_go(job.source.source_id, job.stored) if job.stored.passages else None
                    yield job
            finally:
                for claim in claims.values():
                    self.parts.writing.claims.drop(claim)
            if self.stopped_at is not None:
                return
            self._say_progress()

    def _looked_at(self, to_write: Sequence[ToWrite]) -> dict[str, Stored]:
        if not to_write:
            return {}
        tenant_id = to_write[0].source.tenant_id
        return self.parts.writing.look(tenant_id, {entry.source.source_id: _EVERYTHING for entry in to_write})

    def _done_in_order(
        self, entries: Sequence[Entry], found: dict[str, Stored], claims: dict[str, Claim]
    ) -> Iterator[Job[Source]]:
        texts = {
            passage.text
            for entry in entries
            if isinstance(entry, ToWrite)
            for passage in entry.source.passages
            if passage.text not in found[entry.source.source_id].vectors
        }
        known = self.stored.vectors(texts) if texts else {}
        to_rescope: list[Unchanged] = []
        for entry in entries:
            if isinstance(entry, ToWrite):
                job = self._job(entry, found, known, claims)
                if job is None:
                    continue
                if self.budget is not None and self._planned + job.characters > self.budget:
                    self.stopped_at = (entry.source.source_id, job.characters)
                    break
                self._planned += job.characters
                self._tally.over_ceiling += self._over(entry)
                self._rescope(to_rescope)
                to_rescope = []
                yield job
            elif isinstance(entry, Unchanged):
                to_rescope.append(entry)
                self._tally.unchanged += 1
                self._tally.done += 1
                self._settled.add(entry.source_id)
            elif isinstance(entry, Empty):
                self.empty[entry.name] = entry.is_stored
                self._ignored["empty"] += 1
                self._tally.done += 1
            else:
                self._tally.fail(entry)
        self._rescope(to_rescope)

    def _job(
        self, entry: ToWrite, found: dict[str, Stored], known: dict[str, Any], claims: dict[str, Claim]
    ) -> Job[Source] | None:
        """Return the job of a source; None, and counted, when somebody else wrote it just now."""
        source = entry.source
        stored = found[source.source_id]
        head = Head(stored.metadata) if stored.passages else None
        if head is not None and not head.belongs_to(self.planner.corpus):
            self._tally.fail(Failed(source.source_id, "owned", "a source of this id was written elsewhere just now"))
            return None
        own = {text.text: stored.vectors.get(text.text, known.get(text.text)) for text in source.passages}
        if self.planner.is_same(entry, head):
            self._tally.unchanged += 1
            self._tally.done += 1
            return None
        self._on_the_way[source.source_id] = entry
        vectors = [own[passage.text] for passage in source.passages]
        claim = claims.get(source.source_id) or Claim(source.tenant_id, source.source_id)
        return Job(source, stored, claim, vectors, {keys.SETTINGS: entry.settings})

    def _rescope(self, unchanged: Sequence[Unchanged]) -> None:
        """Set who may see sources that are otherwise as they were, and when they expire."""
        model = self.planner.model
        expires = None if model.expires_at is None else microseconds(model.expires_at)
        differing = {entry.source_id for entry in unchanged if _is_scoped_otherwise(entry.head, self.planner)}
        heads = {
            entry.source_id: entry.head
            for entry in unchanged
            if entry.source_id in differing or entry.head.metadata.get(keys.EXPIRES) != expires
        }
        self._note_rescoped(differing & self._set_scope(heads, {keys.EXPIRES: expires}))

    def _note_rescoped(self, source_ids: Collection[str]) -> None:
        self._tally.rescoped += len(source_ids)
        self.named["rescoped"] += sorted(source_ids)

    def _set_scope(self, heads: Mapping[str, Head], more: Mapping[str, MetadataValue | None] = _NOTHING) -> set[str]:
        """Set who may see some sources, those that are still as they were read; return their ids.

        What somebody else has written meanwhile is no longer the folder's, and not for it to open to anybody.
        """
        if not heads or self.dry_run:
            return set(heads)
        model = self.planner.model
        patch: dict[str, MetadataValue | None] = {
            keys.GROUPS: list(model.acl_groups),
            keys.FOLDER: model.folder_id,
            keys.TAGS: list(model.tags),
            keys.UPDATED: self.parts.writing.now(),
            **more,
        }

        def update(some: Mapping[str, Head]) -> int:
            return self.parts.store.update(self.parts.collection, patch, where=_as_read(model.tenant_id, some))

        went = update(heads)
        if went >= sum(head.metadata.get(keys.PASSAGES, 0) for head in heads.values()):
            return set(heads)
        mine = of_sources(model.tenant_id, sorted(heads))
        written = Reading(self.parts.store, self.parts.collection).records(And(mine, Eq(keys.INDEX, 0)))
        return {record.source_id for record in written if record.metadata.get(keys.UPDATED) == patch[keys.UPDATED]}

    def _rest_rescoped(self, ending: BaseException | None) -> BaseException | None:
        """Set who may see whatever else is kept of the files that were asked for; return what ended the run.

        Those are files that failed, hold no text, are gone, or were not come to. When they expire stays as it was.
        """
        if isinstance(ending, StoreError | IndexingCancelled | EmbedderMismatch):
            return ending
        try:
            settled = self._settled | set(self.named["removed"])
            rest = [
                (source_id, head)
                for source_id, head in self.stored.all_heads()
                if source_id not in settled and self._is_kept_otherwise(source_id, head)
            ]
            for first in range(0, len(rest), _FILES_AT_A_TIME):
                self._note_rescoped(self._set_scope(dict(rest[first : first + _FILES_AT_A_TIME])))
        except StoreError as error:
            return ending or error
        return ending

    def _is_kept_otherwise(self, source_id: str, head: Head) -> bool:
        """Tell whether a source of a file that was asked for is still to be re-scoped."""
        name = self._name_of(source_id, head)
        return name is not None and self.walked.is_asked_for(name) and _is_scoped_otherwise(head, self.planner)

    def _name_of(self, source_id: str, head: Head) -> str | None:
        """Return the name of a source's file; None when the source was not named after it, as it would be here."""
        name = head.own(PATH)
        return name if isinstance(name, str) and source_id == self.planner.prefix + name else None

    def _over(self, entry: ToWrite) -> int:
        return sum(len(passage.text) > self.ceiling for passage in entry.source.passages)

    # Doing

    def _imagine(self) -> BaseException | None:
        """Count what a run would do now; return what ended that before its time."""
        try:
            self.parts.writing.check_fingerprint()
            for entries in self._groups():
                if self.cancel is not None:
                    self.cancel.raise_if_cancelled()
                found = self._looked_at([entry for entry in entries if isinstance(entry, ToWrite)])
                for job in self._done_in_order(entries, found, {}):
                    self._settle(job)
                self._say_progress()
                if self.stopped_at is not None:
                    break
        except (StoreError, EmbedderError, IndexingCancelled) as error:
            return error
        return None

    def _written(self, job: Job[Source]) -> None:
        self._on_the_way.pop(job.source.source_id, None)
        self._settle(job)
        if self.on_source is not None:
            self.on_source(job)

    def _settle(self, job: Job[Source]) -> None:
        self._tally.take(job)
        self._settled.add(job.source.source_id)
        self.named["changed" if job.stored.passages else "new"].append(job.source.source_id)

    def _failed(self, job: Job[Source], error: EmbedderError | Conflict) -> None:
        source_id = job.source.source_id
        entry = self._on_the_way.pop(source_id)
        if isinstance(error, EmbedderError):
            message = f"the embedder refused a text of it ({error}); split it otherwise"
            self._tally.fail(Failed(source_id, "embedder", message))
        elif self.planner.is_same(entry, self.stored.heads([source_id]).get(source_id)):
            self._tally.unchanged += 1
            self._tally.done += 1
        else:
            message = "somebody else wrote, re-scoped or removed it meanwhile; index the folder again"
            self._tally.fail(Failed(source_id, "conflict", message))

    def _say_progress(self) -> None:
        done = self._tally
        say(self.on_progress, Progress(done.done, len(self.walked.files), done.embedded, done.reused))

    def _pruned(self) -> BaseException | None:
        """Remove the sources whose file is gone; return what ended that before its time."""
        if not self.prune or not self.walked.has_loadable:
            return None
        try:
            gone = [(source_id, head) for source_id, head in self.stored.all_heads() if self._is_gone(source_id, head)]
            for source_id, head in gone:
                if self.cancel is not None:
                    self.cancel.raise_if_cancelled()
                if self.dry_run or self._is_removed(source_id, head):
                    self._tally.removed += 1
                    self.named["removed"].append(source_id)
        except (StoreError, IndexingCancelled) as error:
            return error
        return None

    def _is_removed(self, source_id: str, head: Head) -> bool:
        """Remove a source that is still as it was read; tell whether it was."""
        tenant_id = self.planner.model.tenant_id
        with self.parts.writing.claims.removing(tenant_id, source_id):
            return self.parts.store.delete(self.parts.collection, where=_as_read(tenant_id, {source_id: head})) > 0

    def _is_gone(self, source_id: str, head: Head) -> bool:
        name = self._name_of(source_id, head)
        if name is None:
            return False
        if name in self.empty:
            return True
        is_there = name in self.walked.seen or self.walked.may_exist(self.root, name)
        return not is_there and not self.walked.is_hidden_from(name)

    def _ended(self, ending: BaseException | None) -> IndexReport:
        done = self._tally
        stopped: Stopped | None = "budget" if self.stopped_at is not None else None
        if ending is not None:
            stopped = "cancelled" if isinstance(ending, IndexingCancelled) else "error"
        report = IndexReport(
            new=done.new,
            changed=done.changed,
            unchanged=done.unchanged,
            rescoped=done.rescoped,
            removed=done.removed,
            remaining=len(self.walked.files) - done.done,
            embedded=done.embedded,
            reused=done.reused,
            characters=done.characters,
            failed=tuple(done.failed),
            ignored=MappingProxyType(dict(self._ignored)),
            over_ceiling=done.over_ceiling,
            stopped=stopped,
            dry_run=self.dry_run,
            fingerprint=str(self.parts.limits.fingerprint),
            seconds=time.perf_counter() - self._began,
            estimated_cost=cost_of(done.characters, self.price),
        )
        if ending is None:
            return report
        if isinstance(ending, StackroomError):
            ending.report = report
        raise ending


_EVERYTHING: Final = Everything()


def _as_read(tenant_id: str, heads: Mapping[str, Head]) -> Filter:
    """Return what the sources fulfil that nobody has written since they were read."""
    each = [
        And(
            Eq(keys.SOURCE, source_id),
            *(Eq(key, value) for key in (keys.SETTINGS, keys.UPDATED) if (value := head.metadata.get(key)) is not None),
        )
        for source_id, head in sorted(heads.items())
    ]
    return And(Eq(keys.TENANT, tenant_id), Or(*each))


def _characters(entry: Entry) -> int:
    return sum(len(passage.text) for passage in entry.source.passages) if isinstance(entry, ToWrite) else 0


def _is_scoped_otherwise(head: Head, planner: Planner) -> bool:
    model = planner.model
    stored = (
        set(head.metadata.get(keys.GROUPS, ())),
        head.metadata.get(keys.FOLDER),
        set(head.metadata.get(keys.TAGS, ())),
    )
    return stored != (set(model.acl_groups), model.folder_id, set(model.tags))
