"""Rows of CSV and TSV: strict, of fields of any length, in time linear in the text.

Not Python's csv: its limit on a field's length is one for the whole process, so that it can be raised for one file only
by raising it for every thread and for whoever else uses it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from stackroom.indexing._names import BadRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

_TAB: Final = "\t"
_QUOTED: Final = {
    **{mark: re.compile(rf'"((?:[^"]++|"")*+)"(?=[{mark}\n]|\Z)') for mark in (",", ";", "|")},
    # Many programs write TSV without any quoting: a quote there opens a field that ends as one, or is text. A field
    # holds tabs or line ends, not both, so that a stray quote never swallows the rows behind it.
    _TAB: re.compile(r'"((?:[^"\n]++|"")*+|(?:[^"\t]++|"")*+)"(?=[\t\n]|\Z)'),
}
_BARE: Final = {delimiter: re.compile(rf"[^{delimiter}\n]*+") for delimiter in _QUOTED}


def separated_rows(text: str, delimiter: str) -> Iterator[list[str]]:
    """Yield the fields of each row; line ends are line feeds, a blank line is a row of one empty field."""
    at, row = 0, []
    while at <= len(text):
        field, at = _field(text, at, delimiter)
        row.append(field)
        if at == len(text) or text[at] == "\n":
            yield row
            row = []
        at += 1


def _field(text: str, at: int, delimiter: str) -> tuple[str, int]:
    if text.startswith('"', at):
        if found := _QUOTED[delimiter].match(text, at):
            return found[1].replace('""', '"'), found.end()
        if delimiter != _TAB:
            line = text.count("\n", 0, at) + 1
            raise BadRecord(f"line {line}: a quoted field has no end, or text behind it")
    found = _BARE[delimiter].match(text, at)
    end = found.end() if found else at
    return text[at:end], end
