"""Words and blanks: the documented word rule, and what counts as nothing."""

from __future__ import annotations

import re
import unicodedata

from stackroom.text._arguments import require_text

# In a str \w is exactly the categories L and N and the low line: tests/text/test_text_words.py looks at them all.
LETTERS_AND_DIGITS = re.compile(r"[^\W_]+")


def is_blank(text: str) -> bool:
    """Tell whether a text holds nothing but white space, control and format characters (Cc, Cf).

    A TypeError says that `text` is no str.
    """
    require_text("text", text)
    if LETTERS_AND_DIGITS.search(text):
        return False
    return all(char.isspace() or unicodedata.category(char) in ("Cc", "Cf") for char in text)


def lexical_tokens(text: str) -> list[str]:
    """Return the words of a text: lower-cased, then cut into maximal runs of letters and digits, repeats kept.

    Nothing else happens: no normalisation, folding, stemming or stop words. A TypeError says that `text` is no str.
    """
    require_text("text", text)
    return LETTERS_AND_DIGITS.findall(text.lower())
