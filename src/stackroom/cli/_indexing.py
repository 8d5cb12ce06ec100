"""Files into a library, one source each, with what became of every one of them."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from stackroom import Conflict, Indexed, Source, SourceError
from stackroom.cli._files import Found, Skipped, SourceFile, shown_path
from stackroom.cli._shown import message_console
from stackroom.cli._visible import in_a_cell
from stackroom.indexing._loaders import LOADERS, Loaded, UndecodableText, passages_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from stackroom import Library

_ENCODING: Final = "utf-8"
HARMLESS: Final = frozenset({"empty"})
"""Reasons for which a file may be skipped without the command having failed."""


@dataclass(slots=True)
class Outcome:
    """What became of the files: sources written, files skipped, and how long it took."""

    written: list[tuple[str, Indexed]] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    other_suffixes: int = 0
    seconds: float = 0.0

    @property
    def passages(self) -> int:
        """Passages of all sources written."""
        return sum(indexed.passages for _, indexed in self.written)

    @property
    def new(self) -> int:
        """Sources written of which there was no earlier version."""
        return sum(not indexed.replaced for _, indexed in self.written)

    @property
    def embedded(self) -> int:
        """Passages that were embedded; the others had their vectors from the earlier version."""
        return sum(indexed.embedded for _, indexed in self.written)

    @property
    def failed(self) -> bool:
        """Whether some file that should have been indexed was not."""
        return any(skipped.reason not in HARMLESS for skipped in self.skipped)


def index_files(library: Callable[[], Library], found: Found, properties: Mapping[str, Any], *, quiet: bool) -> Outcome:
    """Index every file as a source with these `properties`; a file that cannot be one is skipped and said.

    `library` gives the one to write to; it is not asked before there is a source to write.
    A title among the properties wins over the file's own. A bar on stderr shows how far it is, on a terminal and
    unless `quiet`. Errors of the embedder and of the store end it; what was written by then stays.
    """
    outcome = Outcome(skipped=list(found.skipped), other_suffixes=found.other_suffixes)
    began = time.perf_counter()
    with _bar(found, quiet=quiet) as advance:
        for file in found.files:
            result = _index_file(library, file, properties)
            if isinstance(result, Skipped):
                outcome.skipped.append(result)
            else:
                outcome.written.append((file.source_id, result))
            advance(file)
    outcome.seconds = time.perf_counter() - began
    return outcome


@contextmanager
def _bar(found: Found, *, quiet: bool) -> Iterator[Callable[[SourceFile], None]]:
    console = message_console()
    columns = (
        TextColumn("indexing"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[name]}", style="dim"),
    )
    is_shown = console.is_terminal and not quiet
    with Progress(*columns, console=console, transient=True, disable=not is_shown) as progress:
        task = progress.add_task("", total=len(found.files), name="")
        yield lambda file: progress.update(task, advance=1, name=in_a_cell(file.source_id))


def _index_file(library: Callable[[], Library], file: SourceFile, properties: Mapping[str, Any]) -> Indexed | Skipped:
    def skipped(reason: str, message: str) -> Skipped:
        return Skipped(shown_path(file.path), reason, message)

    try:
        loaded = LOADERS[file.path.suffix.lower()](file.path.read_bytes(), _ENCODING)
        source = _source(file, loaded, properties)
    except UndecodableText as error:
        return skipped("encoding", str(error))
    except (ValueError, SourceError) as error:
        return skipped("loader", str(error))
    except OSError as error:
        return skipped("unreadable", error.strerror or type(error).__name__)
    if not source.passages:
        return skipped("empty", "it holds no text")
    to_write_to = library()
    try:
        return to_write_to.index_source(source)
    except Conflict:
        return skipped("conflict", "somebody else wrote it meanwhile; index it again")


def _source(file: SourceFile, loaded: Loaded, properties: Mapping[str, Any]) -> Source:
    own_title = {"title": loaded.title or file.path.name}
    return Source(source_id=file.source_id, passages=passages_of(loaded), **(own_title | dict(properties)))
