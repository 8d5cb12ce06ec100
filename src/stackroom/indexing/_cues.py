"""Cues of WebVTT and SubRip transcripts as turns: strict, in time linear in the text."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final

from stackroom.indexing._names import lines_of
from stackroom.text import Turn

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_CUES: Final = 200_000
"""Cues of one file; a day of talk has some ten thousand."""

_ARROW: Final = "-->"
_TIME: Final = r"(?:(\d{1,4}):)?([0-5]?\d):([0-5]\d)[.,](\d{3})"
_TIMING: Final = re.compile(rf"{_TIME}[ \t]*-->[ \t]*{_TIME}(?:[ \t].*)?")
_SIGNATURE: Final = re.compile(r"WEBVTT(?:[ \t]|$)")
_NO_CUE: Final = re.compile(r"(?:NOTE|STYLE|REGION)(?:[ \t]|$)")

# A `<` that begins no tag of either format is text: "profit < cost" must not swallow the rest of its line.
_TAG: Final = re.compile(r"</?[A-Za-z][^<>]*>|</?>|<\d[\d:.]*>")
_VOICE: Final = re.compile(r"<v(?:\.[^\s<>]*+)?+\s++([^<>]*+)>")
_SUBRIP_TAG: Final = re.compile(r"\{\\[A-Za-z][^{}]*\}")
# Bounded, so that no number is too long to be read; WebVTT asks for the semicolon.
_ENTITY: Final = re.compile(r"&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")

_Line = tuple[int, str]


class BadTranscript(ValueError):
    """A file is no transcript of its kind; the message names the line, never what stands there."""


@dataclass(slots=True)
class _Cue:
    start_ms: int
    end_ms: int
    lines: list[str] = field(default_factory=list)

    def take(self, lines: list[_Line]) -> None:
        """Add what is said."""
        for number, line in lines:
            if _TIMING.fullmatch(line):
                raise BadTranscript(f"line {number}: put a blank line before each cue")
            self.lines.append(line)


@dataclass(slots=True)
class _Block:
    """Lines between blank ones; `is_apart` when one of those before it is empty, and not white space."""

    lines: list[_Line] = field(default_factory=list)
    is_apart: bool = False

    def begins_cue(self) -> bool:
        """Tell whether the first line is a timing, or a name and the second one is."""
        return any(_ARROW in line for _, line in self.lines[:2])


def webvtt_turns(text: str) -> list[Turn]:
    """Return the turns of a WebVTT file, one a cue; `seq` and `item_id` count the cues from 1.

    Comments, styles, regions and the header are left out. Line ends are line feeds. BadTranscript when the signature
    is missing, a time cannot be read, or text stands outside of the cues: nothing is lost unseen. A line of white space
    alone is a part of its cue, unless another cue begins behind it.
    """
    blocks = _blocks(text)
    signature = next(blocks, _Block([(1, "")]))
    if signature.lines[0][0] != 1 or not _SIGNATURE.match(signature.lines[0][1]):
        raise BadTranscript("line 1: a WebVTT file begins with WEBVTT; give a SubRip file the suffix .srt")
    # Without a blank line behind the header, its first cue stands in the same block.
    first = next((at for at, (_, line) in enumerate(signature.lines) if _ARROW in line), len(signature.lines))
    cues = [_cue(signature.lines[first:])] if first < len(signature.lines) else []
    is_in_cue = bool(cues)
    for block in blocks:
        if block.begins_cue() and not (block.is_apart and _NO_CUE.match(block.lines[0][1])):
            _add(cues, block.lines)
            is_in_cue = True
        elif block.is_apart:
            is_in_cue = not _NO_CUE.match(block.lines[0][1])
            if is_in_cue:
                _add(cues, block.lines)
        elif is_in_cue:
            cues[-1].take(block.lines)
    return _turns(cues)


def subrip_turns(text: str) -> list[Turn]:
    """Return the turns of a SubRip file, one a cue; otherwise as `webvtt_turns`.

    Text behind a blank line belongs to the cue before it, since the format has no other end of a cue.
    """
    cues: list[_Cue] = []
    for block, following in pairwise(chain(_blocks(text), [_Block([(0, "")])])):
        if block.begins_cue() or (not cues and not _is_number(block, 1, following)):
            _add(cues, block.lines)
        elif not _is_number(block, len(cues) + 1, following):
            cues[-1].take(block.lines)
    return _turns(cues)


def _is_number(block: _Block, number: int, following: _Block) -> bool:
    """Tell whether a block is a cue's number alone, with a blank line between it and the timing."""
    return [line for _, line in block.lines] == [str(number)] and _ARROW in following.lines[0][1]


def _blocks(text: str) -> Iterator[_Block]:
    """Yield the runs of lines that are not blank, each line with its number from 1."""
    block = _Block(is_apart=True)
    for number, line in enumerate(lines_of(text), start=1):
        if said := line.strip():
            block.lines.append((number, said))
            continue
        if block.lines:
            yield block
            block = _Block()
        block.is_apart |= not line
    if block.lines:
        yield block


def _cue(block: list[_Line]) -> _Cue:
    """Read an optional name, the timing, and the text behind it."""
    timing = 0 if _ARROW in block[0][1] or len(block) == 1 else 1
    number, line = block[timing]
    found = _TIMING.fullmatch(line)
    if found is None:
        reason = "this time cannot be read" if _ARROW in line else "this text belongs to no cue"
        raise BadTranscript(f"line {number}: {reason}; a cue begins with a line such as 00:01.000 --> 00:04.500")
    parts = found.groups()
    cue = _Cue(_milliseconds(*parts[:4]), _milliseconds(*parts[4:]))
    cue.take(block[timing + 1 :])
    return cue


def _milliseconds(hours: str | None, minutes: str, seconds: str, fraction: str) -> int:
    return ((int(hours or 0) * 60 + int(minutes)) * 60 + int(seconds)) * 1000 + int(fraction)


def _add(cues: list[_Cue], lines: list[_Line]) -> None:
    if len(cues) == MAX_CUES:
        raise BadTranscript(f"line {lines[0][0]}: it holds more than {MAX_CUES:,} cues; cut it")
    cues.append(_cue(lines))


def _turns(cues: list[_Cue]) -> list[Turn]:
    return [_turn(number, cue) for number, cue in enumerate(cues, start=1)]


def _turn(number: int, cue: _Cue) -> Turn:
    marked_up = " ".join(cue.lines)
    said = _decoded(_SUBRIP_TAG.sub("", _TAG.sub("", marked_up))).strip()
    return Turn(number, str(number), said, cue.start_ms, cue.end_ms, _speaker(marked_up))


def _speaker(marked_up: str) -> str | None:
    """Return the one voice a cue names; None when there is none, or more than one."""
    voices = {" ".join(_decoded(found[1]).split()) for found in _VOICE.finditer(marked_up)} - {""}
    return voices.pop() if len(voices) == 1 else None


def _decoded(text: str) -> str:
    return _ENTITY.sub(lambda found: html.unescape(found[0]), text)
