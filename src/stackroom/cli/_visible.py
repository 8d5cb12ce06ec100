"""Text from outside as text that is safe to print: what would steer a terminal is shown instead of obeyed."""

from __future__ import annotations

import unicodedata
from typing import Final

_CONTROLS: Final = 0x20
_DELETE: Final = 0x7F
_PICTURES: Final = 0x2400  # of each control character of ASCII Unicode has a picture
_PICTURE_OF_DELETE: Final = "\u2421"

_OF_DIRECTION: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_LINE_BREAKS: Final = frozenset({"Zl", "Zp"})


def visible(text: str) -> str:
    """Return `text` with a substitute for each character that could steer a terminal, but for line feed and tab.

    A control character becomes its picture (␛ ␍); one that turns the direction of writing or breaks a line becomes
    its escape, a backslash, a u and four digits.
    """
    return "".join(character if character in "\n\t" else _shown(character) for character in text)


def in_a_cell(text: str) -> str:
    """Return `text` as `visible`, line feeds and tabs replaced, too (␊ ␉): whatever it holds, it is one cell."""
    return "".join(map(_shown, text))


def one_line(text: str) -> str:
    """Return `text` as one line that is safe to print, its white space collapsed."""
    return visible(" ".join(text.split()))


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    if code < _CONTROLS:
        return chr(_PICTURES + code)
    if code == _DELETE:
        return _PICTURE_OF_DELETE
    category = unicodedata.category(character)
    return f"\\u{code:04x}" if category == "Cc" or category in _LINE_BREAKS or character in _OF_DIRECTION else character
