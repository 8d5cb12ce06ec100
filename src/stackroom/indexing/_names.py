"""What the loaders share: names of a length that names have, lines one by one, and refusals."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_NAME: Final = 200
"""Characters. Repeated whole in each passage, a heading of a megabyte would become a gigabyte."""


_LINE: Final = re.compile(r"[^\n]*+(?:\n|\Z)")


class BadDocument(ValueError):
    """A file is no document of its kind, or too much of one; the message shows nothing of it."""


class BadRecord(ValueError):
    """A file holds what is no record; the message names the line, never what stands there."""


def shortened(name: str) -> str:
    """Return a name; of one that is longer than names are, the beginning and an ellipsis."""
    return name if len(name) <= MAX_NAME else name[: MAX_NAME - 1].rstrip() + "…"


def lines_of(text: str) -> Iterator[str]:
    """Yield the lines of a text without their line feeds, one by one: a list of 25 MB of them takes a gigabyte."""
    return (found[0].removesuffix("\n") for found in _LINE.finditer(text))
