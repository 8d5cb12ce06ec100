"""Snippets of hits: around the query's words, those words marked as the index sees them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackroom.cli._shown import clock_time, size_of
from stackroom.cli._snippets import snippet_of
from stackroom.cli._visible import in_a_cell, one_line, visible


def marked(text: str, query: str, *, prefix: bool = False) -> list[str]:
    shown = snippet_of(text, query, prefix=prefix)
    return [shown.plain[span.start : span.end] for span in shown.spans if "bold" in str(span.style)]


@pytest.mark.parametrize(
    ("text", "query", "expected"),
    [
        ("The Budget, the budgets and the budget.", "budget", ["Budget", "budget"]),
        ("a chart of cart and art", "art", ["art"]),
        ("Die Straße", "STRASSE", ["Straße"]),
        ("cafe\u0301 noir", "caf\u00e9", ["cafe\u0301"]),
        ("हिन्दी भाषा", "हिन्दी", ["हिन्दी"]),
        ("私は東京都に住む", "東京", ["東京"]),
        ("私は東京都に住む", "東京都", ["東京都"]),
        ("東京2025年", "2025", ["2025"]),
        ("snake_case", "case", ["case"]),
        ("a date(year) and a day", "date a year", ["date", "year"]),
        ("plan b or plan c", "b", ["b"]),
        ("plans of the plan", "plan", ["plan"]),
        ("to replace a source, replaced", "replace a source", ["replace", "source"]),
        ("nothing here", "zebra", []),
        ("nothing here", "?!", []),
    ],
)
def test_words_that_the_index_finds_are_marked(text: str, query: str, expected: list[str]) -> None:
    assert marked(text, query) == expected


def test_with_prefix_whole_words_that_begin_so_are_marked() -> None:
    assert marked("The budgets of Bob and a bush", "budg bo b", prefix=True) == ["budgets", "Bob"]


def test_each_word_is_marked_once() -> None:
    assert marked("budget", "budget bud budg", prefix=True) == ["budget"]


@pytest.mark.parametrize(
    ("text", "known", "expected"),
    [
        ("# Plan\n\n## Launch\nIn May.", {"Plan", "Launch"}, "In May."),
        ("# Plan\n\n## Launch\nIn May.", {"Launch"}, "Plan In May."),
        ("## Launch ##", {"Launch"}, "Launch"),
        ("## Use\n```python\n# first\nrun()\n```\nDone.", {"Use"}, "# first run() Done."),
        ("~~~\ncode\n~~~~", set(), "code"),
        ("#1 is no heading", set(), "#1 is no heading"),
        ("```", set(), "```"),
    ],
)
def test_a_snippet_shows_no_marks_of_headings_and_fences_and_no_heading_that_stands_beside_it(
    text: str, known: set[str], expected: str
) -> None:
    assert snippet_of(text, "launch", known=known).plain == expected


def test_the_snippet_is_around_the_longer_words_of_the_query() -> None:
    text = "We do this. " * 40 + "The launch is in May. " + "We do that. " * 40
    shown = snippet_of(text, "when do we launch").plain
    assert "The launch is in May." in shown
    assert shown.startswith("… ")
    assert shown.endswith(" …")


def test_a_short_text_is_shown_whole_without_ellipsis() -> None:
    assert snippet_of("The launch is\nin May.", "launch").plain == "The launch is in May."


def test_a_text_without_white_space_is_cut_around_the_first_mark() -> None:
    shown = snippet_of("あ" * 3000 + "東京" + "い" * 3000, "東京").plain
    assert "東京" in shown
    assert len(shown) < 420


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (12_345, "12 kB"),
        (999_400, "999 kB"),
        (999_600, "1.0 MB"),
        (9_960_000, "10 MB"),
        (3_400_000_000, "3.4 GB"),
        (5 * 10**15, "5,000 TB"),
    ],
)
def test_a_size_is_in_the_unit_that_shows_it(number: int, expected: str) -> None:
    assert size_of(number) == expected


@pytest.mark.parametrize(
    ("milliseconds", "expected"), [(0, "00:00"), (59_999, "00:59"), (754_000, "12:34"), (3_723_000, "1:02:03")]
)
def test_times_are_minutes_and_seconds(milliseconds: int, expected: str) -> None:
    assert clock_time(milliseconds) == expected


@pytest.mark.parametrize(
    ("character", "shown"),
    [
        ("\0", "␀"),
        ("\x1b", "␛"),
        ("\r", "␍"),
        ("\x0b", "␋"),
        ("\x7f", "␡"),
        ("\x9b", "\\u009b"),
        ("\x85", "\\u0085"),
        ("\u2028", "\\u2028"),
        ("\u2029", "\\u2029"),
        *((turn, f"\\u{ord(turn):04x}") for turn in "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e"),
        *((turn, f"\\u{ord(turn):04x}") for turn in "\u2066\u2067\u2068\u2069"),
    ],
    ids=ascii,
)
def test_what_steers_a_terminal_shows_as_a_substitute(character: str, shown: str) -> None:
    assert visible(f"a{character}b") == f"a{shown}b"
    assert in_a_cell(f"a{character}b") == f"a{shown}b"


def test_line_feeds_and_tabs_stay_in_a_text_and_show_in_a_cell() -> None:
    assert visible("a\tb\nc") == "a\tb\nc"
    assert in_a_cell("a  b\tc\nd") == "a  b␉c␊d"
    assert one_line("a\n  b\x1b") == "a b␛"


@pytest.mark.parametrize("text", ["", "Straße 東京 हिन्दी", "a\u00a0b", "\U0001f469\u200d\U0001f52c", "می\u200cخواهم"])
def test_what_steers_nothing_stays_as_it_is(text: str) -> None:
    assert visible(text) == text
    assert in_a_cell(text) == text


@given(st.text())
def test_a_cell_is_one_line_whatever_it_holds(text: str) -> None:
    assert len(f"x{in_a_cell(text)}".splitlines()) == 1
    assert "\t" not in in_a_cell(text)
