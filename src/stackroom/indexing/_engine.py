"""The engine of both doors: sources come in, their texts are embedded in full batches, and they are written whole."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from stackroom._errors import Conflict, EmbedderError, IndexingCancelled, StoreError, StoreUnavailable
from stackroom.indexing._calls import Stopped, Text, is_cancel

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from stackroom._cancel import CancelToken
    from stackroom._claims import Claim
    from stackroom._values import MetadataValue
    from stackroom._writing import Stored
    from stackroom.indexing._calls import Calls, Vector

_PASSAGES_WAITING = 2048
"""Passages of sources that wait to be written, at least, before a batch is sent that is not full."""


class Textual(Protocol):
    """What has a text."""

    @property
    def text(self) -> str:
        """The text to embed."""
        ...


class Whole(Protocol):
    """What is written as one: the texts of one source."""

    @property
    def tenant_id(self) -> str:
        """Whose it is."""
        ...

    @property
    def source_id(self) -> str:
        """Its id."""
        ...

    @property
    def passages(self) -> Sequence[Textual]:
        """Its texts, in order."""
        ...


Held = TypeVar("Held", bound=Whole)


@dataclass(slots=True, eq=False)
class Job(Generic[Held]):
    """A source on its way: a vector for each passage, None while it is still to be embedded."""

    source: Held
    stored: Stored
    claim: Claim
    vectors: list[Vector | None]
    own: Mapping[str, MetadataValue] = field(default_factory=dict)
    failure: EmbedderError | None = None
    missing: int = field(init=False)
    embedded: int = field(init=False)
    characters: int = field(init=False)

    def __post_init__(self) -> None:
        fresh = [passage for passage, vector in zip(self.source.passages, self.vectors, strict=True) if vector is None]
        self.missing = self.embedded = len(fresh)
        self.characters = sum(len(passage.text) for passage in fresh)

    @property
    def whole_vectors(self) -> list[Vector]:
        """The vectors of all passages, once none is missing."""
        return [vector for vector in self.vectors if vector is not None]

    @property
    def reused(self) -> int:
        """Passages that have a vector already."""
        return len(self.vectors) - self.embedded

    @property
    def is_complete(self) -> bool:
        """Whether nothing is awaited for it: it can be written, or has failed."""
        return not self.missing or self.failure is not None


@dataclass(slots=True)
class Engine(Generic[Held]):
    """Embeds and writes jobs in their order, on this thread.

    `write` answers of each job how many passages it replaced, or its Conflict; then each is `written` or `failed`.
    """

    write: Callable[[list[Job[Held]]], list[int | Conflict]]
    let_go: Callable[[Job[Held]], None]
    calls: Calls
    batch: int
    cancel: CancelToken | None
    written: Callable[[Job[Held]], None]
    failed: Callable[[Job[Held], EmbedderError | Conflict], None]
    after_write: Callable[[], None]
    write_attempts: int = 1
    _waiting: deque[Job[Held]] = field(default_factory=deque)
    _batch: list[tuple[Job[Held], int]] = field(default_factory=list)
    _asked: deque[list[tuple[Job[Held], int]]] = field(default_factory=deque)
    _passages: int = 0
    _ending: BaseException | None = None

    def run(self, jobs: Generator[Job[Held]]) -> BaseException | None:
        """Embed and write all jobs; return what ended it before its time, an error of this project, or None.

        What has been embedded by then is written. Other exceptions pass through, after the calls in flight.
        """
        with self.calls:
            try:
                self._take_in(jobs)
                self._finish()
            finally:
                jobs.close()
                for job in self._waiting:
                    self.let_go(job)
        return self._ended()

    def _take_in(self, jobs: Generator[Job[Held]]) -> None:
        while not self._has_stopped():
            try:
                job = next(jobs, None)
            except (StoreError, EmbedderError, IndexingCancelled) as error:
                self._ending = error
                return
            if job is None:
                break
            self._add(job)
        if self._batch and not self._has_stopped():
            self._ask()

    def _has_stopped(self) -> bool:
        return self._ending is not None or self.calls.has_stopped

    def _add(self, job: Job[Held]) -> None:
        self._waiting.append(job)
        self._passages += len(job.vectors)
        for index, vector in enumerate(job.vectors):
            if vector is None:
                self._batch.append((job, index))
                if len(self._batch) == self.batch and not self._has_stopped():
                    self._ask()
        while self.calls.has_answer():
            self._take_answer()
        self._bound_waiting()

    def _ask(self) -> None:
        if self.calls.is_full:
            self._take_answer()
        if self._has_stopped():
            return
        self._asked.append(self._batch)
        self.calls.ask([_text(job, index) for job, index in self._batch])
        self._batch = []

    def _bound_waiting(self) -> None:
        """Write what waits for nothing, and await the rest, when it becomes much."""
        if not self._asked and not self._batch and self._passages >= self.batch:
            self._write()
        while self._passages >= max(_PASSAGES_WAITING, 4 * self.calls.width * self.batch) and not self._has_stopped():
            if not self._asked and self._batch:
                self._ask()
            elif self._asked:
                self._take_answer()
            else:
                self._write()

    def _take_answer(self) -> None:
        """Give the oldest answer to those who wait for it, and write what is complete."""
        places = self._asked.popleft()
        try:
            answers = self.calls.answer()
        except (EmbedderError, IndexingCancelled, Stopped) as error:
            if not isinstance(error, Stopped):
                self._ending = self._ending or error
            return
        for (job, index), answer in zip(places, answers, strict=True):
            if isinstance(answer, EmbedderError):
                job.failure = job.failure or answer
            else:
                job.vectors[index] = answer
                job.missing -= 1
        self._write()

    def _finish(self) -> None:
        while self._asked:
            self._take_answer()
        self._write(passes_over_incomplete=True)

    def _write(self, *, passes_over_incomplete: bool = False) -> None:
        """Write the jobs at the head that are complete; at the end also those behind one that never will be."""
        ready: list[Job[Held]] = []
        held: list[Job[Held]] = []
        while self._waiting and (passes_over_incomplete or self._waiting[0].is_complete):
            job = self._waiting.popleft()
            (ready if job.is_complete else held).append(job)
        self._waiting.extendleft(reversed(held))
        if not ready or isinstance(self._ending, StoreError):
            self._waiting.extendleft(reversed(ready))
            return
        self._passages -= sum(len(job.vectors) for job in ready)
        try:
            self._write_together(ready)
        except (StoreError, EmbedderError) as error:
            self._ending = self._ending or error
        finally:
            for job in ready:
                self.let_go(job)
        self.after_write()

    def _write_together(self, ready: list[Job[Held]]) -> None:
        whole = [job for job in ready if job.failure is None]
        results = iter(self._written(whole))
        for job in ready:
            result = job.failure or next(results)
            if isinstance(result, EmbedderError | Conflict):
                self.failed(job, result)
            else:
                self.written(job)

    def _written(self, jobs: list[Job[Held]]) -> list[int | Conflict]:
        if not jobs:
            return []
        for pause in self.calls.pauses(self.write_attempts):
            try:
                return self.write(jobs)
            except StoreUnavailable:
                if pause is None:
                    raise
                with suppress(Stopped, IndexingCancelled):  # what is embedded is written, then without waiting
                    self.calls.pause(pause)
        raise AssertionError("unreachable: the last pause is None")

    def _ended(self) -> BaseException | None:
        """Return what ended the run; an error of the embedder after a cancel counts as the cancel."""
        ending = self._ending
        if ending is not None and is_cancel(ending, self.cancel):
            return ending if isinstance(ending, IndexingCancelled) else IndexingCancelled("cancelled by the caller")
        if ending is None and self.cancel is not None and self.cancel.cancelled:
            return IndexingCancelled("cancelled by the caller; what was embedded by then is written")
        return ending


def _text(job: Job[Held], index: int) -> Text:
    return Text(job.source.passages[index].text, (job.source.tenant_id, job.source.source_id))
