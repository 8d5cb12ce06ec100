"""`stackroom copy`, `stackroom export` and `stackroom import`: a library moves whole."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from stackroom import EmbedderMismatch, IndexingCancelled
from stackroom.cli import _options as options
from stackroom.cli import _shown
from stackroom.cli._indexing import cancelled_by_interrupt
from stackroom.cli._opening import COLLECTION, dsn_of, store_that_holds
from stackroom.cli._problems import Refused
from stackroom.cli._saying import INTERRUPTED, say
from stackroom.cli._shown import counted
from stackroom.copying import CopyProgress, CopyReport, copy_collection, export_collection, import_collection
from stackroom.copying._file import InFile
from stackroom.stores._dsn import open_store
from stackroom.stores._protocol import check_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stackroom._cancel import CancelToken

From = Annotated[
    Path | str,
    options.store("FROM", "The library that is there: its directory, or a DSN such as postgresql://… or qdrant://…."),
]
To = Annotated[
    Path | str,
    options.store("TO", "Where to copy to: a directory, made when missing, or a DSN such as qdrant://…."),
]
Collection = Annotated[
    str,
    Parameter(
        metavar="NAME", validator=options.not_blank("--collection"), help="A collection of another name than the usual."
    ),
]
Prune = Annotated[bool, Parameter(help="Remove the sources there that are not here.", show_default=False)]


def copy(
    origin: From,
    target: To,
    /,
    *,
    collection: Collection = COLLECTION,
    to: Annotated[
        str | None,
        Parameter(
            metavar="NAME",
            validator=options.not_blank("--to"),
            show_default="the same",
            help="The collection's name there.",
        ),
    ] = None,
    prune: Prune = False,
    json: options.Json = False,
) -> int:
    """Copy a library from one store to another, and see that it arrived.

    Vectors, texts, scopes, metadata and times come over as they are; nothing is embedded. What the other store has
    already is left alone, so that an interrupted copy goes on when it is started again. In the end every passage is
    compared bit by bit, passages are counted, and some scopes are searched on both sides. A library of another embedder
    is refused.
    """
    there = check_name(to or collection)
    is_same = _is_same(origin, target)
    if is_same and there == collection:
        raise Refused("a library cannot be copied onto itself: name another place, or another name there with --to")
    with (
        closing(store_that_holds(origin, collection)) as one,
        closing(open_store(dsn_of(target))) as other,
    ):
        return _run(
            lambda cancel, on_progress: copy_collection(
                one, other, collection=collection, to=there, prune=prune, cancel=cancel, on_progress=on_progress
            ),
            "copied",
            "copy it under another name (--to NAME)",
            json=json,
        )


def _is_same(origin: Path | str, target: Path | str) -> bool:
    if isinstance(origin, Path) and isinstance(target, Path):
        return origin.resolve() == target.resolve()
    return origin == target


def export(
    origin: From,
    file: Annotated[Path, Parameter(name="FILE", help="The file to write; one that is there becomes the same.")],
    /,
    *,
    collection: Collection = COLLECTION,
    json: options.Json = False,
) -> int:
    """Write a library into one portable file, for `stackroom import` and for programs in any language.

    The file holds everything: texts, vectors, who may see them, metadata, times, and the embedder's fingerprint. It is
    an SQLite database whose tables are documented. An interrupted export goes on when it is started again.
    """
    with closing(store_that_holds(origin, collection)) as store:
        return _run(
            lambda cancel, on_progress: export_collection(
                store, file, collection=collection, cancel=cancel, on_progress=on_progress
            ),
            "exported",
            "name another FILE",
            json=json,
        )


def import_(
    file: Annotated[Path, Parameter(name="FILE", help="What `stackroom export` wrote.")],
    target: To,
    /,
    *,
    collection: Collection = COLLECTION,
    prune: Prune = False,
    json: options.Json = False,
) -> int:
    """Bring an exported library into a store, and see that it arrived.

    As `stackroom copy` does: nothing is embedded, what is there already is left alone, and in the end everything is
    compared.
    """
    check_name(collection)
    InFile.opened(file).close()  # what is no export must leave no new directory behind
    with closing(open_store(dsn_of(target))) as store:
        return _run(
            lambda cancel, on_progress: import_collection(
                file, store, collection=collection, prune=prune, cancel=cancel, on_progress=on_progress
            ),
            "imported",
            "import it under another name (--collection NAME)",
            json=json,
        )


def _run(
    call: Callable[[CancelToken, Callable[[CopyProgress], object]], CopyReport],
    done: str,
    otherwise: str,
    *,
    json: bool,
) -> int:
    """Run a copy; `otherwise` says where else it could go when what is there belongs to another embedder."""
    with cancelled_by_interrupt() as cancel, _progress(quiet=json) as on_progress:
        try:
            report = call(cancel, on_progress)
        except IndexingCancelled:
            say("interrupted; what is there is kept: run the same command again to go on")
            return INTERRUPTED
        except EmbedderMismatch as error:
            raise Refused(
                f"what is there belongs to the embedder {error.stored}, what is to come to {error.given}: {otherwise}, "
                "or move one of them first (`stackroom reembed`)"
            ) from error
    if json:
        _shown.print_json(asdict(report))
    else:
        _shown.output_console().print(_summary(report, done), soft_wrap=True)
    return 0


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[CopyProgress], object]]:
    console = _shown.message_console()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("sources", total=None)

        def show(progress: CopyProgress) -> None:
            what = "reading" if progress.round == 1 else "comparing"
            bar.update(task, description=f"{what}: {progress.sources:,} sources, {progress.written:,} passages written")

        yield show


def _summary(report: CopyReport, done: str) -> str:
    parts = [f"{report.written:,} written"]
    if report.removed:
        parts.append(f"{counted(report.removed, 'source')} removed")
    if report.searched:
        parts.append(f"{counted(report.searched, 'scope')} searched on both sides")
    held = f"{counted(report.sources, 'source')}, {counted(report.passages, 'passage')}"
    return f"{done} and compared: {held} ({', '.join(parts)}) in {report.seconds:.1f} s"
