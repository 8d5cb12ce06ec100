"""The commands of whoever runs a library: they reach beyond any reader's scope."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from stackroom import Scope
from stackroom.cli import _options as options
from stackroom.cli import _shown
from stackroom.cli._opening import opened
from stackroom.cli._operating import TenantCounts, counts_of, description, maintained, tenant_ids, totals
from stackroom.cli._problems import Refused
from stackroom.cli._shown import counted, size_of
from stackroom.cli._visible import in_a_cell

if TYPE_CHECKING:
    from collections.abc import Iterator


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
        asked = list(tenant_ids(open_one.store)) if tenants else []
        if tenant is not None and tenant not in asked:
            asked.append(tenant)
        counts = [counts_of(open_one.store, tenant_id) for tenant_id in asked]
        described = description(open_one.store.path) | totals(open_one.store)
    if json:
        _shown.print_json(described | ({"tenants": counts} if tenants or tenant is not None else {}))
    else:
        _shown.show(_shown.properties_table(_about(described, counts)))


def doctor(
    *,
    library: options.Library = options.DEFAULT_LIBRARY,
    json: options.Json = False,
) -> int:
    """Look whether everything in a library fits together; exit code 1 when something does not.

    Reads all there is and changes nothing but side files that are missing. Says the command that mends what it found.
    """
    with maintained(library) as store:
        found = store.problems()
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
    library: options.Library = options.DEFAULT_LIBRARY,
    json: options.Json = False,
) -> None:
    """Write everything derived anew and give back the space of what was removed.

    Takes about as long as indexing again with all vectors at hand. Searches go on meanwhile; writes to a tenant wait
    while it is the one at hand.
    """
    with maintained(library) as store:
        before = description(store.path)["bytes"]
        store.compact()
    after = description(library)["bytes"]
    if json:
        _shown.print_json({"bytes_before": before, "bytes_after": after})
    else:
        _shown.output_console().print(f"compacted: {size_of(before)} before, {size_of(after)} now", soft_wrap=True)


def _about(described: dict[str, Any], counts: list[TenantCounts]) -> Iterator[tuple[str, str]]:
    yield "library", described["path"]
    yield "format", str(described["format"])
    for collection in described["collections"]:
        yield "collection", f"{collection['name']}, embedder {collection['fingerprint']}"
    yield "on disk", f"{size_of(described['bytes'])}"
    kinds = ("tenant", "source", "passage")
    yield "stored", ", ".join(counted(described[f"{kind}_count"], kind) for kind in kinds)
    yield "behind", _behind(described)
    for of_tenant in counts:
        stored = f"{counted(of_tenant.sources, 'source')}, {counted(of_tenant.passages, 'passage')}"
        yield "tenant", f"{of_tenant.tenant_id}: {stored}"


def _behind(described: dict[str, Any]) -> str:
    """Say what the next writes, searches and closings have to do."""
    parts = [
        f"{described['rows_without_codes']:,} rows without codes",
        f"{described['rows_outside_segments']:,} outside segments",
        f"{described['unused_rows']:,} unused",
        f"{counted(described['unerased_removals'], 'removal')} to be erased",
    ]
    return ", ".join(parts)
