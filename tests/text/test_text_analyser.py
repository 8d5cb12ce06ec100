"""index_terms, query_terms and expanding_terms: what the lexical leg compares."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackroom.text import expanding_terms, index_terms, query_terms
from stackroom.text._normal_form import nfkc

if TYPE_CHECKING:
    from collections.abc import Callable

MARKS = "\u0300\u0323\u0301\u0307\u0345\u0f73\u0f71\u3099\uff9e\uff9f"
TRICKY = "aIiİßΣ東京あｶ각ก\u0e31\u0e34िहن\u064e1２½²Ⅳ™℠_’- \n\u200b\u200d\u00ad\ufe0f\U000e0100é" + MARKS
texts = st.one_of(st.text(), st.text(st.sampled_from(TRICKY)), st.text(st.characters(max_codepoint=127)))

SPACELESS_RANGES = (
    *((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1100, 0x11FF), (0x1780, 0x17FF), (0x2E80, 0x9FFF), (0xA960, 0xA97F)),
    *((0xAC00, 0xD7FF), (0xF900, 0xFAFF), (0x1B000, 0x1B16F), (0x20000, 0x3FFFF)),
)


def kind(char: str) -> str:
    return unicodedata.category(char)[0]


def is_taken_out(char: str) -> bool:
    is_variation_selector = "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"
    return is_variation_selector or (unicodedata.category(char) == "Cf" and char != "\u200b")


def folded_by_definition(text: str) -> str:
    spaced = text.replace("\u2122", " ").replace("\u2120", " ")
    kept = "".join(char for char in spaced if not is_taken_out(char))
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", kept).casefold())
    return folded.replace("i\u0307", "i")


def words_by_definition(text: str) -> list[list[str]]:
    """Return each word as the list of its units."""
    words: list[list[str]] = []
    inside = False
    for char in folded_by_definition(text):
        if kind(char) in "LN":
            if not inside:
                words.append([])
            words[-1].append(char)
            inside = True
        elif kind(char) == "M" and inside:
            words[-1][-1] += char
        else:
            inside = False
    return words


def is_spaceless(unit: str) -> bool:
    return any(first <= ord(unit[0]) <= last for first, last in SPACELESS_RANGES)


def stretches_by_definition(word: list[str]) -> list[list[str]]:
    stretches: list[list[str]] = []
    for position, unit in enumerate(word):
        if position == 0 or is_spaceless(unit) != is_spaceless(word[position - 1]):
            stretches.append([])
        stretches[-1].append(unit)
    return stretches


def index_terms_by_definition(text: str) -> list[str]:
    terms = []
    for word in words_by_definition(text):
        for units in stretches_by_definition(word):
            if not is_spaceless(units[0]):
                terms.append("".join(units))
                continue
            for position, unit in enumerate(units):
                terms.append(unit)
                terms.extend(unit + following for following in units[position + 1 : position + 2])
    return [term[:128] for term in terms]


def query_terms_by_definition(text: str) -> list[str]:
    terms = []
    for word in words_by_definition(text):
        for units in stretches_by_definition(word):
            if len(units) == 1 or not is_spaceless(units[0]):
                terms.append("".join(units))
            else:
                terms.extend(first + second for first, second in pairwise(units))
    return list(dict.fromkeys(term[:128] for term in terms))


TABLE = [
    pytest.param("Q3's budget: 1,200 units", "q3 s budget 1 200 units", None, id="T1"),
    pytest.param("snake_case and kebab-case", "snake case and kebab case", "snake case and kebab", id="T2"),
    pytest.param("cafe\u0301 noir", "caf\u00e9 noir", None, id="T3"),
    pytest.param("İstanbul", "istanbul", None, id="T4"),
    pytest.param("STRASSE Straße", "strasse strasse", "strasse", id="T5"),
    pytest.param("हिन्दी", "हिन्दी", None, id="T6"),
    pytest.param("東京2025年", "東 東京 京 2025 年", "東京 2025 年", id="T7"),
    pytest.param("½ cup x² Ⅳ ①", "1 2 cup x2 iv 1", "1 2 cup x2 iv", id="T8"),
    pytest.param("a\u200bb a\u00adb", "a b ab", None, id="T9"),
    pytest.param("Foo™ don’t", "foo don t", None, id="T10"),
    pytest.param("ภาษา", "ภ ภา า าษ ษ ษา า", "ภา าษ ษา", id="T11"),
    pytest.param("", "", None, id="empty"),
    pytest.param("\u0301 …", "", None, id="no word"),
    pytest.param("ＡＢＣ ｶﾞ", "abc ガ", None, id="width"),
    pytest.param("مُحَمَّد", "مُحَمَّد", None, id="vocalised Arabic"),
    pytest.param("x\u0301y-\u0301z", "x\u0301y z", None, id="a mark behind no letter separates"),
    pytest.param("a\u0e31b", "a\u0e31b", None, id="a Thai mark behind a Latin letter cuts nothing"),
    pytest.param("กิa", "กิ a", None, id="a unit is a letter with its marks"),
    pytest.param("葛\U000e0100城", "葛 葛城 城", "葛城", id="variation selector"),
    pytest.param("Acme℠x", "acme x", None, id="service mark"),
]


@pytest.mark.parametrize(("text", "stored", "asked"), TABLE)
def test_the_index_stores_these_terms_of_a_passage(text: str, stored: str, asked: str | None) -> None:  # noqa: ARG001 - one table for both
    assert index_terms(text) == stored.split()


@pytest.mark.parametrize(("text", "stored", "asked"), TABLE)
def test_a_query_asks_for_these_terms(text: str, stored: str, asked: str | None) -> None:
    assert query_terms(text) == (stored if asked is None else asked).split()


@given(texts)
def test_stored_terms_equal_their_definition(text: str) -> None:
    assert index_terms(text) == index_terms_by_definition(text)


@given(texts)
def test_asked_terms_equal_their_definition(text: str) -> None:
    assert query_terms(text) == query_terms_by_definition(text)


@given(st.text(st.characters(max_codepoint=127)))
def test_an_ascii_text_has_the_same_terms_beside_other_text(text: str) -> None:
    assert index_terms(f"{text} é") == [*index_terms(text), "é"]


@given(texts, st.sampled_from(["NFC", "NFD"]))
def test_composed_and_decomposed_texts_have_the_same_terms(text: str, form: Any) -> None:
    assert index_terms(unicodedata.normalize(form, text)) == index_terms(text)


@given(texts)
def test_a_query_asks_for_each_term_once_and_only_for_stored_ones(text: str) -> None:
    asked = query_terms(text)
    assert len(set(asked)) == len(asked)
    assert set(asked) <= set(index_terms(text))


@pytest.mark.parametrize("text", ["x" * 200, "é" * 200, "ก" + "\u0e34" * 200, "ก" + "\u0e34" * 200 + "ข"])
def test_a_term_keeps_its_first_128_characters(text: str) -> None:
    assert max(map(len, index_terms(text))) == 128
    assert index_terms(text) == index_terms_by_definition(text)


@pytest.mark.parametrize("query", ["京", "京都", "東京都"])
def test_a_piece_of_a_text_without_spaces_has_its_terms_there(query: str) -> None:
    assert set(query_terms(query)) <= set(index_terms("私は東京都に住む"))


def test_l4_a_piece_that_is_not_there_has_a_term_that_is_not() -> None:
    assert not set(query_terms("京に")) & set(index_terms("私は東京都に住む"))


@pytest.mark.parametrize(
    ("query", "expanding"),
    [
        pytest.param("chapter", "chapter", id="L1"),
        pytest.param("Q3's", "q3", id="L2"),
        pytest.param("s", "s", id="L3"),
        pytest.param("京", "", id="L4 one"),
        pytest.param("京都", "", id="L4 two"),
        pytest.param("re jum", "re jum", id="L7"),
        pytest.param("a b c", "a b c", id="only single units"),
        pytest.param("東 s", "s", id="a single unit of a spaceless script is no longer term"),
        pytest.param("東京 s", "", id="a pair is a longer term"),
        pytest.param("東京 s chap", "chap", id="mixed"),
        pytest.param("x\u0301", "x\u0301", id="a letter with its mark is one unit"),
        pytest.param("x\u0301 ab", "ab", id="and stays unexpanded beside a longer term"),
        pytest.param("", "", id="no term"),
    ],
)
def test_a_prefix_search_expands_these_terms(query: str, expanding: str) -> None:
    assert expanding_terms(query) == set(expanding.split())


@given(texts)
def test_what_expands_is_asked_for_and_never_of_a_script_without_spaces(text: str) -> None:
    expanding = expanding_terms(text)
    assert expanding <= set(query_terms(text))
    assert not any(map(is_spaceless, expanding))


@pytest.mark.parametrize("terms", [index_terms, query_terms, expanding_terms])
@pytest.mark.parametrize("text", [None, b"bytes", ["a"]])
def test_terms_of_what_is_no_str_are_refused(terms: Callable[[str], object], text: object) -> None:
    with pytest.raises(TypeError, match="must be a str"):
        terms(cast("Any", text))


@given(st.text(st.sampled_from("aé각ｶ—\u3000" + MARKS), min_size=30, max_size=120))
def test_the_normal_form_is_that_of_unicode_however_many_marks_there_are(text: str) -> None:
    assert nfkc(text) == unicodedata.normalize("NFKC", text)


def test_a_text_of_nothing_but_marks_in_the_wrong_order_takes_no_quadratic_time() -> None:
    marks = "\u0300\u0323" * 200_000  # the insertion sort of CPython would need minutes
    assert index_terms(f"a{marks}") == ["\u1ea1" + "\u0323" * 127]


def test_only_marks_have_a_combining_class_besides_the_two_that_become_marks() -> None:
    letters = re.findall(r"\w", "".join(map(chr, range(0x110000))))
    assert [char for char in letters if unicodedata.combining(unicodedata.normalize("NFKD", char)[0])] == [
        "\uff9e",
        "\uff9f",
    ]
