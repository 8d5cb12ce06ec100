"""index_folder: what becomes of a file, and what is done again."""

from __future__ import annotations

import hashlib
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.indexing.folders import SCOPE, Folder, counts, offset
from tests.indexing.made_files import docx, paragraph, pdf
from tests.library.doubles import HandClock, RecordingEmbedder

from stackroom import (
    Passage,
    Scope,
)
from stackroom.indexing import Loaded, index_folder

HEADING_1 = '<w:style w:styleId="b1"><w:name w:val="heading 1"/></w:style>'

# What becomes of a file


def test_files_become_sources_named_by_their_paths(folder: Folder) -> None:
    folder["a.md"] = "# Title\n\nText."
    folder["sub/b.txt"] = "Text."
    folder["c.bin"] = b"\x00"
    report = folder.index()
    assert (report.new, report.ignored, report.ok) == (2, {"suffix": 1}, True)
    assert folder.ids() == ["a.md", "sub/b.txt"]
    info = folder.library.source("a.md", scope=SCOPE)
    assert info is not None
    assert (info.title, info.kind) == ("Title", "document")
    assert folder.library.source("sub/b.txt", scope=SCOPE).title == "b.txt"  # type: ignore[union-attr] # just indexed


def test_metadata_tells_path_corpus_and_hash_over_the_callers(folder: Folder) -> None:
    folder["sub/b.txt"] = "Text."
    folder.index(corpus="books", metadata={"path": "mine", "team": "a"})
    info = folder.library.source("sub/b.txt", scope=SCOPE)
    assert info is not None
    digest = hashlib.sha256(b"Text.").hexdigest()
    assert info.metadata == {"path": "sub/b.txt", "team": "a", "corpus": "books", "contentHash": digest}


def test_properties_are_those_given(folder: Folder, clock: HandClock) -> None:
    folder["a.txt"] = "Text."
    folder.index(kind="note", folder_id="f", tags=["x"], tier="cold", ttl=timedelta(hours=1))
    info = folder.library.source("a.txt", scope=SCOPE)
    assert info is not None
    assert (info.kind, info.folder_id, info.tags, info.tier) == ("note", "f", ("x",), "cold")
    assert info.expires_at == clock.now + timedelta(hours=1)


def test_where_one_stands_and_how_the_path_is_spelled_change_no_id(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder["sub/a.txt"] = "Text."
    folder.index()
    monkeypatch.chdir(folder.path)
    (tmp_path / "link").symlink_to(folder.path)
    for spelled in (".", "../folder/", str(folder.path / "sub" / ".."), tmp_path / "link", str(folder.path) + "//"):
        report = index_folder(folder.library, spelled, tenant_id="t", acl_groups=["g"])
        assert (report.unchanged, report.failed) == (1, ())


def test_ids_are_composed_and_two_names_of_one_form_are_told(folder: Folder) -> None:
    folder["cafe\u0301.txt"] = "one"
    folder["caf\u00e9.txt"] = "two"
    report = folder.index()
    assert folder.ids() == ["café.txt"]
    assert [(failed.source_id, failed.reason) for failed in report.failed] == [("café.txt", "name")]


def test_passages_are_slices_of_the_text(folder: Folder) -> None:
    text = "# One\n\nFirst sentence. Second sentence.\n\n## Two\n\nThird sentence."
    folder["a.md"] = text
    folder.index(max_chars=20, overlap_chars=0)
    for hit in folder.library.passages("a.md", scope=SCOPE):
        assert text[offset(hit, "start") : offset(hit, "end")] == hit.text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.html", "<title>&#8203;</title><p>Text"),
        ("b.html", "<title>&shy;</title><p>Text"),
        ("c.md", "# \u200b\n\nText"),
        ("d.md", "# \x07\n\nText"),
        ("e.docx", docx(paragraph("\u200b", "b1") + paragraph("Text"), styles=HEADING_1)),
    ],
)
def test_a_title_without_anything_to_read_is_the_files_name(folder: Folder, name: str, content: str | bytes) -> None:
    folder[name] = content
    folder.index()
    assert [info.title for info in folder.library.sources(scope=SCOPE)] == [name]


def test_a_title_that_is_a_text_by_itself_is_cut(folder: Folder) -> None:
    folder["a.md"] = "# " + "long " * 1000
    folder.index()
    (info,) = folder.library.sources(scope=SCOPE)
    assert info.title == "long " * 39 + "long…"


def test_sizes_reach_loaders_that_cut_by_themselves(folder: Folder) -> None:
    folder["a.jsonl"] = '"one two three four"\n'
    folder["b.vtt"] = "WEBVTT\n\n00:00.000 --> 00:01.000\none two\n\n00:01.000 --> 00:02.000\nthree four\n"
    folder["c.pdf"] = pdf("one two three four")
    folder.index(max_chars=10, overlap_chars=0)
    for name in ("a.jsonl", "b.vtt", "c.pdf"):
        assert len(folder.text(name)) == 2, name


def test_a_loader_of_ones_own_adds_or_replaces(folder: Folder) -> None:
    folder["a.RST"] = "x"
    folder["b.txt"] = "y"

    def shout(data: bytes, _encoding: str) -> Loaded:
        return Loaded(passages=[Passage(data.decode().upper(), {"loud": True})], title="Mine")

    folder.index(loaders={".rst": shout, ".TXT": shout})
    assert (folder.text("a.RST"), folder.text("b.txt")) == (["X"], ["Y"])
    assert folder.library.source("b.txt", scope=SCOPE).title == "Mine"  # type: ignore[union-attr] # just indexed


@pytest.mark.parametrize("answer", [None, "text", Loaded(text=5), Loaded(passages=["x"]), Loaded(title=5)], ids=repr)  # type: ignore[arg-type, list-item] # that is what is tested
def test_a_loader_that_answers_nonsense_fails_its_file_alone(folder: Folder, answer: Any) -> None:
    folder["a.odd"] = "secret"
    folder["b.txt"] = "y"
    report = folder.index(loaders={".odd": lambda _data, _encoding: answer})
    assert [(failed.source_id, failed.reason) for failed in report.failed] == [("a.odd", "loader")]
    assert folder.ids() == ["b.txt"]


def test_a_loader_that_raises_fails_its_file_and_its_words_are_not_repeated(folder: Folder) -> None:
    def fails(data: bytes, _encoding: str) -> Loaded:
        raise RuntimeError(data.decode())

    folder["a.odd"] = "secret"
    (failed,) = folder.index(loaders={".odd": fails}).failed
    assert failed.reason == "loader"
    assert "secret" not in failed.message


def test_a_missing_dependency_is_said_with_its_pip_line(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pypdfium2", None)
    folder["a.pdf"] = pdf("x")
    (failed,) = folder.index().failed
    assert (failed.reason, "stackroom[pdf]" in failed.message) == ("missing_dependency", True)


@pytest.mark.parametrize("bad", [b"caf\xe9", b"a\x00b", b"\xff\xfea"])
def test_what_does_not_decode_fails_and_the_old_version_stays(folder: Folder, bad: bytes) -> None:
    folder["a.txt"] = "old"
    folder.index()
    folder["a.txt"] = bad
    assert folder.failures(prune=True) == {"a.txt": "encoding"}
    assert folder.text("a.txt") == ["old"]


def test_another_encoding_loads_it(folder: Folder) -> None:
    folder["a.txt"] = b"caf\xe9"
    folder["b.jsonl"] = '{"text": "a\\u0000"}'
    assert folder.failures() == {"a.txt": "encoding", "b.jsonl": "encoding"}
    del folder["b.jsonl"]
    assert folder.index(encoding="latin-1").ok
    assert folder.text("a.txt") == ["café"]


def test_a_file_that_is_too_large_is_not_read(folder: Folder) -> None:
    folder["a.txt"] = "1234"
    folder["b.txt"] = "12345"
    assert folder.failures(max_file_bytes=4) == {"b.txt": "too_large"}
    assert folder.ids() == ["a.txt"]


def test_a_huge_file_is_refused_at_once(folder: Folder) -> None:
    with (folder.path / "huge.log").open("wb") as file:
        file.truncate(2**30)
    assert folder.failures() == {"huge.log": "too_large"}


def test_a_file_without_text_is_ignored_and_its_old_version_goes_with_prune_alone(folder: Folder) -> None:
    folder["a.txt"] = "old"
    folder["b.txt"] = "other"
    folder.index()
    folder["a.txt"] = " \n"
    assert folder.index().ignored == {"empty": 1}
    assert folder.text("a.txt") == ["old"]
    assert folder.index(prune=True).removed == 1
    assert folder.ids() == ["b.txt"]


@pytest.mark.skipif(__import__("sys").platform != "linux", reason="other file systems refuse the name")
def test_a_name_that_is_no_unicode_fails(folder: Folder) -> None:
    (Path(os.fsdecode(os.fsencode(folder.path) + b"/\xff.txt"))).write_text("x", encoding="utf-8")
    assert list(folder.failures().values()) == ["name"]


# The plan


def test_a_second_run_does_nothing(folder: Folder, embedder: RecordingEmbedder) -> None:
    folder["a.txt"] = "one"
    folder["b.txt"] = "two"
    folder.index()
    calls = embedder.calls
    before = folder.library.source("a.txt", scope=SCOPE)
    report = folder.index()
    assert counts(report) == (0, 0, 2, 0)
    assert (embedder.calls, report.rescoped, report.passages) == (calls, 0, 0)
    assert folder.library.source("a.txt", scope=SCOPE) == before


@pytest.mark.parametrize(
    "option",
    [{"kind": "note"}, {"tier": "hot"}, {"metadata": {"x": 1}}, {"max_chars": 100}, {"overlap_chars": 1}],
    ids=str,
)
def test_other_settings_make_another_source_whose_vectors_are_reused(folder: Folder, option: dict[str, Any]) -> None:
    folder["a.txt"] = "one"
    folder.index()
    report = folder.index(**option)
    assert (report.changed, report.embedded, report.reused) == (1, 0, 1)
    assert folder.index(**option).unchanged == 1


def test_other_groups_folder_and_tags_are_set_without_embedding(folder: Folder, embedder: RecordingEmbedder) -> None:
    folder["a.txt"] = "one"
    folder["b.txt"] = "two"
    folder.index(folder_id="f", tags=["x"])
    calls = embedder.calls
    report = folder.index(acl_groups=["h"])
    assert (counts(report), report.rescoped, embedder.calls) == ((0, 0, 2, 0), 2, calls)
    assert folder.ids() == []
    info = folder.library.source("a.txt", scope=Scope("t", ["h"]))
    assert info is not None
    assert (info.folder_id, info.tags) == (None, ())
    assert folder.index(acl_groups=["h"]).rescoped == 0


def test_expiry_of_unchanged_files_is_set_anew_or_taken_away(folder: Folder, clock: HandClock) -> None:
    folder["a.txt"] = "one"
    folder.index(ttl=timedelta(hours=1))
    clock.forward(hours=2)
    assert folder.ids() == []
    report = folder.index(ttl=timedelta(hours=1))
    assert (report.unchanged, report.rescoped, folder.ids()) == (1, 0, ["a.txt"])
    folder.index()
    assert folder.library.source("a.txt", scope=SCOPE).expires_at is None  # type: ignore[union-attr] # it is there


def test_a_paragraph_put_in_front_costs_itself_alone(folder: Folder) -> None:
    paragraphs = [f"This is paragraph {number} of the text." for number in range(8)]
    folder["a.txt"] = "\n\n".join(paragraphs)
    folder.index(max_chars=40, overlap_chars=0)
    text = "\n\n".join(["A new beginning.", *paragraphs])
    folder["a.txt"] = text
    report = folder.index(max_chars=40, overlap_chars=0)
    assert (report.embedded, report.reused) == (1, 8)
    for hit in folder.library.passages("a.txt", scope=SCOPE):
        assert text[offset(hit, "start") : offset(hit, "end")] == hit.text


def test_a_renamed_file_is_embedded_again_by_nobody(folder: Folder) -> None:
    folder["a.txt"] = "one"
    folder["b.txt"] = "two"
    folder.index()
    (folder.path / "a.txt").rename(folder.path / "z.txt")
    report = folder.index(prune=True)
    assert (report.embedded, report.new, report.removed, report.reused) == (0, 1, 1, 1)
    assert folder.ids() == ["b.txt", "z.txt"]


def test_a_passage_moved_to_another_file_keeps_its_vector_whichever_is_written_first(folder: Folder) -> None:
    folder["a.jsonl"] = '"one"\n"two"\n'
    folder["b.jsonl"] = '"three"\n"four"\n'
    folder.index()
    folder["a.jsonl"] = '"one"\n"four"\n'
    folder["b.jsonl"] = '"three"\n"two"\n'
    report = folder.index()
    assert (report.changed, report.embedded, report.reused) == (2, 0, 4)
    found = folder.library.search("two", scope=SCOPE, mode="dense", top_k=1)
    assert (found[0].text, round(found[0].score, 5)) == ("two", 1.0)


def test_a_passage_that_left_a_file_long_before_another_takes_it_up_keeps_its_vector(folder: Folder) -> None:
    folder["a.jsonl"] = '"one"\n"two"\n'
    for number in range(130):
        folder[f"b{number:03}.txt"] = f"text {number}"
    folder["c.jsonl"] = '"three"\n'
    folder.index()
    folder["a.jsonl"] = '"one"\n'
    folder["c.jsonl"] = '"three"\n"two"\n'
    report = folder.index(max_concurrency=1)
    assert (report.changed, report.embedded, report.reused) == (2, 0, 3)


def test_other_corpora_and_tenants_lend_no_vectors(folder: Folder) -> None:
    folder["a.txt"] = "one"
    folder.index()
    assert folder.index(tenant_id="u").embedded == 1
    assert folder.index(corpus="other", source_prefix="o/").embedded == 1
