"""`stackroom index` on whole directories: what a dry run tells, what is left out, whose sources are whose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine


def test_a_dry_run_says_what_becomes_of_which_source(stackroom: CommandLine, notes: Path) -> None:
    (notes / "gone.txt").write_text("gone", encoding="utf-8")
    stackroom.index("notes")
    (notes / "gone.txt").unlink()
    (notes / "budget.md").write_text("another budget", encoding="utf-8")
    (notes / "fresh.txt").write_text("fresh", encoding="utf-8")
    ran = stackroom.index("notes", "--dry-run", "--prune", group="board")
    table, _, named = ran.out.partition("\n\n")
    assert ["rescoped", "1"] in [line.split() for line in table.splitlines()]
    assert [block.split() for block in named.split("\n\n")] == [
        ["new", "fresh.txt"],
        ["changed", "budget.md"],
        ["rescoped", "kickoff.vtt"],
        ["gone", "gone.txt"],
    ]
    plan = stackroom.index("notes", "--dry-run", "--prune", "--json", group="board").json["plan"]
    expected = {"new": ["fresh.txt"], "changed": ["budget.md"], "rescoped": ["kickoff.vtt"], "gone": ["gone.txt"]}
    assert plan == expected
    assert "plan" not in stackroom.index("notes", "--json").json


def test_a_dry_run_names_the_first_twenty_and_json_names_all(stackroom: CommandLine, here: Path) -> None:
    (here / "many").mkdir()
    for number in range(23):
        (here / "many" / f"{number:02}.txt").write_text(f"word {number}", encoding="utf-8")
    ran = stackroom.index("many", "--dry-run")
    assert "  19.txt\n  and 3 more, all of which --json names\n" in ran.out
    assert "20.txt" not in ran.out
    assert len(stackroom.index("many", "--dry-run", "--json").json["plan"]["new"]) == 23


@pytest.mark.usefixtures("notes")
def test_the_librarys_own_files_are_left_out_and_said(stackroom: CommandLine) -> None:
    stackroom.index(".", tenant="another")
    ran = stackroom.index(".", "--dry-run")
    assert ["left", "out", "a", "library"] in [line.split() for line in ran.out.splitlines()]
    ran = stackroom.index(".")
    assert (ran.code, ran.err) == (0, "")
    assert "indexed 2 sources" in ran.out
    assert ran.out.endswith(", a library left out\n")
    assert stackroom.index(".", "--json").json["ignored"]["library"] == 1
    assert "no file to index there (the files of a library are left out)" in stackroom.index("library").err


def test_links_are_counted_and_said(stackroom: CommandLine, notes: Path) -> None:
    for name in ("linked.md", "also.md"):
        (notes / name).symlink_to(notes / "budget.md")
    assert "2 symbolic links left out" in stackroom.index("notes").out
    assert stackroom.index("notes", "--json").json["ignored"] == {"hidden": 2, "symlink": 2}


@pytest.fixture
def two(here: Path) -> None:
    """Two directories with a file of the same name, the first of which is indexed."""
    for folder in ("a", "b"):
        (here / folder).mkdir()
        (here / folder / "x.md").write_text(folder, encoding="utf-8")


@pytest.mark.usefixtures("two")
def test_a_file_of_the_same_name_has_a_way_on_in_the_words_of_the_command_line(stackroom: CommandLine) -> None:
    stackroom.index("a")
    refused = stackroom.index("b").err
    assert "--source-prefix" in refused
    assert "corpus=" not in refused
    assert "source_prefix" not in refused
    ran = stackroom.index("b", "--source-prefix", "b/", "--json")
    assert (ran.code, ran.json["sources"][0]["source_id"]) == (0, "b/x.md")
    ran = stackroom.index("a", "b", "--source-prefix", "both/")
    assert "one of them with --source-prefix" in ran.err


@pytest.mark.usefixtures("two")
def test_a_directory_that_was_moved_goes_on_with_the_corpus_that_show_tells(stackroom: CommandLine, here: Path) -> None:
    stackroom.index("a")
    (here / "a").rename(here / "moved")
    refused = stackroom.index("moved").err
    assert "give the corpus that it has as --corpus, which `stackroom show SOURCE` tells" in refused
    shown = stackroom("show", "x.md", "--tenant", "acme", "--group", "staff").out
    (corpus,) = (line.split()[1] for line in shown.splitlines() if line.startswith("corpus "))
    ran = stackroom.index("moved", "--corpus", corpus, "--json")
    assert (ran.code, ran.json["unchanged"]) == (0, 1)


@pytest.mark.usefixtures("two")
def test_a_corpus_for_several_directories_is_wrong_usage(stackroom: CommandLine, here: Path) -> None:
    (here / "b" / "x.md").rename(here / "b" / "y.md")
    ran = stackroom.index("a", "b", "--corpus", "both", "--prune")
    assert (ran.code, "--corpus names one directory" in ran.err) == (2, True)


def test_what_is_skipped_under_a_prefix_is_said_by_its_path(stackroom: CommandLine, notes: Path) -> None:
    (notes / "latin.txt").write_bytes(b"Geh\xe4lter")
    ran = stackroom.index("notes", "--source-prefix", "p/")
    assert ran.err.startswith("skipped notes/latin.txt: ")


def test_an_encoding_is_advised_and_taken(stackroom: CommandLine, notes: Path) -> None:
    (notes / "latin.txt").write_bytes(b"Geh\xe4lter")
    (notes / "marked.txt").write_bytes(b"\xef\xbb\xbf\xff")
    refused = stackroom.index("notes").err.splitlines()
    assert refused == [
        "skipped notes/latin.txt: it is no text in utf-8: if it is in another one, give that as --encoding",
        "skipped notes/marked.txt: its byte order mark says utf-8, and it is no text in that",
    ]
    assert stackroom.index("notes/latin.txt", "--encoding", "latin-1").code == 0
    assert stackroom.found("Gehälter", "--mode", "lexical") == ["latin.txt#0"]
    ran = stackroom.index("notes", "--encoding", "klingon")
    assert (ran.code, "--encoding names none" in ran.err) == (2, True)


def test_globs_hidden_names_and_links_are_options(stackroom: CommandLine, notes: Path) -> None:
    (notes / ".hidden.md").write_text("word", encoding="utf-8")
    (notes / "sub").mkdir()
    (notes / "sub" / "x.md").write_text("word", encoding="utf-8")
    (notes / "linked.txt").symlink_to(notes / ".hidden.md")

    def planned(*options: str) -> list[str]:
        names: list[str] = stackroom.index("notes", "--dry-run", "--json", *options).json["plan"]["new"]
        return names

    assert planned("--include", "*.md", "--include", "sub/*") == ["budget.md", "sub/x.md"]
    assert planned("--exclude", "sub/*", "--exclude", "*.vtt") == ["budget.md"]
    assert planned("--include", "*.md", "--exclude", "b*", "--hidden") == [".hidden.md", "sub/x.md"]
    assert planned("--include", "*.txt", "--follow-symlinks") == ["linked.txt"]
    assert "2 excluded files left out" in stackroom.index("notes", "--include", "*.vtt").out


@pytest.mark.parametrize("first", [True, False], ids=["the first", "a later one"])
def test_a_file_that_no_budget_of_this_size_allows_is_named_with_its_size(
    stackroom: CommandLine, notes: Path, *, first: bool
) -> None:
    name = "a.txt" if first else "c.txt"
    (notes / name).write_text("x" * 700, encoding="utf-8")
    ran = stackroom.index("notes", "--source-prefix", "p/", "--budget", "600")
    assert ran.code == 1
    assert f"the budget of 600 characters is too small for notes/{name}, which needs 700: " in ran.err
    assert "give a --budget of at least that" in ran.err
    again = stackroom.index("notes", "--source-prefix", "p/", "--budget", "600", "--json").json
    assert again["stopped_at"] == {"path": f"notes/{name}", "characters": 700}
    assert stackroom.index("notes", "--source-prefix", "p/", "--budget", "1000").code == 0


@pytest.mark.usefixtures("notes")
def test_what_was_done_to_a_source_of_a_directory_lasts_until_that_is_indexed_again(stackroom: CommandLine) -> None:
    stackroom.index("notes")
    stackroom("rescope", "budget.md", "--tenant", "acme", "--group", "board", "--folder", "plans", "--title", "Money")
    stackroom("remove", "kickoff.vtt", "--tenant", "acme")
    assert "1 new, 0 replaced, 1 unchanged, 1 rescoped" in stackroom.index("notes").out
    info = stackroom("show", "budget.md", "--tenant", "acme", "--group", "staff", "--json").json["source"]
    assert (info["acl_groups"], info["folder_id"], info["title"]) == (["staff"], None, "Money")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("command", "said"), [("rescope", "is set back by the next"), ("remove", "comes again by the")]
)
def test_the_help_says_so(stackroom: CommandLine, command: str, said: str) -> None:
    assert said in " ".join(stackroom(command, "--help").out.split())
