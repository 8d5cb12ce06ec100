"""`stackroom index`: which files become which sources, and what is said of the others."""

from __future__ import annotations

import errno
import os
import socket
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine


def test_a_directory_is_walked_and_ids_are_paths_relative_to_it(stackroom: CommandLine, notes: Path) -> None:
    (notes / "plans" / "deep").mkdir(parents=True)
    (notes / "plans" / "deep" / "x.TXT").write_text("word", encoding="utf-8")
    ran = stackroom.index("notes", "--json")
    assert ran.code == 0
    assert [source["source_id"] for source in ran.json["sources"]] == ["budget.md", "kickoff.vtt", "plans/deep/x.TXT"]


def test_the_id_of_a_single_file_is_its_name(stackroom: CommandLine, notes: Path) -> None:
    assert stackroom.index(str(notes / "budget.md"), "--json").json["sources"][0]["source_id"] == "budget.md"


def test_ids_are_composed(stackroom: CommandLine, here: Path) -> None:
    (here / "cafe\u0301.txt").write_text("word", encoding="utf-8")
    assert stackroom.index("cafe\u0301.txt", "--json").json["sources"][0]["source_id"] == "café.txt"


def test_hidden_files_and_links_and_other_kinds_are_left_out(stackroom: CommandLine, notes: Path) -> None:
    (notes / ".hidden.md").write_text("word", encoding="utf-8")
    (notes / ".git").mkdir()
    (notes / ".git" / "x.md").write_text("word", encoding="utf-8")
    (notes / "linked.md").symlink_to(notes / "budget.md")
    (notes / "picture.png").write_bytes(b"\x89PNG")
    ran = stackroom.index("notes")
    assert ran.code == 0
    assert "indexed 2 sources, 3 passages" in ran.out
    assert "1 file of other kinds left out" in ran.out


def test_a_path_that_does_not_exist_is_refused_before_anything_is_indexed(stackroom: CommandLine, notes: Path) -> None:
    ran = stackroom.index("notes", "absent.md")
    assert (ran.code, ran.out) == (1, "")
    assert "absent.md does not exist; nothing was indexed" in ran.err
    assert not (notes.parent / "library").exists()


def test_a_file_that_is_no_text_is_said_and_skipped_and_the_command_fails(stackroom: CommandLine, notes: Path) -> None:
    (notes / "broken.txt").write_bytes(b"caf\xe9")
    ran = stackroom.index("notes")
    assert ran.code == 1
    assert "skipped notes/broken.txt" in ran.err
    assert "indexed 2 sources" in ran.out


@pytest.mark.parametrize("content", [b"", b" \n\n", "\ufeff\u200b".encode()], ids=["nothing", "white space", "marks"])
def test_an_empty_file_is_said_and_skipped_and_nothing_has_failed(
    stackroom: CommandLine, notes: Path, content: bytes
) -> None:
    (notes / "empty.txt").write_bytes(content)
    ran = stackroom.index("notes")
    assert ran.code == 0
    assert "skipped notes/empty.txt: it holds no text" in ran.err


def test_an_empty_file_leaves_an_earlier_version_alone(stackroom: CommandLine, notes: Path) -> None:
    stackroom.index("notes")
    (notes / "budget.md").write_text("", encoding="utf-8")
    assert "budget.md: it holds no text; its earlier version stays, with the groups" in stackroom.index("notes").err
    assert "budget.md#0" in stackroom.found("spring", "--mode", "lexical")


def test_a_single_file_of_another_kind_is_said_and_the_command_fails(stackroom: CommandLine, here: Path) -> None:
    (here / "letter.odt").write_bytes(b"PK")
    ran = stackroom.index("letter.odt")
    assert ran.code == 1
    assert "skipped letter.odt: it is none of .txt" in ran.err


def test_a_transcript_that_is_none_is_said_with_its_line(stackroom: CommandLine, here: Path) -> None:
    (here / "talk.vtt").write_text("WEBVTT\n\nhello\n", encoding="utf-8")
    ran = stackroom.index("talk.vtt")
    assert ran.code == 1
    assert "skipped talk.vtt: line 3" in ran.err


def test_a_directory_without_text_is_refused(stackroom: CommandLine, here: Path) -> None:
    (here / "nothing").mkdir()
    ran = stackroom.index("nothing")
    assert ran.code == 1
    assert "no file to index" in ran.err


def test_two_files_that_would_be_one_source_are_refused(stackroom: CommandLine, here: Path) -> None:
    for folder in ("a", "b"):
        (here / folder).mkdir()
        (here / folder / "x.md").write_text(folder, encoding="utf-8")
    ran = stackroom.index("a", "b")
    assert ran.code == 1
    assert "would be one source" in ran.err
    assert not (here / "library").exists()


@pytest.mark.usefixtures("notes")
def test_a_file_given_twice_is_indexed_once(stackroom: CommandLine) -> None:
    assert len(stackroom.index("notes", "notes/budget.md", "notes", "--json").json["sources"]) == 2


@pytest.mark.usefixtures("notes")
def test_a_file_is_one_whatever_way_leads_to_it(stackroom: CommandLine, here: Path) -> None:
    (here / "also").symlink_to("notes")
    ways = ("notes/budget.md", "./notes/../notes/budget.md", "also/budget.md", str(here / "notes" / "budget.md"))
    assert [source["source_id"] for source in stackroom.index(*ways, "--json").json["sources"]] == ["budget.md"]
    assert stackroom.index(*ways, "--title", "One").code == 0


@pytest.mark.parametrize(
    ("name", "content"),
    [("letter.odt", b"PK"), ("broken.txt", b"caf\xe9"), ("talk.vtt", b"none"), ("empty.md", b" "), ("folder", None)],
)
@pytest.mark.parametrize("is_there", [True, False], ids=["an empty directory", "no directory"])
def test_without_a_source_to_write_no_library_is_made(
    stackroom: CommandLine, here: Path, name: str, content: bytes | None, *, is_there: bool
) -> None:
    if is_there:
        (here / "library").mkdir()
    if content is None:
        (here / name).mkdir()
    else:
        (here / name).write_bytes(content)
    stackroom.index(name)
    assert (here / "library").exists() is is_there
    assert not list(here.glob("library/*"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes and sockets")
@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
def test_what_is_no_file_is_said_and_never_opened(stackroom: CommandLine, notes: Path, here: Path, kind: str) -> None:
    path = here / "odd.txt"
    with socket.socket(socket.AF_UNIX) as bound:
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "socket":
            bound.bind("odd.txt")
        else:
            path.symlink_to(os.devnull)
        ran = stackroom.index("odd.txt", str(notes))
    assert ran.code == 1
    assert "skipped odd.txt: it is neither a regular file nor a directory" in ran.err
    assert "indexed 2 sources" in ran.out


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_named_pipe_in_a_directory_is_left_out(stackroom: CommandLine, notes: Path) -> None:
    os.mkfifo(notes / "pipe.txt")
    ran = stackroom.index("notes")
    assert (ran.code, ran.err) == (0, "")


@pytest.fixture
def closed(notes: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that can be listed and not searched, even for root, whom no mode keeps out."""
    directory = notes / "closed"
    directory.mkdir()
    for name in ("a.md", "b.md"):
        (directory / name).write_text("word", encoding="utf-8")
    status_of = os.stat

    def refusing(path: str | Path, *arguments: Any, **options: Any) -> os.stat_result:
        if directory in (Path.cwd() / os.fsdecode(path)).parents:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fsdecode(path))
        return status_of(path, *arguments, **options)

    monkeypatch.setattr(os, "stat", refusing)
    monkeypatch.setattr(os, "lstat", partial(refusing, follow_symlinks=False))
    return directory


@pytest.mark.usefixtures("closed")
def test_a_directory_that_cannot_be_searched_is_said_once_and_the_rest_is_indexed(stackroom: CommandLine) -> None:
    ran = stackroom.index("notes")
    assert ran.code == 1
    assert ran.err == "skipped notes/closed: its files cannot be looked at (Permission denied)\n"
    assert "indexed 2 sources" in ran.out


@pytest.mark.usefixtures("closed")
def test_a_file_in_a_directory_that_cannot_be_searched_is_said_and_the_rest_is_indexed(stackroom: CommandLine) -> None:
    ran = stackroom.index("notes/closed/a.md", "notes/budget.md")
    assert ran.code == 1
    assert ran.err == "skipped notes/closed/a.md: it cannot be looked at (Permission denied)\n"
    assert "indexed 1 source" in ran.out


def test_a_second_run_leaves_alone_what_is_unchanged(stackroom: CommandLine, notes: Path) -> None:
    stackroom.index("notes")
    again = stackroom.index(str(notes / "budget.md"), "--json").json
    assert (again["sources"], again["unchanged"], again["embedded"]) == ([], 1, 0)


def test_a_file_that_changed_is_replaced_and_its_unchanged_passages_are_reused(
    stackroom: CommandLine, notes: Path
) -> None:
    stackroom.index("notes")
    text = (notes / "budget.md").read_text(encoding="utf-8")
    (notes / "budget.md").write_text(text + "\n## More\n\nAnother section.\n", encoding="utf-8")
    source = stackroom.index("notes", "--json").json["sources"][0]
    assert source == {"source_id": "budget.md", "passages": 3, "replaced": 2, "embedded": 1, "reused": 2}


def test_a_source_from_another_directory_is_not_touched(stackroom: CommandLine, here: Path) -> None:
    for folder in ("a", "b"):
        (here / folder).mkdir()
        (here / folder / "x.md").write_text(folder, encoding="utf-8")
    stackroom.index("a")
    ran = stackroom.index("b")
    assert ran.code == 1
    assert "skipped b/x.md: a source of this id comes from elsewhere" in ran.err
    assert stackroom.index("b", tenant="other").code == 0


@pytest.mark.usefixtures("notes")
def test_a_dry_run_is_a_table_and_makes_no_library(stackroom: CommandLine, here: Path) -> None:
    ran = stackroom.index("notes", "--dry-run", "--price", "2")
    assert ran.code == 0
    assert [line.split() for line in ran.out.splitlines()][:5] == [
        ["new", "2"],
        ["changed", "0"],
        ["unchanged", "0"],
        ["rescoped", "0"],
        ["gone", "0"],
    ]
    assert "tokens" in ran.out
    assert "cost" in ran.out
    assert not (here / "library").exists()


def test_a_dry_run_on_a_library_says_what_is_gone_and_changes_nothing(stackroom: CommandLine, notes: Path) -> None:
    stackroom.index("notes")
    (notes / "budget.md").unlink()
    plan = stackroom.index("notes", "--dry-run", "--prune", "--json").json
    assert (plan["removed"], plan["unchanged"]) == (1, 1)
    assert "budget.md#0" in stackroom.found("spring", "--mode", "lexical")


def test_what_is_gone_goes_with_prune(stackroom: CommandLine, notes: Path) -> None:
    stackroom.index("notes")
    (notes / "budget.md").unlink()
    assert "1 removed" in stackroom.index("notes", "--prune").out
    assert stackroom.found("spring", "--mode", "lexical") == []


@pytest.mark.usefixtures("notes")
def test_a_budget_ends_before_the_file_that_would_break_it_and_says_so(stackroom: CommandLine) -> None:
    ran = stackroom.index("notes", "--budget", "150")
    assert ran.code == 1
    assert "the budget is spent: 1 file not indexed; run it again to go on" in ran.err
    assert "indexed 1 source" in ran.out
    assert stackroom.index("notes", "--budget", "150").code == 0


@pytest.mark.usefixtures("notes")
@pytest.mark.parametrize(
    "option", [("--budget", "-1"), ("--budget", "1.5"), ("--price", "-1"), ("--price", "nan"), ("--jobs", "0")]
)
def test_a_number_that_is_none_is_wrong_usage(stackroom: CommandLine, option: tuple[str, str], here: Path) -> None:
    assert stackroom.index("notes", *option).code == 2
    assert not (here / "library").exists()


def test_properties_reach_the_sources(stackroom: CommandLine, notes: Path) -> None:
    options = ("--folder", "plans", "--tag", "a", "--tag", "b", "--kind", "note", "--tier", "hot", "--title", "Money")
    stackroom.index(str(notes / "budget.md"), *options, "--group", "board")
    info = stackroom("show", "budget.md", "--tenant", "acme", "--group", "board", "--json").json["source"]
    assert (info["folder_id"], info["tags"], info["kind"], info["tier"]) == ("plans", ["a", "b"], "note", "hot")
    assert (info["title"], info["acl_groups"]) == ("Money", ["board", "staff"])


@pytest.mark.usefixtures("notes")
def test_titles_are_the_first_heading_or_the_name(stackroom: CommandLine) -> None:
    stackroom.index("notes")
    sources = stackroom("sources", "--tenant", "acme", "--group", "staff", "--json").json["sources"]
    assert [source["title"] for source in sources] == ["Budget", "kickoff.vtt"]


@pytest.mark.usefixtures("notes")
def test_a_title_for_several_files_is_wrong_usage(stackroom: CommandLine) -> None:
    assert stackroom.index("notes", "--title", "All").code == 2


@pytest.mark.usefixtures("notes")
@pytest.mark.parametrize("path", ["", " ", "\u200b"])
def test_a_blank_path_is_wrong_usage_and_never_the_directory_one_stands_in(
    stackroom: CommandLine, here: Path, path: str
) -> None:
    ran = stackroom.index(path)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("stackroom: PATH is empty.")
    assert not (here / "library").exists()


@pytest.mark.usefixtures("notes")
def test_a_dot_is_the_directory_one_stands_in(stackroom: CommandLine) -> None:
    ran = stackroom.index(".", "--json")
    assert [source["source_id"] for source in ran.json["sources"]] == ["notes/budget.md", "notes/kickoff.vtt"]


@pytest.mark.parametrize("option", ["--tenant", "--group", "--folder", "--tag", "--kind", "--library"])
@pytest.mark.parametrize("value", ["", " "])
def test_a_blank_name_is_wrong_usage_before_anything_is_read(
    stackroom: CommandLine, notes: Path, option: str, value: str
) -> None:
    scope = {"--tenant": "acme", "--group": "staff", option: value}
    ran = stackroom("index", "notes", *(word for pair in scope.items() for word in pair))
    assert (ran.code, ran.out) == (2, "")
    assert f"{option} is empty." in ran.err
    assert not (notes.parent / "library").exists()


def test_the_summary_says_what_was_new_and_what_was_embedded(stackroom: CommandLine, notes: Path) -> None:
    first = stackroom.index(str(notes / "budget.md")).out
    assert "(sources: 1 new, 0 replaced; passages: 2 embedded, 0 reused)" in first
    again = stackroom.index("notes").out
    assert "(sources: 1 new, 0 replaced, 1 unchanged; passages: 1 embedded, 0 reused)" in again
    counts = stackroom.index("notes", "--json", "--kind", "note").json
    assert {key: counts[key] for key in ("new", "replaced", "passages", "embedded", "reused")} == {
        "new": 0,
        "replaced": 2,
        "passages": 3,
        "embedded": 0,
        "reused": 3,
    }


def test_a_source_indexed_again_has_the_folder_tags_and_groups_of_the_last_call(
    stackroom: CommandLine, notes: Path
) -> None:
    stackroom.index(str(notes / "budget.md"), "--folder", "plans", "--tag", "money")
    stackroom.index(str(notes / "budget.md"), group="board")
    info = stackroom("show", "budget.md", "--tenant", "acme", "--group", "board", "--json").json["source"]
    assert (info["folder_id"], info["tags"], info["acl_groups"]) == (None, [], ["board"])


def test_json_is_all_there_is_on_stdout(stackroom: CommandLine, notes: Path) -> None:
    (notes / "empty.txt").touch()
    ran = stackroom.index("notes", "--json")
    assert ran.json["passages"] == 3
    assert ran.json["skipped"] == [{"path": "notes/empty.txt", "reason": "empty", "message": "it holds no text"}]


@pytest.mark.skipif(sys.platform != "linux", reason="other file systems refuse the name")
def test_a_name_that_is_no_unicode_is_said_and_skipped(stackroom: CommandLine, notes: Path) -> None:
    with open(os.fsencode(notes) + b"/\xff.txt", "wb") as file:  # noqa: PTH123 - a Path of bytes there is not
        file.write(b"word")
    ran = stackroom.index("notes", "--json")
    assert ran.code == 1
    assert ran.json["skipped"][0]["reason"] == "name"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_cannot_be_read_is_said_and_skipped(stackroom: CommandLine, notes: Path) -> None:
    (notes / "budget.md").chmod(0)
    ran = stackroom.index("notes")
    assert ran.code == 1
    assert "skipped notes/budget.md" in ran.err


def test_a_file_that_is_too_large_is_said_and_skipped(stackroom: CommandLine, notes: Path) -> None:
    with (notes / "huge.log").open("wb") as file:
        file.truncate(25 * 1024 * 1024 + 1)
    ran = stackroom.index("notes")
    assert ran.code == 1
    assert "skipped notes/huge.log: it is larger than 25 MiB" in ran.err


def test_the_library_is_the_option_then_the_environment_then_here(
    stackroom: CommandLine, notes: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stackroom.index(str(notes))
    monkeypatch.setenv("STACKROOM_LIBRARY", "from-environment")
    stackroom.index(str(notes))
    stackroom.index(str(notes), "--library", "from-option")
    assert {path.parent.name for path in here.glob("*/library.toml")} == {"library", "from-environment", "from-option"}


@pytest.mark.parametrize("content", [b"Geh\xe4lter", b""], ids=["no text", "empty"])
def test_what_is_kept_of_a_file_that_is_not_indexed_has_the_groups_of_the_call(
    stackroom: CommandLine, notes: Path, content: bytes
) -> None:
    stackroom.index("notes")
    (notes / "budget.md").write_bytes(content)
    assert (
        stackroom.index("notes", "notes", "notes/budget.md", "--dry-run", "--json", group="board").json["rescoped"] == 2
    )
    assert "2 rescoped" in stackroom.index("notes", group="board").out
    assert stackroom.found("spring", "--mode", "lexical") == []


def test_a_file_given_by_itself_sets_no_groups_of_its_neighbours(stackroom: CommandLine, notes: Path) -> None:
    stackroom.index("notes")
    (notes / "kickoff.vtt").unlink()
    stackroom.index("notes/budget.md", group="board")
    assert stackroom.found("launch", "--mode", "lexical") == ["kickoff.vtt#0"]
