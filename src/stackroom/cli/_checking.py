"""`stackroom check-store`: the conformance kit on a live store, and its certificate as people read it."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - cyclopts reads these types at run time
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter
from rich.table import Table

from stackroom.auditing import Certificate, certify
from stackroom.cli import _options as options
from stackroom.cli import _shown
from stackroom.cli._opening import check_is_there, dsn_of
from stackroom.cli._shown import counted
from stackroom.cli._signals import ending_in_order
from stackroom.cli._visible import visible
from stackroom.stores._dsn import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stackroom.auditing import CapabilityCheck

_LINES_OF_A_REPRODUCER: Final = 60


def check_store(
    place: Annotated[
        Path | str,
        options.store(
            "STORE",
            "A library's directory, a DSN such as postgresql://…, or memory:.",
            may_be_memory=True,
        ),
    ],
    /,
    *,
    only: Annotated[
        str | None,
        Parameter(
            metavar="NAME",
            validator=options.not_blank("--only"),
            help="Run the tests whose names hold this, alone.",
            show_default=False,
        ),
    ] = None,
    json: options.Json = False,
) -> int:
    """Check a live store against every promise of a store, and print its certificate.

    Runs the conformance kit in throw-away collections of the store, each of which is dropped again; what else it holds
    is not touched. Exit code 1 when anything is wrong, or no test ran.

    For each capability the certificate says native, emulated or refused, as the store declares it, once its tests have
    passed (right, for what no store may lack), and WRONG when one has failed, with what it takes to see it again.

    Needs the extra `testing`. The kit takes some ten seconds in memory, and a minute or more on a database.
    """
    check_is_there(place)
    with ending_in_order(), _shown.progress(quiet=json) as progress:
        task = progress.add_task("tests", total=None)
        certificate = certify(
            lambda: open_store(dsn_of(place)),
            only=only,
            on_progress=lambda done, asked: progress.update(task, completed=done, total=asked),
        )
    if json:
        _shown.print_json({"is_right": certificate.is_right} | _fields(certificate))
    else:
        _show(certificate)
    return 0 if certificate.is_right else 1


def _fields(certificate: Certificate) -> dict[str, object]:
    return {name: getattr(certificate, name) for name in certificate.__dataclass_fields__}


def _show(certificate: Certificate) -> None:
    if not certificate.tests and not any(check.wrong for check in certificate.capabilities):
        _shown.output_console().print(_summary(certificate), soft_wrap=True)
        return
    table = Table.grid(padding=(0, 3, 0, 0))
    for name in ("capability", "declared", "seen", "tests"):
        table.add_column(name, no_wrap=True)
    table.add_row("capability", "declared", "seen", "tests passed", style="dim")
    for check in certificate.capabilities:
        style = "bold red" if check.wrong else ""
        table.add_row(check.capability, check.declared or "", check.seen, f"{check.passed:,}", style=style)
    _shown.show(table)
    console = _shown.output_console()
    for line in _problems(certificate.capabilities):
        console.print(line, soft_wrap=True)
    console.print(_summary(certificate), soft_wrap=True)


def _problems(checks: tuple[CapabilityCheck, ...]) -> Iterator[str]:
    shown: set[str] = set()
    for check in checks:
        for wrong in check.wrong:
            if wrong.test not in shown:
                shown.add(wrong.test)
                yield ""
                yield f"WRONG: {visible(wrong.test)}"
                yield f"  {wrong.looks_at}"
                lines = visible(wrong.reproducer).splitlines()
                yield from (f"  {line}" for line in lines[:_LINES_OF_A_REPRODUCER])
                if len(lines) > _LINES_OF_A_REPRODUCER:
                    yield f"  … {len(lines) - _LINES_OF_A_REPRODUCER} more lines: add --json"


def _summary(certificate: Certificate) -> str:
    wrong = {problem.test for check in certificate.capabilities for problem in check.wrong}
    ran = f"{counted(certificate.tests, 'test')} in {certificate.seconds:.0f} s, seed {certificate.seed}"
    if not certificate.tests:
        return f"{certificate.store}: no test ran, so nothing is shown"
    untested = [check.capability for check in certificate.capabilities if check.seen == "not tested"]
    if wrong:
        return f"{certificate.store}: {len(wrong)} WRONG ({ran})"
    if not certificate.is_whole:
        return f"{certificate.store}: what was tested is as declared; not everything was ({ran})"
    if untested:
        return f"{certificate.store}: NOT TESTED: {', '.join(untested)} ({ran})"
    return f"{certificate.store}: everything is as declared ({ran})"
