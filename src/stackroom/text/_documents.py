"""Chunks of a document: slices that end at sentences and paragraphs and never reach over a heading."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from stackroom.text._arguments import require_size, require_text
from stackroom.text._words import is_blank

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_Line: TypeAlias = tuple[int, int]  # where it starts and, behind its line break, ends

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
    require_text("text", text)
    require_size("max_chars", max_chars, least=1)
    require_size("overlap_chars", overlap_chars, least=0)
    slices = (
        (start, end, heading)
        for lines, heading in _sections(text)
        for start, end in _slices(list(_pieces(text, lines, max_chars)), max_chars, overlap_chars)
    )
    return [
        DocumentChunk(index, text[start:end], start, end, heading) for index, (start, end, heading) in enumerate(slices)
    ]


def _sections(text: str) -> Iterator[tuple[Sequence[_Line], str | None]]:
    """Yield the lines of each section and its heading; headings that only blank text separates share a section."""
    lines = list(pairwise(accumulate(map(len, text.splitlines(keepends=True)), initial=0)))
    first_line, heading, heading_end = 0, None, 0
    for number, title in headings_of(text, lines):
        start, end = lines[number]
        if heading is None or not is_blank(text[heading_end:start]):
            yield lines[first_line:number], heading
            first_line = number
        heading, heading_end = title, end
    yield lines[first_line:], heading


def headings_of(text: str, lines: Iterable[_Line]) -> Iterator[tuple[int, str]]:
    """Yield the line number and title of each heading outside of fences."""
    open_fence = None
    for number, (start, end) in enumerate(lines):
        found = _FENCE_OR_HEADING.match(text, start, end)
        if found is None:
            continue
        if fence := found["fence"]:
            open_fence = None if fence == open_fence else open_fence or fence
        elif open_fence is None and (title := _title(text[found.end() : end])):
            yield number, title


def _title(behind_hashes: str) -> str:
    title = behind_hashes.strip()
    without_hashes = title.rstrip("#")
    if without_hashes and not without_hashes[-1].isspace():
        return title
    return without_hashes.rstrip()


def _pieces(text: str, lines: Iterable[_Line], max_chars: int) -> Iterator[_Piece]:
    for number, (line_start, line_end) in enumerate(lines):
        sentence_ends = (found.end() for found in _SENTENCE_END.finditer(text, line_start, line_end))
        for start, end in pairwise((line_start, *sentence_ends, line_end)):
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


def _slices(pieces: Sequence[_Piece], max_chars: int, overlap_chars: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of the chunks of one section."""
    paragraph_ends = _paragraph_ends(pieces)
    begin = end = 0  # the numbers of the chunk's first piece, and of the first piece behind it
    while end < len(pieces):
        start = pieces[begin].start
        end += 1
        while end < len(pieces) and not _ends_before(end, start, pieces, paragraph_ends, max_chars):
            end += 1
        yield start, pieces[end - 1].end
        if end < len(pieces):
            begin = _next_begin(begin, end, pieces, max_chars, overlap_chars)


def _paragraph_ends(pieces: Sequence[_Piece]) -> list[int]:
    """Return for each piece where the paragraph that it opens ends; for one that opens none, where it ends itself."""
    ends = [piece.end for piece in pieces]
    paragraph_end = ends[-1] if ends else 0
    for number in range(len(pieces) - 1, 0, -1):
        if pieces[number].line - pieces[number - 1].line > 1:
            ends[number], paragraph_end = paragraph_end, ends[number - 1]
    return ends


def _ends_before(
    number: int, start: int, pieces: Sequence[_Piece], paragraph_ends: Sequence[int], max_chars: int
) -> bool:
    """Tell whether the chunk that begins at `start` must end before a piece: it or its paragraph would not fit."""
    if pieces[number].end - start > max_chars:
        return True
    return paragraph_ends[number] - start > max_chars and 2 * (pieces[number - 1].end - start) >= max_chars


def _next_begin(begin: int, end: int, pieces: Sequence[_Piece], max_chars: int, overlap_chars: int) -> int:
    """Return the number of the next chunk's first piece: the earliest that overlap allows, else the next new one."""
    earliest = max(pieces[end - 1].end - overlap_chars, pieces[end].end - max_chars)
    return next((number for number in range(begin + 1, end) if pieces[number].start >= earliest), end)
