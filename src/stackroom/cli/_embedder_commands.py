"""`stackroom reembed` and `stackroom verify-embedder`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from stackroom import EmbedderError, EmbedderMismatch, IndexingCancelled
from stackroom._reading import Reading
from stackroom.cli import _options as options
from stackroom.cli import _shown
from stackroom.cli._indexing import cancelled_by_interrupt
from stackroom.cli._opening import COLLECTION, named_embedder, opened
from stackroom.cli._problems import Refused
from stackroom.cli._saying import INTERRUPTED, say
from stackroom.cli._shown import counted
from stackroom.indexing import reembed as move

if TYPE_CHECKING:
    from pathlib import Path

    from stackroom.indexing import Progress


def reembed(
    embedder: options.NewEmbedder,
    /,
    *,
    jobs: Annotated[
        options.Number1To10000, Parameter(metavar="N", help="Call the embedder so many times at once, at most.")
    ] = 8,
    library: options.Library = options.DEFAULT_LIBRARY,
    json: options.Json = False,
) -> int:
    """Move a library to another embedder: only vectors change, and all tenants move at once.

    Searches and writes go on in the meantime. An interrupted run goes on when it is started again. Afterwards commands
    take the new embedder by themselves; a program that names the old one is refused.
    """
    new = named_embedder(embedder)
    with opened(library, None, makes_collections=True) as open_one, cancelled_by_interrupt() as cancel:
        console = _shown.message_console()
        columns = (TextColumn("reembedding"), BarColumn(), MofNCompleteColumn(), TextColumn("sources"))
        is_shown = console.is_terminal and not json
        with Bar(*columns, TimeRemainingColumn(), console=console, transient=True, disable=not is_shown) as bar:
            task = bar.add_task("", total=None)

            def show(progress: Progress) -> None:
                bar.update(task, completed=progress.done, total=progress.total)

            try:
                report = move(open_one.library, new, cancel=cancel, on_progress=show, max_concurrency=jobs)
            except IndexingCancelled:
                say("interrupted; what was embedded is kept: run the same command again to go on")
                return INTERRUPTED
    if json:
        _shown.print_json(asdict(report))
    else:
        passages = f"{report.embedded:,} embedded, {report.reused:,} embedded before"
        done = (
            f"moved to {new.fingerprint}: {counted(report.passages, 'passage')} in {report.seconds:.1f} s ({passages})"
        )
        _shown.output_console().print(done, soft_wrap=True)
    return 0


def verify_embedder(
    *,
    sample: Annotated[options.Number1To10000, Parameter(help="Embed so many stored passages again, at most.")] = 3,
    library: options.Library = options.DEFAULT_LIBRARY,
    embedder: options.Embedder = None,
    json: options.Json = False,
) -> None:
    """See whether the embedder still is the model that a library was made with.

    Embeds some stored passages again and compares: fails when a cosine is below 0.99.
    """
    with opened(library, embedder, embeds=True) as open_one:
        lowest = open_one.library.verify_embedder(sample=sample)
        is_empty = next(Reading(open_one.store, COLLECTION).tenants(), None) is None
    if json:
        _shown.print_json({"lowest_cosine": None if is_empty else lowest})
    elif is_empty:
        _shown.output_console().print("nothing is stored yet, so there was nothing to compare", soft_wrap=True)
    else:
        _shown.output_console().print(f"the same model: lowest cosine {lowest:.6f}", soft_wrap=True)


def changed_model(place: Path | str) -> str | None:
    """Return what is wrong with a library's own embedder: its vectors are no longer those that are stored.

    Where it cannot be had here, that is said on stderr, and nothing is found.
    """
    try:
        with opened(place, None, embeds=True) as open_one:
            open_one.library.verify_embedder()
    except EmbedderMismatch as error:
        return str(error)
    except (Refused, EmbedderError, ImportError, ValueError) as error:
        _shown.message_console().print(f"the embedder was not verified: {error}", soft_wrap=True)
    return None
