"""index_folder: embedders and stores that fail, runs that go on, others who write, the ceiling."""

from __future__ import annotations

import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
from tests.indexing import folders
from tests.indexing.folders import Folder, counts
from tests.library.doubles import PATIENCE, RecordingEmbedder, RecordingStore, source

from stackroom import (
    EmbedderError,
    EmbedderMismatch,
    IndexingCancelled,
    InputCeilingWarning,
    Library,
    Scope,
    StoreUnavailable,
)
from stackroom.embedders import HashingEmbedder
from stackroom.indexing import CancelToken, IndexReport, index_folder
from stackroom.stores import MemoryStore

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
    with pytest.raises(EmbedderError, match="busy"):
        folder.index(max_concurrency=1)
    assert embedder.batches == [("a", "b")]


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


class Answering(RecordingEmbedder):
    """Refuses every batch that holds a bad text, as a server does."""

    def __init__(self, status: int | None, words: str = "no", refuses: str = "bad") -> None:
        super().__init__()
        self.status = status
        self.words = words
        self.refuses = refuses

    def embed_passages(self, texts: Any) -> Any:
        vectors = super().embed_passages(texts)
        if any(self.refuses in text for text in texts):
            raise EmbedderError(self.words, status=self.status)
        return vectors


@pytest.mark.parametrize("status", [302, 401, 402, 403, 404, 405, 409, 410, 415, 429, 451, 501])
def test_what_is_no_texts_fault_ends_the_run_at_the_first_call(tmp_path: Path, status: int) -> None:
    embedder = Answering(status, "the key is refused", refuses="")
    folder = Folder(tmp_path, Library(MemoryStore(), "library", embedder))
    folder["a.txt"] = "one\n\n" * 2_000
    folder["b.txt"] = "two"
    with pytest.raises(EmbedderError, match="the key is refused") as caught:
        folder.index(max_concurrency=1)
    assert caught.value.status == status
    report = caught.value.report
    assert isinstance(report, IndexReport)
    assert (report.stopped, report.failed, report.remaining) == ("error", (), 2)
    assert len(embedder.batches) == 1


@pytest.mark.parametrize("status", [None, 400, 413, 422])
def test_what_may_be_a_texts_fault_is_looked_for_and_its_reason_told(tmp_path: Path, status: int | None) -> None:
    embedder = Answering(status, "the input\nis \x1b[1m too long")
    folder = Folder(tmp_path, Library(MemoryStore(), "library", embedder))
    folder["a.txt"] = "bad"
    folder["b.txt"] = "good"
    report = folder.index()
    assert [failed.source_id for failed in report.failed] == ["a.txt"]
    assert "(the input is [1m too long)" in report.failed[0].message
    assert report.new == 1


def test_the_reason_of_an_embedder_without_words_is_the_kind_of_its_exception(tmp_path: Path) -> None:
    folder = Folder(tmp_path, Library(MemoryStore(), "library", Refusing()))
    folder["a.txt"] = "bad"
    assert "it failed with ValueError" in folder.index().failed[0].message


@pytest.mark.parametrize("text", ["bad", "what is bad here stays between us"])
def test_a_reason_that_repeats_the_text_is_not_told(tmp_path: Path, text: str) -> None:
    embedder = Answering(400, f"not to be embedded: '{text[:25]}'")
    folder = Folder(tmp_path, Library(MemoryStore(), "library", embedder))
    folder["a.txt"] = text
    message = folder.index().failed[0].message
    assert text[:25] not in message
    assert "status 400" in message


def test_a_files_other_texts_are_not_embedded_once_one_is_refused(tmp_path: Path) -> None:
    embedder = Answering(400)
    folder = Folder(tmp_path, Library(MemoryStore(), "library", embedder, batch_size=8))
    folder["a.jsonl"] = "".join(f'"bad {number}"\n' for number in range(64))
    folder["b.txt"] = "good"
    report = folder.index(max_concurrency=1)
    assert [failed.source_id for failed in report.failed] == ["a.jsonl"]
    assert report.new == 1
    assert [len(batch) for batch in embedder.batches] == [8, 4, 2, 1, 1]


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
    assert warning.filename == folders.__file__
    assert report.over_ceiling == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        folder.index(max_chunk_chars=50)


def test_a_turn_over_the_ceiling_is_warned_of_however_passages_are_cut(folder: Folder) -> None:
    folder["a.vtt"] = f"WEBVTT\n\n00:00.000 --> 00:01.000\n{'word ' * 1000}\n"
    with pytest.warns(InputCeilingWarning, match="1 of 1 passages"):
        assert folder.index(max_chunk_chars=2000).over_ceiling == 1


# A write that waits for its next attempt


class BusyAtFirst(MemoryStore):
    """Refuses so many writes, and calls back before each."""

    def __init__(self, times: int, before: Any) -> None:
        super().__init__()
        self._left, self._before = times, before

    def replace(self, *given: Any, **options: Any) -> int:
        self._before()
        if self._left:
            self._left -= 1
            raise StoreUnavailable("busy")
        return super().replace(*given, **options)


def six_files(folder: Folder) -> None:
    for number in range(6):
        folder[f"f{number}.txt"] = f"text {number}"


def test_a_cancel_meanwhile_ends_the_wait_and_what_is_embedded_is_written(folder: Folder) -> None:
    six_files(folder)
    token = CancelToken()
    library = Library(BusyAtFirst(2, token.cancel), "library", HashingEmbedder(16), batch_size=2)
    with pytest.raises(IndexingCancelled) as caught:
        index_folder(library, folder.path, tenant_id="t", acl_groups=["g"], cancel=token)
    report = caught.value.report
    assert isinstance(report, IndexReport)
    assert (report.stopped, report.indexed >= 2, report.indexed + report.remaining) == ("cancelled", True, 6)
    assert library.count(scope=Scope("t", ["g"])) == report.indexed


def test_an_embedder_that_fails_meanwhile_is_told_and_what_is_embedded_is_written(folder: Folder) -> None:
    six_files(folder)
    waits = threading.Event()

    def fail_later(number: int) -> None:
        if number > 1:
            assert waits.wait(PATIENCE)
            raise EmbedderError("down")

    embedder = RecordingEmbedder(before_batch=fail_later)
    library = Library(BusyAtFirst(1, waits.set), "library", embedder, batch_size=2)
    with pytest.raises(EmbedderError, match="down") as caught:
        index_folder(library, folder.path, tenant_id="t", acl_groups=["g"], max_concurrency=2)
    report = caught.value.report
    assert isinstance(report, IndexReport)
    assert (report.stopped, report.indexed) == ("error", 2)
    assert library.count(scope=Scope("t", ["g"])) == 2
