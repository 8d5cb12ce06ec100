"""lexical_tokens and is_blank: the documented word rule, and what counts as nothing."""

from __future__ import annotations

import sys
import unicodedata
from itertools import groupby
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackroom.text import is_blank, lexical_tokens
from stackroom.text._words import LETTERS_AND_DIGITS


def is_letter_or_digit(char: str) -> bool:
    return unicodedata.category(char)[0] in "LN"


def tokens_by_definition(text: str) -> list[str]:
    runs = groupby(text.lower(), key=is_letter_or_digit)
    return ["".join(run) for is_word, run in runs if is_word]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        pytest.param("Q3's budget: 1,200 units", "q3 s budget 1 200 units", id="T1"),
        pytest.param("snake_case and kebab-case", "snake case and kebab case", id="T2"),
        pytest.param("cafe\u0301 noir", "cafe noir", id="T3"),
        pytest.param("İstanbul", "i stanbul", id="T4"),
        pytest.param("STRASSE Straße", "strasse straße", id="T5"),
        pytest.param("हिन्दी", "ह न द", id="T6"),
        pytest.param("東京2025年", "東京2025年", id="T7"),
        pytest.param("½ cup x² Ⅳ ①", "½ cup x² ⅳ ①", id="T8"),
        pytest.param("a\u200bb a\u00adb", "a b a b", id="T9"),
        pytest.param("Foo™ don’t", "foo don t", id="T10"),
        pytest.param("ภาษา", "ภาษา", id="T11"),
        pytest.param("", "", id="empty"),
        pytest.param(" \n…!", "", id="no word"),
        pytest.param("ΟΔΟΣ ΟΔΟΣ", "οδος οδος", id="final sigma"),
    ],
)
def test_words_are_lower_cased_runs_of_letters_and_digits(text: str, tokens: str) -> None:
    assert lexical_tokens(text) == tokens.split()


@given(st.text())
def test_words_equal_their_definition(text: str) -> None:
    assert lexical_tokens(text) == tokens_by_definition(text)


def test_the_word_pattern_knows_every_letter_and_digit_and_nothing_else() -> None:
    every_character = map(chr, range(sys.maxunicode + 1))
    assert not [
        hex(ord(char))
        for char in every_character
        if is_letter_or_digit(char) != (LETTERS_AND_DIGITS.match(char) is not None)
    ]


@pytest.mark.parametrize("text", [None, b"bytes", 5, ["list"]])
def test_words_of_what_is_no_str_are_refused(text: object) -> None:
    with pytest.raises(TypeError, match="must be a str"):
        lexical_tokens(cast("Any", text))


@pytest.mark.parametrize("text", ["", " ", " \t\r\n\u2003", "\u200b\ufeff", "\x00\x07", " \u200b \u00ad\n"])
def test_white_space_control_and_format_characters_are_blank(text: str) -> None:
    assert is_blank(text)


@pytest.mark.parametrize("text", ["a", ".", "\u200b.", "\u0301", " \ufe0f", "\ud800", "_"])
def test_anything_else_is_not_blank(text: str) -> None:
    assert not is_blank(text)


def test_blank_is_asked_of_a_str_only() -> None:
    with pytest.raises(TypeError, match="must be a str"):
        is_blank(cast("Any", None))
