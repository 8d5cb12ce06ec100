"""chunk_document: slices that end at sentences and paragraphs and never reach over a heading."""

from __future__ import annotations

from typing import Any, cast

import pytest

from stackroom.text import DocumentChunk, chunk_document, is_blank


def places(text: str, max_chars: int, overlap_chars: int) -> list[tuple[int, int, str | None]]:
    chunks = chunk_document(text, max_chars=max_chars, overlap_chars=overlap_chars)
    return [(chunk.start, chunk.end, chunk.heading) for chunk in chunks]


def texts(text: str, max_chars: int, overlap_chars: int = 0) -> list[str]:
    return [chunk.text for chunk in chunk_document(text, max_chars=max_chars, overlap_chars=overlap_chars)]


def headings(text: str) -> list[str | None]:
    return [chunk.heading for chunk in chunk_document(text)]


@pytest.mark.parametrize(
    ("text", "max_chars", "overlap_chars", "expected"),
    [
        pytest.param("Alpha one. Beta two. Gamma three.", 22, 10, [(0, 20, None), (11, 33, None)], id="D1 overlap 10"),
        pytest.param("Alpha one. Beta two. Gamma three.", 22, 8, [(0, 20, None), (21, 33, None)], id="D1 overlap 8"),
        pytest.param(
            "# Top\n\n## Setup\nInstall it.\n\n## Use ##\nRun it.\n",
            100,
            0,
            [(0, 27, "Setup"), (29, 46, "Use")],
            id="D2",
        ),
        pytest.param("abcdefghij", 4, 2, [(0, 4, None), (4, 8, None), (8, 10, None)], id="D3"),
        pytest.param("雨が降る。傘を持つ。家を出る。", 10, 5, [(0, 10, None), (5, 15, None)], id="D4"),
        pytest.param("", 10, 5, [], id="D5 empty"),
        pytest.param(" \n\u200b", 10, 5, [], id="D5 blank"),
    ],
)
def test_chunks_stand_at_these_places(
    text: str, max_chars: int, overlap_chars: int, expected: list[tuple[int, int, str | None]]
) -> None:
    assert places(text, max_chars, overlap_chars) == expected


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("# One", "One"),
        ("   ###### Six", "Six"),
        ("#\tTab", "Tab"),
        ("##   Wide   ", "Wide"),
        ("# Closed ##", "Closed"),
        ("# Closed # #", "Closed #"),
        ("# C#", "C#"),
        ("# # x", "# x"),
        ("    # Indented", None),
        ("\t# Indented", None),
        ("####### Seven", None),
        ("#hashtag", None),
        ("#\u00a0no space", None),
        ("# ", None),
        ("# ###", None),
        ("## #", None),
        ("#", None),
        ("x # y", None),
    ],
)
def test_a_line_is_a_heading_or_not(line: str, title: str | None) -> None:
    assert headings(f"{line}\nText.") == [title]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("```\n# no\n```\n# Yes\nText.", [None, "Yes"]),
        ("   ~~~ python\n# no\n```\n# no\n~~~~~\n# Yes\nText.", [None, "Yes"]),
        ("```\n# no\n~~~\n# no", [None]),
        ("    ```\n# Yes\nText.", [None, "Yes"]),
        ("# A\n\u200b\n## B\nx", ["B"]),
        ("# A\nx\n## B", ["A", "B"]),
        ("# A\n# B\nx\n# C\n# D\ny", ["B", "D"]),
        ("before\n# A\nx", [None, "A"]),
        ("# A\r# B\u2028x", ["B"]),
    ],
)
def test_headings_open_sections_outside_of_fences(text: str, expected: list[str | None]) -> None:
    assert headings(text) == expected


@pytest.mark.parametrize(
    ("text", "max_chars", "expected"),
    [
        pytest.param("One?! Two", 6, ["One?!", "Two"], id="a run of stops"),
        pytest.param('He said "no." Then.', 14, ['He said "no."', "Then."], id="closers belong to the sentence"),
        pytest.param("Version 1.25 is out", 12, ["Version 1.25", "is out"], id="a stop inside a word is none"),
        pytest.param("「雨だ。」傘だ。", 5, ["「雨だ。」", "傘だ。"], id="Japanese closers"),
        pytest.param("one two three", 8, ["one two", "three"], id="a long piece is cut at white space"),
        pytest.param("one two three", 7, ["one two", "three"], id="white space may follow behind max_chars"),
        pytest.param("one  \t twothree", 6, ["one", "twothr", "ee"], id="no white space at either end"),
        pytest.param("a\nb\nc", 3, ["a\nb", "c"], id="lines"),
        pytest.param("abcd\n\ne. f. g. h.", 8, ["abcd", "e. f. g.", "h."], id="half full: a new paragraph waits"),
        pytest.param("abc\n\ne. f. g. h.", 8, ["abc\n\ne.", "f. g. h."], id="less than half full: it is begun"),
        pytest.param("abcd\n\ne.\n\nf. g.", 8, ["abcd\n\ne.", "f. g."], id="a paragraph that fits is taken"),
        pytest.param("abcd\r\ne. f. g. h.", 8, ["abcd\r\ne.", "f. g. h."], id="one line break opens no paragraph"),
    ],
)
def test_a_section_is_cut_into_these_chunks(text: str, max_chars: int, expected: list[str]) -> None:
    assert texts(text, max_chars) == expected


def test_a_chunk_that_only_repeats_takes_one_new_piece_before_it_minds_paragraphs() -> None:
    text = "a. bbbb.\n\ncc. dddddddd."
    assert texts(text, 13, 5) == ["a. bbbb.", "bbbb.\n\ncc.", "cc. dddddddd."]


def test_the_metadata_hold_the_place_and_the_heading_when_there_is_one() -> None:
    first, second = chunk_document("Before.\n# Title\nText.")
    assert first.metadata == {"start": 0, "end": 7}
    assert second.metadata == {"start": 8, "end": 21, "heading": "Title"}
    assert second == DocumentChunk(index=1, text="# Title\nText.", start=8, end=21, heading="Title")


@pytest.mark.parametrize(
    "unit",
    [
        "x",
        "#",
        "\n",
        " ",
        ".",
        '."',
        "。",
        "# a\n",
        "#\t#",
        "```\n",
        "a. ",
        "a\n\n",
        "\u200b",
        "a\u200b",
        "\r\n",
        "? )",
    ],
)
def test_long_hostile_texts_take_linear_time(unit: str) -> None:
    text = unit * (100_000 // len(unit))
    assert is_blank(text) == (chunk_document(text) == [])
    assert chunk_document(f"```\n{text}")[0].heading is None


@pytest.mark.parametrize("text", [None, b"bytes", ["a"]])
def test_the_text_must_be_a_str(text: object) -> None:
    with pytest.raises(TypeError, match="must be a str"):
        chunk_document(cast("Any", text))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_chars": 0}, "max_chars must be an int of at least 1"),
        ({"max_chars": True}, "max_chars must be an int of at least 1"),
        ({"max_chars": 10.0}, "max_chars must be an int of at least 1"),
        ({"overlap_chars": -1}, "overlap_chars must be an int of at least 0"),
        ({"overlap_chars": False}, "overlap_chars must be an int of at least 0"),
        ({"overlap_chars": "1"}, "overlap_chars must be an int of at least 0"),
    ],
)
def test_sizes_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        chunk_document("", **options)
