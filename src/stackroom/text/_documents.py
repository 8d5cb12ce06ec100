"""Chunks of a document: slices that end at sentences and paragraphs and never reach over a heading."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from stackroom.text._arguments import require_size, require_text
from stackroom.text._words import is_blank

if TYPE_CHECKING:
    from collections.abc import Iterator

_Line: TypeAlias = tuple[int, int]  # where it starts and, behind its line break, ends

_LINE = re.compile(
    "[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]*+(?:\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])"
    "|[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]++"
)
_FENCE_OR_HEADING = re.compile(r" {0,3}(?:(?P<fence>```|~~~)|#{1,6}[ \t])")
# Each run is entered at its first character only, so that a long one is read once.
_SENTENCE_END = re.compile(  # begins with a set, which the engine looks for by itself
    r"""[.!?…。！？](?:(?<=[.!?…])(?<![.!?…].)[.!?…]*+["'”’)\]»]*+(?=\s)|(?<=[。！？])[。！？]*[」』）”’]*)"""
)
_NOT_WHITE_SPACE = re.compile(r"\S")
_UP_TO_LAST_WORD_END = re.compile(r".*\S(?=\s)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class DocumentChunk:
    """A slice ``document[start:end]`` and the title of the heading it stands under, None before the first."""

    index: int
    text: str
    start: int
    end: int
    heading: str | None

    @property
    def metadata(self) -> dict[str, Any]:
        """What a passage of this chunk tells of its place in the document; a new dict each time."""
        place: dict[str, Any] = {"start": self.start, "end": self.end}
        return place if self.heading is None else place | {"heading": self.heading}


class _Piece(NamedTuple):
    """A sentence, or a part of one that is too long; `line` counts the section's lines."""

    start: int
    end: int
    line: int


def chunk_document(text: str, *, max_chars: int = 1200, overlap_chars: int = 150) -> list[DocumentChunk]:
    """Return the chunks of a plain or Markdown text, in order.

    Every chunk is a slice of the text, at most `max_chars` characters long, not blank and without white space at
    either end. Starts and ends both grow. Every character that is not blank lies in some chunk, and no chunk reaches
    over a heading that opens a section. A chunk may repeat whole sentences of the one before, at most `overlap_chars`
    characters. The time is linear in the length of the text and of the chunks.

    Raises TypeError when `text` is no str, ValueError when a size is no int in its range.
    """
    return list(chunks_of(text, max_chars, overlap_chars))


def chunks_of(text: str, max_chars: int, overlap_chars: int) -> Iterator[DocumentChunk]:
    """Yield what `chunk_document` answers; the memory is that of the text and of a chunk."""
    require_text("text", text)
    require_size("max_chars", max_chars, least=1)
    require_size("overlap_chars", overlap_chars, least=0)
    index = 0
    for start, end, heading in _sections(text):
        for chunk_start, chunk_end in _slices(_Pieces(_pieces(text, start, end, max_chars)), max_chars, overlap_chars):
            yield DocumentChunk(index, text[chunk_start:chunk_end], chunk_start, chunk_end, heading)
            index += 1


def _lines(text: str, start: int, end: int) -> Iterator[_Line]:
    """Yield the lines of a slice that begins where a line does, those of `str.splitlines`."""
    return (found.span() for found in _LINE.finditer(text, start, end))


def _sections(text: str) -> Iterator[tuple[int, int, str | None]]:
    """Yield the slice of each section and its heading; headings that only blank text separates share a section."""
    section_start, heading, heading_end = 0, None, 0
    for start, end, title in headings_of(text):
        if heading is None or not is_blank(text[heading_end:start]):
            yield section_start, start, heading
            section_start = start
        heading, heading_end = title, end
    yield section_start, len(text), heading


def headings_of(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and title of the line of each heading outside of fences."""
    open_fence = None
    for start, end in _lines(text, 0, len(text)):
        found = _FENCE_OR_HEADING.match(text, start, end)
        if found is None:
            continue
        if fence := found["fence"]:
            open_fence = None if fence == open_fence else open_fence or fence
        elif open_fence is None and (title := _title(text[found.end() : end])):
            yield start, end, title


def _title(behind_hashes: str) -> str:
    title = behind_hashes.strip()
    without_hashes = title.rstrip("#")
    if without_hashes and not without_hashes[-1].isspace():
        return title
    return without_hashes.rstrip()


def _pieces(text: str, first: int, last: int, max_chars: int) -> Iterator[_Piece]:
    for number, (line_start, line_end) in enumerate(_lines(text, first, last)):
        sentence_ends = (found.end() for found in _SENTENCE_END.finditer(text, line_start, line_end))
        for start, end in pairwise(chain((line_start,), sentence_ends, (line_end,))):
            for piece_start, piece_end in _stripped_parts(text, start, end, max_chars):
                yield _Piece(piece_start, piece_end, number)


def _stripped_parts(text: str, start: int, end: int, max_chars: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a slice that are not blank, without white space at their ends and at most max_chars long."""
    end = start + len(text[start:end].rstrip())
    while found := _NOT_WHITE_SPACE.search(text, start, end):
        start = found.start()
        part_end = end if end - start <= max_chars else _part_end(text, start, max_chars)
        if not is_blank(text[start:part_end]):
            yield start, part_end
        start = part_end


def _part_end(text: str, start: int, max_chars: int) -> int:
    found = _UP_TO_LAST_WORD_END.match(text, start, start + max_chars + 1)
    return found.end() if found else start + max_chars


class _Pieces:
    """The pieces of a section by number from 0, read when they are asked for and forgotten when told so."""

    def __init__(self, pieces: Iterator[_Piece]) -> None:
        """Read nothing yet."""
        self._rest = pieces
        self._held: list[_Piece] = []
        self._first = 0

    def get(self, number: int) -> _Piece | None:
        """Return a piece that is not forgotten; None behind the last."""
        while number - self._first >= len(self._held):
            piece = next(self._rest, None)
            if piece is None:
                return None
            self._held.append(piece)
        return self._held[number - self._first]

    def __getitem__(self, number: int) -> _Piece:
        """Return a piece that was looked at and is not forgotten."""
        return self._held[number - self._first]

    def forget_before(self, number: int) -> None:
        """Forget the pieces before one that is not asked for any more."""
        del self._held[: number - self._first]
        self._first = number

    def opens_paragraph(self, number: int) -> bool:
        """Tell whether a blank line stands before a piece that is not the first of its section."""
        return number > 0 and self[number].line - self[number - 1].line > 1


def _slices(pieces: _Pieces, max_chars: int, overlap_chars: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of the chunks of one section."""
    begin = end = 0  # the numbers of the chunk's first piece, and of the first piece behind it
    while pieces.get(end) is not None:
        start = pieces[begin].start
        end += 1
        while pieces.get(end) is not None and not _ends_before(end, start, pieces, max_chars):
            end += 1
        yield start, pieces[end - 1].end
        if pieces.get(end) is not None:
            begin = _next_begin(begin, end, pieces, max_chars, overlap_chars)
            pieces.forget_before(min(begin, end - 1))


def _ends_before(number: int, start: int, pieces: _Pieces, max_chars: int) -> bool:
    """Tell whether the chunk that begins at `start` must end before a piece: it or its paragraph would not fit."""
    if pieces[number].end - start > max_chars:
        return True
    if 2 * (pieces[number - 1].end - start) < max_chars or not pieces.opens_paragraph(number):
        return False
    return not _paragraph_fits(number, start + max_chars, pieces)


def _paragraph_fits(number: int, limit: int, pieces: _Pieces) -> bool:
    """Tell whether the paragraph that a piece opens ends at `limit` or before."""
    while (piece := pieces.get(number)) is not None and piece.end <= limit:
        number += 1
        if pieces.get(number) is None or pieces.opens_paragraph(number):
            return True
    return False


def _next_begin(begin: int, end: int, pieces: _Pieces, max_chars: int, overlap_chars: int) -> int:
    """Return the number of the next chunk's first piece: the earliest that overlap allows, else the next new one."""
    earliest = max(pieces[end - 1].end - overlap_chars, pieces[end].end - max_chars)
    return next((number for number in range(begin + 1, end) if pieces[number].start >= earliest), end)
