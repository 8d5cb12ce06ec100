"""`stackroom copy`, `export` and `import`: what they say, and what they refuse before anything is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
