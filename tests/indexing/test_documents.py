"""index_documents: every rule of its page."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from tests.indexing.documents import ids, numbered
from tests.library.doubles import PATIENCE, HandClock, RecordingEmbedder, source

from stackroom import (
    InputCeilingWarning,
    Library,
    Scope,
    ScopeError,
    SourceError,
)
from stackroom.filters import Exists
from stackroom.indexing import Document, index_documents
from stackroom.stores import MemoryStore


def test_each_document_is_a_source_of_one_passage_exactly_as_given(library: Library, everyone: Scope) -> None:
    report = index_documents(library, [Document("a", " one\r\n"), Document("b", text="two"), Document("c", "three")])
    assert int(report) == report.indexed == report.new == 3
    assert report.ok
    (hit,) = library.passages("a", scope=everyone)
    assert (hit.id, hit.text, hit.title, hit.folder_id, hit.tags) == ("a#0", " one\r\n", None, None, ())


def test_text_counts_where_content_is_absent_and_content_wins(library: Library, everyone: Scope) -> None:
    documents: list[dict[str, Any]] = [
        {"id": "a", "text": "x"},
        {"id": "b", "content": "y", "text": "z"},
        {"id": "c", "content": None, "text": "w"},
    ]
    index_documents(library, documents)
    assert [library.passages(name, scope=everyone)[0].text for name in "abc"] == ["x", "y", "w"]


def refused(
    library: Library, embedder: RecordingEmbedder, error: type[Exception], documents: Any, **options: Any
) -> str:
    """Return the message of a refusal that came before anything was embedded, written or called back."""
    called: list[object] = []
    with pytest.raises(error) as caught:
        index_documents(library, documents, **{"on_progress": called.append, **options})
    assert (embedder.calls, called) == (0, [])
    assert library._store.count("library", where=Exists("tenantId")) == 0  # noqa: SLF001 - whatever the scope
    return str(caught.value)


@pytest.mark.parametrize("blank", ["", " \n", "\u200b", None])
def test_an_empty_passage_refuses_the_call_and_no_text_is_shown(
    library: Library, embedder: RecordingEmbedder, blank: str | None
) -> None:
    message = refused(library, embedder, SourceError, [{"id": "good", "text": "secret"}, {"id": "bad", "text": blank}])
    assert "'bad'" in message
    assert "content" in message
    assert "text" in message
    assert "secret" not in message


def test_a_blank_content_wins_over_a_text_and_is_refused(library: Library, embedder: RecordingEmbedder) -> None:
    refused(library, embedder, SourceError, [{"id": "a", "content": " ", "text": "word"}])


def test_at_most_five_empty_documents_are_named(library: Library, embedder: RecordingEmbedder) -> None:
    message = refused(library, embedder, SourceError, [{"id": name * 3, "text": ""} for name in "abcdefgh"])
    assert message.startswith("8 documents ('aaa', 'bbb', 'ccc', 'ddd', 'eee', and 3 more)")
    assert "fff" not in message


def test_an_id_twice_refuses_the_call_whatever_the_texts(library: Library, embedder: RecordingEmbedder) -> None:
    message = refused(library, embedder, SourceError, [{"id": name, "text": "same"} for name in "aba"])
    assert message.startswith("1 id ('a') is given more than once")
    message = refused(library, embedder, SourceError, [{"id": name, "text": "same"} for name in "abab"])
    assert message.startswith("2 ids ('a', 'b') are given more than once")


@pytest.mark.parametrize("key", ["_id", "source_id", "doc_id"])
def test_another_name_of_an_id_is_told_from_a_missing_one(
    library: Library, embedder: RecordingEmbedder, key: str
) -> None:
    message = refused(library, embedder, SourceError, [{"id": "a", "text": "x"}, {key: "b", "text": "y"}])
    assert message == f"document 1 has the key '{key}', which is none: call its id 'id'"


def test_ids_are_complained_of_before_doubles_and_doubles_before_empty_passages(
    library: Library, embedder: RecordingEmbedder
) -> None:
    bad_id, doubled, empty = {"id": 5, "text": "x"}, {"id": "twice", "text": "x"}, {"id": "empty"}
    assert "the id of document 3" in refused(library, embedder, SourceError, [empty, doubled, doubled, bad_id])
    assert "twice" in refused(library, embedder, SourceError, [empty, doubled, doubled])


@pytest.mark.parametrize(
    "bad", [{}, {"id": None}, {"id": ""}, {"id": " "}, {"id": 7}, {"id": "x\x00"}, {"id": "x" * 513}]
)
def test_an_id_that_is_none_is_refused_with_its_position(
    library: Library, embedder: RecordingEmbedder, bad: dict[str, Any]
) -> None:
    message = refused(library, embedder, SourceError, [{"id": "a", "text": "x"}, {"text": "y", **bad}])
    assert "document 1" in message


@pytest.mark.parametrize(
    "bad",
    [
        "a text",
        5,
        None,
        ("a", "b"),
        {"id": "b", "text": "x", "title": "T"},
        {"id": "b", "text": 5},
        {"id": "b", "content": b"x"},
        {"id": "b", "text": "x\x00"},
        {"id": "b", "text": "x", "metadata": {"a": None}},
        {"id": "b", "text": "x", "metadata": [1]},
    ],
    ids=str,
)
def test_what_is_no_document_is_refused(library: Library, embedder: RecordingEmbedder, bad: Any) -> None:
    message = refused(library, embedder, SourceError, [{"id": "a", "text": "x"}, bad])
    assert "document 1" in message


@pytest.mark.parametrize("wrong", [{"text": "se\x00cret"}, {"text": "x", "metadata": {"key": None}}], ids=str)
def test_what_no_source_may_hold_is_refused_by_position_and_id(
    library: Library, embedder: RecordingEmbedder, wrong: dict[str, Any]
) -> None:
    documents = [{"id": "a", "text": "x"}, {"id": "b", "text": "y"}, {"id": "the one", **wrong}]
    message = refused(library, embedder, SourceError, documents)
    assert "document 2 ('the one')" in message
    assert "cret" not in message


def test_an_unknown_key_is_named_and_metadata_advised(library: Library, embedder: RecordingEmbedder) -> None:
    message = refused(library, embedder, SourceError, [{"id": "b", "text": "x", "author": "A"}])
    assert "'author'" in message
    assert "metadata" in message


@pytest.mark.parametrize(
    "documents", ["text", b"text", {"id": "a", "text": "x"}, Document("a", "x"), 5, None], ids=repr
)
def test_what_is_no_iterable_of_documents_is_a_type_error(
    library: Library, embedder: RecordingEmbedder, documents: Any
) -> None:
    refused(library, embedder, TypeError, documents)


OPTIONS: list[tuple[str, Any, type[Exception]]] = [
    ("ttl", timedelta(0), ValueError),
    ("ttl", timedelta(seconds=-1), ValueError),
    ("ttl", timedelta.max, ValueError),
    ("ttl", 3600, TypeError),
    ("tier", "Hot", ValueError),
    ("tier", "", ValueError),
    ("tier", 5, ValueError),
    *[("max_concurrency", bad, ValueError) for bad in (0, -1, 2.5, True, math.nan, None, "8")],
    *[("max_chunk_chars", bad, ValueError) for bad in (0, -1, 2.5, True)],
    ("cancel", True, TypeError),
    ("on_embedding", 5, TypeError),
    ("on_progress", "x", TypeError),
    ("tenant_id", "", ScopeError),
    ("acl_groups", [], ScopeError),
    ("acl_groups", "everyone", ScopeError),
    ("kind", " ", SourceError),
]


@pytest.mark.parametrize(("option", "value", "error"), OPTIONS, ids=str)
def test_an_option_that_breaks_a_rule_is_refused_before_the_documents_are_read(
    library: Library, embedder: RecordingEmbedder, option: str, value: Any, error: type[Exception]
) -> None:
    def unread() -> Iterator[Document]:
        raise AssertionError("read")
        yield

    with pytest.raises(error):
        index_documents(library, unread(), **{option: value})
    assert embedder.calls == 0


def test_what_is_no_library_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="worker thread"):
        index_documents(MemoryStore(), [])  # type: ignore[arg-type] # that is what is tested


def test_a_generator_is_read_once_and_what_it_raises_passes(library: Library, embedder: RecordingEmbedder) -> None:
    assert int(index_documents(library, (item for item in numbered(5)))) == 5

    def fails() -> Iterator[Document]:
        yield Document("x", "x")
        raise KeyError("own")

    calls = embedder.calls
    with pytest.raises(KeyError, match="own"):
        index_documents(library, fails())
    assert embedder.calls == calls


def test_no_documents_are_zeros_and_no_callback(library: Library) -> None:
    called: list[object] = []
    report = index_documents(library, [], on_progress=called.append, on_embedding=called.append)
    assert (report.indexed, report.passages, report.remaining, report.stopped, called) == (0, 0, 0, None, [])
    assert report.fingerprint == "recording@16"


def test_metadata_is_copied(library: Library, everyone: Scope) -> None:
    metadata: dict[str, Any] = {"tags_of_mine": ["a"]}
    index_documents(library, [Document("a", "x", metadata=metadata)])
    metadata["tags_of_mine"].append("b")
    info = library.source("a", scope=everyone)
    assert info is not None
    assert info.metadata == {"tags_of_mine": ["a"]}


def test_the_defaults_are_read_back_by_their_tenant_and_by_no_other(library: Library, everyone: Scope) -> None:
    index_documents(library, numbered(1))
    assert ids(library, everyone) == ["d000"]
    assert ids(library, Scope("t", ["everyone"])) == []
    assert ids(library, Scope("_global", ["g"])) == []


def test_tier_kind_tenant_and_groups_are_those_given(library: Library) -> None:
    index_documents(library, numbered(1), tenant_id="t", acl_groups=["g", "h"], kind="note", tier="hot")
    info = library.source("d000", scope=Scope("t", ["h"]))
    assert info is not None
    assert (info.tier, info.kind, info.acl_groups) == ("hot", "note", ("g", "h"))
    assert [hit.source_id for hit in library.search("text", scope=Scope("t", ["g"]), tiers=["hot"])] == ["d000"]
    assert not library.search("text", scope=Scope("t", ["g"]), tiers=["cold"])


def test_ttl_counts_from_the_beginning_of_the_call_for_all_alike(
    store: MemoryStore, clock: HandClock, everyone: Scope
) -> None:
    began = clock.now

    def before(_: int) -> None:
        clock.forward(minutes=10)

    embedder = RecordingEmbedder(before_batch=before)
    library = Library(store, "library", embedder, batch_size=1, clock=clock)
    index_documents(library, numbered(3), ttl=timedelta(hours=1))
    assert {info.expires_at for info in library.sources(scope=everyone)} == {began + timedelta(hours=1)}
    clock.now = began + timedelta(hours=1)
    assert ids(library, everyone) == []


def test_the_same_call_again_embeds_nothing(library: Library, embedder: RecordingEmbedder) -> None:
    index_documents(library, numbered(3))
    calls = embedder.calls
    again = index_documents(library, numbered(3))
    assert (again.indexed, again.changed, again.new, again.embedded, again.reused) == (3, 3, 0, 0, 3)
    assert embedder.calls == calls


def test_an_id_that_is_there_is_replaced_whole_and_others_stay(library: Library, everyone: Scope) -> None:
    library.index_source(source("d000", "one", "two", tenant_id="_global", acl_groups=["everyone"], tags=["old"]))
    index_documents(library, numbered(1))
    index_documents(library, [Document("other", "x")])
    assert [hit.text for hit in library.passages("d000", scope=everyone)] == ["text 0"]
    assert ids(library, everyone) == ["d000", "other"]


def test_batches_run_across_documents(store: MemoryStore, embedder: RecordingEmbedder) -> None:
    index_documents(Library(store, "library", embedder), numbered(130))
    assert sorted(map(len, embedder.batches)) == [2, 64, 64]


def test_vectors_belong_to_their_text_whatever_order_calls_finish_in(store: MemoryStore, everyone: Scope) -> None:
    last = threading.Event()

    def before(number: int) -> None:
        last.set() if number == 3 else last.wait(PATIENCE)

    library = Library(store, "library", RecordingEmbedder(before_batch=before, dimension=64), batch_size=2)
    index_documents(library, numbered(6), max_concurrency=3)
    assert last.is_set()
    for number in range(6):
        hits = library.search(f"text {number}", scope=everyone, mode="dense", top_k=1)
        assert (hits[0].text, round(hits[0].score, 5)) == (f"text {number}", 1.0)


class Counting(RecordingEmbedder):
    """Counts how many calls it is in at a time; the first ones wait for `expected` to meet, if there are so many."""

    def __init__(self, expected: int, **options: Any) -> None:
        super().__init__(**options)
        self.barrier = threading.Barrier(expected)
        self.now = self.most = 0
        self.lock = threading.Lock()

    def embed_passages(self, texts: Any) -> Any:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.barrier.wait(PATIENCE)
        with self.lock:
            self.now -= 1
        return super().embed_passages(texts)


def test_so_many_calls_run_at_a_time_and_no_more(store: MemoryStore) -> None:
    embedder = Counting(3)
    index_documents(Library(store, "library", embedder, batch_size=1), numbered(12), max_concurrency=3)
    assert embedder.most == 3


def test_max_concurrency_is_lowered_to_the_embedders(store: MemoryStore) -> None:
    embedder = Counting(1)
    embedder.max_concurrency = 1  # type: ignore[attr-defined] # an optional member
    index_documents(Library(store, "library", embedder, batch_size=1), numbered(6))
    assert embedder.most == 1


# Ceiling


def test_one_warning_says_how_many_texts_are_over_the_ceiling(library: Library, everyone: Scope) -> None:
    texts = ["a" * 1500, "b" * 1500, "c" * 1000]
    with pytest.warns(InputCeilingWarning) as caught:
        report = index_documents(library, [Document(text[0], text) for text in texts], max_chunk_chars=1000)
    (warning,) = caught
    for part in ("index_documents", "2 of 3 documents", "1000", "max_chunk_chars", "chunk_document"):
        assert part in str(warning.message)
    assert warning.filename == __file__
    assert report.over_ceiling == 2
    assert library.passages("a", scope=everyone)[0].text == texts[0]


def test_the_ceiling_is_the_embedders_or_two_thousand(store: MemoryStore, embedder: RecordingEmbedder) -> None:
    library = Library(store, "library", embedder)
    index_documents(library, [Document("a", "x" * 2000)])
    with pytest.warns(InputCeilingWarning, match="2000"):
        index_documents(library, [Document("a", "x" * 2001)])
    embedder.max_input_chars = 10
    declared = Library(store, "library", embedder)
    with pytest.warns(InputCeilingWarning, match=r"10 characters \(the embedder recording\)"):
        index_documents(declared, [Document("a", "x" * 11)])


def test_the_warning_comes_before_the_first_embedding(library: Library, embedder: RecordingEmbedder) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputCeilingWarning):
            index_documents(library, [Document("a", "xx")], max_chunk_chars=1)
    assert embedder.calls == 0
