"""The text of a Word document (.docx): paragraphs and table rows as lines, headings marked as in Markdown.

Parts are read as they are unpacked, event by event: a tree of what 70 kB unpack to would take a gigabyte.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from xml.parsers import expat

from stackroom.indexing._names import BadDocument

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    _Start = Callable[[str, dict[str, str]], None]

MAX_UNPACKED: Final = 50 * 1024 * 1024
"""Bytes of one part of the package, unpacked; more is a zip bomb, or no document for people."""
MAX_ELEMENTS: Final = 2_000_000
"""Elements of one part; a document of a thousand pages has some hundred thousand."""
MAX_DEPTH: Final = 50_000
"""Elements within each other; documents have some dozens."""

_AT_A_TIME: Final = 64 * 1024
_WORD: Final = (
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",  # "Strict Open XML"
)
_TAGS: Final = {
    f"{space}}}{tag}": tag
    for space in _WORD
    for tag in ("p", "pPr", "pStyle", "t", "tab", "br", "cr", "noBreakHyphen", "tr", "tc", "style", "name")
} | {"http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback": "Fallback"}
_HEADING: Final = re.compile(r"heading ([1-6])", re.IGNORECASE)
_BREAKS: Final = {"tab": "\t", "br": " ", "cr": " ", "noBreakHyphen": "-"}


def docx_text(data: bytes) -> tuple[str, str | None]:
    """Return a document's text and its first heading of level 1; BadDocument when it is none, or is too large."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as package:
            main = _related(package, "", "officeDocument", "word/document.xml")
            body = _Body(_heading_levels(package, _related(package, main, "styles", "word/styles.xml")))
            _read(package, main, body.start, body.end, body.say)
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError, RuntimeError, expat.ExpatError):
        raise BadDocument("it is no Word document (.docx), or a damaged or encrypted one") from None
    title = next((line[2:] for line in body.lines if line.startswith("# ")), None)
    return "\n".join(body.lines), title


def _related(package: zipfile.ZipFile, part: str, kind: str, usual: str) -> str:
    """Return the name of the part that stands in this relation to a part, "" being the package; else the usual."""
    directory, name = posixpath.split(part)
    found: list[str] = []

    def start(_tag: str, attributes: dict[str, str]) -> None:
        if attributes.get("Type", "").endswith(f"/relationships/{kind}"):
            found.append(posixpath.normpath(posixpath.join("/", directory, attributes.get("Target", ""))))

    relations = posixpath.join(directory, "_rels", f"{name}.rels")
    if relations in package.namelist():
        _read(package, relations, start)
    return found[0].lstrip("/") if found else usual


def _heading_levels(package: zipfile.ZipFile, part: str) -> Mapping[str, int]:
    """Return the level of each style that is a heading, by the style's id; names are English in every language."""
    found: dict[str, int] = {}
    style = [""]

    def start(name: str, attributes: dict[str, str]) -> None:
        tag = _TAGS.get(name)
        if tag == "style":
            style[0] = _value(attributes, "styleId")
        elif tag == "name" and (heading := _HEADING.fullmatch(_value(attributes, "val"))):
            found[style[0]] = int(heading[1])

    if part in package.namelist():
        _read(package, part, start)
    return found


def _value(attributes: Mapping[str, str], name: str) -> str:
    return next((attributes[key] for space in _WORD if (key := f"{space}}}{name}") in attributes), "")


def _read(
    package: zipfile.ZipFile,
    part: str,
    start: _Start,
    end: Callable[[str], None] | None = None,
    say: Callable[[str], None] | None = None,
) -> None:
    """Tell what a part holds as it is unpacked; what it says of its own size is not believed."""
    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True
    bounds = _Bounds(start, end)
    parser.StartElementHandler, parser.EndElementHandler = bounds.start, bounds.end
    parser.CharacterDataHandler = say
    parser.StartDoctypeDeclHandler = _refuse_document_type
    unpacked = 0
    with package.open(part) as opened:
        while piece := opened.read(_AT_A_TIME):
            unpacked += len(piece)
            if unpacked > MAX_UNPACKED:
                raise BadDocument(f"it unpacks to more than {MAX_UNPACKED // 1024**2} MiB")
            parser.Parse(piece, False)
    parser.Parse(b"", True)


def _refuse_document_type(*_declared: object) -> None:
    raise BadDocument("it declares a document type, which no Word document does")


@dataclass(slots=True)
class _Bounds:
    """Passes on the elements of a part while they are no more, and no deeper, than those of a document."""

    on_start: _Start
    on_end: Callable[[str], None] | None
    count: int = 0
    depth: int = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Pass on where an element begins."""
        self.count += 1
        self.depth += 1
        if self.count > MAX_ELEMENTS or self.depth > MAX_DEPTH:
            raise BadDocument("it holds more elements, or more within each other, than a document does")
        self.on_start(name, attributes)

    def end(self, name: str) -> None:
        """Pass on where an element ends."""
        self.depth -= 1
        if self.on_end is not None:
            self.on_end(name)


@dataclass(slots=True)
class _Paragraph:
    said: io.StringIO = field(default_factory=io.StringIO)
    level: int | None = None
    """That of its heading, 0 for none; None before its style was read."""


@dataclass(slots=True)
class _Body:
    """Gathers the lines that are not blank. A table's row ends a line, not each paragraph of its cells."""

    levels: Mapping[str, int]
    lines: list[str] = field(default_factory=list)
    _open: list[str] = field(default_factory=list)
    _paragraphs: list[_Paragraph] = field(default_factory=list)
    _row: list[str] = field(default_factory=list)
    _cell: list[str] = field(default_factory=list)
    _rows: int = 0
    _hidden: int = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Take up an element."""
        tag = _TAGS.get(name, "")
        if tag == "Fallback":  # the same once more, for older programs
            self._hidden += 1
        elif self._hidden:
            pass
        elif tag == "tr":
            self._rows += 1
        elif tag == "p":
            self._paragraphs.append(_Paragraph())
        elif tag == "pStyle" and self._open[-2:] == ["p", "pPr"] and self._paragraphs[-1].level is None:
            self._paragraphs[-1].level = self.levels.get(_value(attributes, "val"), 0)
        elif tag in _BREAKS and self._paragraphs:
            self._paragraphs[-1].said.write(_BREAKS[tag])
        self._open.append(tag)

    def say(self, text: str) -> None:
        """Take up text, that of a run alone."""
        if self._paragraphs and not self._hidden and self._open[-1] == "t":
            self._paragraphs[-1].said.write(text)

    def end(self, _name: str) -> None:
        """Close an element."""
        tag = self._open.pop()
        if tag == "Fallback":
            self._hidden -= 1
        elif self._hidden:
            return
        elif tag == "tr":
            self._end_row()
        elif tag == "tc" and self._rows == 1:
            self._row.append(" ".join(self._cell))
            self._cell = []
        elif tag == "p":
            self._end_paragraph(self._paragraphs.pop())

    def _end_row(self) -> None:
        self._rows -= 1
        if self._rows:
            return
        if any(self._row):
            self.lines.append(" | ".join(self._row))
        self._row = []

    def _end_paragraph(self, paragraph: _Paragraph) -> None:
        text = paragraph.said.getvalue().replace("\n", " ").strip()
        if text and self._rows:
            self._cell.append(text)
        elif text:
            self.lines.append("#" * paragraph.level + " " + text if paragraph.level else text)
