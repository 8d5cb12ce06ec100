"""Loaders: the bytes of a file as text or passages, by the file's suffix."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from stackroom import Passage
from stackroom._values import unstorable_at
from stackroom.indexing._cues import subrip_turns, webvtt_turns
from stackroom.text import Turn, TurnChunk, chunk_document, chunk_turns, is_blank
from stackroom.text._documents import _headings

if TYPE_CHECKING:
    from stackroom import MetadataValue


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a loader answers: a text that is still to be cut, or passages, which are not cut.

    `title` None stands for the file's name.
    """

    text: str = ""
    title: str | None = None
    passages: Sequence[Passage] | None = None


Loader: TypeAlias = Callable[[bytes, str], Loaded]


class UndecodableText(ValueError):
    """Bytes are no text in their encoding, or hold what no store can keep; the message shows nothing of them."""


_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def decoded(data: bytes, encoding: str) -> str:
    """Return the text of `data`; a UTF-8 or UTF-16 byte order mark wins over `encoding`; line ends become line feeds.

    Raises UndecodableText for bytes that do not decode and for NUL or a lone surrogate: nothing is replaced.
    """
    marked = next((codec for mark, codec in _BYTE_ORDER_MARKS if data.startswith(mark)), encoding)
    try:
        text = data.decode(marked)
    except UnicodeError:
        raise UndecodableText(f"it is no text in {encoding}, or in another encoding") from None
    if (at := unstorable_at(text)) is not None:
        raise UndecodableText(f"character {at} is NUL or half a character; it is no text, or in another encoding")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def load_text(data: bytes, encoding: str) -> Loaded:
    """Return a plain text, whole."""
    return Loaded(decoded(data, encoding))


def load_markdown(data: bytes, encoding: str) -> Loaded:
    """Return a Markdown text, whole; its title is its first heading of level 1."""
    text = decoded(data, encoding)
    return Loaded(text, _first_title(text))


def _first_title(text: str) -> str | None:
    lines = list(pairwise(accumulate(map(len, text.splitlines(keepends=True)), initial=0)))
    for number, title in _headings(text, lines):
        start, end = lines[number]
        if not text[start:end].lstrip(" ").startswith("##"):
            return title
    return None


def load_webvtt(data: bytes, encoding: str, *, max_chars: int = 1200) -> Loaded:
    """Return the passages of a WebVTT transcript; BadTranscript says which line is none."""
    return Loaded(passages=turn_passages(webvtt_turns(decoded(data, encoding)), max_chars=max_chars))


def load_subrip(data: bytes, encoding: str, *, max_chars: int = 1200) -> Loaded:
    """Return the passages of a SubRip transcript; BadTranscript says which line is none."""
    return Loaded(passages=turn_passages(subrip_turns(decoded(data, encoding)), max_chars=max_chars))


LOADERS: Final[Mapping[str, Loader]] = MappingProxyType(
    {
        ".txt": load_text,
        ".text": load_text,
        ".log": load_text,
        ".md": load_markdown,
        ".markdown": load_markdown,
        ".vtt": load_webvtt,
        ".srt": load_subrip,
    }
)
"""The loaders that ship, by lower-cased suffix."""


def turn_passages(turns: Sequence[Turn], *, max_chars: int = 1200) -> list[Passage]:
    """Return turns as passages of whole turns, with their chunk's metadata, and `speaker` when all its turns agree."""
    speakers = {turn.seq: turn.speaker for turn in turns}
    return [
        Passage(chunk.text, chunk.metadata | _one_speaker(chunk, speakers))
        for chunk in chunk_turns(turns, max_chars=max_chars)
    ]


def _one_speaker(chunk: TurnChunk, speakers: Mapping[int, str | None]) -> dict[str, MetadataValue]:
    those = {speakers[turn.seq] for turn in chunk.turns}
    speaker = those.pop() if len(those) == 1 else None
    return {} if speaker is None else {"speaker": speaker}


def passages_of(loaded: Loaded, *, max_chars: int = 1200, overlap_chars: int = 150) -> list[Passage]:
    """Return the passages to index: the loader's own, or those of its text. Blank ones are left out."""
    if loaded.passages is not None:
        return [passage for passage in loaded.passages if not is_blank(passage.text)]
    chunks = chunk_document(loaded.text, max_chars=max_chars, overlap_chars=overlap_chars)
    return [Passage(chunk.text, chunk.metadata) for chunk in chunks]
