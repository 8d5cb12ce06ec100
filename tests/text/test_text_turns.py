"""chunk_turns: chunks of whole turns that know where each of them stands."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackroom.text import PlacedTurn, Turn, TurnChunk, chunk_turns, is_blank

if TYPE_CHECKING:
    from collections.abc import Iterable


def turns_of(texts: Iterable[str]) -> list[Turn]:
    return [Turn(number, f"item {number}", text) for number, text in enumerate(texts, 1)]


def turns_of_lengths(lengths: Iterable[int]) -> list[Turn]:
    return turns_of("x" * length for length in lengths)


texts = st.lists(st.text(st.sampled_from("ab \n\u200b東"), max_size=12), max_size=12)
sizes = st.integers(1, 40)
overlaps = st.integers(0, 5)


def ranges_by_definition(lengths: list[int], max_chars: int, overlap_turns: int) -> list[tuple[int, int]]:
    """Return (begin, e) of each chunk, straight from the three rules."""

    def joined(begin: int, end: int) -> int:
        return sum(lengths[begin:end]) + end - begin - 1

    ranges = []
    begin = 0
    while begin < len(lengths):
        end = begin + 1
        while end < len(lengths) and joined(begin, end + 1) <= max_chars:
            end += 1
        ranges.append((begin, end))
        if end == len(lengths):
            break
        begin = max(begin + 1, end - overlap_turns)
        while begin < end and joined(begin, end + 1) > max_chars:
            begin += 1
    return ranges


@pytest.mark.parametrize(
    ("lengths", "options", "expected"),
    [
        pytest.param([40] * 4, {"max_chars": 100}, [(1, 2, 81), (2, 3, 81), (3, 4, 81)], id="C1"),
        pytest.param([5, 250, 4], {"max_chars": 100}, [(1, 1, 5), (2, 2, 250), (3, 3, 4)], id="C2"),
        pytest.param(
            [10] * 6,
            {"max_chars": 32, "overlap_turns": 2},
            [(1, 3, 32), (2, 4, 32), (3, 5, 32), (4, 6, 32)],
            id="C3 overlap 2",
        ),
        pytest.param([10] * 6, {"max_chars": 32, "overlap_turns": 0}, [(1, 3, 32), (4, 6, 32)], id="C3 overlap 0"),
        pytest.param([599, 600], {}, [(1, 2, 1200)], id="C4 fits"),
        pytest.param([600, 600], {}, [(1, 1, 600), (2, 2, 600)], id="C4 one too long"),
        pytest.param([], {}, [], id="no turns"),
        pytest.param([1, 1, 1], {"max_chars": 3, "overlap_turns": 9}, [(1, 2, 3), (2, 3, 3)], id="endless overlap"),
        pytest.param([9, 1, 8], {"max_chars": 10, "overlap_turns": 1}, [(1, 1, 9), (2, 3, 10)], id="overlap gives way"),
    ],
)
def test_chunks_take_these_turns(
    lengths: list[int], options: dict[str, int], expected: list[tuple[int, int, int]]
) -> None:
    chunks = chunk_turns(turns_of_lengths(lengths), **options)
    assert [(chunk.first_seq, chunk.last_seq, len(chunk.text)) for chunk in chunks] == expected


def test_c5_each_turn_knows_its_place() -> None:
    (chunk,) = chunk_turns(turns_of(["first words", "second words"]))
    assert chunk.turns == (PlacedTurn(1, "item 1", 0, 11), PlacedTurn(2, "item 2", 12, 24))


def test_a_chunk_carries_its_turns_ids_and_times() -> None:
    said = [Turn(7, "a", " one ", 0, 10, "Ann"), Turn(9, "b", "two", 11, None, "Bob"), Turn(3, "c", "three", None, 30)]
    assert chunk_turns(said) == [
        TurnChunk(
            index=0,
            text=" one \ntwo\nthree",
            first_seq=7,
            last_seq=3,
            item_ids=("a", "b", "c"),
            start_ms=0,
            end_ms=30,
            turns=(PlacedTurn(7, "a", 0, 5), PlacedTurn(9, "b", 6, 9), PlacedTurn(3, "c", 10, 15)),
        )
    ]


def test_the_metadata_hold_the_places_of_turns_and_the_times() -> None:
    (chunk,) = chunk_turns([Turn(7, "a", "one", 0, 10), Turn(8, "b", "two", 11, 20)])
    assert chunk.metadata == {
        "firstSeq": 7,
        "lastSeq": 8,
        "itemIds": ["a", "b"],
        "turnSeqs": [7, 8],
        "turnStarts": [0, 4],
        "turnEnds": [3, 7],
        "startMs": 0,
        "endMs": 20,
    }


def test_the_metadata_leave_out_times_that_are_not_known() -> None:
    (chunk,) = chunk_turns([Turn(7, "a", "one", end_ms=0)])
    assert "startMs" not in chunk.metadata
    assert chunk.metadata["endMs"] == 0


def test_blank_turns_are_left_out() -> None:
    (chunk,) = chunk_turns(turns_of(["one", " \n", "\u200b", "", "two"]))
    assert (chunk.text, chunk.item_ids) == ("one\ntwo", ("item 1", "item 5"))


def test_mappings_are_turns() -> None:
    mapping = {"seq": 1, "item_id": "a", "text": "one", "start_ms": None, "end_ms": 5, "speaker": "Ann"}
    assert chunk_turns(iter([mapping])) == chunk_turns([Turn(1, "a", "one", None, 5, "Ann")])
    assert chunk_turns([{"seq": 1, "item_id": "a", "text": "one"}]) == chunk_turns([Turn(1, "a", "one")])


@given(texts, sizes, overlaps)
def test_chunks_equal_their_definition(said: list[str], max_chars: int, overlap_turns: int) -> None:
    kept = [turn for turn in turns_of(said) if not is_blank(turn.text)]
    ranges = ranges_by_definition([len(turn.text) for turn in kept], max_chars, overlap_turns)
    chunks = chunk_turns(turns_of(said), max_chars=max_chars, overlap_turns=overlap_turns)
    assert [chunk.item_ids for chunk in chunks] == [
        tuple(turn.item_id for turn in kept[begin:end]) for begin, end in ranges
    ]


@given(texts, sizes, overlaps)
def test_offsets_always_give_back_the_turn(said: list[str], max_chars: int, overlap_turns: int) -> None:
    text_of = {turn.item_id: turn.text for turn in turns_of(said)}
    for index, chunk in enumerate(chunk_turns(turns_of(said), max_chars=max_chars, overlap_turns=overlap_turns)):
        pieces = [chunk.text[place.start : place.end] for place in chunk.turns]
        assert pieces == [text_of[item_id] for item_id in chunk.item_ids]
        assert chunk.text == "\n".join(pieces)
        assert chunk.index == index
        assert len(chunk.text) <= max_chars or len(chunk.turns) == 1


@given(texts, sizes, overlaps)
def test_every_turn_is_said_and_every_later_chunk_says_something_new(
    said: list[str], max_chars: int, overlap_turns: int
) -> None:
    chunks = chunk_turns(turns_of(said), max_chars=max_chars, overlap_turns=overlap_turns)
    seqs = [[place.seq for place in chunk.turns] for chunk in chunks]
    assert {seq for of_chunk in seqs for seq in of_chunk} == {t.seq for t in turns_of(said) if not is_blank(t.text)}
    assert all(later[-1] > earlier[-1] for earlier, later in pairwise(seqs))
    assert all(later[0] > earlier[0] for earlier, later in pairwise(seqs))


@pytest.mark.parametrize("turns", ["one", b"one", {}, None, 5, Turn(1, "a", "x"), ["one"], [None], [("a", 1)]])
def test_turns_must_be_a_list_of_turns(turns: object) -> None:
    with pytest.raises(TypeError):
        chunk_turns(cast("Any", turns))


@pytest.mark.parametrize(
    "mapping",
    [
        {"seq": 1, "item_id": "a"},
        {"seq": 1, "text": "x"},
        {"item_id": "a", "text": "x"},
        {},
        {"seq": 1, "item_id": "a", "text": "x", "itemId": "a"},
        {"seq": 1, "item_id": "a", "text": "x", 5: "a"},
    ],
)
def test_another_or_a_missing_key_is_refused(mapping: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"a turn (lacks|has a key)"):
        chunk_turns([mapping])


@pytest.mark.parametrize(
    "wrong",
    [
        {"seq": True},
        {"seq": 1.0},
        {"seq": None},
        {"seq": "1"},
        {"item_id": ""},
        {"item_id": " \u200b"},
        {"item_id": 5},
        {"item_id": None},
        {"start_ms": True},
        {"start_ms": 1.5},
        {"end_ms": "1"},
        {"end_ms": False},
    ],
)
def test_a_wrong_value_in_a_turn_is_refused(wrong: dict[str, Any]) -> None:
    turn: dict[str, Any] = {"seq": 1, "item_id": "a", "text": ""} | wrong
    with pytest.raises(ValueError, match="a turn's"):
        Turn(**turn)
    with pytest.raises(ValueError, match="a turn's"):
        chunk_turns([turn])


@pytest.mark.parametrize("wrong", [{"text": None}, {"text": b"x"}, {"speaker": 5}])
def test_a_text_in_a_turn_that_is_no_str_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="must be a str"):
        chunk_turns([{"seq": 1, "item_id": "a", "text": "x"} | wrong])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_chars": 0}, "max_chars must be an int of at least 1"),
        ({"max_chars": True}, "max_chars must be an int of at least 1"),
        ({"max_chars": 10.0}, "max_chars must be an int of at least 1"),
        ({"max_chars": None}, "max_chars must be an int of at least 1"),
        ({"overlap_turns": -1}, "overlap_turns must be an int of at least 0"),
        ({"overlap_turns": False}, "overlap_turns must be an int of at least 0"),
        ({"overlap_turns": "1"}, "overlap_turns must be an int of at least 0"),
    ],
)
def test_sizes_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        chunk_turns([], **options)
