"""A library in an SQL database without vectors, named by `sql:` and its URL."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine

DSN = "sql:sqlite:///library.db"


@pytest.fixture(autouse=True)
def _in_sql(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del here
    monkeypatch.setenv("STACKROOM_LIBRARY", DSN)


def test_the_commands_work_on_an_sql_database(stackroom: CommandLine, notes: Path) -> None:
    indexed = stackroom.index(str(notes))
    assert indexed.code == 0, indexed.err
    assert stackroom.found("budget")
    assert stackroom.found("budget", group="nobody") == []
    listed = stackroom("sources", "--tenant", "acme", "--group", "staff", "--json").json
    source = listed["sources"][0]["source_id"]
    about = stackroom("info", "--tenants", "--json").json
    assert (about["tenant_count"], about["source_count"], about["bytes"]) == (1, 2, None)
    shown = stackroom("info", "--tenant", "acme")
    assert "an SQL database" in shown.out
    assert "on disk" not in shown.out
    assert stackroom("rescope", source, "--tenant", "acme", "--group", "board").code == 0
    assert stackroom("remove", source, "--tenant", "acme").code == 0
    assert stackroom("remove-tenant", "acme", "--yes").code == 0
    assert stackroom("info", "--json").json["passage_count"] == 0


@pytest.mark.parametrize("command", ["doctor", "compact"])
def test_what_looks_after_directories_says_so(stackroom: CommandLine, command: str) -> None:
    ran = stackroom(command)
    assert ran.code == 1
    assert "database" in ran.err


def test_it_is_tested_for_leaks_and_moved_to_another_embedder(
    stackroom: CommandLine, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stackroom.index(str(notes))
    leak_test = stackroom("leak-test", "--json")
    assert leak_test.code == 0, leak_test.err
    moved = stackroom("reembed", "hashing:32")
    assert moved.code == 0, moved.err
    monkeypatch.delenv("STACKROOM_EMBEDDER")
    assert stackroom.found("budget")
    assert "hashing-v1@32" in stackroom("info").out


def test_it_is_copied_exported_and_measured(stackroom: CommandLine, notes: Path) -> None:
    stackroom.index(str(notes), "--library", "here")
    for words in (
        ("copy", "here", DSN),
        ("copy", DSN, "out"),
        ("export", DSN, "file"),
        ("import", "file", "sql:sqlite:///another.db"),
        ("check-store", DSN, "--only", "row_20"),
        ("eval", DSN, "notes/.queries", "notes/.qrels", "--tenant", "acme", "--group", "staff"),
    ):
        ran = stackroom(*words)
        assert ran.code == 0, (words, ran.err)
    assert stackroom.found("budget", "--library", "out") == stackroom.found("budget")
    again = stackroom("copy", DSN, DSN)
    assert again.code == 1
    assert "onto itself" in again.err


@pytest.mark.parametrize(
    "command",
    [
        ("info",),
        ("search", "red", "--tenant", "acme", "--group", "staff"),
        ("reembed", "hashing:32"),
        ("leak-test",),
        ("copy", DSN, "out"),
        ("export", DSN, "file"),
        ("check-store", DSN),
    ],
    ids=lambda command: command[0],
)
@pytest.mark.parametrize("dsn", [DSN, "sql:sqlite:///file:library.db?uri=true"])
def test_what_finds_no_library_makes_no_file(
    stackroom: CommandLine, here: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], dsn: str
) -> None:
    monkeypatch.setenv("STACKROOM_LIBRARY", dsn)
    ran = stackroom(*(dsn if word == DSN else word for word in command))
    assert ran.code == 1
    assert "no library in this database" in ran.err or "no SQLite file" in ran.err
    assert list(here.iterdir()) == []


def test_a_database_that_holds_something_else_gets_no_tables(stackroom: CommandLine, here: Path) -> None:
    (here / "library.db").touch()
    ran = stackroom("info")
    assert ran.code == 1
    assert "no library in this database" in ran.err
    stackroom("copy", DSN, "out")
    assert b"stackroom" not in (here / "library.db").read_bytes()
    assert not (here / "out").exists()
