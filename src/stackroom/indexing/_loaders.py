"""Loaders: the bytes of a file as text or passages, by the file's suffix."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from stackroom._model import Passage
from stackroom._values import unstorable_at
from stackroom.indexing._cues import BadTranscript, subrip_turns, webvtt_turns
from stackroom.indexing._docx import docx_text
from stackroom.indexing._html import visible_text
from stackroom.indexing._names import BadDocument, BadRecord, shortened
from stackroom.indexing._pdf import pdf_pages
from stackroom.indexing._tables import Row, csv_rows, delimited_rows, json_lines_rows, json_rows
from stackroom.text import Turn, TurnChunk, chunk_turns, is_blank
from stackroom.text._documents import chunks_of, headings_of

if TYPE_CHECKING:
    from stackroom._values import MetadataValue


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
    """Bytes are no text in their encoding, or hold what no store can keep; the message shows nothing of them.

    `is_of_encoding`: another one that is named might read them.
    """

    is_of_encoding = False


class OtherEncoding(UndecodableText):
    """Bytes without a byte order mark are no text in the encoding that was given."""

    is_of_encoding = True


MAX_PASSAGES: Final = 250_000
"""Passages of one file, which are written as one; more are no source for people, and take gigabytes."""

_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


_FRONT_MATTER: Final = re.compile(r"---[ \t]*\n(?:(?!---|\.\.\.)[^\n]*\n)*+(?:---|\.\.\.)[ \t]*(?:\n|$)")


def decoded(data: bytes, encoding: str) -> str:
    """Return the text of `data`; a UTF-8 or UTF-16 byte order mark wins over `encoding`; line ends become line feeds.

    Raises UndecodableText for bytes that do not decode and for NUL or a lone surrogate: nothing is replaced.
    """
    marked = next((codec for mark, codec in _BYTE_ORDER_MARKS if data.startswith(mark)), encoding)
    try:
        text = data.decode(marked)
    except UnicodeError:
        if marked == encoding:
            raise OtherEncoding(f"it is no text in {encoding}") from None
        raise UndecodableText(
            f"its byte order mark says {marked.removesuffix('-sig')}, and it is no text in that"
        ) from None
    if (at := unstorable_at(text)) is not None:
        raise UndecodableText(f"character {at} is NUL or half a character: it is no text, or text in another encoding")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def load_text(data: bytes, encoding: str) -> Loaded:
    """Return a plain text, whole."""
    return Loaded(decoded(data, encoding))


def load_markdown(data: bytes, encoding: str) -> Loaded:
    """Return a Markdown text, whole; its title is its first heading of level 1."""
    text = decoded(data, encoding)
    return Loaded(text, _first_title(text))


def _first_title(text: str) -> str | None:
    behind = _front_matter_end(text)
    for start, end, title in headings_of(text):
        if start >= behind and not text[start:end].lstrip(" ").startswith("##"):
            return title
    return None


def _front_matter_end(text: str) -> int:
    """Return where the properties end that some programs write above a text; a comment there is no heading."""
    found = _FRONT_MATTER.match(text)
    return found.end() if found else 0


def load_html(data: bytes, encoding: str) -> Loaded:
    """Return the visible text of a page; its title is the `<title>`."""
    return Loaded(*visible_text(decoded(data, encoding)))


def load_docx(data: bytes, _encoding: str) -> Loaded:
    """Return the text of a Word document; its title is its first heading of level 1."""
    return Loaded(*docx_text(data))


def load_pdf(data: bytes, _encoding: str, *, max_chars: int = 1200, overlap_chars: int = 150) -> Loaded:
    """Return the passages of a PDF, none of which reaches over a page."""
    pages, title = pdf_pages(data)
    passages = (
        Passage(chunk.text, {"page": number, "start": chunk.start, "end": chunk.end})
        for number, page in enumerate(pages, start=1)
        for chunk in chunks_of(page, max_chars, overlap_chars)
    )
    return Loaded(title=title, passages=_bounded(passages))


def load_webvtt(data: bytes, encoding: str, *, max_chars: int = 1200, overlap_chars: int = 0) -> Loaded:  # noqa: ARG001 - turns overlap whole
    """Return the passages of a WebVTT transcript; BadTranscript says which line is none."""
    return Loaded(passages=turn_passages(webvtt_turns(decoded(data, encoding)), max_chars=max_chars))


def load_subrip(data: bytes, encoding: str, *, max_chars: int = 1200, overlap_chars: int = 0) -> Loaded:  # noqa: ARG001 - likewise
    """Return the passages of a SubRip transcript; BadTranscript says which line is none."""
    return Loaded(passages=turn_passages(subrip_turns(decoded(data, encoding)), max_chars=max_chars))


def _load_rows(
    read: Callable[[str], Iterator[Row]], data: bytes, encoding: str, *, max_chars: int = 1200, overlap_chars: int = 150
) -> Loaded:
    """Return the records that `read` finds as passages, long ones cut."""
    passages = (
        Passage(chunk, {"row": number})
        for number, text in read(decoded(data, encoding))
        for chunk in _cut(text, max_chars, overlap_chars)
    )
    return Loaded(passages=_bounded(passages))


def _bounded(passages: Iterator[Passage]) -> list[Passage]:
    found = list(islice(passages, MAX_PASSAGES + 1))
    if len(found) > MAX_PASSAGES:
        raise BadDocument(f"it makes more than {MAX_PASSAGES:,} passages; cut it into several files")
    return found


def _cut(text: str, max_chars: int, overlap_chars: int) -> Iterable[str]:
    if len(text) <= max_chars:
        return [] if is_blank(text) else [text]
    return (chunk.text for chunk in chunks_of(text, max_chars, overlap_chars))


_OF_TEXT: Final[Mapping[str, Loader]] = MappingProxyType(
    {
        ".txt": load_text,
        ".text": load_text,
        ".log": load_text,
        ".md": load_markdown,
        ".markdown": load_markdown,
        ".html": load_html,
        ".htm": load_html,
        ".docx": load_docx,
    }
)
OF_TURNS: Final = frozenset({".vtt", ".srt"})
"""Files whose passages are whole turns, however long."""

_OF_PASSAGES: Final[Mapping[str, Callable[..., Loaded]]] = MappingProxyType(
    {
        ".vtt": load_webvtt,
        ".srt": load_subrip,
        ".pdf": load_pdf,
        ".json": partial(_load_rows, json_rows),
        ".jsonl": partial(_load_rows, json_lines_rows),
        ".csv": partial(_load_rows, delimited_rows),
        ".tsv": partial(_load_rows, partial(csv_rows, delimiter="\t")),
    }
)
"""Loaders that cut by themselves, since a text alone would not say where."""


def shipped_loaders(max_chars: int, overlap_chars: int) -> dict[str, Loader]:
    """Return the loaders that ship, by lower-cased suffix; those that cut obey these sizes."""
    cutting = {
        suffix: partial(load, max_chars=max_chars, overlap_chars=overlap_chars) for suffix, load in _OF_PASSAGES.items()
    }
    return {**_OF_TEXT, **cutting}


def is_own_refusal(error: Exception) -> bool:
    """Tell whether an error of a loader that ships says what is wrong, and nothing of what stands there."""
    return isinstance(error, BadDocument | BadRecord | BadTranscript)


LOADERS: Final[Mapping[str, Loader]] = MappingProxyType({**_OF_TEXT, **_OF_PASSAGES})
"""The loaders that ship, by lower-cased suffix, at the default sizes."""


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


def own_title(loaded: Loaded) -> str | None:
    """Return the title a loader found, of a length that titles have; None for one without anything to read."""
    return None if loaded.title is None or is_blank(loaded.title) else shortened(loaded.title)


def passages_of(loaded: Loaded, *, max_chars: int = 1200, overlap_chars: int = 150) -> list[Passage]:
    """Return the passages to index: the loader's own, or those of its text. Blank ones are left out."""
    if loaded.passages is not None:
        return [passage for passage in loaded.passages if not is_blank(passage.text)]
    chunks = chunks_of(loaded.text, max_chars, overlap_chars)
    return _bounded(Passage(chunk.text, _with_short_heading(chunk.metadata)) for chunk in chunks)


def _with_short_heading(metadata: dict[str, Any]) -> dict[str, Any]:
    return metadata | {"heading": shortened(metadata["heading"])} if "heading" in metadata else metadata
