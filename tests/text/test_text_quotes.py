"""find_quote: where a quotation stands, to the letter, and whose turn it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackroom.text import Quote, Turn, TurnChunk, chunk_document, chunk_turns, find_quote, is_blank


@dataclass(frozen=True)
class Stored:
    """What a search gives back of a passage, as far as quotes are concerned."""

    text: str
    metadata: dict[str, Any] = field(default_factory=dict)


def meeting() -> TurnChunk:
    (chunk,) = chunk_turns([Turn(4, "a", "We open in May."), Turn(5, "b", "Yes, in May.")])
    return chunk


def stored(**changes: object) -> Stored:
    return Stored(meeting().text, meeting().metadata | changes)


FOUND = [
    pytest.param("in May", Quote(8, 14, 4, "a"), id="K1 in May"),
    pytest.param("Yes, in", Quote(16, 23, 5, "b"), id="K1 Yes, in"),
    pytest.param("May.\nYes", None, id="K2 over two turns"),
    pytest.param("in may", None, id="K2 another case"),
    pytest.param("", None, id="K2 empty"),
    pytest.param(" ", None, id="blank"),
    pytest.param("\u200b", None, id="blank format character"),
    pytest.param("in  May", None, id="other white space"),
    pytest.param("We open in May.", Quote(0, 15, 4, "a"), id="a whole turn"),
]


@pytest.mark.parametrize(("quote", "expected"), FOUND)
def test_a_quote_in_a_chunk_of_turns(quote: str, expected: Quote | None) -> None:
    assert find_quote(meeting(), quote) == expected


@pytest.mark.parametrize(("quote", "expected"), FOUND)
def test_a_quote_in_a_stored_passage_is_found_by_its_metadata(quote: str, expected: Quote | None) -> None:
    assert find_quote(stored(), quote) == expected


def test_without_places_the_first_occurrence_is_found() -> None:
    assert find_quote(Stored("in May, in May"), "in May") == Quote(0, 6, None, None)
    assert find_quote(cast("Any", SimpleNamespace(text="x\ny")), "x\ny") == Quote(0, 3, None, None)
    assert find_quote(Stored("in May"), "June") is None


def test_a_line_feed_inside_one_turn_may_be_quoted() -> None:
    (chunk,) = chunk_turns([Turn(1, "a", "one\ntwo")])
    assert find_quote(chunk, "one\ntwo") == Quote(0, 7, 1, "a")


def test_a_place_in_a_document_is_the_chunks_start_more() -> None:
    document = "# One\nAlpha.\n# Two\nBeta is here."
    chunk = chunk_document(document)[1]
    quote = find_quote(chunk, "is here")
    assert quote == Quote(11, 18, None, None)
    assert document[chunk.start + quote.start : chunk.start + quote.end] == "is here"


@pytest.mark.parametrize(
    "damage",
    [
        {"turnStarts": [0]},
        {"turnStarts": None},
        {"turnStarts": 0},
        {"turnStarts": "00"},
        {"turnEnds": [15, 29]},
        {"turnEnds": [15, 28.0]},
        {"turnEnds": [15, True]},
        {"turnStarts": [-1, 16]},
        {"turnStarts": [16, 16]},
        {"turnSeqs": ["4", "5"]},
        {"turnSeqs": None},
        {"itemIds": [1, 2]},
        {"itemIds": ["a", "b", "c"]},
        {"itemIds": "ab"},
    ],
)
def test_nothing_is_found_when_the_places_of_turns_are_damaged(damage: dict[str, object]) -> None:
    assert find_quote(stored(**damage), "in May") is None


def test_nothing_is_found_when_turns_have_no_places() -> None:
    given_turns = SimpleNamespace(text="We open.", turns=[Turn(1, "a", "We open.")])
    assert find_quote(cast("Any", given_turns), "open") is None


def test_turns_come_before_metadata() -> None:
    both = SimpleNamespace(text=meeting().text, turns=meeting().turns, metadata={"turnStarts": None})
    assert find_quote(cast("Any", both), "Yes") == Quote(16, 19, 5, "b")


@pytest.mark.parametrize("given_text", ["a bare str", None, 5, {"text": "x"}, SimpleNamespace(text=None)])
def test_what_has_no_text_is_refused(given_text: object) -> None:
    with pytest.raises(TypeError, match=r"\.text that is a str"):
        find_quote(cast("Any", given_text), "x")


@pytest.mark.parametrize("quote", [None, b"x", 5])
def test_a_quote_that_is_no_str_is_refused(quote: object) -> None:
    with pytest.raises(TypeError, match="must be a str"):
        find_quote(meeting(), cast("Any", quote))


@given(st.lists(st.text("ab \n", max_size=6), max_size=5), st.text("ab \n", max_size=4))
def test_a_quote_is_found_just_when_one_turn_holds_it(said: list[str], quote: str) -> None:
    for chunk in chunk_turns([Turn(seq, f"item {seq}", text) for seq, text in enumerate(said)], max_chars=20):
        found = find_quote(chunk, quote)
        holding = [place for place in chunk.turns if quote in said[place.seq]]
        assert found == find_quote(Stored(chunk.text, chunk.metadata), quote)
        if is_blank(quote) or not holding:
            assert found is None
            continue
        assert found is not None
        assert chunk.text[found.start : found.end] == quote
        assert (found.seq, found.item_id) == (holding[0].seq, holding[0].item_id)
        assert holding[0].start <= found.start <= found.end <= holding[0].end
