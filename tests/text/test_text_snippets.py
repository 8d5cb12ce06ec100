"""snippet_around: a window of whole words around the first place where a query's word begins."""

from __future__ import annotations

import unicodedata
from itertools import groupby
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackroom.text import Snippet, lexical_tokens, snippet_around

LEDGERS = "lead " * 40 + "the Ledgers closed " + "tail " * 60
COUNT = "one two three four five six"

letters = st.sampled_from("abAİßΣ東.,\u0301 \n\u3000")
short_texts = st.text(letters, max_size=60)
sizes = st.integers(0, 30)


def snippet_by_definition(text: str, words: list[str], before: int, after: int) -> Snippet:
    wanted = [word.lower() for word in words if word]
    at = -1
    runs = groupby(range(len(text)), key=lambda position: unicodedata.category(text[position])[0] in "LN")
    for positions in [list(group) for is_word, group in runs if is_word]:
        run = text[positions[0] : positions[-1] + 1].lower()
        if any(run.startswith(word) for word in wanted):
            at = positions[0]
            break
    anchor = max(at, 0)
    spaces = [position for position, char in enumerate(text) if char.isspace()]
    start = 0 if anchor <= before else 1 + max((space for space in spaces if space <= anchor - before), default=-1)
    stop = min((space for space in spaces if space >= min(len(text), anchor + after)), default=len(text))
    return Snippet(at, " ".join(text[start:stop].split()))


def test_s1_the_window_is_cut_at_white_space_around_the_word() -> None:
    snippet = snippet_around(LEDGERS, ["ledger"])
    assert snippet == Snippet(204, "lead " * 15 + "the Ledgers closed" + " tail" * 22)
    assert len(snippet.text) == 203


@pytest.mark.parametrize(
    ("text", "words", "window", "expected"),
    [
        pytest.param("a chart of cart and art", ["art"], (80, 120), Snippet(20, "a chart of cart and art"), id="S2"),
        pytest.param(COUNT, ["four"], (5, 3), Snippet(14, "three four"), id="S3 5/3"),
        pytest.param(COUNT, ["four"], (14, 0), Snippet(14, "one two three four"), id="S3 14/0"),
        pytest.param(
            "plan\nfirst line\tsecond item third", ["second"], (7, 4), Snippet(16, "first line second"), id="S4"
        ),
        pytest.param(
            "予算は増える。採用は五月。", ["採用"], (80, 120), Snippet(7, "予算は増える。採用は五月。"), id="S5"
        ),
        pytest.param("İzmir office", ["izmir"], (80, 120), Snippet(-1, "İzmir office"), id="S6 izmir"),
        pytest.param("İzmir office", ["i"], (80, 120), Snippet(0, "İzmir office"), id="S6 i"),
        pytest.param("", ["a"], (80, 120), Snippet(-1, ""), id="empty text"),
        pytest.param(COUNT, [], (80, 9), Snippet(-1, "one two three"), id="no words"),
        pytest.param(COUNT, [""], (80, 9), Snippet(-1, "one two three"), id="empty words are dropped"),
        pytest.param(COUNT, ["six", "TWO"], (0, 0), Snippet(4, "two"), id="the order of the text decides"),
        pytest.param("xxxx-needle-yyyy", ["needle"], (1, 1), Snippet(5, "xxxx-needle-yyyy"), id="no white space"),
    ],
)
def test_the_snippet_of_a_text(text: str, words: list[str], window: tuple[int, int], expected: Snippet) -> None:
    before, after = window
    assert snippet_around(text, words, before=before, after=after) == expected


@given(short_texts, st.lists(st.text(letters, max_size=3), max_size=3), sizes, sizes)
def test_a_snippet_equals_its_definition(text: str, words: list[str], before: int, after: int) -> None:
    assert snippet_around(text, words, before=before, after=after) == snippet_by_definition(text, words, before, after)


def test_the_words_may_be_an_iterator() -> None:
    assert snippet_around("the budget", iter(lexical_tokens("Budget"))).at == 4


@pytest.mark.parametrize("words", ["budget", b"budget", None, 5, ["a", 5], [None]])
def test_words_must_be_a_list_of_strs(words: object) -> None:
    with pytest.raises(TypeError):
        snippet_around("the budget", cast("Any", words))


@pytest.mark.parametrize("text", [None, b"bytes", 5])
def test_the_text_must_be_a_str(text: object) -> None:
    with pytest.raises(TypeError, match="must be a str"):
        snippet_around(cast("Any", text), ["a"])


@pytest.mark.parametrize("name", ["before", "after"])
@pytest.mark.parametrize("size", [-1, True, 1.0, "1", None])
def test_sizes_are_ints_of_at_least_0(name: str, size: object) -> None:
    with pytest.raises(ValueError, match=f"{name} must be an int of at least 0"):
        snippet_around("text", ["a"], **cast("Any", {name: size}))


@pytest.mark.parametrize("text", ["x" * 300_000, " " * 300_000, "x " * 150_000, "\u0301" * 300_000])
def test_long_hostile_texts_take_linear_time(text: str) -> None:
    assert snippet_around(text, ["needle"], before=300_000, after=299_999).at == -1
