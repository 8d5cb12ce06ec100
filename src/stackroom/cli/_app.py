"""The commands. Each reads its arguments, asks the library, and shows what it answered."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any, Literal, TypeVar

from cyclopts import App, Parameter

from stackroom import Scope
from stackroom.cli import _options as options
from stackroom.cli import _shown
from stackroom.cli._checking import check_store
from stackroom.cli._copying import copy, export, import_
from stackroom.cli._embedder_commands import reembed, verify_embedder
from stackroom.cli._evaluating import evaluate
from stackroom.cli._examples import EXAMPLES
from stackroom.cli._index_command import index
from stackroom.cli._opening import opened
from stackroom.cli._operator_commands import compact, doctor, info, leak_test, remove_tenant
from stackroom.cli._problems import Refused, WrongUsage
from stackroom.cli._shown import counted
from stackroom.cli._visible import in_a_cell

app = App(
    name="stackroom",
    help="Index documents and transcripts as sources, and search what a tenant's groups may see.",
    help_epilogue=EXAMPLES["stackroom"],
    help_format="plaintext",
    version=lambda: version("stackroom"),
    default_parameter=Parameter(negative=()),
    suppress_keyboard_interrupt=False,
)

Command = TypeVar("Command", bound=Callable[..., int | None])


def _command(function: Command, name: str | None = None) -> Command:
    """Add a command: its help is the docstring, each paragraph as wide as the terminal, and its examples."""
    name = name or function.__name__.replace("_", "-")
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    help_text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    app.command(function, name=name, help=help_text, help_epilogue=EXAMPLES[name])
    return function


_command(index)


@_command
def search(
    text: Annotated[str, Parameter(name="TEXT", help="What to look for.")],
    /,
    *,
    tenant: options.Tenant,
    group: options.Groups,
    mode: Annotated[
        Literal["hybrid", "lexical", "dense"],
        Parameter(help="Search by words and meaning, by words alone, or by meaning alone."),
    ] = "hybrid",
    top_k: Annotated[options.Number1To10000, Parameter(help="Show at most so many hits.")] = 10,
    match: Annotated[
        Literal["any", "all"], Parameter(help="Find passages with any of the words, or with all.")
    ] = "any",
    prefix: Annotated[
        bool, Parameter(help="Find words that begin with those of TEXT, too.", show_default=False)
    ] = False,
    kind: options.Kinds = (),
    folder: options.Folders = (),
    tag: options.AllTags = (),
    source: options.SourceIds = (),
    tier: options.Tiers = (),
    library: options.Library = options.DEFAULT_LIBRARY,
    embedder: options.Embedder = None,
    json: options.Json = False,
) -> None:
    """Search what the groups may see, best first.

    Each hit shows its rank, title, score, passage and place (the heading, or the time in a transcript), and the text
    around the words looked for.

    The score is that of the mode. lexical: BM25, 0 or more, higher when rarer words of TEXT stand more often in a
    shorter passage; it only orders one answer. dense: the cosine of the two vectors, -1 to 1. hybrid: half the cosine
    (0 when it is negative) plus half the share that BM25 has of the best in scope, 0 to 1.
    """
    scope = Scope(tenant, group)
    with opened(library, embedder, embeds=mode != "lexical") as open_one:
        answer = open_one.library.search(
            text,
            scope=scope,
            mode=mode,
            top_k=top_k,
            match=match,
            prefix=prefix,
            kinds=kind,
            folder_ids=folder or None,
            tags=tag,
            source_ids=source or None,
            tiers=tier,
        )
    if json:
        about = {"query": text, "mode": answer.mode, "complete": answer.complete, "notes": answer.notes}
        _shown.print_json(about | {"hits": answer.hits})
    else:
        _shown.show_answer(answer, text, prefix=prefix)


@_command
def sources(
    *,
    tenant: options.Tenant,
    group: options.Groups,
    kind: options.Kinds = (),
    folder: options.Folders = (),
    tag: options.AllTags = (),
    source: options.SourceIds = (),
    tier: options.Tiers = (),
    limit: Annotated[options.Number1To10000, Parameter(help="List at most so many.")] = 100,
    after: Annotated[
        str | None,
        Parameter(metavar="CURSOR", help="Go on behind a page: the cursor that it ended with.", show_default=False),
    ] = None,
    library: options.Library = options.DEFAULT_LIBRARY,
    embedder: options.Embedder = None,
    json: options.Json = False,
) -> None:
    """List the sources that the groups may see, by source id."""
    scope = Scope(tenant, group)
    with opened(library, embedder) as open_one:
        page = open_one.library.sources(
            scope=scope,
            kinds=kind,
            folder_ids=folder or None,
            tags=tag,
            source_ids=source or None,
            tiers=tier,
            limit=limit,
            after=after,
        )
    if json:
        _shown.print_json({"sources": list(page), "next": page.next})
    else:
        _shown.show_sources(page, page.next)


@_command
def show(
    source: options.SourceId,
    /,
    *,
    tenant: options.Tenant,
    group: options.Groups,
    library: options.Library = options.DEFAULT_LIBRARY,
    embedder: options.Embedder = None,
    json: options.Json = False,
) -> None:
    """Show a source and its passages, if the groups may see it."""
    scope = Scope(tenant, group)
    with opened(library, embedder) as open_one:
        info = open_one.library.source(source, scope=scope)
        passages = open_one.library.passages(source, scope=scope)
    if info is None:
        raise Refused(
            f"these groups see no source {in_a_cell(source)} in this tenant; `stackroom sources` lists what they see"
        )
    if json:
        _shown.print_json({"source": info, "passages": passages})
    else:
        _shown.show_source(info, passages)


@_command
def rescope(
    source: options.SourceId,
    /,
    *,
    tenant: options.Tenant,
    group: Annotated[
        options.Groups,
        Parameter(show_default=False, help="A new access group; give it several times for several groups."),
    ] = (),
    folder: Annotated[options.FolderToFileIn, Parameter(help="Move it to this folder.")] = None,
    no_folder: Annotated[bool, Parameter(help="Take it out of its folder.", show_default=False)] = False,
    tag: Annotated[options.TagsToGive, Parameter(help="A new tag; give it several times for several tags.")] = (),
    no_tags: Annotated[bool, Parameter(help="Take all its tags away.", show_default=False)] = False,
    title: Annotated[str | None, Parameter(metavar="TITLE", help="A new title.", show_default=False)] = None,
    no_title: Annotated[bool, Parameter(help="Take its title away.", show_default=False)] = False,
    library: options.Library = options.DEFAULT_LIBRARY,
    embedder: options.Embedder = None,
    json: options.Json = False,
) -> None:
    """Change who may see a source, its folder, tags or title: what is given, and nothing else.

    The groups and tags given take the place of the old ones. Every search from then on goes by the new. A source that
    comes from a directory is set back by the next `stackroom index` of that directory: to its groups, folder and tags.
    """
    changes: dict[str, Any] = {"acl_groups": group} if group else {}
    changes |= _change("--folder", "folder_id", folder, "--no-folder", gone=no_folder, empty=None)
    changes |= _change("--tag", "tags", tag or None, "--no-tags", gone=no_tags, empty=())
    changes |= _change("--title", "title", title, "--no-title", gone=no_title, empty=None)
    if not changes:
        raise WrongUsage(
            "nothing to change: give --group, --folder, --no-folder, --tag, --no-tags, --title or --no-title."
        )
    with opened(library, embedder) as open_one:
        passages = open_one.library.set_source_scope(source, tenant_id=tenant, **changes)
    _done("re-scoped", source, passages, json=json)


def _change(option: str, name: str, value: object, opposite: str, *, gone: bool, empty: object) -> dict[str, Any]:
    """Return what is to be set under `name`: the value, or, when it is to go, what is empty."""
    if gone and value is not None:
        raise WrongUsage(f"{option} and {opposite} contradict each other; give one of them.")
    if gone:
        return {name: empty}
    return {} if value is None else {name: value}


@_command
def remove(
    source: options.SourceId,
    /,
    *,
    tenant: options.Tenant,
    library: options.Library = options.DEFAULT_LIBRARY,
    embedder: options.Embedder = None,
    json: options.Json = False,
) -> None:
    """Remove a source: no search, list or count shows it from then on, and its text is erased.

    A source whose file is still in a directory comes again by the next `stackroom index` of that directory: delete the
    file, too, or leave it out with --exclude.
    """
    with opened(library, embedder) as open_one:
        passages = open_one.library.remove_source(source, tenant_id=tenant)
    _done("removed", source, passages, json=json)


def _done(what: str, source_id: str, passages: int, *, json: bool) -> None:
    if not passages:
        raise Refused(
            f"this tenant has no source {in_a_cell(source_id)}; nothing was changed: `stackroom sources` lists the ids"
        )
    if json:
        _shown.print_json({"source_id": source_id, "passages": passages})
    else:
        line = f"{what} {in_a_cell(source_id)}: {counted(passages, 'passage')}"
        _shown.output_console().print(line, soft_wrap=True)


for _of_operators in (remove_tenant, info, doctor, compact, check_store, leak_test, verify_embedder, reembed):
    _command(_of_operators)
for _of_moving in (copy, export):
    _command(_of_moving)
_command(import_, "import")
_command(evaluate, "eval")
