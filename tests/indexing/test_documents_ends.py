"""index_documents: callbacks, cancels, failures, and what is left then."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from tests.indexing.documents import ids, numbered
from tests.library.doubles import PATIENCE, RecordingEmbedder, RecordingStore, source

from stackroom import (
    Conflict,
    EmbedderError,
    EmbedderMismatch,
    IndexingCancelled,
    Library,
    Scope,
    StoreUnavailable,
)
from stackroom.embedders import HashingEmbedder
from stackroom.indexing import CancelToken, EmbeddingReport, IndexReport, Progress, index_documents
from stackroom.stores import EmbeddedStore, MemoryStore

# Callbacks


def test_on_embedding_is_told_once_what_was_embedded(library: Library, embedder: RecordingEmbedder) -> None:
    embedder.tokens_used = 5  # type: ignore[attr-defined] # an optional member
    embedder.before_batch = lambda _: setattr(embedder, "tokens_used", embedder.tokens_used + 10)  # type: ignore[attr-defined]
    told: list[EmbeddingReport] = []
    index_documents(library, numbered(3), on_embedding=told.append)
    (report,) = told
    assert (report.count, report.dimension, report.model, report.provider) == (3, 16, "recording", "custom")
    assert (report.input_kind, report.tokens) == ("passage", 20)
    assert report.seconds >= 0


def test_on_embedding_is_silent_when_nothing_was_embedded(library: Library) -> None:
    index_documents(library, numbered(3))
    index_documents(library, numbered(3), on_embedding=lambda _: pytest.fail("called"))


def test_progress_grows_to_the_total_on_the_calling_thread(library: Library) -> None:
    told: list[tuple[Progress, int]] = []
    index_documents(library, numbered(7), on_progress=lambda done: told.append((done, threading.get_ident())))
    done = [progress.done for progress, _ in told]
    assert done == sorted(done)
    assert len(done) >= 4
    assert told[-1][0] == Progress(7, 7, 7, 0)
    assert {thread for _, thread in told} == {threading.get_ident()}


def test_what_a_callback_raises_is_logged_and_changes_nothing(
    library: Library, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_: object) -> None:
        raise RuntimeError("own")

    assert int(index_documents(library, numbered(3), on_progress=fails, on_embedding=fails)) == 3
    assert "callback" in caplog.text


# The end before the end


def report_of(error: BaseException) -> IndexReport:
    report = getattr(error, "report", None)
    assert isinstance(report, IndexReport)
    return report


def test_a_token_cancelled_before_the_call_embeds_nothing(library: Library, embedder: RecordingEmbedder) -> None:
    token = CancelToken()
    token.cancel()
    with pytest.raises(IndexingCancelled) as caught:
        index_documents(library, numbered(3), cancel=token)
    report = report_of(caught.value)
    assert (report.indexed, report.remaining, report.stopped, embedder.calls) == (0, 3, "cancelled", 0)


def test_what_was_embedded_when_the_cancel_came_is_written(
    library: Library, embedder: RecordingEmbedder, everyone: Scope
) -> None:
    token = CancelToken()
    told: list[EmbeddingReport] = []
    embedder.before_batch = lambda _: token.cancel()
    with pytest.raises(IndexingCancelled) as caught:
        index_documents(library, numbered(6), cancel=token, max_concurrency=1, on_embedding=told.append)
    report = report_of(caught.value)
    assert (report.indexed, report.remaining, embedder.calls) == (2, 4, 1)
    assert ids(library, everyone) == ["d000", "d001"]
    assert told[0].count == 2


def test_an_embedders_error_while_cancelled_counts_as_the_cancel(library: Library, embedder: RecordingEmbedder) -> None:
    token = CancelToken()

    def before(_: int) -> None:
        token.cancel()
        raise RuntimeError("broken off")

    embedder.before_batch = before
    with pytest.raises(IndexingCancelled) as caught:
        index_documents(library, numbered(3), cancel=token)
    assert report_of(caught.value).stopped == "cancelled"


def test_the_token_is_handed_to_an_embedder_that_takes_it(store: MemoryStore) -> None:
    given: list[object] = []

    class Takes(HashingEmbedder):
        def embed_passages(self, texts: Any, *, cancel: object = None) -> Any:
            given.append(cancel)
            return super().embed_passages(texts)

    token = CancelToken()
    index_documents(Library(store, "library", Takes()), numbered(1), cancel=token)
    assert given == [token]


def failing_at(number: int) -> Callable[[int], None]:
    def before(call: int) -> None:
        if call == number:
            raise RuntimeError("down")

    return before


def test_batches_embedded_before_a_failure_are_written_and_no_new_call_starts(
    library: Library, embedder: RecordingEmbedder, everyone: Scope
) -> None:
    embedder.before_batch = failing_at(3)
    told: list[EmbeddingReport] = []
    with pytest.raises(EmbedderError) as caught:
        index_documents(library, numbered(10), max_concurrency=1, on_embedding=told.append)
    report = report_of(caught.value)
    assert (report.indexed, report.remaining, report.stopped) == (4, 6, "error")
    assert (len(embedder.batches), told[0].count) == (3, 4)
    assert ids(library, everyone) == ["d000", "d001", "d002", "d003"]


def test_running_again_costs_only_what_was_not_written(library: Library, embedder: RecordingEmbedder) -> None:
    embedder.before_batch = failing_at(3)
    with pytest.raises(EmbedderError):
        index_documents(library, numbered(10), max_concurrency=1)
    again = index_documents(library, numbered(10))
    assert (again.embedded, again.reused, again.new, again.changed) == (6, 4, 6, 4)


def test_calls_in_flight_are_awaited_and_what_they_embedded_is_written(store: MemoryStore, everyone: Scope) -> None:
    failed = threading.Event()

    def before(number: int) -> None:
        if number == 1:
            failed.set()
            raise RuntimeError("down")
        failed.wait(PATIENCE)

    class Numbered(RecordingEmbedder):
        def embed_passages(self, texts: Any) -> Any:
            self.batches.append(texts)
            before(int(texts[0].split()[1]) // 2 + 1)
            return [self.vector(text) for text in texts]

    embedder = Numbered()
    with pytest.raises(EmbedderError) as caught:
        index_documents(Library(store, "library", embedder, batch_size=2), numbered(4), max_concurrency=2)
    assert len(embedder.batches) >= 1
    written = ids(Library(store, "library", embedder), everyone)
    assert written == (["d002", "d003"] if len(embedder.batches) == 2 else [])
    assert report_of(caught.value).indexed == len(written)


def test_an_unavailable_store_ends_the_call_with_a_report(embedder: RecordingEmbedder) -> None:
    class Down(RecordingStore):
        def replace(self, *arguments: Any, **options: Any) -> int:
            if self.names().count("replace") == 2:
                raise StoreUnavailable("down")
            return super().replace(*arguments, **options)

    library = Library(Down(), "library", embedder, batch_size=2)
    with pytest.raises(StoreUnavailable) as caught:
        index_documents(library, numbered(8), max_concurrency=1)
    assert (report_of(caught.value).indexed, report_of(caught.value).stopped) == (4, "error")


def test_a_document_that_somebody_else_wrote_meanwhile_is_a_conflict_and_the_rest_of_its_batch_is_written(
    library: Library, embedder: RecordingEmbedder, everyone: Scope
) -> None:
    theirs = source("d000", "theirs", tenant_id="_global", acl_groups=["everyone"])

    def before(_: int) -> None:
        embedder.before_batch = lambda _: None
        library.index_source(theirs)

    embedder.before_batch = before
    with pytest.raises(Conflict) as caught:
        index_documents(library, numbered(2))
    assert report_of(caught.value).indexed == 1
    assert library.passages("d000", scope=everyone)[0].text == "theirs"
    assert library.passages("d001", scope=everyone)[0].text == "text 1"


def test_a_removal_while_a_document_is_embedded_is_not_undone(
    library: Library, embedder: RecordingEmbedder, everyone: Scope
) -> None:
    def before(_: int) -> None:
        library.remove_tenant("_global")

    embedder.before_batch = before
    with pytest.raises(Conflict):
        index_documents(library, numbered(2))
    assert ids(library, everyone) == []


def test_another_embedders_collection_is_met_before_the_first_embedding(store: MemoryStore, library: Library) -> None:
    store.drop_collection("library")
    Library(store, "library", HashingEmbedder(8))
    with pytest.raises(EmbedderMismatch) as caught:
        index_documents(library, numbered(2), on_embedding=lambda _: pytest.fail("embedded"))
    assert report_of(caught.value).remaining == 2


def test_sources_of_a_batch_are_written_in_one_step(embedder: RecordingEmbedder) -> None:
    store = RecordingStore()
    index_documents(Library(store, "library", embedder), numbered(64))
    assert store.names().count("replace") == 1


def test_many_documents_go_into_the_embedded_store(tmp_path: Any, everyone: Scope) -> None:
    with closing(EmbeddedStore(tmp_path)) as store:
        library = Library(store, "library", HashingEmbedder(8))
        assert int(index_documents(library, numbered(300))) == 300
        assert library.count(scope=everyone) == 300
