"""Turns of a conversation, and chunks of whole turns that know where each of them stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate
from typing import Any

from stackroom.text._arguments import is_whole_number, require_items, require_size, require_text
from stackroom.text._words import is_blank

_BETWEEN_TURNS = "\n"


def _is_name(value: object) -> bool:
    return isinstance(value, str) and not is_blank(value)


@dataclass(frozen=True, slots=True)
class Turn:
    """What one speaker said at a time. Times are milliseconds; None is not known, 0 is.

    Raises TypeError when `text` or `speaker` is no str; ValueError when `seq` or a time is no int (a bool is none), or
    `item_id` is no str or blank. The text may be blank.
    """

    seq: int
    item_id: str
    text: str
    start_ms: int | None = None
    end_ms: int | None = None
    speaker: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be a turn."""
        require_text("a turn's text", self.text)
        if not is_whole_number(self.seq):
            raise ValueError("a turn's seq must be an int")
        if not _is_name(self.item_id):
            raise ValueError("a turn's item_id must be a str that is not blank")
        if not all(time is None or is_whole_number(time) for time in (self.start_ms, self.end_ms)):
            raise ValueError("a turn's start_ms and end_ms must be ints of milliseconds, or None when not known")
        if self.speaker is not None:
            require_text("a turn's speaker", self.speaker)


_FIELDS = frozenset(field.name for field in fields(Turn))
_NEEDED_FIELDS = frozenset({"seq", "item_id", "text"})


@dataclass(frozen=True, slots=True)
class PlacedTurn:
    """Where a turn stands in its chunk: ``chunk.text[start:end]`` is the turn's text."""

    seq: int
    item_id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TurnChunk:
    """Consecutive turns, joined by one line feed. `item_ids` has one entry a turn; a time not known is None."""

    index: int
    text: str
    first_seq: int
    last_seq: int
    item_ids: tuple[str, ...]
    start_ms: int | None
    end_ms: int | None
    turns: tuple[PlacedTurn, ...]

    @property
    def metadata(self) -> dict[str, Any]:
        """What a passage of this chunk needs for `find_quote` to find turns in it again; a new dict each time."""
        times = {"startMs": self.start_ms, "endMs": self.end_ms}
        return {
            "firstSeq": self.first_seq,
            "lastSeq": self.last_seq,
            "itemIds": list(self.item_ids),
            "turnSeqs": [turn.seq for turn in self.turns],
            "turnStarts": [turn.start for turn in self.turns],
            "turnEnds": [turn.end for turn in self.turns],
        } | {key: time for key, time in times.items() if time is not None}


def chunk_turns(
    turns: Iterable[Turn | Mapping[str, Any]], *, max_chars: int = 1200, overlap_turns: int = 1
) -> list[TurnChunk]:
    """Return chunks of whole turns, in the order given, that begin with the last `overlap_turns` of the chunk before.

    A mapping has exactly the names of Turn's fields as keys. Blank turns are left out; every other turn is in some
    chunk, and every later chunk holds one that the chunk before has not. A chunk is at most `max_chars` characters
    long, unless it is a single turn: a turn is never cut. Overlap gives way to that length.

    Raises TypeError when `turns` is a bare str or holds what is neither Turn nor mapping, or a text is no str;
    ValueError when a turn has another or a missing key or a wrong value, or a size is no int in its range.
    """
    require_size("max_chars", max_chars, least=1)
    require_size("overlap_turns", overlap_turns, least=0)
    require_items("turns", turns)
    said = [turn for turn in map(_turn, turns) if not is_blank(turn.text)]
    ranges = _ranges([len(turn.text) for turn in said], max_chars, overlap_turns)
    return [_chunk(index, said[begin:end]) for index, (begin, end) in enumerate(ranges)]


def _turn(given: Turn | Mapping[str, Any]) -> Turn:
    if isinstance(given, Turn):
        return given
    if not isinstance(given, Mapping):
        raise TypeError(f"a turn must be a Turn or a mapping, not {type(given).__name__}")
    keys = set(given)
    if missing := _NEEDED_FIELDS - keys:
        raise ValueError(f"a turn lacks {', '.join(sorted(missing))}; give seq, item_id and text")
    if not keys <= _FIELDS:
        raise ValueError(f"a turn has a key that is no field of Turn; give only {', '.join(sorted(_FIELDS))}")
    return Turn(**given)


def _ranges(lengths: Sequence[int], max_chars: int, overlap_turns: int) -> Iterator[tuple[int, int]]:
    """Yield from which turn to before which turn each chunk goes."""
    starts = list(accumulate((length + len(_BETWEEN_TURNS) for length in lengths), initial=0))
    # What fits ends, with the separator behind it, at most here: turns begin … end - 1 when starts[end] does.
    room = max_chars + len(_BETWEEN_TURNS)
    begin = end = 0
    while end < len(lengths):
        end += 1
        while end < len(lengths) and starts[end + 1] - starts[begin] <= room:
            end += 1
        yield begin, end
        if end < len(lengths):
            begin = max(begin + 1, end - overlap_turns)
            while begin < end and starts[end + 1] - starts[begin] > room:
                begin += 1


def _chunk(index: int, turns: Sequence[Turn]) -> TurnChunk:
    starts = accumulate((len(turn.text) + len(_BETWEEN_TURNS) for turn in turns[:-1]), initial=0)
    return TurnChunk(
        index=index,
        text=_BETWEEN_TURNS.join(turn.text for turn in turns),
        first_seq=turns[0].seq,
        last_seq=turns[-1].seq,
        item_ids=tuple(turn.item_id for turn in turns),
        start_ms=turns[0].start_ms,
        end_ms=turns[-1].end_ms,
        turns=tuple(
            PlacedTurn(turn.seq, turn.item_id, start, start + len(turn.text))
            for turn, start in zip(turns, starts, strict=True)
        ),
    )
