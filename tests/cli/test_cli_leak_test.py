"""`stackroom leak-test`: leak rate and recall, an exit code, nothing left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from stackroom.auditing import _doors
from stackroom.stores import EmbeddedStore

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import CommandLine


@pytest.fixture
def indexed(stackroom: CommandLine, notes: Path) -> None:
    stackroom.index(str(notes))
    stackroom.index(str(notes), tenant="other")


@pytest.mark.usefixtures("indexed")
def test_a_library_that_leaks_nothing_is_green(stackroom: CommandLine) -> None:
    ran = stackroom("leak-test")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[-1] == "green"
    assert "leak rate 0.0000, recall 1.0000, 0 dropped by the check" in ran.out
    assert {line.split()[0] for line in ran.out.splitlines()} >= {"search", "sources", "source", "passages", "count"}
    assert "2 tenants, 4 sources, 6 passages" in stackroom("info").out


@pytest.mark.usefixtures("indexed")
def test_json_says_the_same_and_names_nobody(stackroom: CommandLine) -> None:
    ran = stackroom("leak-test", "--json")
    said = ran.json
    assert (said["is_green"], said["leak_rate"], said["recall"], said["problems"]) == (True, 0.0, 1.0, [])
    assert {"door", "mode", "calls", "expected", "found", "leaked", "leak_rate", "recall"} <= said["doors"][0].keys()
    assert "acme" not in ran.out


@pytest.mark.usefixtures("indexed")
def test_the_librarys_own_tenants_search_as_well_as_many_as_asked(stackroom: CommandLine) -> None:
    one, every = (stackroom("leak-test", "--others", number, "--json").json["callers"] for number in ("1", "3"))
    assert every == one + 2, "the second tenant with its groups, and with a wrong one"


@pytest.mark.usefixtures("indexed")
def test_a_store_that_leaks_is_red(stackroom: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    count = EmbeddedStore.count
    monkeypatch.setattr(EmbeddedStore, "count", lambda *given, **asked: count(*given, **asked) + 1)
    ran = stackroom("leak-test")
    assert ran.code == 1
    assert ran.out.splitlines()[-1] == "RED"
    assert "leaked: count" in ran.out


def test_an_empty_library_is_red(stackroom: CommandLine, notes: Path) -> None:
    stackroom.index(str(notes))
    stackroom("remove-tenant", "acme", "--yes")
    ran = stackroom("leak-test")
    assert ran.code == 1
    assert "the library is empty" in ran.out
    assert stackroom("leak-test", "--json").json["is_green"] is False


def test_a_missing_library_is_said_and_none_is_made(stackroom: CommandLine, here: Path) -> None:
    ran = stackroom("leak-test")
    assert (ran.code, ran.out) == (1, "")
    assert "no library in library" in ran.err
    assert list(here.iterdir()) == []


@pytest.mark.usefixtures("indexed")
def test_an_interrupt_removes_the_canaries_and_says_so(stackroom: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_given: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_doors.Audit, "try_all", interrupted)
    ran = stackroom("leak-test")
    assert ran.code == 130
    assert "all canaries were removed again" in ran.err
    assert "2 tenants, 4 sources, 6 passages" in stackroom("info").out
