"""Words and blanks: the documented word rule, and what counts as nothing."""

from __future__ import annotations

import unicodedata


def is_blank(text: str) -> bool:
    """Tell whether a text holds nothing but white space, control and format characters (Cc, Cf)."""
    return not text or all(char.isspace() or unicodedata.category(char) in ("Cc", "Cf") for char in text)


def is_letter_or_digit(char: str) -> bool:
    """Tell whether a character's Unicode general category begins with L or N."""
    return unicodedata.category(char)[0] in "LN"


def lexical_tokens(text: str) -> list[str]:
    """Return the words of a text: lower-cased, then cut into maximal runs of letters and digits, repeats kept.

    Nothing else happens: no normalisation, folding, stemming or stop words. A TypeError says that `text` is no str.
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, not {type(text).__name__}")
    spaced = "".join(char if is_letter_or_digit(char) else " " for char in text.lower())
    return [word for word in spaced.split(" ") if word]
