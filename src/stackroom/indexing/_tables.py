"""Records of JSON, JSON Lines, CSV and TSV as texts, each with its number."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from stackroom.indexing._names import BadRecord, lines_of, shortened
from stackroom.indexing._separated import separated_rows
from stackroom.text import is_blank

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Row: TypeAlias = tuple[int, str]
"""A record's number, from 1, and its text."""

_COMMA: Final = ","
_OTHER_DELIMITERS: Final = (";", "\t", "|")
_ROWS_LOOKED_AT: Final = 20
_TEXT_FIELDS: Final = ("content", "text")


def json_rows(text: str) -> Iterator[Row]:
    """Yield the items of a list, or the one object, as records."""
    if is_blank(text):
        return
    value = _parsed(text, "it")
    for number, item in enumerate(value if isinstance(value, list) else [value], start=1):
        yield number, _record_text(item, f"item {number}")


def json_lines_rows(text: str) -> Iterator[Row]:
    """Yield a record for each line that is not blank."""
    number = 0
    for at, line in enumerate(lines_of(text), start=1):
        if line.strip():
            number += 1
            yield number, _record_text(_parsed(line, f"line {at}"), f"line {at}")


def csv_rows(text: str, *, delimiter: str = ",") -> Iterator[Row]:
    """Yield a record for each row behind the header; fields may hold quoted line ends, and are of any length."""
    filled = (row for row in separated_rows(text, delimiter) if any(field.strip() for field in row))
    header = next(filled, [])
    for number, row in enumerate(filled, start=1):
        names = [*header, *("" for _ in row[len(header) :])]
        named = [(name or f"column {at}", field) for at, (name, field) in enumerate(zip(names, row), start=1)]  # noqa: B905 - a short row lacks its last fields
        yield number, _text_of(named)


def delimited_rows(text: str) -> Iterator[Row]:
    """Yield the same of a file whose fields are parted by commas, or clearly by semicolons, tabs or bars.

    Clearly: the first rows have as many fields as the header, two or more, by one of these alone, and not by commas.
    """
    return csv_rows(text, delimiter=_delimiter_of(text))


def _delimiter_of(text: str) -> str:
    if _parts_evenly(text, _COMMA):
        return _COMMA
    fitting = [delimiter for delimiter in _OTHER_DELIMITERS if _parts_evenly(text, delimiter)]
    return fitting[0] if len(fitting) == 1 else _COMMA


def _parts_evenly(text: str, delimiter: str) -> bool:
    filled = (row for row in separated_rows(text, delimiter) if any(map(str.strip, row)))
    try:
        widths = [len(row) for row in islice(filled, _ROWS_LOOKED_AT)]
    except BadRecord:
        return False
    return len(widths) > 1 and widths[0] > 1 and len(set(widths)) == 1


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadRecord(f"{where} is no JSON, or nested too deeply") from None


def _record_text(record: object, where: str) -> str:
    if isinstance(record, str):
        return record
    if not isinstance(record, dict):
        raise BadRecord(f"{where} is neither an object nor a string")
    return _text_of(record.items())


def _text_of(fields: Iterable[tuple[str, Any]]) -> str:
    """Return the field that holds the text, else a line for each field that says something."""
    pairs = list(fields)
    values = dict(pairs)
    for name in _TEXT_FIELDS:
        if isinstance(value := values.get(name), str) and not is_blank(value):
            return value
    return "\n".join(
        f"{shortened(name)}: {_shown(value)}" for name, value in pairs if value is not None and not _is_empty(value)
    )


def _is_empty(value: object) -> bool:
    return isinstance(value, str | list | dict) and (not value or (isinstance(value, str) and is_blank(value)))


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
