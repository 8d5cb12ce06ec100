"""Titles, headings and names of fields, of a length that those have; and what is no record."""

from __future__ import annotations

from typing import Final

MAX_NAME: Final = 200
"""Characters. Repeated whole in each passage, a heading of a megabyte would become a gigabyte."""


class BadRecord(ValueError):
    """A file holds what is no record; the message names the line, never what stands there."""


def shortened(name: str) -> str:
    """Return a name; of one that is longer than names are, the beginning and an ellipsis."""
    return name if len(name) <= MAX_NAME else name[: MAX_NAME - 1].rstrip() + "…"
