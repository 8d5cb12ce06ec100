"""Snippets: a window of whole words around the first place where a query's word begins."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stackroom.text._arguments import require_items, require_size, require_text
from stackroom.text._words import LETTERS_AND_DIGITS

if TYPE_CHECKING:
    from collections.abc import Iterable

_WHITE_SPACE = re.compile(r"\s")
_UP_TO_LAST_WHITE_SPACE = re.compile(r".*\s", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Snippet:
    """A piece of a text: `at` is where the word that was looked for begins in the whole text, −1 when nowhere.

    `text` has its white space collapsed, so that its own offsets are not those of the whole text.
    """

    at: int
    text: str


def snippet_around(text: str, words: Iterable[str], *, before: int = 80, after: int = 120) -> Snippet:
    """Return the text around its first word that begins with one of `words`, or its beginning when none does.

    `words` are compared in lower case and not cut further: hand in ``lexical_tokens(query)``. The text's order
    decides, not that of the words. The window reaches `before` characters to the left and `after` to the right and is
    widened to white space, so a text without any comes back whole. No highlight, ellipsis or markup.

    Raises TypeError when `text` or one of the words is no str, or `words` is a bare str; ValueError when a size is no
    int of at least 0.
    """
    require_text("text", text)
    require_size("before", before, least=0)
    require_size("after", after, least=0)
    at = _first_beginning_with(_prefixes(words), text)
    anchor = max(at, 0)
    window = text[_start(text, anchor - before) : _stop(text, anchor + after)]
    return Snippet(at, " ".join(window.split()))


def _prefixes(words: Iterable[str]) -> tuple[str, ...]:
    require_items("words", words)
    given = list(words)
    for word in given:
        require_text("each of words", word)
    return tuple(dict.fromkeys(word.lower() for word in given if word))


def _first_beginning_with(prefixes: tuple[str, ...], text: str) -> int:
    if not prefixes:
        return -1
    runs = LETTERS_AND_DIGITS.finditer(text)
    return next((run.start() for run in runs if run[0].lower().startswith(prefixes)), -1)


def _start(text: str, earliest: int) -> int:
    """Return the position behind the last white space at or before `earliest`; 0 when there is none."""
    if earliest <= 0:
        return 0
    found = _UP_TO_LAST_WHITE_SPACE.match(text, 0, earliest + 1)
    return found.end() if found else 0


def _stop(text: str, latest: int) -> int:
    """Return the position of the first white space at or after `latest`; the text's length when there is none."""
    found = _WHITE_SPACE.search(text, min(len(text), latest))
    return found.start() if found else len(text)
