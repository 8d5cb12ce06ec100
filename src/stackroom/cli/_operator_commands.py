"""The commands of whoever runs a library: they reach beyond any reader's scope."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from stackroom import Scope, auditing
from stackroom._reading import Reading
from stackroom.cli import _options as options
from stackroom.cli import _shown
from stackroom.cli._embedder_commands import changed_model
from stackroom.cli._opening import COLLECTION, opened
from stackroom.cli._operating import TenantCounts, about, counts_of, description, maintained, scopes_of
from stackroom.cli._problems import Refused
from stackroom.cli._shown import counted, size_of
from stackroom.cli._signals import ending_in_order
from stackroom.cli._visible import in_a_cell
from stackroom.stores.embedded._maintenance import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stackroom.auditing import LeakReport

_MOST_SHOWN: Final = 10


def remove_tenant(
    tenant: Annotated[
        str, Parameter(name="TENANT", validator=options.not_blank("TENANT"), help="The tenant whose sources all go.")
    ],
    /,
    *,
    yes: Annotated[bool, Parameter(help="Remove without asking.", show_default=False)] = False,
    library: options.Library = options.DEFAULT_LIBRARY,
    embedder: options.Embedder = None,
    json: options.Json = False,
) -> None:
    """Remove all sources of a tenant, after asking."""
    Scope(tenant, ["any"])
    with opened(library, embedder) as open_one:
        counts = counts_of(open_one.store, tenant)
        if not counts.passages:
            raise Refused("this library has nothing of such a tenant; nothing was changed")
        if not yes:
            _ask(counts)
        passages = open_one.library.remove_tenant(tenant)
    if json:
        _shown.print_json({"tenant_id": tenant, "passages": passages})
    else:
        line = f"removed tenant {in_a_cell(tenant)}: {counted(passages, 'passage')}"
        _shown.output_console().print(line, soft_wrap=True)


def _ask(counts: TenantCounts) -> None:
    """Ask on the terminal; Refused when there is none, or the answer is not yes."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise Refused(
            "remove-tenant asks first, and there is no terminal to ask on; add --yes to remove without asking"
        )
    sources = f"{counted(counts.sources, 'source')}, {counted(counts.passages, 'passage')}"
    sys.stderr.write(f"Remove tenant {in_a_cell(counts.tenant_id)} with {sources}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise Refused("nothing was removed")


def info(
    *,
    tenant: Annotated[
        str | None,
        Parameter(
            metavar="TENANT",
            validator=options.not_blank("--tenant"),
            help="Count what is stored of a tenant.",
            show_default=False,
        ),
    ] = None,
    tenants: Annotated[bool, Parameter(help="List all tenants: an operator's view.", show_default=False)] = False,
    library: options.Library = options.DEFAULT_LIBRARY,
    embedder: options.Embedder = None,
    json: options.Json = False,
) -> None:
    """Show a library: where it is, its format, its embedder and its size on disk."""
    if tenant is not None:
        Scope(tenant, ["any"])
    with opened(library, embedder) as open_one:
        asked = list(Reading(open_one.store, COLLECTION).tenants()) if tenants else []
        if tenant is not None and tenant not in asked:
            asked.append(tenant)
        counts = [counts_of(open_one.store, tenant_id) for tenant_id in asked]
        described = about(open_one.store)
    if json:
        _shown.print_json(described | ({"tenants": counts} if tenants or tenant is not None else {}))
    else:
        _shown.show(_shown.properties_table(_about(described, counts)))


def doctor(
    *,
    library: options.LibraryInDirectory = options.DEFAULT_LIBRARY,
    json: options.Json = False,
) -> int:
    """Look whether everything in a library fits together; exit code 1 when something does not.

    Reads all there is and changes nothing but side files that are missing. Says the command that mends what it found.
    When all fits, the embedder embeds some stored passages again, to see whether it still is the same model.
    """
    with maintained(library) as store:
        found = store.problems()
    if not found and (changed := changed_model(library)):
        found.append(Problem("library.toml", changed, is_mended_by_compact=False))
    if json:
        _shown.print_json({"problems": found})
    else:
        console = _shown.output_console()
        for problem in found:
            mend = f" — mend it: stackroom compact --library {library}" if problem.is_mended_by_compact else ""
            console.print(in_a_cell(f"{problem.place}: {problem.what}{mend}"), soft_wrap=True)
        console.print(f"{counted(len(found), 'problem')} found", soft_wrap=True)
    return 1 if found else 0


def compact(
    *,
    library: options.LibraryInDirectory = options.DEFAULT_LIBRARY,
    json: options.Json = False,
) -> None:
    """Write everything derived anew and give back the space of what was removed.

    Takes about as long as indexing again with all vectors at hand. Searches go on meanwhile; writes to a tenant wait
    while it is the one at hand.
    """
    with maintained(library) as store:
        before = description(store.path)["bytes"]
        store.compact()
    after = description(store.path)["bytes"]
    if json:
        _shown.print_json({"bytes_before": before, "bytes_after": after})
    else:
        _shown.output_console().print(f"compacted: {size_of(before)} before, {size_of(after)} now", soft_wrap=True)


def leak_test(
    *,
    others: Annotated[
        options.Number1To10000,
        Parameter(
            help="Search as so many of the library's largest tenants, too: each with the groups of its first source."
        ),
    ] = 20,
    library: options.Library = options.DEFAULT_LIBRARY,
    embedder: options.Embedder = None,
    json: options.Json = False,
) -> int:
    """Show that a library leaks nothing, and finds what it should; exit code 1 unless both are so.

    Plants canaries in throw-away tenants and groups whose names are lookalikes of one another, searches and lists as
    every kind of caller, and removes them again, also when it is interrupted. What a process that is killed leaves
    expires within an hour.

    The leak rate is the share of what callers were shown that they had no right to; recall is the share of what they
    had a right to that was found. Green are a leak rate of 0 and a recall of 1 at every door, on a library that holds
    something, when the second check of each hit had nothing to drop and nothing is left behind.
    """
    with ending_in_order(), opened(library, embedder, embeds=True, makes_collections=True) as open_one:
        try:
            report = auditing.leak_test(open_one.library, others=scopes_of(open_one.store, others))
        except BaseException as error:
            for note in getattr(error, "__notes__", ["all canaries were removed again"]):
                _shown.message_console().print(note, soft_wrap=True)
            raise
    if json:
        _shown.print_json(_leak_document(report))
    else:
        _shown.show(_shown.leak_table(report.doors), *_verdict(report))
    return int(not report.is_green)


def _leak_document(report: LeakReport) -> dict[str, Any]:
    in_all = ("is_green", "leak_rate", "recall", "leaked", "dropped", "calls", "canaries", "callers", "problems")
    doors = [{**asdict(door), "leak_rate": door.leak_rate, "recall": door.recall} for door in report.doors]
    return {name: getattr(report, name) for name in in_all} | {"leaks": report.leaks, "doors": doors}


def _verdict(report: LeakReport) -> Iterator[str]:
    yield f"leak rate {report.leak_rate:.4f}, recall {report.recall:.4f}, {report.dropped:,} dropped by the check"
    tried = (
        counted(report.calls, "call"),
        counted(report.callers, "caller"),
        counted(report.canaries, "canary passage"),
    )
    yield "{} by {}, with {}".format(*tried)
    for leak in report.leaks[:_MOST_SHOWN]:
        yield f"leaked: {leak.door}{f' ({leak.mode})' if leak.mode else ''}: {leak.caller} saw: {leak.what}"
    yield from (f"problem: {problem}" for problem in report.problems)
    yield "green" if report.is_green else "RED"


def _about(described: dict[str, Any], counts: list[TenantCounts]) -> Iterator[tuple[str, str]]:
    yield "library", described["path"]
    yield "format", str(described["format"])
    for collection in described["collections"]:
        yield "collection", f"{collection['name']}, embedder {collection['fingerprint']}"
    if described["bytes"] is not None:
        yield "on disk", f"{size_of(described['bytes'])}"
    kinds = ("tenant", "source", "passage")
    yield "stored", ", ".join(counted(described[f"{kind}_count"], kind) for kind in kinds)
    if "unused_rows" in described:
        yield "to tidy up", _to_tidy_up(described)
    for of_tenant in counts:
        stored = f"{counted(of_tenant.sources, 'source')}, {counted(of_tenant.passages, 'passage')}"
        yield "tenant", f"{of_tenant.tenant_id}: {stored}"


def _to_tidy_up(described: dict[str, Any]) -> str:
    """Say what the next writes, searches and closings have to do, and that it is no fault."""
    parts = [
        f"{described['rows_without_codes']:,} rows without codes",
        f"{described['rows_outside_segments']:,} outside segments",
        f"{described['unused_rows']:,} unused",
        f"{counted(described['unerased_removals'], 'removal')} to be erased",
    ]
    kinds = ("rows_without_codes", "rows_outside_segments", "unused_rows", "unerased_removals")
    if not any(described[kind] for kind in kinds):
        return "nothing"
    return f"{', '.join(parts)} (as is normal: answers are the same; `stackroom compact` does it at once)"
