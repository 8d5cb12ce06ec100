"""Files and folders into a library, one source each, with what became of every one of them."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from stackroom import Indexed, Source
from stackroom.cli._files import Found, Place, Skipped, shown_path
from stackroom.cli._shown import message_console
from stackroom.indexing import CancelToken, IndexReport, Progress
from stackroom.indexing._folder import corpus_of
from stackroom.indexing._folder_run import OUTCOMES, FolderRun
from stackroom.indexing._inside import inside
from stackroom.indexing._loaders import shipped_loaders
from stackroom.indexing._options import ceiling_of
from stackroom.indexing._plan import Planner, ToWrite, Words
from stackroom.indexing._stored import StoredFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stackroom import Library
    from stackroom.indexing._engine import Job

MAX_BYTES: Final = 25 * 1024 * 1024
_MAX_CHARS: Final = 1200
_OVERLAP_CHARS: Final = 150
_ATTEMPTS: Final = 3
_WORDS: Final = Words("--corpus", "--source-prefix", "--encoding", "`stackroom show SOURCE`")
_EMPTY: Final = "it holds no text"
_KEPT: Final = "; its earlier version stays, with the groups of this call, until --prune removes it"
HARMLESS: Final = frozenset({"empty"})
"""Reasons for which a file may be skipped without the command having failed."""

_COUNTS: Final = ("new", "changed", "unchanged", "rescoped", "removed", "remaining", "embedded", "reused", "characters")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the options of the command say: what the sources have in common, and how to go about it."""

    model: Source
    title: str | None = None
    corpus: str | None = None
    prune: bool = False
    dry_run: bool = False
    budget: int | None = None
    price: float | None = None
    jobs: int = 8
    source_prefix: str = ""
    encoding: str = "utf-8"

    def planner(self, place: Place) -> Planner:
        """Return how the files of a place become sources."""
        corpus = self.corpus or corpus_of(place.root)
        loaders = shipped_loaders(_MAX_CHARS, _OVERLAP_CHARS)
        sizes = (_MAX_CHARS, _OVERLAP_CHARS)
        return Planner(
            self.model,
            corpus,
            self.source_prefix,
            self.encoding,
            MAX_BYTES,
            loaders,
            *sizes,
            title=self.title,
            words=_WORDS,
        )


@dataclass(frozen=True, slots=True)
class Large:
    """A file, and how many characters of it are to be embedded."""

    path: str
    characters: int


@dataclass(slots=True)
class Outcome:
    """What became of the files: sources written, files skipped, counts, and how long it took."""

    written: list[tuple[str, Indexed]] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    named: dict[str, list[str]] = field(default_factory=lambda: {outcome: [] for outcome in OUTCOMES})
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTS, 0))
    tokens: int = 0
    cost: float | None = None
    stopped: str | None = None
    stopped_at: Large | None = None
    """The file that the budget did not allow."""
    seconds: float = 0.0

    @property
    def passages(self) -> int:
        """Passages of all sources written."""
        return self.counts["embedded"] + self.counts["reused"]

    @property
    def failed(self) -> bool:
        """Whether some file that should have been indexed was not."""
        return self.stopped is not None or any(skipped.reason not in HARMLESS for skipped in self.skipped)

    def take(self, report: IndexReport) -> None:
        """Add what one place came to."""
        for name in _COUNTS:
            self.counts[name] += getattr(report, name)
        self.tokens += report.estimated_tokens
        if report.estimated_cost is not None:
            self.cost = (self.cost or 0.0) + report.estimated_cost
        self.ignored.update(report.ignored)
        self.stopped = report.stopped


def holds_a_source(found: Found, wanted: Wanted) -> bool:
    """Tell whether any file can become a source; what no library is made for."""
    planned = (wanted.planner(place).entry(file, None) for place in found.places for file in place.walked.files)
    return any(isinstance(entry, ToWrite) for entry in planned)


def index_files(library: Library, found: Found, wanted: Wanted, *, quiet: bool) -> Outcome:
    """Index every file; one that cannot be a source is skipped and said.

    A bar on stderr shows how far it is, on a terminal and unless `quiet`. Errors of the embedder and of the store end
    it, and so does an interrupt, with IndexingCancelled; what was embedded by then is written.
    """
    outcome = Outcome(skipped=list(found.skipped))
    began = time.perf_counter()
    with cancelled_by_interrupt() as cancel, _bar(found, quiet=quiet) as show:
        done_before: tuple[int, int] = (0, 0)
        for place in found.places:
            run = _run(library, place, wanted, outcome, cancel, _adding(show, done_before))
            report = run.to_its_end(wanted.jobs, _ATTEMPTS, None)
            outcome.take(report)
            for what, source_ids in run.named.items():
                outcome.named[what] += source_ids
            outcome.skipped += _skipped(place, run, report)
            if run.stopped_at is not None:
                outcome.stopped_at = Large(_path_of(place, run, run.stopped_at[0]), run.stopped_at[1])
            done_before = (done_before[0] + len(place.walked.files), outcome.passages)
            if outcome.stopped is not None:
                break
            if wanted.budget is not None:
                wanted = _with_less(wanted, report.characters)
    outcome.seconds = time.perf_counter() - began
    return outcome


def _run(
    library: Library,
    place: Place,
    wanted: Wanted,
    outcome: Outcome,
    cancel: CancelToken,
    on_progress: Callable[[Progress], None],
) -> FolderRun:
    parts = inside(library)
    planner = wanted.planner(place)

    def note(job: Job[Source]) -> None:
        indexed = Indexed(len(job.vectors), job.stored.passages, job.embedded, job.reused)
        outcome.written.append((job.source.source_id, indexed))

    return FolderRun(
        parts=parts,
        planner=planner,
        stored=StoredFolder(parts, wanted.model.tenant_id, planner.corpus),
        walked=place.walked,
        root=place.root,
        ceiling=ceiling_of(parts.limits, None)[0],
        budget=wanted.budget,
        price=wanted.price,
        dry_run=wanted.dry_run,
        prune=wanted.prune and place.is_directory,
        cancel=cancel,
        on_progress=on_progress,
        on_source=note,
    )


def _with_less(wanted: Wanted, characters: int) -> Wanted:
    """Return the same with what is left of the budget."""
    return replace(wanted, budget=max(0, (wanted.budget or 0) - characters))


def _skipped(place: Place, run: FolderRun, report: IndexReport) -> list[Skipped]:
    failed = [Skipped(_path_of(place, run, one.source_id), one.reason, one.message) for one in report.failed]
    empty = [
        Skipped(shown_path(place.root / name), "empty", _EMPTY + (_KEPT if is_stored and not run.prune else ""))
        for name, is_stored in sorted(run.empty.items())
    ]
    return failed + empty


def _path_of(place: Place, run: FolderRun, source_id: str) -> str:
    return shown_path(place.root / source_id.removeprefix(run.planner.prefix))


def _adding(show: Callable[[int, int], None], before: tuple[int, int]) -> Callable[[Progress], None]:
    """Return what shows the progress of one place behind that of the places before it."""
    return lambda progress: show(before[0] + progress.done, before[1] + progress.embedded + progress.reused)


@contextmanager
def cancelled_by_interrupt() -> Iterator[CancelToken]:
    """Give a token that the first Ctrl-C cancels; a second one interrupts at once."""
    token = CancelToken()
    if threading.current_thread() is not threading.main_thread():
        yield token
        return

    def cancel(_number: int, _frame: Any) -> None:
        signal.signal(signal.SIGINT, before)
        token.cancel()

    before = signal.signal(signal.SIGINT, cancel)
    try:
        yield token
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _bar(found: Found, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    console = message_console()
    columns = (
        TextColumn("indexing"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("files"),
        TextColumn("{task.fields[passages]:,} passages, {task.fields[rate]:,.0f}/s"),
        TimeRemainingColumn(),
    )
    is_shown = console.is_terminal and not quiet
    began = time.perf_counter()
    with Bar(*columns, console=console, transient=True, disable=not is_shown) as bar:
        task = bar.add_task("", total=found.files, passages=0, rate=0.0)

        def show(files: int, passages: int) -> None:
            rate = passages / max(time.perf_counter() - began, 1e-9)
            bar.update(task, completed=files, passages=passages, rate=rate)

        yield show
