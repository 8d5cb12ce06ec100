"""Text from outside as text that is safe to print."""

from __future__ import annotations

import unicodedata


def visible(text: str) -> str:
    """Return `text` with every character replaced that could steer a terminal, but for line feed and tab."""
    return "".join(
        "\N{REPLACEMENT CHARACTER}"
        if unicodedata.category(character) == "Cc" and character not in "\n\t"
        else character
        for character in text
    )


def in_a_cell(text: str) -> str:
    """Return `text` to the letter, but safe to print and without what would end a line or a cell."""
    return visible(text).replace("\n", " ").replace("\t", " ")


def one_line(text: str) -> str:
    """Return `text` as one line that is safe to print, its white space collapsed."""
    return visible(" ".join(text.split()))
