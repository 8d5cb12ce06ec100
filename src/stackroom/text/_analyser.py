"""The index analyser: the terms that the lexical leg compares, on every store."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import chain
from operator import add
from typing import TypeAlias

from stackroom.text._arguments import require_text
from stackroom.text._normal_form import nfkc
from stackroom.text._words import LETTERS_AND_DIGITS

_LONGEST_TERM = 128

_SIGN = re.compile(r"[^\x00-\x7f\w]")  # neither ASCII nor a letter or digit: marks, format characters, punctuation …
_ZERO_WIDTH_SPACE = "\u200b"
_VARIATION_SELECTOR = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_MARK_SIGNS = "\u2122\u2120"  # NFKC would glue their letters to the word before

_ASCII_SEPARATORS = {code: " " for code in range(128) if not chr(code).isalnum()}

# Thai, Lao, Burmese, Khmer, Chinese, Japanese, Korean.
_SPACELESS_RANGES = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_SPACELESS = re.compile(f"[{_SPACELESS_RANGES}]")
# Inside a word \W is a mark. A stretch begins at a letter or digit of these scripts, not at a mark of theirs, which may
# stand behind a letter of another, and goes on over such characters and any marks.
_SPACELESS_STRETCH = re.compile(rf"((?=\w)[{_SPACELESS_RANGES}][{_SPACELESS_RANGES}\W]*)")
_UNIT = re.compile(r"\w\W*")

_Units: TypeAlias = Sequence[str]


def index_terms(text: str) -> list[str]:
    """Return what the index stores of a passage: its terms in order, repeats included, each at most 128 characters.

    In scripts without spaces the terms are every unit and every pair of neighbours. Texts that differ only in case,
    width or in how accents are composed have the same terms. A TypeError says that `text` is no str.
    """
    return _terms(text, _units_and_pairs)


def query_terms(text: str) -> list[str]:
    """Return what a search asks for: each term once, in order of first appearance, each at most 128 characters.

    The road is that of `index_terms`, but in scripts without spaces the pairs alone are asked for, and a unit only
    when it stands alone. A TypeError says that `text` is no str.
    """
    return list(dict.fromkeys(_terms(text, _pairs)))


def expanding_terms(text: str) -> frozenset[str]:
    """Return those of `query_terms(text)` that a prefix search expands; the others are matched whole.

    Terms of scripts without spaces never expand, and terms of one unit (a letter or digit with its marks) only when
    the query has no longer term. A TypeError says that `text` is no str.
    """
    terms = query_terms(text)
    long_terms = [term for term in terms if not _is_one_unit(term)]
    return frozenset(term for term in long_terms or terms if not _SPACELESS.match(term))


def _is_one_unit(term: str) -> bool:
    unit = _UNIT.match(term)
    return unit is not None and unit.end() == len(term)


def _terms(text: str, terms_of: Callable[[_Units], _Units]) -> list[str]:
    require_text("text", text)
    if text.isascii():
        return _shortened(text.lower().translate(_ASCII_SEPARATORS).split())
    return _shortened(_general_terms(text, terms_of))


def _general_terms(text: str, terms_of: Callable[[_Units], _Units]) -> list[str]:
    """Return the terms of any text. Those of an ASCII text are its words, which `_terms` finds several times faster."""
    folded = _folded(text)
    words = _words(folded)
    if not _SPACELESS.search(folded):
        return words
    return list(chain.from_iterable(_terms_of_word(word, terms_of) for word in words))


def _shortened(terms: list[str]) -> list[str]:
    if max(map(len, terms), default=0) <= _LONGEST_TERM:
        return terms
    return [term[:_LONGEST_TERM] for term in terms]


def _folded(text: str) -> str:
    """Return the text without format characters, in normal form KC and case-folded, without the dot of a folded `İ`."""
    cleaned: dict[int, str | None] = {ord(char): None for char in _signs(text) if _is_dropped(char)}
    cleaned |= {ord(sign): " " for sign in _MARK_SIGNS if sign in text}
    if cleaned:
        text = text.translate(cleaned)
    return nfkc(nfkc(text).casefold()).replace("i\u0307", "i")


def _signs(text: str) -> set[str]:
    return set(_SIGN.findall(text))


def _is_dropped(char: str) -> bool:
    if unicodedata.category(char) == "Cf":
        return char != _ZERO_WIDTH_SPACE
    return _VARIATION_SELECTOR.match(char) is not None


def _words(folded: str) -> list[str]:
    """Return the runs of letters, digits and marks that begin at a letter or digit."""
    marks = "".join(char for char in _signs(folded) if unicodedata.category(char)[0] == "M")
    if not marks:
        return LETTERS_AND_DIGITS.findall(folded)
    separators = {ord(char): " " for char in set(folded) if not char.isalnum() and char not in marks}
    runs = folded.translate(separators).split()
    return [word for word in (run.lstrip(marks) for run in runs) if word]


def _terms_of_word(word: str, terms_of: Callable[[_Units], _Units]) -> _Units:
    terms: list[str] = []
    for position, stretch in enumerate(_SPACELESS_STRETCH.split(word)):
        if position % 2:  # split puts what the pattern's group caught at the odd places
            terms += terms_of(_units(stretch))
        elif stretch:
            terms.append(stretch)
    return terms


def _units(stretch: str) -> _Units:
    """Return the letters and digits of a stretch, each with its marks; without marks these are its characters."""
    return stretch if stretch.isalnum() else [unit[:_LONGEST_TERM] for unit in _UNIT.findall(stretch)]


def _pairs(units: _Units) -> _Units:
    return list(map(add, units, units[1:])) or units


def _units_and_pairs(units: _Units) -> _Units:
    terms = [""] * (2 * len(units) - 1)
    terms[::2] = units
    terms[1::2] = map(add, units, units[1:])
    return terms
