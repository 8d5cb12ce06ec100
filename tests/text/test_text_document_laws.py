"""chunk_document's laws, and the function once more: straight from the five rules, slow, sharing nothing with ours."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from stackroom.text import chunk_document

fragments = st.sampled_from(
    (
        *("a", "bcd", "word", ". ", ".", "!?", "…", '."', ")", "。", "」", "！", "\u200b"),
        *(" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\x0c", "\u3000"),
        *("\n# A\n", "\n## B ##\n", "\n   ### C #\n", "#", "# ", "\n# #\n", "\n```\n", "\n~~~\n"),
    )
)
documents = st.lists(fragments, max_size=40).map("".join)
sizes = st.integers(1, 30)
overlaps = st.integers(0, 30)

Span = tuple[int, int]

RULES_OF_A_SENTENCE = ((".!?…", "\"'”’)]»", True), ("。！？", "」』）”’", False))


def is_blank(text: str) -> bool:
    return all(char.isspace() or unicodedata.category(char) in {"Cc", "Cf"} for char in text)


def lines_of(text: str) -> list[Span]:
    spans, start = [], 0
    for line in text.splitlines(keepends=True):
        spans.append((start, start + len(line)))
        start += len(line)
    return spans


def title_of(line: str) -> str | None:
    """Return the title of a line that is a heading, else None."""
    indented = line.lstrip(" ")
    hashes = len(indented) - len(indented.lstrip("#"))
    behind = indented[hashes:]
    if len(line) - len(indented) > 3 or not 1 <= hashes <= 6 or behind[:1] not in {" ", "\t"}:
        return None
    words = behind.split()
    if words and not words[-1].strip("#"):
        return behind.strip().removesuffix(words[-1]).strip() or None
    return behind.strip() or None


def fence_of(line: str) -> str | None:
    indent = len(line) - len(line.lstrip(" "))
    mark = line.lstrip(" ")[:3]
    return mark if indent <= 3 and mark in {"```", "~~~"} else None


def headings_of(text: str) -> list[tuple[int, int, str]]:
    """Return start and end of the line and title of each heading."""
    headings, fence = [], None
    for start, end in lines_of(text):
        mark, title = fence_of(text[start:end]), title_of(text[start:end])
        if fence is None and title is not None:
            headings.append((start, end, title))
        elif fence is None:
            fence = mark
        elif mark == fence:
            fence = None
    return headings


def sections_of(text: str) -> list[tuple[int, int, str | None]]:
    opened: list[tuple[int, str | None]] = [(0, None)]
    heading_before = None
    for start, end, title in headings_of(text):
        if heading_before is not None and is_blank(text[heading_before:start]):
            opened[-1] = (opened[-1][0], title)
        else:
            opened.append((start, title))
        heading_before = end
    ends = [start for start, _ in opened[1:]] + [len(text)]
    return [(start, end, title) for (start, title), end in zip(opened, ends, strict=True)]


def sentence_ends(text: str) -> set[int]:
    ends = set()
    for run_characters, closers, needs_space in RULES_OF_A_SENTENCE:
        for position, char in enumerate(text):
            if char not in run_characters or text[position + 1 : position + 2] in tuple(run_characters):
                continue
            end = position + 1
            while end < len(text) and text[end] in closers:
                end += 1
            if not needs_space or text[end : end + 1].isspace():
                ends.add(end)
    return ends


def stripped(text: str, start: int, end: int) -> Span:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end


def pieces_of(text: str, start: int, end: int, max_chars: int) -> list[Span]:
    line_ends = {line_end for _, line_end in lines_of(text)}
    cuts = sorted(cut for cut in line_ends | sentence_ends(text) | {start, end} if start <= cut <= end)
    waiting = [stripped(text, *span) for span in pairwise(cuts)]
    pieces = []
    while waiting:
        piece_start, piece_end = waiting.pop(0)
        if piece_end - piece_start > max_chars:
            limit = piece_start + max_chars
            spaces = [cut for cut in range(piece_start + 1, limit + 1) if text[cut].isspace()]
            cut = max(spaces, default=limit)
            waiting[:0] = [stripped(text, piece_start, cut), stripped(text, cut, piece_end)]
        elif not is_blank(text[piece_start:piece_end]):
            pieces.append((piece_start, piece_end))
    return pieces


def opens_paragraph(text: str, pieces: list[Span], number: int) -> bool:
    return number > 0 and sum(pieces[number - 1][1] < end <= pieces[number][0] for _, end in lines_of(text)) >= 2


def paragraph_end(text: str, pieces: list[Span], number: int) -> int:
    following = range(number + 1, len(pieces))
    behind = next((later for later in following if opens_paragraph(text, pieces, later)), len(pieces))
    return pieces[behind - 1][1]


def chunks_of_section(text: str, pieces: list[Span], max_chars: int, overlap_chars: int) -> list[Span]:
    chunks = []
    begin = new = 0
    while new < len(pieces):
        start, end = pieces[begin][0], new + 1
        while end < len(pieces) and pieces[end][1] - start <= max_chars:
            is_half_full = pieces[end - 1][1] - start >= max_chars / 2
            is_whole = paragraph_end(text, pieces, end) - start <= max_chars
            if opens_paragraph(text, pieces, end) and not is_whole and is_half_full:
                break
            end += 1
        chunks.append((start, pieces[end - 1][1]))
        repeatable = [
            number
            for number in range(begin + 1, end)
            if end < len(pieces)
            and pieces[end - 1][1] - pieces[number][0] <= overlap_chars
            and pieces[end][1] - pieces[number][0] <= max_chars
        ]
        begin, new = min(repeatable, default=end), end
    return chunks


def chunks_by_definition(text: str, max_chars: int, overlap_chars: int) -> list[tuple[int, int, str | None]]:
    return [
        (start, end, heading)
        for section_start, section_end, heading in sections_of(text)
        for start, end in chunks_of_section(
            text, pieces_of(text, section_start, section_end, max_chars), max_chars, overlap_chars
        )
    ]


def places(text: str, max_chars: int, overlap_chars: int) -> list[tuple[int, int, str | None]]:
    chunks = chunk_document(text, max_chars=max_chars, overlap_chars=overlap_chars)
    return [(chunk.start, chunk.end, chunk.heading) for chunk in chunks]


@given(documents, sizes, overlaps)
@example("a. bbbb.\n\ncc. dddddddd.", 13, 5)
def test_chunks_equal_their_definition(text: str, max_chars: int, overlap_chars: int) -> None:
    assert places(text, max_chars, overlap_chars) == chunks_by_definition(text, max_chars, overlap_chars)


@given(st.one_of(documents, st.text()), sizes, overlaps)
def test_every_chunk_is_a_stripped_slice_within_max_chars(text: str, max_chars: int, overlap_chars: int) -> None:
    for index, chunk in enumerate(chunk_document(text, max_chars=max_chars, overlap_chars=overlap_chars)):
        assert chunk.text == text[chunk.start : chunk.end] == chunk.text.strip()
        assert not is_blank(chunk.text)
        assert len(chunk.text) <= max_chars
        assert chunk.index == index


@given(st.one_of(documents, st.text()), sizes, overlaps)
def test_starts_and_ends_grow_and_overlap_keeps_its_measure(text: str, max_chars: int, overlap_chars: int) -> None:
    for earlier, later in pairwise(chunk_document(text, max_chars=max_chars, overlap_chars=overlap_chars)):
        assert earlier.start < later.start
        assert earlier.end < later.end
        assert earlier.end - later.start <= overlap_chars


@given(st.one_of(documents, st.text()), sizes, overlaps)
def test_every_character_that_is_not_blank_lies_in_a_chunk(text: str, max_chars: int, overlap_chars: int) -> None:
    chunks = chunk_document(text, max_chars=max_chars, overlap_chars=overlap_chars)
    covered = {position for chunk in chunks for position in range(chunk.start, chunk.end)}
    assert not [position for position, char in enumerate(text) if position not in covered and not is_blank(char)]
