"""Snippets of hits: around the query's words, those words marked as the index sees them."""

from __future__ import annotations

import pytest

from stackroom.cli._shown import clock_time, highlighted, one_line, visible


def marked(text: str, query: str, *, prefix: bool = False) -> list[str]:
    shown = highlighted(text, query, prefix=prefix)
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
        ("snake_case", "case", ["case"]),
        ("nothing here", "zebra", []),
        ("nothing here", "?!", []),
    ],
)
def test_words_that_the_index_finds_are_marked(text: str, query: str, expected: list[str]) -> None:
    assert marked(text, query) == expected


def test_with_prefix_beginnings_are_marked() -> None:
    assert marked("The budgets of Bob", "budg bo", prefix=True) == ["budg", "Bo"]


def test_the_snippet_is_around_the_longer_words_of_the_query() -> None:
    text = "We do this. " * 40 + "The launch is in May. " + "We do that. " * 40
    shown = highlighted(text, "when do we launch").plain
    assert "The launch is in May." in shown
    assert shown.startswith("… ")
    assert shown.endswith(" …")


def test_a_short_text_is_shown_whole_without_ellipsis() -> None:
    assert highlighted("The launch is\nin May.", "launch").plain == "The launch is in May."


def test_a_text_without_white_space_is_cut_around_the_first_mark() -> None:
    shown = highlighted("あ" * 3000 + "東京" + "い" * 3000, "東京").plain
    assert "東京" in shown
    assert len(shown) < 420


@pytest.mark.parametrize(
    ("milliseconds", "expected"), [(0, "00:00"), (59_999, "00:59"), (754_000, "12:34"), (3_723_000, "1:02:03")]
)
def test_times_are_minutes_and_seconds(milliseconds: int, expected: str) -> None:
    assert clock_time(milliseconds) == expected


def test_what_steers_a_terminal_is_replaced() -> None:
    assert visible("a\x1b[31m\x9b\r\tb\nc") == "a\ufffd[31m\ufffd\ufffd\tb\nc"
    assert one_line("a\n  b\x1b") == "a b\ufffd"
