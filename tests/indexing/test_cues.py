"""Transcripts: a turn a cue, markup dropped, entities decoded, voices as speakers; what is no transcript is refused."""

from __future__ import annotations

import pytest

from stackroom import Turn
from stackroom.indexing._cues import BadTranscript, subrip_turns, webvtt_turns

SECOND = "00:00:01.000 --> 00:00:02.500\n"


def webvtt(*cues: str) -> list[Turn]:
    return webvtt_turns("\n\n".join(["WEBVTT", *cues]) + "\n")


def said(cue_text: str) -> str:
    (turn,) = webvtt(SECOND + cue_text)
    return turn.text


def test_a_webvtt_file_is_a_turn_a_cue() -> None:
    turns = webvtt(
        "intro\n00:01.000 --> 00:02.500 align:left\n<v Ann>Hello,\nworld", "01:00:00.007-->01:00:01.000\nBye"
    )
    assert turns == [
        Turn(1, "1", "Hello, world", 1000, 2500, "Ann"),
        Turn(2, "2", "Bye", 3_600_007, 3_601_000, None),
    ]


def test_a_subrip_file_is_a_turn_a_cue() -> None:
    text = (
        "1\n00:00:01,000 --> 00:00:02,500\n<i>Hello,</i>\nworld\n\n2\n00:01:00,000 --> 00:01:01,000 X1:5\n{\\an8}Bye\n"
    )
    assert subrip_turns(text) == [
        Turn(1, "1", "Hello, world", 1000, 2500, None),
        Turn(2, "2", "Bye", 60_000, 61_000, None),
    ]


def test_comments_styles_regions_and_header_are_left_out() -> None:
    header = "WEBVTT - a meeting\nKind: captions"
    others = ("NOTE\nsecret --> thought", "STYLE\n::cue { color: red }", "REGION\nid:a", "NOTE aside")
    turns = webvtt_turns("\n\n".join([header, *others, SECOND + "Hello"]))
    assert [turn.text for turn in turns] == ["Hello"]


def test_a_cue_may_follow_the_header_at_once() -> None:
    assert [turn.text for turn in webvtt_turns("WEBVTT\n" + SECOND + "Hello")] == ["Hello"]


def test_cues_without_text_are_counted() -> None:
    assert [(turn.seq, turn.text) for turn in webvtt(SECOND.strip(), SECOND + "Hello")] == [(1, ""), (2, "Hello")]


def test_a_line_of_white_space_ends_no_webvtt_cue() -> None:
    """As YouTube writes them."""
    turns = webvtt_turns(
        "WEBVTT\nKind: captions\n\n00:00:00.160 --> 00:00:02.470 align:start position:0%\n \n"
        "hello<00:00:00.480><c> world</c>\n\n00:00:02.470 --> 00:00:02.480\nhello world\n \n\n"
        "00:00:02.480 --> 00:00:04.000\nhello\n\t\nand more\n"
    )
    assert [turn.text for turn in turns] == ["hello world", "hello world", "hello and more"]


def test_a_cue_behind_a_line_of_white_space_is_one_of_its_own() -> None:
    turns = webvtt_turns(f"WEBVTT\n \n{SECOND}a\n \nname\n{SECOND}b\n\nNOTE\n \nsecret\n \n{SECOND}c\n")
    assert [turn.text for turn in turns] == ["a", "b", "c"]


def test_text_behind_a_blank_line_belongs_to_the_subrip_cue_before_it() -> None:
    turns = subrip_turns(
        "1\n\n00:00:01,000 --> 00:00:02,000\nhello\n\nworld\n\n2\n\n00:00:03,000 --> 00:00:04,000\nmore\n\n\n3\n"
    )
    assert [turn.text for turn in turns] == ["hello world", "more 3"]


@pytest.mark.parametrize("text", ["hello\n\n1\n" + SECOND + "x", "1\n" + SECOND + "x\n\n2\n1 --> 2\ny\n"])
def test_what_is_no_subrip_transcript_is_refused(text: str) -> None:
    with pytest.raises(BadTranscript):
        subrip_turns(text)


@pytest.mark.parametrize("text", ["", "\n\n", " \n"])
def test_a_subrip_file_may_be_empty(text: str) -> None:
    assert subrip_turns(text) == []


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("<b>bold</b> <c.loud.red>shout</c> <00:00:01.500>later", "bold shout later"),
        ("a &lt;b&gt; &amp; c&nbsp;d &#233; &#xe9;", "a <b> & c\xa0d é é"),
        ("&amp;lt;", "&lt;"),
        ("profit < cost, and cost > 3", "profit < cost, and cost > 3"),
        ("I <3 you", "I <3 you"),
        ("&unknown; &amp", "&unknown; &amp"),
        ("<ruby>base<rt>above</rt></ruby>", "baseabove"),
        (f"&#{'1' * 5000};", f"&#{'1' * 5000};"),
    ],
)
def test_markup_is_dropped_and_entities_are_decoded(written: str, expected: str) -> None:
    assert said(written) == expected


@pytest.mark.parametrize(
    ("written", "speaker"),
    [
        ("<v Ann>Hi", "Ann"),
        ("<v.first.loud Esme O&apos;Hara >Hi</v>", "Esme O'Hara"),
        ("<v Ann>Hi</v> <v Ann>again</v>", "Ann"),
        ("<v Ann>Hi</v> <v Bob>Hello</v>", None),
        ("<v>Hi", None),
        ("Hi", None),
    ],
)
def test_the_voice_is_the_speaker_when_there_is_one(written: str, speaker: str | None) -> None:
    (turn,) = webvtt(SECOND + written)
    assert turn.speaker == speaker


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("\nWEBVTT\n", 1),
        ("WEBVTTX\n", 1),
        ("1\n00:00:01,000 --> 00:00:02,000\nsubrip\n", 1),
        ("WEBVTT\n\nhello\n", 3),
        ("WEBVTT\n\na\nb\n", 4),
        ("WEBVTT\n\n00:61.000 --> 00:62.000\nx\n", 3),
        ("WEBVTT\n\nname\n1 --> 2\nx\n", 4),
        (f"WEBVTT\n\n{SECOND}x\n{SECOND}y\n", 5),
    ],
)
def test_what_is_no_transcript_is_refused_with_its_line_and_no_text(text: str, line: int) -> None:
    with pytest.raises(BadTranscript, match=rf"^line {line}: ") as raised:
        webvtt_turns(text)
    assert "hello" not in str(raised.value)


@pytest.mark.parametrize("piece", ["<", "<v ", "<v     ", "<1", "{\\a", "&", "&#", "--> ", "<v.a"])
def test_hostile_text_takes_linear_time(piece: str) -> None:
    webvtt(SECOND + piece * 200_000)
