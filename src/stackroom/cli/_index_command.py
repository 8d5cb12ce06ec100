"""`stackroom index`: its options, and what it says at the end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter
from rich.table import Table

from stackroom import IndexingCancelled, Source
from stackroom.cli import _options as options
from stackroom.cli import _shown
from stackroom.cli._files import found_files
from stackroom.cli._indexing import Large, Outcome, Wanted, holds_a_source, index_files
from stackroom.cli._opening import has_library, opened_to_index
from stackroom.cli._problems import Refused, WrongUsage
from stackroom.cli._saying import INTERRUPTED, say
from stackroom.cli._shown import counted
from stackroom.cli._visible import in_a_cell
from stackroom.indexing._folder_options import check_encoding
from stackroom.indexing._loaders import LOADERS
from stackroom.indexing._walk import Wish

if TYPE_CHECKING:
    from collections.abc import Iterator

_SUFFIXES: Final = " ".join(LOADERS)

_PLANNED: Final = {"new": "new", "changed": "changed", "rescoped": "rescoped", "removed": "gone"}
"""What a dry run calls what would become of a source."""

_MOST_NAMED: Final = 20


def _encoding(_kind: type, name: str) -> None:
    try:
        check_encoding(name)
    except LookupError:
        raise WrongUsage("--encoding names none that Python knows; latin-1, cp1252 or utf-16 are some.") from None


def index(
    paths: Annotated[
        list[str],
        Parameter(name="PATH", validator=options.not_blank("PATH"), help=f"Files ({_SUFFIXES}) and directories."),
    ],
    /,
    *,
    tenant: options.Tenant,
    group: options.Groups,
    folder: Annotated[options.FolderToFileIn, Parameter(help="The folder to file the sources in.")] = None,
    tag: Annotated[
        options.TagsToGive, Parameter(help="A tag for the sources; give it several times for several tags.")
    ] = (),
    kind: Annotated[
        str, Parameter(metavar="KIND", validator=options.not_blank("--kind"), help="What kind of sources they are.")
    ] = "document",
    title: Annotated[
        str | None, Parameter(metavar="TITLE", help="The title of a single file.", show_default="its own")
    ] = None,
    tier: Annotated[
        options.Tier | None, Parameter(help="A label that searches can narrow by.", show_default=False)
    ] = None,
    corpus: Annotated[
        str | None,
        Parameter(
            metavar="NAME",
            validator=options.not_blank("--corpus"),
            show_default=False,
            help="What a directory is known by: a name of its own, for one that is indexed from several places, or the "
            "corpus that `stackroom show SOURCE` tells, for one that was moved or renamed.",
        ),
    ] = None,
    source_prefix: Annotated[
        str | None,
        Parameter(
            metavar="PREFIX",
            validator=options.not_blank("--source-prefix"),
            show_default=False,
            help="What every source id begins with, such as sales/: it tells files of the same name apart.",
        ),
    ] = None,
    include: Annotated[
        tuple[str, ...],
        Parameter(
            name="--include",
            metavar="GLOB",
            validator=options.not_blank("--include"),
            show_default=False,
            help="Only the files of a directory that match: without / their name, with / their path, where **/ is any "
            "number of directories. Give it several times for several globs.",
        ),
    ] = (),
    exclude: Annotated[
        tuple[str, ...],
        Parameter(
            name="--exclude",
            metavar="GLOB",
            validator=options.not_blank("--exclude"),
            show_default=False,
            help="None of the files of a directory that match, likewise; it wins over --include.",
        ),
    ] = (),
    hidden: Annotated[
        bool, Parameter(name="--hidden", negative="", show_default=False, help="Names that begin with a dot, too.")
    ] = False,
    follow_symlinks: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Symbolic links, too, when they lead to within the directory."),
    ] = False,
    encoding: Annotated[
        str,
        Parameter(metavar="NAME", validator=_encoding, help="The encoding of text without a byte order mark."),
    ] = "utf-8",
    prune: Annotated[
        bool,
        Parameter(
            show_default=False, help="Remove sources of a directory whose file is gone, or holds no text any more."
        ),
    ] = False,
    dry_run: Annotated[
        bool, Parameter(show_default=False, help="Say what would be done and to which sources, and do nothing.")
    ] = False,
    budget: Annotated[
        options.WholeNumber | None,
        Parameter(metavar="CHARS", show_default=False, help="Embed at most so many characters, then end."),
    ] = None,
    price: Annotated[
        float | None,
        Parameter(metavar="PRICE", show_default=False, help="What a million tokens cost, to estimate what this does."),
    ] = None,
    jobs: Annotated[
        options.Number1To10000, Parameter(metavar="N", help="Call the embedder so many times at once, at most.")
    ] = 8,
    library: options.Library = options.DEFAULT_LIBRARY,
    embedder: options.Embedder = None,
    json: options.Json = False,
) -> int:
    """Index files, and the files of directories, one source each.

    A source's id is the file's path relative to the directory given, or the name of a file given by itself. Files of
    other kinds in a directory are left out, and so are hidden ones, symbolic links, and directories that hold a
    library.

    What has not changed since is left alone, but for its groups, folder and tags, which become those of this call:
    without --folder it is in no folder afterwards. What has changed is replaced whole, and a passage whose text the
    directory's sources held already keeps its vector. So an interrupted run goes on when it is started again.

    A source of the same id that comes from elsewhere is not touched: --source-prefix sets another directory's ids
    apart, --corpus goes on with a directory that was moved. A file that was deleted from a directory stays in the
    library until --prune removes its source.
    """
    shared: dict[str, Any] = {"tenant_id": tenant, "acl_groups": group, "folder_id": folder, "tags": tag}
    model = Source("checked before any file is read", kind=kind, tier=tier, passages=(), **shared)
    if price is not None and not 0 <= price < float("inf"):
        raise WrongUsage("--price takes a number of at least 0.")
    wish = Wish(LOADERS.keys(), include or None, exclude, hidden, follow_symlinks)
    found = found_files((Path(path) for path in paths), wish)
    if corpus is not None and found.roots > 1:
        raise WrongUsage("--corpus names one directory; index them one by one.")
    if title is not None and found.files != 1:
        raise WrongUsage("--title names a single file; index the files one by one.")
    if not found.says_something:
        holds_library = any(place.walked.ignored["library"] for place in found.places)
        why = " (the files of a library are left out)" if holds_library else ""
        raise Refused(f"no file to index there{why}: it may be {_SUFFIXES}")
    wanted = Wanted(model, title, corpus, prune, dry_run, budget, price, jobs, source_prefix or "", encoding)
    writes = not dry_run and (has_library(library) or holds_a_source(found, wanted))
    with opened_to_index(library, embedder, writes=writes) as open_one:
        try:
            outcome = index_files(open_one, found, wanted, quiet=json)
        except IndexingCancelled:
            say("interrupted; what was written by then stays: run the same command again to go on")
            return INTERRUPTED
    _report(outcome, json=json, dry_run=dry_run, budget=budget)
    return int(outcome.failed)


def _report(outcome: Outcome, *, json: bool, dry_run: bool, budget: int | None) -> None:
    messages = _shown.message_console()
    for skipped in outcome.skipped:
        messages.print(f"skipped {in_a_cell(skipped.path)}: {skipped.message}", soft_wrap=True)
    if outcome.stopped_at is not None:
        messages.print(_end_of_budget(outcome, outcome.stopped_at, budget or 0), soft_wrap=True)
    if json:
        _shown.print_json(_as_json(outcome, dry_run=dry_run))
    elif dry_run:
        _shown.show(_table(outcome), *_names(outcome))
    else:
        _shown.output_console().print(_summary(outcome), soft_wrap=True)


def _end_of_budget(outcome: Outcome, file: Large, budget: int) -> str:
    left = counted(outcome.counts["remaining"], "file")
    if file.characters <= budget:
        return f"the budget is spent: {left} not indexed; run it again to go on"
    return (
        f"the budget of {budget:,} characters is too small for {in_a_cell(file.path)}, which needs "
        f"{file.characters:,}: {left} not indexed; give a --budget of at least that, or leave it out with --exclude"
    )


def _as_json(outcome: Outcome, *, dry_run: bool) -> dict[str, Any]:
    sources = [
        {
            "source_id": source_id,
            "passages": indexed.passages,
            "replaced": indexed.replaced,
            "embedded": indexed.embedded,
            "reused": indexed.reused,
        }
        for source_id, indexed in outcome.written
    ]
    counts = dict(outcome.counts)
    plan = {"plan": {_PLANNED[what]: names for what, names in outcome.named.items()}} if dry_run else {}
    return {
        "sources": sources,
        **plan,
        "new": counts.pop("new"),
        "replaced": counts.pop("changed"),
        **counts,
        "passages": outcome.passages,
        "tokens": outcome.tokens,
        "cost": outcome.cost,
        "stopped": outcome.stopped,
        "stopped_at": outcome.stopped_at,
        "skipped": outcome.skipped,
        "ignored": dict(sorted(outcome.ignored.items())),
        "other_suffixes": outcome.ignored["suffix"],
        "seconds": round(outcome.seconds, 3),
    }


def _table(outcome: Outcome) -> Table:
    """Return what a run would do, as a table."""
    counts = outcome.counts
    rows: dict[str, str] = {
        "new": f"{counts['new']:,}",
        "changed": f"{counts['changed']:,}",
        "unchanged": f"{counts['unchanged']:,}",
        "rescoped": f"{counts['rescoped']:,}",
        "gone": f"{counts['removed']:,}",
        "passages to embed": f"{counts['embedded']:,}",
        "characters": f"{counts['characters']:,}",
        "tokens": f"{outcome.tokens:,}",
    }
    if outcome.cost is not None:
        rows["cost"] = f"{outcome.cost:,.6f}, in the currency of --price"
    if left_out := ", ".join(_left_out(outcome)):
        rows["left out"] = left_out
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def _names(outcome: Outcome) -> Iterator[str]:
    """Yield, a line each, the sources that a run would write, re-scope or remove, the first of each kind."""
    for what, source_ids in outcome.named.items():
        if source_ids:
            yield from ("", _PLANNED[what])
            yield from (f"  {in_a_cell(source_id)}" for source_id in source_ids[:_MOST_NAMED])
        if len(source_ids) > _MOST_NAMED:
            yield f"  and {len(source_ids) - _MOST_NAMED:,} more, all of which --json names"


def _left_out(outcome: Outcome) -> Iterator[str]:
    """Yield how many there were of what a directory holds and no run indexes; only hidden names go without saying."""
    ignored = outcome.ignored
    if ignored["suffix"]:
        yield f"{counted(ignored['suffix'], 'file')} of other kinds"
    if ignored["excluded"]:
        yield f"{counted(ignored['excluded'], 'excluded file')}"
    if ignored["symlink"]:
        yield f"{counted(ignored['symlink'], 'symbolic link')}"
    if ignored["library"]:
        yield "a library" if ignored["library"] == 1 else f"{ignored['library']:,} libraries"


def _summary(outcome: Outcome) -> str:
    left_out = [f"{len(outcome.skipped)} skipped"] if outcome.skipped else []
    left_out += [f"{what} left out" for what in _left_out(outcome)]
    counts = outcome.counts
    done = f"indexed {counted(counts['new'] + counts['changed'], 'source')}, {counted(outcome.passages, 'passage')}"
    sources = [f"{counts['new']:,} new", f"{counts['changed']:,} replaced"]
    sources += [f"{counts[name]:,} {name}" for name in ("unchanged", "rescoped", "removed") if counts[name]]
    passages = f"{counts['embedded']:,} embedded, {counts['reused']:,} reused"
    said = f"{done} in {outcome.seconds:.1f} s (sources: {', '.join(sources)}; passages: {passages})"
    return ", ".join([said, *left_out])
