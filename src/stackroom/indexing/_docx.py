"""The text of a Word document (.docx): paragraphs and table rows as lines, headings marked as in Markdown."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_UNPACKED: Final = 50 * 1024 * 1024
"""Bytes of one part of the package, unpacked; more is a zip bomb, or no document for people."""

_W: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FALLBACK: Final = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_HEADING: Final = re.compile(r"heading ([1-6])", re.IGNORECASE)
_BREAKS: Final = {f"{_W}tab": "\t", f"{_W}br": " ", f"{_W}cr": " ", f"{_W}noBreakHyphen": "-"}


class BadDocument(ValueError):
    """A file is no document of its kind; the message shows nothing of it."""


def docx_text(data: bytes) -> tuple[str, str | None]:
    """Return a document's text and its first heading of level 1; BadDocument when it is none, or is too large."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as package:
            levels = _heading_levels(_part(package, "word/styles.xml"))
            lines = list(_lines(_part(package, "word/document.xml"), levels))
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError, RuntimeError, ET.ParseError):
        raise BadDocument("it is no Word document (.docx), or a damaged or encrypted one") from None
    title = next((line[2:] for line in lines if line.startswith("# ")), None)
    return "\n".join(lines), title


def _part(package: zipfile.ZipFile, name: str) -> bytes:
    """Return a part of the package, b"" where it may be missing; what it says of its own size is not believed."""
    if name not in package.namelist() and name != "word/document.xml":
        return b""
    with package.open(name) as part:
        unpacked = part.read(MAX_UNPACKED + 1)
    if len(unpacked) > MAX_UNPACKED:
        raise BadDocument(f"it unpacks to more than {MAX_UNPACKED // 1024**2} MiB")
    if b"<!DOCTYPE" in unpacked or b"<!\x00D\x00" in unpacked or b"\x00<\x00!\x00D" in unpacked:
        raise BadDocument("it declares a document type, which no Word document does")
    return unpacked


def _heading_levels(styles: bytes) -> Mapping[str, int]:
    """Return the level of each style that is a heading, by the style's id; names are English in every language."""
    found = {}
    for style in ET.fromstring(styles).iter(f"{_W}style") if styles else ():  # noqa: S314 - see the import
        name = style.find(f"{_W}name")
        heading = _HEADING.fullmatch(name.get(f"{_W}val", "")) if name is not None else None
        if heading:
            found[style.get(f"{_W}styleId", "")] = int(heading[1])
    return found


def _lines(document: bytes, levels: Mapping[str, int]) -> Iterator[str]:
    """Yield the lines that are not blank. A table's row ends a line, not each paragraph of its cells."""
    row: list[str] = []
    depth = hidden = 0
    cell: list[str] = []
    for event, element in ET.iterparse(io.BytesIO(document), ("start", "end")):  # noqa: S314 - see the import
        is_start = event == "start"
        if element.tag == _FALLBACK:  # the same once more, for older programs
            hidden += 1 if is_start else -1
        elif element.tag == f"{_W}tr":
            depth += 1 if is_start else -1
            if not is_start and not depth and any(row):
                yield " | ".join(row)
            row = row if depth else []
        elif is_start or hidden:
            continue
        elif element.tag == f"{_W}tc" and depth == 1:
            row.append(" ".join(cell))
            cell = []
        elif element.tag == f"{_W}p":
            text = _text(element)
            if text and depth:
                cell.append(text)
            elif text:
                yield "#" * level + " " + text if (level := _level(element, levels)) else text
            element.clear()


def _text(paragraph: ET.Element) -> str:
    parts = [
        (element.text or "") if element.tag == f"{_W}t" else _BREAKS.get(str(element.tag), "")
        for element in paragraph.iter()
    ]
    return " ".join("".join(parts).split("\n")).strip()


def _level(paragraph: ET.Element, levels: Mapping[str, int]) -> int:
    style = paragraph.find(f"{_W}pPr/{_W}pStyle")
    return levels.get(style.get(f"{_W}val", ""), 0) if style is not None else 0
