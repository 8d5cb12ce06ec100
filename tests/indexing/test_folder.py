"""index_folder: planning, writing, ownership, pruning, budgets, retries, resuming."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.indexing.made_files import pdf
from tests.library.doubles import HandClock, RecordingEmbedder, RecordingStore, source

from stackroom import (
    EmbedderError,
    EmbedderMismatch,
    Hit,
    IndexingCancelled,
    InputCeilingWarning,
    Library,
    Passage,
    Scope,
    ScopeError,
    SourceError,
    StoreUnavailable,
)
from stackroom.embedders import HashingEmbedder
from stackroom.indexing import CancelToken, IndexReport, Loaded, Progress, index_documents, index_folder
from stackroom.stores import MemoryStore

SCOPE = Scope("t", ["g"])


class Folder:
    """A directory whose files a test writes, and that is indexed for tenant t and group g unless said."""

    def __init__(self, path: Path, library: Library) -> None:
        self.path = path
        self.library = library

    def __setitem__(self, name: str, content: str | bytes) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    def __delitem__(self, name: str) -> None:
        (self.path / name).unlink()

    def index(self, **options: Any) -> IndexReport:
        given: dict[str, Any] = {"tenant_id": "t", "acl_groups": ["g"], **options}
        return index_folder(self.library, self.path, **given)

    def ids(self, scope: Scope = SCOPE) -> list[str]:
        return [info.source_id for info in self.library.sources(scope=scope, limit=10_000)]

    def text(self, source_id: str) -> list[str]:
        return [hit.text for hit in self.library.passages(source_id, scope=SCOPE)]

    def failures(self, **options: Any) -> dict[str, str]:
        return {failed.source_id: failed.reason for failed in self.index(**options).failed}


@pytest.fixture
def folder(tmp_path: Path, library: Library) -> Folder:
    (tmp_path / "folder").mkdir()
    return Folder(tmp_path / "folder", library)


def _number(hit: Hit, key: str) -> int:
    value = hit.metadata[key]
    assert isinstance(value, int)
    return value


def counts(report: IndexReport) -> tuple[int, int, int, int]:
    return report.new, report.changed, report.unchanged, report.embedded


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
        assert text[_number(hit, "start") : _number(hit, "end")] == hit.text


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
        assert text[_number(hit, "start") : _number(hit, "end")] == hit.text


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


# Dry runs and budgets


def test_a_dry_run_says_what_the_run_will_do_and_does_nothing(folder: Folder, embedder: RecordingEmbedder) -> None:
    for name in "abc":
        folder[f"{name}.txt"] = f"text of {name}"
    folder.index()
    folder["a.txt"] = "another text"
    folder["d.txt"] = "new text"
    del folder["b.txt"]
    calls, ids = embedder.calls, folder.ids()
    told: list[Progress] = []
    dry = folder.index(dry_run=True, prune=True, on_progress=told.append, on_embedding=lambda _: pytest.fail("called"))
    assert (embedder.calls, folder.ids(), dry.dry_run) == (calls, ids, True)
    assert folder.text("a.txt") == ["text of a"]
    assert told[-1].done == told[-1].total == 3
    real = folder.index(prune=True)
    for name in ("new", "changed", "unchanged", "passages", "embedded", "reused", "characters", "removed", "remaining"):
        assert getattr(dry, name) == getattr(real, name), name
    assert (real.new, real.changed, real.unchanged, real.removed) == (1, 1, 1, 1)


def test_a_dry_run_rescopes_and_renews_nothing(folder: Folder) -> None:
    folder["a.txt"] = "one"
    folder.index()
    assert folder.index(acl_groups=["h"], dry_run=True).rescoped == 1
    assert folder.ids() == ["a.txt"]


def test_tokens_and_cost_are_estimated(folder: Folder) -> None:
    folder["a.txt"] = "x" * 1001
    dry = folder.index(dry_run=True, price_per_million_tokens=2.0)
    assert (dry.characters, dry.estimated_tokens) == (1001, 251)
    assert dry.estimated_cost == pytest.approx(251 / 1e6 * 2)
    assert folder.index(dry_run=True).estimated_cost is None
    assert folder.index(price_per_million_tokens=0).estimated_cost == 0


def test_a_budget_ends_the_run_before_the_file_that_would_break_it(folder: Folder) -> None:
    for name in "abc":
        folder[f"{name}.txt"] = name * 100
    folder.index(include="a.txt")
    del folder["a.txt"]
    folder["d.txt"] = "d" * 100
    report = folder.index(budget_chars=250, prune=True)
    assert (report.indexed, report.remaining, report.stopped, report.removed, report.ok) == (2, 1, "budget", 0, False)
    assert folder.index(budget_chars=100).stopped is None
    assert folder.index(budget_chars=0).unchanged == 3


# Ownership and pruning


def test_a_source_from_elsewhere_is_not_touched(folder: Folder) -> None:
    folder["a.txt"] = "mine"
    folder.library.index_source(source("a.txt", "theirs"))
    (failed,) = folder.index().failed
    assert failed.reason == "owned"
    assert "corpus=" in failed.message
    assert "source_prefix=" in failed.message
    assert folder.text("a.txt") == ["theirs"]
    assert folder.index(source_prefix="mine/").new == 1


def test_a_document_that_calls_itself_of_this_corpus_is_not_the_folders(folder: Folder) -> None:
    folder["b.txt"] = "mine"
    document = {"id": "a.txt", "text": "theirs", "metadata": {"corpus": "c", "path": "a.txt"}}
    index_documents(folder.library, [document], tenant_id="t", acl_groups=["g"])
    assert folder.index(corpus="c", prune=True).removed == 0
    assert folder.ids() == ["a.txt", "b.txt"]


def test_another_folder_of_the_same_names_is_told_apart(folder: Folder, tmp_path: Path) -> None:
    folder["a.txt"] = "one"
    folder.index()
    (tmp_path / "other").mkdir()
    other = Folder(tmp_path / "other", folder.library)
    other["a.txt"] = "two"
    assert other.failures() == {"a.txt": "owned"}
    assert folder.text("a.txt") == ["one"]


def test_a_corpus_is_one_wherever_its_folder_stands_and_never_shows_the_path(folder: Folder, tmp_path: Path) -> None:
    folder["a.txt"] = "one"
    folder.index(corpus="books")
    folder.path.rename(tmp_path / "moved")
    moved = Folder(tmp_path / "moved", folder.library)
    assert moved.index(corpus="books").unchanged == 1
    moved["b.txt"] = "two"
    moved.index(source_prefix="p/")
    info = folder.library.source("p/b.txt", scope=SCOPE)
    assert info is not None
    assert str(tmp_path) not in str(info.metadata)


def test_a_deleted_file_goes_with_prune_alone(folder: Folder) -> None:
    folder["a.txt"] = "one"
    folder["b.txt"] = "two"
    folder.index()
    del folder["a.txt"]
    assert (folder.index().removed, folder.ids()) == (0, ["a.txt", "b.txt"])
    assert (folder.index(prune=True).removed, folder.ids()) == (1, ["b.txt"])


def test_pruning_one_folder_leaves_others_and_other_tenants_alone(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    other = Folder(tmp_path / "b", folder.library)
    folder["a.txt"] = "one"
    other["b.txt"] = "two"
    folder.index()
    folder.index(tenant_id="u")
    other.index()
    other["c.txt"] = "three"
    del other["b.txt"]
    assert other.index(prune=True).removed == 1
    assert folder.ids() == ["a.txt", "c.txt"]
    assert folder.ids(Scope("u", ["g"])) == ["a.txt"]


@pytest.mark.parametrize(
    "change", [{"exclude": "a.txt"}, {"include": "b.txt"}, {"include": []}, {"max_file_bytes": 4}], ids=str
)
def test_a_file_that_is_there_and_not_taken_is_not_pruned(folder: Folder, change: dict[str, Any]) -> None:
    folder["a.txt"] = "first"
    folder["b.txt"] = "2nd"
    folder.index()
    assert folder.index(prune=True, **change).removed == 0
    assert folder.ids() == ["a.txt", "b.txt"]


def test_hidden_and_linked_files_are_not_pruned(folder: Folder, tmp_path: Path) -> None:
    folder["a.txt"] = "one"
    folder[".b.txt"] = "two"
    folder[".d/c.txt"] = "three"
    folder["real/d.txt"] = "four"
    (folder.path / "l.txt").symlink_to(folder.path / "real" / "d.txt")
    assert folder.index(hidden=True).new == 4
    (folder.path / "real" / "d.txt").rename(tmp_path / "d.txt")
    (folder.path / "real" / "d.txt").symlink_to(tmp_path / "d.txt")
    assert folder.index(prune=True).removed == 0


def test_nothing_is_pruned_below_a_directory_that_cannot_be_listed(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder["a.txt"] = "one"
    folder["closed/b.txt"] = "two"
    folder.index()
    listed = os.scandir

    def scandir(path: Any) -> Any:
        if os.fspath(path).endswith("closed"):
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(os.path, "lexists", lambda _path: False)
    report = folder.index(prune=True)
    assert (report.removed, [(failed.source_id, failed.reason) for failed in report.failed]) == (
        0,
        [("closed", "unreadable")],
    )


def test_nothing_is_pruned_when_the_folder_holds_no_file_to_load(folder: Folder) -> None:
    folder["a.txt"] = "one"
    folder.index()
    del folder["a.txt"]
    folder["b.bin"] = "x"
    assert folder.index(prune=True).removed == 0
    assert folder.ids() == ["a.txt"]


# Failures of the embedder


def busy(times: int, **about: Any) -> Any:
    """Return what fails so many calls and then no more."""

    def before(call: int) -> None:
        if call <= times:
            raise EmbedderError("busy", **{"retryable": True, "retry_after": 0, **about})

    return before


def test_a_busy_embedder_is_asked_again(folder: Folder, embedder: RecordingEmbedder) -> None:
    folder["a.txt"] = "one"
    embedder.before_batch = busy(2)
    assert folder.index().ok
    assert len(embedder.batches) == 3


def test_when_attempts_are_spent_the_run_ends_with_what_it_did(folder: Folder, embedder: RecordingEmbedder) -> None:
    folder["a.txt"] = "one"
    embedder.before_batch = busy(9)
    with pytest.raises(EmbedderError) as caught:
        folder.index(attempts=2)
    assert len(embedder.batches) == 2
    report = caught.value.report
    assert isinstance(report, IndexReport)
    assert (report.stopped, report.remaining, report.indexed) == ("error", 1, 0)


def test_a_pause_beyond_ten_minutes_counts_as_final(folder: Folder, embedder: RecordingEmbedder) -> None:
    for name in "abcd":
        folder[f"{name}.txt"] = name
    embedder.before_batch = busy(1, retry_after=601)
    folder.index(max_concurrency=1)
    assert embedder.batches[0] == ("a", "b")


def test_a_cancel_ends_the_wait(folder: Folder, embedder: RecordingEmbedder) -> None:
    folder["a.txt"] = "one"
    token = CancelToken()

    def before(_: int) -> None:
        token.cancel()
        raise EmbedderError("busy", retryable=True, retry_after=600)

    embedder.before_batch = before
    with pytest.raises(IndexingCancelled) as caught:
        folder.index(cancel=token)
    assert caught.value.report is not None


class Refusing(RecordingEmbedder):
    """Refuses every batch that holds a bad text."""

    def embed_passages(self, texts: Any) -> Any:
        if any("bad" in text for text in texts):
            self.batches.append(texts)
            raise ValueError("no")
        return super().embed_passages(texts)


def test_a_refused_text_is_found_and_its_file_alone_fails(tmp_path: Path) -> None:
    library = Library(MemoryStore(), "library", Refusing())
    folder = Folder(tmp_path, library)
    for number in range(20):
        folder[f"{number:02}.txt"] = "bad" if number in (3, 17) else f"good {number}"
    report = folder.index()
    assert [(failed.source_id, failed.reason) for failed in report.failed] == [
        ("03.txt", "embedder"),
        ("17.txt", "embedder"),
    ]
    assert (report.new, report.stopped) == (18, None)


def test_after_three_refused_files_with_nothing_between_the_embedder_is_at_fault(tmp_path: Path) -> None:
    embedder = Refusing()
    folder = Folder(tmp_path, Library(MemoryStore(), "library", embedder, batch_size=4))
    for number in range(40):
        folder[f"{number:02}.txt"] = f"bad {number}"
    with pytest.raises(EmbedderError) as caught:
        folder.index(max_concurrency=1)
    assert caught.value.report is not None
    assert len(embedder.batches) < 10


def test_an_unavailable_store_is_asked_again_with_the_vectors_in_hand(
    tmp_path: Path, embedder: RecordingEmbedder
) -> None:
    class Down(RecordingStore):
        def replace(self, *arguments: Any, **options: Any) -> int:
            self.asked.append(("tried", None))
            if self.names().count("tried") == 1:
                raise StoreUnavailable("down")
            return super().replace(*arguments, **options)

    folder = Folder(tmp_path, Library(Down(), "library", embedder))
    folder["a.txt"] = "one"
    assert folder.index().new == 1
    assert embedder.calls == 1


def test_another_embedders_collection_is_met_before_the_first_embedding(folder: Folder, store: MemoryStore) -> None:
    folder["a.txt"] = "one"
    store.drop_collection("library")
    Library(store, "library", HashingEmbedder(8))
    with pytest.raises(EmbedderMismatch):
        folder.index()


# Resuming, and others who write


def test_a_cancelled_run_goes_on_where_it_was(folder: Folder, embedder: RecordingEmbedder) -> None:
    for number in range(10):
        folder[f"{number}.txt"] = f"text {number}"
    token = CancelToken()
    embedder.before_batch = lambda call: token.cancel() if call == 2 else None
    with pytest.raises(IndexingCancelled) as caught:
        folder.index(cancel=token, max_concurrency=1)
    report = caught.value.report
    assert isinstance(report, IndexReport)
    assert (report.indexed, report.remaining, report.stopped) == (4, 6, "cancelled")
    again = folder.index()
    assert counts(again) == (6, 0, 4, 6)


def test_a_cancel_is_seen_while_unchanged_files_are_passed_over(folder: Folder) -> None:
    for number in range(130):
        folder[f"{number:03}.txt"] = f"text {number}"
    folder.index()
    token = CancelToken()
    with pytest.raises(IndexingCancelled) as caught:
        folder.index(cancel=token, on_progress=lambda _: token.cancel(), prune=True)
    report = caught.value.report
    assert isinstance(report, IndexReport)
    assert (report.unchanged, report.remaining) == (64, 66)


def test_a_file_that_another_run_wrote_meanwhile_is_unchanged(folder: Folder, embedder: RecordingEmbedder) -> None:
    folder["a.txt"] = "one"
    folder["b.txt"] = "two"

    def before(_: int) -> None:
        embedder.before_batch = lambda _: None
        folder.index()

    embedder.before_batch = before
    report = folder.index()
    assert (report.unchanged, report.indexed, report.failed) == (2, 0, ())


def test_a_file_that_somebody_else_wrote_meanwhile_is_a_conflict(folder: Folder, embedder: RecordingEmbedder) -> None:
    folder["a.txt"] = "one"
    folder["b.txt"] = "two"

    def before(_: int) -> None:
        embedder.before_batch = lambda _: None
        folder.library.index_source(source("a.txt", "theirs"))

    embedder.before_batch = before
    report = folder.index()
    assert [(failed.source_id, failed.reason) for failed in report.failed] == [("a.txt", "conflict")]
    assert (report.indexed, folder.text("a.txt")) == (1, ["theirs"])


def test_a_tenant_removed_while_its_folder_is_embedded_stays_removed(
    folder: Folder, embedder: RecordingEmbedder
) -> None:
    folder["a.txt"] = "one"

    def before(_: int) -> None:
        folder.library.remove_tenant("t")

    embedder.before_batch = before
    assert folder.failures() == {"a.txt": "conflict"}
    assert folder.ids() == []


# The ceiling


def test_the_warning_counts_passages_that_are_to_be_written(folder: Folder) -> None:
    folder["a.jsonl"] = f'"{"x" * 60}"\n"short"\n'
    folder["b.txt"] = "y" * 60
    with pytest.warns(InputCeilingWarning) as caught:
        report = folder.index(max_chunk_chars=50)
    (warning,) = caught
    for part in ("index_folder", "2 of 3 passages", "50", "max_chars"):
        assert part in str(warning.message)
    assert warning.filename == __file__
    assert report.over_ceiling == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        folder.index(max_chunk_chars=50)


# Options


OPTIONS: list[tuple[str, Any, type[Exception]]] = [
    *[(name, bad, ValueError) for name in ("max_file_bytes", "max_chars", "attempts") for bad in (0, -1, 1.5, True)],
    *[("overlap_chars", bad, ValueError) for bad in (-1, 1.5, None)],
    *[("budget_chars", bad, ValueError) for bad in (-1, 1.5, True)],
    *[("price_per_million_tokens", bad, ValueError) for bad in (-1, math.nan, math.inf)],
    ("price_per_million_tokens", "1", TypeError),
    ("price_per_million_tokens", True, TypeError),
    ("max_concurrency", 0, ValueError),
    ("ttl", timedelta(0), ValueError),
    ("corpus", " ", ValueError),
    ("corpus", 5, ValueError),
    ("source_prefix", 5, TypeError),
    ("source_prefix", "\x00", ValueError),
    ("encoding", "klingon", LookupError),
    ("encoding", "hex", LookupError),
    ("encoding", None, TypeError),
    ("loaders", {"rst": len}, ValueError),
    ("loaders", {".": len}, ValueError),
    ("loaders", {5: len}, TypeError),
    ("loaders", {".rst": "x"}, TypeError),
    ("loaders", [".rst"], TypeError),
    ("include", 5, TypeError),
    ("include", [5], TypeError),
    ("exclude", None, TypeError),
    ("hidden", 1, TypeError),
    ("prune", "yes", TypeError),
    ("dry_run", None, TypeError),
    ("tier", "Hot", ValueError),
    ("acl_groups", [], ScopeError),
    ("tenant_id", "", ScopeError),
    ("kind", "", SourceError),
    ("metadata", {"x": None}, SourceError),
    ("cancel", 5, TypeError),
]


@pytest.mark.parametrize(("option", "value", "error"), OPTIONS, ids=str)
def test_an_option_that_breaks_a_rule_is_refused_before_anything(
    folder: Folder, embedder: RecordingEmbedder, option: str, value: Any, error: type[Exception]
) -> None:
    folder["a.txt"] = "one"
    with pytest.raises(error):
        folder.index(**{option: value})
    assert (embedder.calls, folder.ids()) == (0, [])


def test_a_path_must_be_an_existing_directory(folder: Folder) -> None:
    folder["a.txt"] = "one"
    with pytest.raises(FileNotFoundError):
        index_folder(folder.library, folder.path / "absent", tenant_id="t", acl_groups=["g"])
    with pytest.raises(NotADirectoryError):
        index_folder(folder.library, folder.path / "a.txt", tenant_id="t", acl_groups=["g"])


def test_an_empty_folder_is_zeros(folder: Folder) -> None:
    report = folder.index(prune=True)
    assert dataclasses.replace(report, seconds=0.0) == IndexReport(fingerprint="recording@16")
