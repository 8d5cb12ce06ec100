"""The text of a PDF, page by page. Needs the extra `pdf` (pypdfium2)."""

from __future__ import annotations

import re
import threading
from contextlib import closing
from typing import Any, Final

from stackroom.indexing._names import BadDocument

MAX_CHARACTERS: Final = 50_000_000
"""Characters of all pages together; a file of the size that is read at all holds no more for people."""

_PDFIUM: Final = threading.Lock()
"""Held around every call of PDFium, which bears one thread in the whole process and crashes it otherwise."""

_LIGATURES: Final = {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"}
_LIGATURE: Final = re.compile("[ﬀ-ﬆ]")
# What the engine writes where a line ends within a word, and a hyphen there that it left as it was.
_CUT_WORD: Final = re.compile("[\x02\ufffe]\n?|(?<=[^\\W\\d_])(?:-|\u00ad)\n(?=[a-zß-ÿ])")


def pdf_pages(data: bytes) -> tuple[list[str], str | None]:
    """Return the text of each page and the document's title, None without one.

    Ligatures are letters again, and words cut at the ends of lines are whole. BadDocument when it is no PDF, is
    locked by a password, or holds too much text.
    """
    try:
        import pypdfium2 as pdfium
    except ImportError:
        raise ImportError('to read PDF files: pip install "stackroom[pdf]"') from None
    with _PDFIUM:
        pages, title = _read(pdfium, data)
    return [readable(page) for page in pages], title


def _read(pdfium: Any, data: bytes) -> tuple[list[str], str | None]:
    """Return what the engine reads. All that it made is closed here, and nothing is left to the garbage collector."""
    try:
        document = pdfium.PdfDocument(data)
    except pdfium.PdfiumError:
        raise BadDocument("it is no PDF, or a damaged one, or locked by a password") from None
    with closing(document):
        title = str(document.get_metadata_value("Title")).replace("\x00", "").strip() or None
        return _pages(document, pdfium.PdfiumError), title


def _pages(document: Any, failure: type[Exception]) -> list[str]:
    pages: list[str] = []
    left = MAX_CHARACTERS
    for number in range(len(document)):
        try:
            with closing(document[number]) as page, closing(page.get_textpage()) as on_page:
                text = on_page.get_text_bounded()
        except failure:
            raise BadDocument(f"page {number + 1} is damaged") from None
        left -= len(text)
        if left < 0:
            raise BadDocument(f"it holds more than {MAX_CHARACTERS:,} characters")
        pages.append(text)
    return pages


def readable(text: str) -> str:
    """Return a page's text with line feeds, letters for ligatures, whole words, and nothing that no record can hold."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")
    lines = _CUT_WORD.sub("", lines)
    lines = re.sub("[\ud800-\udfff]", "", lines)
    return _LIGATURE.sub(lambda found: _LIGATURES[found[0]], lines)
