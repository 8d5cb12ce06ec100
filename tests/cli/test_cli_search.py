"""`stackroom search`, `sources` and `show`: what a scope sees, and how it is laid out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import CommandLine


@pytest.fixture(autouse=True)
def indexed(stackroom: CommandLine, notes: Path) -> None:
    stackroom.index(str(notes / "budget.md"), "--folder", "plans", "--tag", "money")
    stackroom.index(str(notes / "kickoff.vtt"), "--kind", "meeting", group="leads")


def test_a_search_sees_only_what_its_groups_may_see(stackroom: CommandLine) -> None:
    assert stackroom.found("launch", "--mode", "lexical") == ["budget.md#1"]
    assert stackroom.found("launch", "--mode", "lexical", group="leads") == ["kickoff.vtt#0"]
    assert set(stackroom.found("launch", "--group", "leads")) == {"budget.md#0", "budget.md#1", "kickoff.vtt#0"}
    assert stackroom.found("launch", tenant="other") == []


@pytest.mark.parametrize(
    ("narrowing", "found"),
    [
        (("--kind", "meeting"), ["kickoff.vtt#0"]),
        (("--folder", "plans"), ["budget.md#0"]),
        (("--tag", "money"), ["budget.md#0"]),
        (("--source", "kickoff.vtt"), ["kickoff.vtt#0"]),
        (("--tier", "hot"), []),
        (("--kind", "meeting", "--kind", "document", "--top-k", "1"), ["budget.md#0"]),
    ],
)
def test_a_search_is_narrowed(stackroom: CommandLine, narrowing: tuple[str, ...], found: list[str]) -> None:
    everything = ("--group", "leads", "--mode", "lexical")
    assert stackroom.found("budget", *everything, *narrowing) == found


def test_match_all_and_prefix(stackroom: CommandLine) -> None:
    assert stackroom.found("engin launc", "--mode", "lexical") == []
    assert stackroom.found("engin launc", "--mode", "lexical", "--prefix", "--match", "all") == ["budget.md#1"]


def test_a_hit_shows_rank_title_score_place_and_snippet(stackroom: CommandLine) -> None:
    lines = stackroom("search", "engineers", "--tenant", "acme", "--group", "staff", "--mode", "lexical").out.split(
        "\n"
    )
    rank, title, score = lines[0].split()
    assert (rank, title) == ("1.", "Budget")
    assert float(score) > 0
    assert lines[1].strip() == "budget.md#1  ·  Hiring  ·  in plans  ·  tagged money"
    assert "We hire two engineers before we launch." in lines[2]


def test_a_hit_in_a_transcript_shows_time_and_speaker(stackroom: CommandLine) -> None:
    ran = stackroom("search", "launch", "--tenant", "acme", "--group", "leads")
    assert "kickoff.vtt#0  ·  00:00–01:07 Ann" in ran.out
    assert "In May & in public." in ran.out


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """Let the command line believe that it writes to a terminal without colours."""
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("LINES", "25")


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_the_terminal(
    stackroom: CommandLine, width: int, monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    (here / "long.md").write_text(f"# {'Title ' * 30}\n\n{'word ' * 80}{'x' * 300}", encoding="utf-8")
    stackroom.index("long.md", "--tag", "t" * 100)
    on_a_terminal(monkeypatch, width)
    scope = ("--tenant", "acme", "--group", "staff")
    for command in (("search", "word", *scope), ("sources", *scope), ("show", "long.md", *scope)):
        assert max(map(len, stackroom(*command).out.split("\n"))) <= width


@pytest.mark.parametrize("width", [40, 50, 60, 70, 80, 120])
def test_a_narrow_terminal_shortens_tags_and_titles_and_leaves_ids_whole(
    stackroom: CommandLine, width: int, monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    source_id = "guides-of-the-year-2026-in-full.md"
    (here / source_id).write_text(f"# {'Title ' * 9}\n\nword", encoding="utf-8")
    stackroom.index(source_id, "--tag", "one", "--tag", "another", "--folder", "plans/of/the/year")
    on_a_terminal(monkeypatch, width)
    lines = stackroom("sources", "--tenant", "acme", "--group", "staff").out.splitlines()
    assert [line.split()[0] for line in lines] == ["source", "budget.md", source_id]
    assert max(map(len, lines)) <= width


def test_an_id_that_is_longer_than_the_terminal_is_wide_is_folded(
    stackroom: CommandLine, monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    source_id = "x" * 60 + ".md"
    (here / source_id).write_text("word", encoding="utf-8")
    stackroom.index(source_id)
    on_a_terminal(monkeypatch, 40)
    out = stackroom("sources", "--tenant", "acme", "--group", "staff").out
    assert source_id in "".join(out.split())


def test_in_a_pipe_a_row_is_a_line_of_whole_cells(stackroom: CommandLine, here: Path) -> None:
    name = "long " * 20 + ".md"
    (here / name).write_text(f"# {'Title ' * 30}\n\n{'word ' * 80}", encoding="utf-8")
    stackroom.index(name, "--tag", "t" * 100, "--tag", "u")
    scope = ("--tenant", "acme", "--group", "staff")
    rows = [line.split("\t") for line in stackroom("sources", *scope).out.splitlines()]
    assert rows[0] == ["source", "title", "kind", "folder", "tags", "groups", "passages"]
    assert rows[1] == ["budget.md", "Budget", "document", "plans", "money", "staff", "2"]
    assert rows[2] == [name, ("Title " * 30).strip(), "document", "", f"{'t' * 100}, u", "staff", "1"]
    assert re.search(rf"^tags +{'t' * 100}, u$", stackroom("show", name, *scope).out, re.MULTILINE)
    lines = stackroom("search", "word", *scope, "--source", name).out.splitlines()
    assert lines[1].strip().startswith(f"{name}#0  ·  ")


def test_nothing_found_is_said_and_is_no_failure(stackroom: CommandLine) -> None:
    ran = stackroom("search", "zebra", "--tenant", "acme", "--group", "staff", "--mode", "lexical")
    assert (ran.code, ran.out) == (0, "nothing found in this scope\n")


def test_notes_go_to_stderr(stackroom: CommandLine) -> None:
    ran = stackroom("search", "?!", "--tenant", "acme", "--group", "staff")
    assert "note: " in ran.err
    assert "note: " not in ran.out


def test_stored_text_steers_no_terminal(stackroom: CommandLine, here: Path) -> None:
    (here / "evil.txt").write_text("red \x1b[31m [bold]alert[/bold] :smile:", encoding="utf-8")
    stackroom.index("evil.txt", "--title", "\x1b]0;owned\x07")
    scope = ("--tenant", "acme", "--group", "staff")
    for command in (("search", "alert", *scope), ("sources", *scope), ("show", "evil.txt", *scope)):
        ran = stackroom(*command)
        assert "\x1b" not in ran.out + ran.err
        assert "\x07" not in ran.out + ran.err
    assert "[bold]alert[/bold] :smile:" in stackroom("show", "evil.txt", *scope).out


STEERING = "a\nb\tc\r\x85\u2028\u2029\u202e\u2066\u200e\u061cd"


def test_one_source_is_one_row_whatever_its_names_hold(stackroom: CommandLine, here: Path) -> None:
    from stackroom import Library, Source
    from stackroom.embedders import HashingEmbedder

    with Library.open(here / "library", embedder=HashingEmbedder(64)) as library:
        library.index_source(Source(STEERING, "k", "acme", [STEERING], ["zebra"], title=STEERING, folder_id=STEERING))
    scope = ("--tenant", "acme", "--group", STEERING)
    listing = stackroom("sources", *scope)
    assert [len(line.split("\t")) for line in listing.out.splitlines()] == [7, 7]
    shown = stackroom("show", STEERING, *scope)
    found = stackroom("search", "zebra", *scope, "--mode", "lexical")
    assert len(found.out.splitlines()) == 4
    for ran in (listing, shown, found):
        assert r"a␊b␉c␍\u0085\u2028\u2029\u202e\u2066\u200e\u061cd" in ran.out
    assert stackroom("show", STEERING, *scope, "--json").json["source"]["source_id"] == STEERING
    assert r"re-scoped a␊b␉c" in stackroom("rescope", STEERING, "--tenant", "acme", "--no-tags").out


def test_json_of_a_search_holds_whole_hits(stackroom: CommandLine) -> None:
    answer = stackroom.search("engineers", "--mode", "lexical")
    assert (answer["query"], answer["mode"], answer["complete"], answer["notes"]) == ("engineers", "lexical", True, [])
    hit = answer["hits"][0]
    assert hit["text"].endswith("We hire two engineers before we launch.")
    assert (hit["metadata"]["heading"], hit["lexical_rank"], hit["dense_rank"]) == ("Hiring", 1, None)


@pytest.mark.parametrize(
    "top_k", ["0", "-1", "10001", "9" * 5000, "x", "1.5", "1_0", "٣", ""], ids=lambda number: number[:9]
)
@pytest.mark.parametrize(("command", "option"), [(("search", "x"), "--top-k"), (("sources",), "--limit")])
def test_a_number_out_of_range_is_wrong_usage_and_says_which_are_taken(
    stackroom: CommandLine, command: tuple[str, ...], option: str, top_k: str
) -> None:
    ran = stackroom(*command, "--tenant", "acme", "--group", "staff", option, top_k)
    assert ran.code == 2
    assert ran.err.startswith(f"stackroom: {option} takes a whole number of 1 to 10,000. See: stackroom {command[0]}")


def test_sources_are_listed_page_by_page(stackroom: CommandLine) -> None:
    scope = ("--tenant", "acme", "--group", "staff", "--group", "leads")
    first = stackroom("sources", *scope, "--limit", "1", "--json").json
    second = stackroom("sources", *scope, "--limit", "1", "--after", first["next"], "--json").json
    assert [source["source_id"] for page in (first, second) for source in page["sources"]] == [
        "budget.md",
        "kickoff.vtt",
    ]
    assert second["next"] is None


def test_a_table_of_sources_says_how_to_go_on(stackroom: CommandLine) -> None:
    ran = stackroom("sources", "--tenant", "acme", "--group", "staff", "--group", "leads", "--limit", "1")
    cursor = ran.err.strip().rpartition("--after ")[2]
    more = stackroom("sources", "--tenant", "acme", "--group", "leads", "--group", "staff", "--after", cursor)
    assert "kickoff.vtt" in more.out


def test_a_cursor_of_another_listing_is_refused(stackroom: CommandLine) -> None:
    ran = stackroom("sources", "--tenant", "acme", "--group", "staff", "--after", "x")
    assert ran.code == 1
    assert "cursor" in ran.err


def test_show_tells_what_is_not_visible_like_what_is_absent(stackroom: CommandLine) -> None:
    hidden = stackroom("show", "kickoff.vtt", "--tenant", "acme", "--group", "staff")
    absent = stackroom("show", "absent", "--tenant", "acme", "--group", "staff")
    assert (hidden.code, hidden.out) == (1, "")
    assert hidden.err.replace("kickoff.vtt", "absent") == absent.err


def test_show_prints_properties_and_passages(stackroom: CommandLine) -> None:
    out = stackroom("show", "budget.md", "--tenant", "acme", "--group", "staff").out
    assert "folder       plans" in out
    assert "#1  ·  Hiring" in out
    assert "The spring budget is three million." in out


def test_show_and_its_json_tell_who_speaks(stackroom: CommandLine) -> None:
    scope = ("--tenant", "acme", "--group", "leads")
    assert "#0  ·  00:00–01:07 Ann\n" in stackroom("show", "kickoff.vtt", *scope).out
    passage = stackroom("show", "kickoff.vtt", *scope, "--json").json["passages"][0]
    assert passage["metadata"]["speaker"] == "Ann"


def test_a_speaker_shows_without_a_time(stackroom: CommandLine, here: Path) -> None:
    from stackroom import Library, Passage, Source
    from stackroom.embedders import HashingEmbedder

    said = Passage("We agree.", {"speaker": "Ben"})
    with Library.open(here / "library", embedder=HashingEmbedder(64)) as library:
        library.index_source(Source("talk", "meeting", "acme", ["leads"], [said]))
    assert "#0  ·  passage 1 Ben\n" in stackroom("show", "talk", "--tenant", "acme", "--group", "leads").out


def test_the_heading_that_the_place_names_is_not_said_again(stackroom: CommandLine) -> None:
    out = stackroom("search", "hiring", "--tenant", "acme", "--group", "staff", "--mode", "lexical").out
    assert out.splitlines()[1:3] == [
        "    budget.md#1  ·  Hiring  ·  in plans  ·  tagged money",
        "    We hire two engineers before we launch.",
    ]
