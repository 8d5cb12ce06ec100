"""The text of a PDF, page by page. Needs the extra `pdf` (pypdfium2)."""

from __future__ import annotations

import re
from typing import Final

from stackroom.indexing._docx import BadDocument

MAX_CHARACTERS: Final = 50_000_000
"""Characters of all pages together; a file of the size that is read at all holds no more for people."""

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
    try:
        document = pdfium.PdfDocument(data)
    except pdfium.PdfiumError:
        raise BadDocument("it is no PDF, or a damaged one, or locked by a password") from None
    try:
        title = str(document.get_metadata_value("Title")).replace("\x00", "").strip() or None
        return list(_pages(document, pdfium.PdfiumError)), title
    finally:
        document.close()


def _pages(document: object, failure: type[Exception]) -> list[str]:
    pages: list[str] = []
    left = MAX_CHARACTERS
    for number in range(len(document)):  # type: ignore[arg-type] # pypdfium2 declares no types
        try:
            page = document[number]  # type: ignore[index] # likewise
            text = page.get_textpage().get_text_bounded()
            page.close()
        except failure:
            raise BadDocument(f"page {number + 1} is damaged") from None
        left -= len(text)
        if left < 0:
            raise BadDocument(f"it holds more than {MAX_CHARACTERS:,} characters")
        pages.append(readable(text))
    return pages


def readable(text: str) -> str:
    """Return a page's text with line feeds, letters for ligatures, whole words, and nothing that no record can hold."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")
    lines = _CUT_WORD.sub("", lines)
    lines = re.sub("[\ud800-\udfff]", "", lines)
    return _LIGATURE.sub(lambda found: _LIGATURES[found[0]], lines)
