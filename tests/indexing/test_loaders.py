"""Loaders: decoding, titles and passage metadata by suffix."""

from __future__ import annotations

import pytest

from stackroom.indexing._cues import BadTranscript
from stackroom.indexing._loaders import LOADERS, UndecodableText, decoded, passages_of

VTT = b"WEBVTT\n\n00:00.000 --> 00:01.000\n<v Ann>One.\n\n00:01.000 --> 00:02.000\n<v Ann>Two.\n"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"caf\xc3\xa9", "café"),
        (b"\xef\xbb\xbfa", "a"),
        ("\ufeffa\u00e9".encode("utf-16-le"), "aé"),
        ("\ufeffa\u00e9".encode("utf-16-be"), "aé"),
        (b"a\r\nb\rc\n\r\n", "a\nb\nc\n\n"),
        (b"", ""),
    ],
)
def test_text_is_decoded_and_its_line_ends_are_line_feeds(data: bytes, text: str) -> None:
    assert decoded(data, "utf-8") == text


def test_a_byte_order_mark_wins_over_the_encoding() -> None:
    assert decoded(b"\xef\xbb\xbf\xc3\xa9", "latin-1") == "é"
    assert decoded(b"\xe9", "latin-1") == "é"


@pytest.mark.parametrize(
    "data", [b"caf\xe9", b"a\0b", b"\xff\xfea", "\ufeffa".encode("utf-32-le"), b"\xed\xa0\x80", b"\xff\xfe\x00\xd8"]
)
def test_what_is_no_text_is_refused(data: bytes) -> None:
    with pytest.raises(UndecodableText):
        decoded(data, "utf-8")


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# One\n\n# Two", "One"),
        ("intro\n\n## Small\n\n   # Big ##\n", "Big"),
        ("```\n# no\n```\n# Yes", "Yes"),
        ("#\n#none\n## Two", None),
    ],
)
def test_the_title_of_markdown_is_its_first_heading_of_level_1(text: str, title: str | None) -> None:
    assert LOADERS[".md"](text.encode(), "utf-8").title == title


def test_plain_text_and_transcripts_have_no_title_of_their_own() -> None:
    assert LOADERS[".txt"](b"# One", "utf-8").title is None
    assert LOADERS[".vtt"](VTT, "utf-8").title is None


def test_passages_of_a_text_are_slices_that_know_their_place() -> None:
    loaded = LOADERS[".md"](b"# Top\r\n\r\nFirst.\r\n\r\n## Sub\r\nSecond.\r\n", "utf-8")
    passages = passages_of(loaded)
    assert [passage.metadata["heading"] for passage in passages] == ["Top", "Sub"]
    for passage in passages:
        start, end = passage.metadata["start"], passage.metadata["end"]
        assert isinstance(start, int)
        assert isinstance(end, int)
        assert loaded.text[start:end] == passage.text


def test_a_heading_that_is_a_text_by_itself_is_cut_in_every_passage() -> None:
    loaded = LOADERS[".md"](b"# " + b"ab " * 10_000 + b"\nEnd.", "utf-8")
    headings = [passage.metadata["heading"] for passage in passages_of(loaded)]
    assert len(headings) > 20
    assert set(headings) == {("ab " * 100)[:199].rstrip() + "…"}
    (passage,) = passages_of(LOADERS[".md"](b"# " + b"a" * 200 + b"\nEnd.", "utf-8"))
    assert passage.metadata["heading"] == "a" * 200


def test_passages_of_a_transcript_know_times_turns_and_speaker() -> None:
    (passage,) = passages_of(LOADERS[".vtt"](VTT, "utf-8"))
    assert passage.text == "One.\nTwo."
    assert (passage.metadata["startMs"], passage.metadata["endMs"], passage.metadata["speaker"]) == (0, 2000, "Ann")
    assert (passage.metadata["turnSeqs"], passage.metadata["itemIds"]) == ([1, 2], ["1", "2"])


@pytest.mark.parametrize("second", [b"<v Bob>Two.", b"Two."])
def test_a_passage_has_no_speaker_when_its_cues_do_not_agree(second: bytes) -> None:
    (passage,) = passages_of(LOADERS[".vtt"](VTT.replace(b"<v Ann>Two.", second), "utf-8"))
    assert "speaker" not in passage.metadata


def test_a_file_without_text_has_no_passages() -> None:
    assert passages_of(LOADERS[".txt"](b" \n", "utf-8")) == []
    assert passages_of(LOADERS[".srt"](b"", "utf-8")) == []
    assert passages_of(LOADERS[".vtt"](b"WEBVTT\n", "utf-8")) == []


def test_a_transcript_of_another_kind_is_refused() -> None:
    with pytest.raises(BadTranscript, match=r"line 1.*\.srt"):
        LOADERS[".vtt"](b"1\n00:00:01,000 --> 00:00:02,000\nHi\n", "utf-8")
