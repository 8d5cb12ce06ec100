"""`stackroom eval`: how good a library's answers are, on judged queries."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - cyclopts reads these types at run time
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.table import Table

from stackroom import Scope, evaluation
from stackroom._evaluation import MEASURES
from stackroom.cli import _options as options
from stackroom.cli import _shown
from stackroom.cli._opening import opened

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.progress import Progress


def evaluate(
    library: Annotated[Path | str, options.store("LIBRARY", "The library's directory, or a DSN such as qdrant://….")],
    queries: Annotated[Path, Parameter(name="QUERIES", help="JSON Lines of _id and text; may be gzipped.")],
    qrels: Annotated[
        Path,
        Parameter(
            name="QRELS", help="Query, source id and grade between tabs, or TREC's four columns; may be gzipped."
        ),
    ],
    /,
    *,
    tenant: options.Tenant,
    group: options.Groups,
    tune: Annotated[bool, Parameter(help="Find the fusion with the best nDCG@10, too.", show_default=False)] = False,
    embedder: options.Embedder = None,
    json: options.Json = False,
) -> None:
    """Measure a library's answers on judged queries, in files as BEIR has them.

    Prints nDCG@10, recall at 10 and 100 and the reciprocal rank (RR) of lexical, dense and hybrid search in the scope,
    each with the interval that holds it with 95 % confidence. A document is a source, found by its best passage.

    With --tune hybrid search is measured with RRF and with Weighted of 0.1 to 0.9, and the best is named beside what to
    expect of it on queries that had no part in choosing: each half is answered with the best fusion of the other.
    """
    scope = Scope(tenant, group)
    asked, judged = evaluation.read_queries(queries), evaluation.read_qrels(qrels)
    with opened(library, embedder, embeds=True) as open_one, _shown.progress(quiet=json) as progress:
        measuring = _advancing(progress, "searches")
        measured = evaluation.evaluate(open_one.library, asked, judged, scope=scope, on_progress=measuring)
        tuned = None
        if tune:
            tuning = _advancing(progress, "searches to tune")
            tuned = evaluation.tune(open_one.library, asked, judged, scope=scope, on_progress=tuning)
    if json:
        chosen = tuned and {"best": str(tuned.best), "means": tuned.means, "held_out": tuned.held_out}
        _shown.print_json({"measured": measured, "tuned": chosen})
        return
    _shown.show(_table(measured))
    if tuned is not None:
        lines = [f"{'*' if name == str(tuned.best) else ' '} {name}: {mean:.3f}" for name, mean in tuned.means.items()]
        _shown.show("", "nDCG@10 by fusion", *lines, f"chosen on the other half of the queries: {tuned.held_out:.3f}")


def _advancing(progress: Progress, what: str) -> Callable[[int, int], None]:
    """Return what shows how far something is, on a line of its own."""
    task = progress.add_task(what, total=None)
    return lambda done, total: progress.update(task, completed=done, total=total)


def _table(measured: Sequence[evaluation.Measured]) -> Table:
    """Return a line a way to search and a column a measure."""
    table = Table.grid(padding=(0, 3, 0, 0))
    table.add_row(f"{measured[0].queries:,} queries", *MEASURES, style="dim")
    for name in dict.fromkeys(one.name for one in measured):
        cells = [f"{one.mean:.3f} ({one.low:.3f}–{one.high:.3f})" for one in measured if one.name == name]
        table.add_row(name, *cells)
    return table
