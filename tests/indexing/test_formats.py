"""What is read of HTML, PDF, Word documents and tables, and that no hostile file takes long."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
import threading
import time
import tracemalloc
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.indexing.made_files import STRICT, docx, docx_elsewhere, paragraph, pdf

from stackroom.indexing import _cues, _docx, _loaders, _pdf
from stackroom.indexing._html import visible_text
from stackroom.indexing._loaders import LOADERS, Loaded, passages_of, shipped_loaders
from stackroom.indexing._names import BadDocument, BadRecord
from stackroom.indexing._pdf import readable
from stackroom.indexing._separated import separated_rows
from stackroom.text._documents import chunks_of

PATIENCE = 5.0
"""Seconds that a hostile file may take; each takes far less than one."""


def loaded(suffix: str, data: str | bytes, **sizes: int) -> Loaded:
    given = {"max_chars": 1200, "overlap_chars": 150, **sizes}
    return shipped_loaders(**given)[suffix](data.encode() if isinstance(data, str) else data, "utf-8")


def texts(suffix: str, data: str | bytes, **sizes: int) -> list[str]:
    return [passage.text for passage in passages_of(loaded(suffix, data, **sizes))]


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<p>one</p><p>two</p>", "one\ntwo"),
        ("<div>a<div>b</div>c</div>", "a\nb\nc"),
        ("a<br>b<br/>c", "a\nb\nc"),
        ("<ul><li>a<li>b</ul>", "a\nb"),
        ("<b>bo</b>ld <i> it</i>", "bold it"),
        ("<p>a \n\t b</p>", "a b"),
        ("<pre>a\n  b</pre>c  d", "a\n  b\nc d"),
        ("<tr><td>a</td><td>b</td></tr>", "a b"),
        ("a&amp;b &lt;c&gt; &eacute;&#233;&#xE9; &copy", "a&b <c> éé é ©".replace(" é ", "é ")),
        ("AT&T &unknown; &", "AT&T &unknown; &"),
        ("&amp;lt;b&amp;gt;", "&lt;b&gt;"),
        ("<script>a < b</script>x<style>p{}</style>y", "xy"),
        ("<SCRIPT>a</Script >x", "x"),
        ("<script>'</scripty>'</script>x", "x"),
        ("<template>a<b>c</b></template>x", "x"),
        ("a<!-- no -->b<!-->c<!--->d", "abcd"),
        ("<!DOCTYPE html><?xml no?>x", "x"),
        ('<a title="a > b">x</a>', "x"),
        ("<p title=it's>x</p>y", "x\ny"),
        ("1 < 2 and 3<4", "1 < 2 and 3<4"),
        ("</p>x", "x"),
        ("x<a href=", "x"),
        ("a<script>b", "a"),
        ("a<style>b", "a"),
        ("a<!-- b", "a"),
        ("a<template>b", "a"),
        ("<textarea>&lt;b></textarea>", "<b>"),
        ("<head><title>T</title></head><body>x</body>", "x"),
        ("", ""),
    ],
)
def test_html_is_what_a_reader_sees(markup: str, text: str) -> None:
    assert visible_text(markup)[0] == text


@pytest.mark.parametrize(
    ("markup", "title"),
    [
        ("<title> A &amp;\n B </title>", "A & B"),
        ("<title></title>", None),
        ("<p>x", None),
        ("<title>A</title><title>B</title>", "A"),
        ("<title>a<b></title>", "a<b>"),
        ("<template><title>A</title></template>", None),
    ],
)
def test_the_title_of_html_is_its_own(markup: str, title: str | None) -> None:
    assert visible_text(markup)[1] == title


HOSTILE_HTML = [
    "<b>",
    "<div>",
    "<a ",
    "<a href=",
    '<a b="',
    "<a b='c\" ",
    "<!--",
    "<!",
    "<",
    "</",
    "<table><tr><td>",
    "<script>",
    "</script>",
    "<template>",
    "<title>",
    "<textarea>",
    "&",
    "&#9",
    "&a",
    "<pre>",
    "<p><i>",
    "\x01<br>",
]


@pytest.mark.parametrize("piece", HOSTILE_HTML)
def test_eighty_thousand_of_anything_unclosed_are_read_in_no_time(piece: str) -> None:
    began = time.perf_counter()
    visible_text(piece * 80_000 + "x")
    visible_text("&#" + "9" * 80_000)
    assert time.perf_counter() - began < PATIENCE


def test_a_word_document_is_paragraphs_headings_and_rows() -> None:
    named = {"b1": "heading 1", "h2": "Heading 2"}
    styles = "".join(f'<w:style w:styleId="{key}"><w:name w:val="{name}"/></w:style>' for key, name in named.items())
    cells = "".join(f"<w:tc>{paragraph(text)}</w:tc>" for text in ("a", "b &amp; c"))
    body = (
        paragraph("Title", "b1")
        + "<w:p><w:r><w:t>One</w:t><w:tab/><w:t>two</w:t></w:r><w:r><w:delText>gone</w:delText></w:r></w:p>"
        + paragraph("")
        + paragraph("Part", "h2")
        + f"<w:tbl><w:tr>{cells}</w:tr><w:tr><w:tc><w:p/></w:tc></w:tr></w:tbl>"
    )
    document = loaded(".docx", docx(body, styles=styles))
    assert (document.text, document.title) == ("# Title\nOne\ttwo\n## Part\na | b & c", "Title")
    assert [passage.metadata["heading"] for passage in passages_of(document)] == ["Title", "Part"]


HEADING_1 = '<w:style w:styleId="b1"><w:name w:val="heading 1"/></w:style>'


@pytest.mark.parametrize(
    "document",
    [
        docx(paragraph("Title", "b1") + paragraph("Text"), styles=HEADING_1, namespace=STRICT),
        docx_elsewhere("word/document2.xml", paragraph("Title", "b1") + paragraph("Text"), styles=HEADING_1),
        docx_elsewhere("/other/main.xml", paragraph("Title", "b1") + paragraph("Text"), styles=HEADING_1),
    ],
    ids=["strict", "another name", "absolute"],
)
def test_a_word_document_is_read_in_both_dialects_and_wherever_its_parts_are(document: bytes) -> None:
    read = loaded(".docx", document)
    assert (read.text, read.title) == ("# Title\nText", "Title")


def test_a_text_box_is_a_line_of_its_own_and_told_once() -> None:
    mc = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    both = f"<mc:Choice>{paragraph('box')}</mc:Choice><mc:Fallback>{paragraph('box')}</mc:Fallback>"
    body = f"<w:p><w:r><w:t>a</w:t><mc:AlternateContent {mc}>{both}</mc:AlternateContent><w:t>b</w:t></w:r></w:p>"
    assert loaded(".docx", docx(body)).text == "box\nab"


def test_a_style_that_a_paragraph_had_before_is_not_its_own() -> None:
    before = '<w:pPr><w:pPrChange><w:pPr><w:pStyle w:val="b1"/></w:pPr></w:pPrChange></w:pPr>'
    assert loaded(".docx", docx(f"<w:p>{before}<w:r><w:t>a</w:t></w:r></w:p>", styles=HEADING_1)).text == "a"


@pytest.mark.parametrize("body", ["<w:t/>" * 2_000_000, "<w:r>" * 60_000 + "</w:r>" * 60_000], ids=["many", "deep"])
def test_a_word_document_of_more_elements_than_documents_have_is_refused(body: str) -> None:
    with pytest.raises(BadDocument, match="more elements"):
        loaded(".docx", docx(body))


@pytest.mark.parametrize("bad", [b"", b"PK", b"no zip", docx("<w:p>"), docx("")[:-30]], ids=range(5))
def test_what_is_no_word_document_is_refused(bad: bytes) -> None:
    with pytest.raises(BadDocument):
        loaded(".docx", bad)


def test_a_document_without_its_main_part_is_refused() -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as package:
        package.writestr("other.xml", "<x/>")
    with pytest.raises(BadDocument):
        loaded(".docx", made.getvalue())


def test_a_zip_bomb_is_refused_before_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_docx, "MAX_UNPACKED", 1024 * 1024)
    with pytest.raises(BadDocument, match="unpacks to more than 1 MiB"):
        loaded(".docx", docx(paragraph("x" * 2 * 1024 * 1024)))


def test_entities_that_multiply_are_refused_unread() -> None:
    laughs = "<!DOCTYPE x [<!ENTITY a 'ha'>]>"
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as package:
        package.writestr("word/document.xml", f"{laughs}<x>&a;</x>")
    with pytest.raises(BadDocument, match="document type"):
        loaded(".docx", made.getvalue())


def test_a_deeply_nested_word_document_is_read_in_no_time() -> None:
    began = time.perf_counter()
    loaded(".docx", docx("<w:sdt>" * 20_000 + paragraph("x") + "</w:sdt>" * 20_000))
    assert time.perf_counter() - began < PATIENCE


def test_a_pdf_is_cut_page_by_page_and_its_places_are_those_of_the_page() -> None:
    document = loaded(".pdf", pdf("First page.\nMore.", "", "Third.", title="Report"))
    assert document.title == "Report"
    passages = passages_of(document)
    assert [(passage.text, passage.metadata["page"]) for passage in passages] == [
        ("First page.\nMore.", 1),
        ("Third.", 3),
    ]
    assert (passages[0].metadata["start"], passages[0].metadata["end"]) == (0, 17)
    assert loaded(".pdf", pdf("x")).title is None


def test_passages_of_a_pdf_never_reach_over_a_page() -> None:
    assert texts(".pdf", pdf("one", "two", "three"), max_chars=1200) == ["one", "two", "three"]


@pytest.mark.parametrize("bad", [b"", b"%PDF-1.4", b"no pdf", pdf("x")[:50]], ids=range(4))
def test_what_is_no_pdf_is_refused(bad: bytes) -> None:
    with pytest.raises(BadDocument):
        loaded(".pdf", bad)


def test_a_pdf_of_two_thousand_pages_is_read_in_no_time() -> None:
    began = time.perf_counter()
    assert len(texts(".pdf", pdf(*["page"] * 2000))) == 2000
    assert time.perf_counter() - began < 4 * PATIENCE


def test_one_thread_at_a_time_is_in_pdfium(monkeypatch: pytest.MonkeyPatch) -> None:
    inside, met = threading.Semaphore(1), threading.Event()
    read = _pdf._read  # noqa: SLF001 - what the lock is around

    def watched(*given: Any) -> Any:
        if not inside.acquire(blocking=False):
            met.set()
            return [], None
        met.wait(0.2)
        inside.release()
        return read(*given)

    monkeypatch.setattr(_pdf, "_read", watched)
    with ThreadPoolExecutor(3) as pool:
        assert [pages for pages, _ in pool.map(_pdf.pdf_pages, [pdf("x")] * 3)] == [["x"]] * 3
    assert not met.is_set()


def test_pdfs_are_read_in_many_threads_at_once() -> None:
    """In a process of its own: without a lock PDFium ends it."""
    code = (
        "from concurrent.futures import ThreadPoolExecutor; from stackroom.indexing._pdf import pdf_pages;"
        "from tests.indexing.made_files import pdf; data = pdf(*[f'page {n}' for n in range(30)]);"
        "pool = ThreadPoolExecutor(8); read = list(pool.map(pdf_pages, [data] * 400)); want = pdf_pages(data);"
        "raise SystemExit(read != [want] * 400)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("eﬃcient ﬂow", "efficient flow"),
        ("infor-\r\nmation", "information"),
        ("infor\x02\r\nmation", "information"),
        ("infor\ufffemation", "information"),
        ("Anna-\nMaria", "Anna-\nMaria"),
        ("1990-\n2000", "1990-\n2000"),
        ("- a\n- b", "- a\n- b"),
        ("a\x00b", "ab"),
        ("a\ud800b", "ab"),
    ],
)
def test_text_of_a_pdf_is_readable(raw: str, text: str) -> None:
    assert readable(raw) == text


@pytest.mark.parametrize(
    ("suffix", "data", "expected"),
    [
        (".jsonl", '{"content": "a", "text": "b"}\n\n{"text": "c"}\n"d"\n', [("a", 1), ("c", 2), ("d", 3)]),
        (".jsonl", '{"content": " ", "text": "b"}', [("b", 1)]),
        (
            ".jsonl",
            '{"content": 5, "n": null, "e": "", "l": [1, "é"], "b": true}',
            [('content: 5\nl: [1, "é"]\nb: true', 1)],
        ),
        (".json", '[{"text": "a"}, "b"]', [("a", 1), ("b", 2)]),
        (".json", '{"text": "a"}', [("a", 1)]),
        (".json", " ", []),
        (".csv", "name,text\nA,a\n\nB,b\n", [("a", 1), ("b", 2)]),
        (".csv", 'name,note\nA,"x\ny, z"\n', [("name: A\nnote: x\ny, z", 1)]),
        (".csv", "name,note\nA\nB,x,more\n", [("name: A", 1), ("name: B\nnote: x\ncolumn 3: more", 2)]),
        (".csv", "name;note\nA;1,5\n\nB;x\n", [("name: A\nnote: 1,5", 1), ("name: B\nnote: x", 2)]),
        (".csv", "name;note\nA;1,5\nB;2,5\n", [("name: A\nnote: 1,5", 1), ("name: B\nnote: 2,5", 2)]),
        (".csv", 'name|note\n"A|B"|x\n', [("name: A|B\nnote: x", 1)]),
        (".csv", "name\tnote\nA\tx, y\n", [("name: A\nnote: x, y", 1)]),
        (".csv", "name,note\nA,x; y\n", [("name: A\nnote: x; y", 1)]),
        (".csv", "a;b,c;d\n1;2,3;4\n", [("a;b: 1;2\nc;d: 3;4", 1)]),
        (".csv", "name\nx; y\nz; w\n", [("name: x; y", 1), ("name: z; w", 2)]),
        (".csv", "name;note\nA\n", [("name;note: A", 1)]),
        (".csv", "a;b|c\n1;2|3\n", [("a;b|c: 1;2|3", 1)]),
        (".csv", "", []),
        (".csv", "name\n", []),
        (".csv", 'text\n"he said ""hi"""\n5" disk\n""\n', [('he said "hi"', 1), ('5" disk', 2)]),
        (".csv", "text,n\nlast,", [("last", 1)]),
        (".tsv", "name\tnote\nA\tx, y\n", [("name: A\nnote: x, y", 1)]),
        (".tsv", 'a\tb\n"stray\tx\ny\t"z" w\n', [('a: "stray\nb: x', 1), ('a: y\nb: "z" w', 2)]),
        (".tsv", 'a\tb\n"x\ty"\t"1\n2"\n', [("a: x\ty\nb: 1\n2", 1)]),
    ],
)
def test_a_record_is_a_passage_with_its_number(suffix: str, data: str, expected: list[tuple[str, int]]) -> None:
    found = [(passage.text, passage.metadata["row"]) for passage in passages_of(loaded(suffix, data))]
    assert found == expected


def test_a_long_record_is_cut_and_records_are_never_joined() -> None:
    passages = passages_of(loaded(".jsonl", '"one two three"\n"x"\n', max_chars=8, overlap_chars=0))
    assert [(passage.text, passage.metadata["row"]) for passage in passages] == [("one two", 1), ("three", 1), ("x", 2)]


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_a_field_of_any_length_is_cut(suffix: str) -> None:
    whole = " ".join(texts(suffix, "content\n" + "word " * 40_000, overlap_chars=0))
    assert whole.split() == ["word"] * 40_000


@given(st.lists(st.lists(st.text('ab",\n\t '), min_size=1), min_size=1), st.sampled_from(",\t"))
def test_what_is_written_as_csv_is_read_back(rows: list[list[str]], delimiter: str) -> None:
    if delimiter == "\t":  # where tabs and line ends stand together, quotes are text
        rows = [[field.replace("\n", " ") for field in row] for row in rows]
    written = io.StringIO()
    csv.writer(written, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(rows)
    assert list(separated_rows(written.getvalue().removesuffix("\n"), delimiter)) == rows


@pytest.mark.parametrize("piece", ['"', '"a\t', '"a\n', '"""a\n', '"" ', '""\t"\n', ",", "\n", 'a"\t"'])
def test_stray_quotes_take_no_time(piece: str) -> None:
    began = time.perf_counter()
    for suffix in (".csv", ".tsv"):
        with suppress(BadRecord):
            loaded(suffix, "x\n" + piece * 80_000)
    assert time.perf_counter() - began < 2 * PATIENCE


def test_a_field_whose_name_is_a_text_by_itself_is_not_repeated_whole_in_each_record() -> None:
    (first, second) = texts(".csv", "x" * 10_000 + "\n1\n2\n")
    assert (first, second) == ("x" * 199 + "…: 1", "x" * 199 + "…: 2")


@pytest.mark.parametrize(
    ("suffix", "data", "where"),
    [
        (".jsonl", '"a"\n\nsecret', "line 3"),
        (".jsonl", '"a"\n5', "line 2"),
        (".json", "{secret", "no JSON"),
        (".json", "[5]", "item 1"),
        (".json", "[" * 100_000, "nested"),
        (".json", '{"secret": ' + "9" * 5000 + "}", "no JSON"),
        (".csv", 'a,b\n"secret', "line 2"),
        (".csv", 'a,b\n1,2\nx,"y"secret\n', "line 3"),
    ],
)
def test_a_bad_record_fails_with_its_line_and_no_text(suffix: str, data: str, where: str) -> None:
    with pytest.raises(BadRecord, match=where) as caught:
        loaded(suffix, data)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("suffix", "data"),
    [
        (".csv", "c\n" + "a\n" * 11),
        (".jsonl", '"a"\n' * 11),
        (".json", "[" + '"a",' * 10 + '"a"]'),
        (".md", "# h\na\n" * 11),
        (".pdf", pdf(*["a"] * 11)),
    ],
)
def test_more_passages_than_a_source_may_have_are_refused(
    monkeypatch: pytest.MonkeyPatch, suffix: str, data: str | bytes
) -> None:
    monkeypatch.setattr(_loaders, "MAX_PASSAGES", 11)
    assert len(texts(suffix, data)) == 11
    monkeypatch.setattr(_loaders, "MAX_PASSAGES", 10)
    with pytest.raises(BadDocument, match="more than 10 passages"):
        texts(suffix, data)


@pytest.mark.parametrize("head", ["WEBVTT\n\n", ""])
def test_more_cues_than_a_day_has_are_refused(monkeypatch: pytest.MonkeyPatch, head: str) -> None:
    data = head + "00:00:01.000 --> 00:00:02.000\na\n\n" * 3
    monkeypatch.setattr(_cues, "MAX_CUES", 3)
    assert texts(".vtt" if head else ".srt", data) == ["a\na\na"]
    monkeypatch.setattr(_cues, "MAX_CUES", 2)
    with pytest.raises(_cues.BadTranscript, match="more than 2 cues"):
        texts(".vtt" if head else ".srt", data)


@pytest.mark.parametrize("piece", ["a\n", "a\n\n", "a. ", "a\n \n"])
def test_short_lines_cost_the_memory_of_a_chunk(piece: str) -> None:
    text = piece * 20_000
    tracemalloc.start()
    try:
        for chunk in chunks_of(text, 1200, 150):
            assert chunk.text
        assert tracemalloc.get_traced_memory()[1] < 500_000
    finally:
        tracemalloc.stop()


def test_a_comment_in_front_matter_is_no_title() -> None:
    assert loaded(".md", "---\n# a comment\ntitle: x\n---\n\n# Real\n").title == "Real"
    assert loaded(".md", "---\n# Heading\n").title == "Heading"


@pytest.mark.parametrize("suffix", sorted(LOADERS))
def test_every_loader_bears_a_megabyte_of_one_line(suffix: str) -> None:
    began = time.perf_counter()
    with suppress(ValueError):
        loaded(suffix, b"a" * 1_000_000)
    assert time.perf_counter() - began < PATIENCE
