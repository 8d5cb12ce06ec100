"""Unicode's normal form NFKC, in linear time on any text."""

from __future__ import annotations

import re
import unicodedata
from itertools import accumulate

# CPython sorts the marks behind a letter by insertion, in quadratic time: a megabyte of them would take minutes.
# Only marks have a combining class, and the two half-width kana marks, which become marks.
_MANY_MARKS = re.compile(r"[^\x00-\x7f\w]{32,}")
_HALF_WIDTH_KANA_MARKS = str.maketrans({"\uff9e": "\u3099", "\uff9f": "\u309a"})


def nfkc(text: str) -> str:
    """Return exactly ``unicodedata.normalize("NFKC", text)``, in time linear (n log n) in the text's length."""
    if text.isascii():
        return text
    if "\uff9e" in text or "\uff9f" in text:
        text = text.translate(_HALF_WIDTH_KANA_MARKS)
    return unicodedata.normalize("NFKC", _MANY_MARKS.sub(_in_canonical_order, text))


def _in_canonical_order(run: re.Match[str]) -> str:
    """Return the compatibility decomposition of a run of characters, as the Unicode Standard's rule D109 orders it."""
    characters = "".join(unicodedata.normalize("NFKD", char) for char in run[0])
    classes = [unicodedata.combining(char) for char in characters]
    # A character of class 0 is a border that no mark crosses: it opens a block, and is the first in it.
    blocks = accumulate(0 if combining_class else 1 for combining_class in classes)
    ordered = sorted(zip(blocks, classes, range(len(characters)), strict=True))
    return "".join(characters[position] for _, _, position in ordered)
