"""Quotes: where a quotation stands, to the letter, and whose turn it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from stackroom.text._arguments import is_whole_number, require_text
from stackroom.text._words import is_blank


class Quotable(Protocol):
    """Anything with a text, like a Hit, Passage or chunk. Its `turns` and `metadata` are read when it has them."""

    @property
    def text(self) -> str:
        """What a quote is looked for in."""
        ...


@dataclass(frozen=True, slots=True)
class Quote:
    """Where a quote stands: ``given.text[start:end]`` is the quote. `seq` and `item_id` are its turn's, or None."""

    start: int
    end: int
    seq: int | None
    item_id: str | None


class _Place(NamedTuple):
    """Where a turn stands in the text, and whose it is."""

    start: int
    end: int
    seq: int
    item_id: str


def find_quote(hit_or_chunk: Quotable, quote: str) -> Quote | None:
    """Return where `quote` stands in ``hit_or_chunk.text``, verbatim, or None when it does not.

    Verbatim is code point by code point: no change of case, white space, quotation marks or normal form. When the
    places of turns are given (by ``.turns``, else by ``.metadata``), the quote must lie inside one turn, and the
    first that holds it decides; when they are damaged, nothing is found. A blank quote is never found.

    Raises TypeError when there is no text in which to look, or the quote is no str.
    """
    text = getattr(hit_or_chunk, "text", None)
    if not isinstance(text, str):
        raise TypeError(f"find_quote needs something with a .text that is a str, not {type(hit_or_chunk).__name__}")
    require_text("quote", quote)
    if is_blank(quote):
        return None
    places = _places(hit_or_chunk, len(text))
    if places is None:
        start = text.find(quote)
        return None if start < 0 else Quote(start, start + len(quote), None, None)
    return _first_in_a_turn(text, quote, places)


def _first_in_a_turn(text: str, quote: str, places: Iterable[_Place]) -> Quote | None:
    for place in places:
        start = text.find(quote, place.start, place.end)
        if start >= 0:
            return Quote(start, start + len(quote), place.seq, place.item_id)
    return None


def _places(given: Quotable, length: int) -> list[_Place] | None:
    """Return the places of turns in a text of `length` characters: none when they are damaged, None when not given."""
    columns = _columns(given)
    if columns is None:
        return None
    if not all(isinstance(column, list | tuple) for column in columns) or len(set(map(len, columns))) != 1:
        return []
    rows = list(zip(*columns, strict=True))
    return [_Place(*row) for row in rows] if all(_is_place(*row, length=length) for row in rows) else []


def _columns(given: Quotable) -> list[Any] | None:
    """Return the starts, ends, seqs and item ids of the turns, unchecked, or None when there are none."""
    turns = getattr(given, "turns", None)
    if isinstance(turns, Iterable):
        placed = list(turns)
        return [[getattr(turn, name, None) for turn in placed] for name in _Place._fields]
    metadata = getattr(given, "metadata", None)
    if not isinstance(metadata, Mapping) or "turnStarts" not in metadata:
        return None
    return [metadata.get(key) for key in ("turnStarts", "turnEnds", "turnSeqs", "itemIds")]


def _is_place(start: object, end: object, seq: object, item_id: object, *, length: int) -> bool:
    if not (is_whole_number(start) and is_whole_number(end) and is_whole_number(seq) and isinstance(item_id, str)):
        return False
    return 0 <= start <= end <= length
