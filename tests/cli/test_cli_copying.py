"""`stackroom copy`, `export` and `import`: what they say, and what they refuse before anything is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import CommandLine


def test_a_library_is_copied_and_found_there(stackroom: CommandLine, notes: Path) -> None:
    stackroom.index(str(notes))
    ran = stackroom("copy", "embedded:library", "embedded:another")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("copied and compared: 2 sources, ")
    assert "2 scopes searched on both sides" in ran.out
    assert stackroom.found("budget", "--library", "another") == stackroom.found("budget")
    assert stackroom("copy", "embedded:library", "embedded:another", "--json").json["written"] == 0


def test_a_library_goes_through_a_file(stackroom: CommandLine, notes: Path, here: Path) -> None:
    stackroom.index(str(notes))
    assert stackroom("export", "embedded:library", "library.stackroom").out.startswith(
        "exported and compared: 2 sources"
    )
    ran = stackroom("import", "library.stackroom", "embedded:restored")
    assert ran.code == 0, ran.err
    assert stackroom.found("budget", "--library", "restored") == stackroom.found("budget")
    assert (here / "library.stackroom").is_file()


def test_what_only_the_target_has_is_removed_on_request(stackroom: CommandLine, notes: Path) -> None:
    stackroom.index(str(notes))
    stackroom("copy", "embedded:library", "embedded:another")
    stackroom("remove", "budget.md", "--tenant", "acme")
    ran = stackroom("copy", "embedded:library", "embedded:another")
    assert ran.code == 1
    assert "1 sources that the origin does not" in ran.err
    assert "1 source removed" in stackroom("copy", "embedded:library", "embedded:another", "--prune").out


def test_nothing_is_made_of_what_is_not_there(stackroom: CommandLine, here: Path) -> None:
    for command in (
        ("copy", "embedded:none", "embedded:another"),
        ("export", "embedded:none", "file"),
        ("import", "none", "embedded:another"),
    ):
        assert stackroom(*command).code == 1
    assert list(here.iterdir()) == []


def test_a_library_of_another_embedder_is_refused(stackroom: CommandLine, notes: Path) -> None:
    stackroom.index(str(notes))
    stackroom.index(str(notes), "--library", "another", "--embedder", "hashing:32")
    ran = stackroom("copy", "embedded:library", "embedded:another")
    assert ran.code == 1
    assert "hashing-v1@32" in ran.err
    assert "reembed" in ran.err


@pytest.mark.parametrize(
    "command",
    [
        ("copy", "library", "new", "--collection", "foo"),
        ("copy", "library", "new", "--to", "Foo bar"),
        ("copy", "library", "library"),
        ("copy", "embedded:library", "./library"),
        ("export", "library", "new", "--collection", "foo"),
        ("export", "library", "new/file"),
        ("export", "library", "notes"),
        ("import", "file", "new", "--collection", "Foo bar"),
    ],
    ids=" ".join,
)
def test_a_copy_that_cannot_be_leaves_nothing_new(
    stackroom: CommandLine, notes: Path, here: Path, command: tuple[str, ...]
) -> None:
    stackroom.index(str(notes))
    assert stackroom("export", "library", "file").code == 0
    before = sorted(here.iterdir())
    ran = stackroom(*command)
    assert ran.code == 1
    assert ran.err.count("\n") == 1
    assert sorted(here.iterdir()) == before


@pytest.mark.parametrize("place", ["another", "library"])
def test_a_library_is_copied_under_another_name_and_back(stackroom: CommandLine, notes: Path, place: str) -> None:
    stackroom.index(str(notes))
    ran = stackroom("copy", "library", place, "--to", "second")
    assert ran.code == 0, ran.err
    ran = stackroom("copy", place, "restored", "--collection", "second", "--to", "library")
    assert ran.code == 0, ran.err
    assert stackroom.found("budget", "--library", "restored") == stackroom.found("budget")


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        (("copy", "library", "another"), "--to NAME"),
        (("import", "file", "another"), "--collection NAME"),
        (("export", "another", "file"), "another FILE"),
    ],
    ids=lambda given: given[0] if isinstance(given, tuple) else given,
)
def test_where_else_to_go_is_said_as_the_command_takes_it(
    stackroom: CommandLine, notes: Path, command: tuple[str, ...], advice: str
) -> None:
    stackroom.index(str(notes))
    stackroom("export", "library", "file")
    stackroom.index(str(notes), "--library", "another", "--embedder", "hashing:32")
    ran = stackroom(*command)
    assert ran.code == 1
    assert advice in ran.err


def test_an_export_into_a_foreign_file_names_what_to_do(stackroom: CommandLine, notes: Path, here: Path) -> None:
    stackroom.index(str(notes))
    (here / "letter").write_text("Dear Ann, " * 100)
    ran = stackroom("export", "library", "letter")
    assert ran.code == 1
    assert "another file" in ran.err
    assert (here / "letter").read_text() == "Dear Ann, " * 100
