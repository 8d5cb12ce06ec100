"""One embedder a collection, what it is called with, and opening (embedders.md: fingerprints, cases 4, 10, 24)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.library.doubles import RecordingEmbedder, RecordingStore, source

from stackroom import EmbedderError, EmbedderMismatch, Library, Scope, StoreError
from stackroom.embedders import Fingerprint, HashingEmbedder
from stackroom.stores import EmbeddedStore, MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

    from stackroom.stores import VectorStore


@pytest.mark.parametrize(
    ("name", "dimension", "problem"), [("b", 2, "id"), ("a", 3, "dimension"), ("b", 3, "dimension"), ("A", 2, "id")]
)
@pytest.mark.parametrize("is_empty", [True, False], ids=["empty", "filled"])
def test_embedders_case_4_a_collection_refuses_another_embedder(
    store: VectorStore, scope: Scope, name: str, dimension: int, problem: str, *, is_empty: bool
) -> None:
    library = Library(store, "library", RecordingEmbedder(name="a", dimension=2))
    library.index_source(source("s", "text"))
    if is_empty:
        library.remove_tenant("t")
    other = RecordingEmbedder(name=name, dimension=dimension)
    with pytest.raises(EmbedderMismatch) as caught:
        Library(store, "library", other)
    assert caught.value.problem == problem
    assert (caught.value.stored, caught.value.given) == (Fingerprint("a", 2), Fingerprint(name, dimension))
    for named in ("a@2", f"{name}@{dimension}", "reembed"):
        assert named in str(caught.value)
    assert other.calls == 0
    assert library.count(scope=scope) == (0 if is_empty else 1)


def test_a_mismatch_is_seen_before_anything_is_read_or_written(recording: RecordingStore) -> None:
    Library(recording, "library", RecordingEmbedder(name="a"))
    with pytest.raises(EmbedderMismatch):
        Library(recording, "library", RecordingEmbedder(name="b"))
    assert recording.asked == []


def test_dropping_a_collection_frees_it(store: VectorStore, scope: Scope) -> None:
    Library(store, "library", RecordingEmbedder(name="a")).index_source(source("s", "text"))
    store.drop_collection("library")
    library = Library(store, "library", RecordingEmbedder(name="b", dimension=3))
    assert library.count(scope=scope) == 0
    assert library.index_source(source("s", "text")).embedded == 1


def test_the_library_makes_the_collection_with_its_fingerprint(store: VectorStore) -> None:
    Library(store, "mine", RecordingEmbedder(name="a", dimension=3))
    spec = store.collection("mine")
    assert spec is not None
    assert (spec.dimension, spec.fingerprint) == (3, "a@3")


def test_a_failed_first_write_leaves_the_collection_usable(store: VectorStore) -> None:
    broken = RecordingEmbedder(answering=lambda _vectors: None)
    with pytest.raises(EmbedderError):
        Library(store, "library", broken).index_source(source("s", "text"))
    assert Library(store, "library", RecordingEmbedder()).index_source(source("s", "text")).passages == 1


def test_embedders_case_10_texts_come_in_batches_in_order(store: VectorStore, embedder: RecordingEmbedder) -> None:
    texts = [f"text {number}" for number in range(130)]
    Library(store, "library", embedder).index_source(source("s", *texts))
    assert [len(batch) for batch in embedder.batches] == [64, 64, 2]
    assert embedder.texts == texts
    assert all(type(batch) is tuple for batch in embedder.batches)


@pytest.mark.parametrize(
    ("batch_size", "max_batch", "sizes"),
    [(2, None, [2, 2, 1]), (5, None, [5]), (100, None, [5]), (4, 2, [2, 2, 1]), (2, 4, [2, 2, 1]), (1, 1, [1] * 5)],
)
def test_batch_size_is_lowered_to_what_the_embedder_bears(
    store: VectorStore, embedder: RecordingEmbedder, batch_size: int, max_batch: int | None, sizes: list[int]
) -> None:
    embedder.max_batch = max_batch  # type: ignore[attr-defined] # an optional member
    Library(store, "library", embedder, batch_size=batch_size).index_source(source("s", *"abcde"))
    assert [len(batch) for batch in embedder.batches] == sizes


@pytest.mark.parametrize("member", ["max_input_chars", "max_batch", "max_concurrency"])
@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "64", float("nan")])
def test_an_embedder_with_a_limit_that_is_none_is_refused(member: str, limit: Any) -> None:
    store, embedder = MemoryStore(), RecordingEmbedder()
    setattr(embedder, member, limit)
    with pytest.raises(EmbedderError):
        Library(store, "library", embedder)
    assert store.collection("library") is None


@pytest.mark.parametrize("method", ["embed_passages", "embed_query"])
def test_an_embedder_of_coroutines_is_refused(method: str) -> None:
    async def embed(_texts: Any) -> None: ...

    store, embedder = MemoryStore(), RecordingEmbedder()
    setattr(embedder, method, embed)
    with pytest.raises(EmbedderError):
        Library(store, "library", embedder)
    assert store.collection("library") is None


@pytest.mark.parametrize("given", [None, object(), "hashing", HashingEmbedder])
def test_what_is_no_embedder_is_refused(given: Any) -> None:
    with pytest.raises(EmbedderError):
        Library(MemoryStore(), "library", given)


def test_an_embedders_own_error_is_passed_on_unchanged(library: Library, embedder: RecordingEmbedder) -> None:
    error = EmbedderError("busy", retryable=True, retry_after=3.0, status=429)

    def fail(_number: int) -> None:
        raise error

    embedder.before_batch = fail
    with pytest.raises(EmbedderError) as caught:
        library.index_source(source("s", "text"))
    assert caught.value is error


def test_embedders_case_24_the_same_model_is_verified(library: Library, embedder: RecordingEmbedder) -> None:
    library.index_source(source("s", "one", "two", "three", "four"))
    embedder.batches.clear()
    assert library.verify_embedder() == pytest.approx(1.0, abs=1e-5)
    assert [len(batch) for batch in embedder.batches] == [3]
    assert set(embedder.texts) <= {"one", "two", "three", "four"}
    assert embedder.queries == []


def test_embedders_case_24_another_model_of_the_same_name_is_refused(
    library: Library, embedder: RecordingEmbedder
) -> None:
    library.index_source(source("s", "secretword", "two"))
    embedder.answering = lambda vectors: [[*vector[1:], vector[0] + 0.5] for vector in vectors]
    with pytest.raises(EmbedderMismatch) as caught:
        library.verify_embedder()
    assert caught.value.problem == "vectors"
    assert caught.value.stored == caught.value.given == embedder.fingerprint
    assert "secretword" not in str(caught.value)


def test_one_vector_that_differs_is_enough(store: VectorStore) -> None:
    embedder = RecordingEmbedder({"one": [1, 0], "two": [0, 1]})
    library = Library(store, "library", embedder)
    library.index_source(source("s", "one", "two"))
    embedder.vectors["one"] = [0.995, 0.0998749]
    assert library.verify_embedder() == pytest.approx(0.995, abs=1e-5)
    embedder.vectors["one"] = [0.98, 0.199]
    with pytest.raises(EmbedderMismatch, match=r"0\.98"):
        library.verify_embedder()


def test_lengths_of_vectors_do_not_matter_to_a_verification(library: Library, embedder: RecordingEmbedder) -> None:
    library.index_source(source("s", "one", "two"))
    embedder.answering = lambda vectors: [[number * 7 for number in vector] for vector in vectors]
    assert library.verify_embedder() == pytest.approx(1.0, abs=1e-5)


def test_without_passages_there_is_nothing_to_verify(library: Library, embedder: RecordingEmbedder) -> None:
    assert library.verify_embedder() == 1.0
    assert embedder.calls == 0


@pytest.mark.parametrize(("sample", "embedded"), [(1, 1), (2, 2), (10, 2)])
def test_a_verification_takes_passages_of_one_tenant(
    library: Library, embedder: RecordingEmbedder, sample: int, embedded: int
) -> None:
    for tenant_id in ("t", "u"):
        library.index_source(source("s", f"one of {tenant_id}", f"two of {tenant_id}", tenant_id=tenant_id))
    embedder.batches.clear()
    library.verify_embedder(sample=sample)
    assert [len(batch) for batch in embedder.batches] == [embedded]
    assert len({text[-1] for text in embedder.texts}) == 1


def test_verification_is_never_run_unasked(tmp_path: Path) -> None:
    with Library.open(tmp_path / "d", embedder=RecordingEmbedder()) as library:
        library.index_source(source("s", "text"))
    asked, unasked = RecordingEmbedder(), RecordingEmbedder()
    with Library.open(tmp_path / "d", embedder=unasked):
        assert unasked.calls == 0
    with Library.open(tmp_path / "d", embedder=asked, verify_embedder=True):
        assert asked.batches == [("text",)]
    other = RecordingEmbedder(answering=lambda vectors: [[*vector[1:], vector[0] + 0.5] for vector in vectors])
    with pytest.raises(EmbedderMismatch):
        Library.open(tmp_path / "d", embedder=other, verify_embedder=True)
    with Library.open(tmp_path / "d", embedder=RecordingEmbedder()) as library:
        assert library.count(scope=Scope("t", ["g"])) == 1


def test_open_takes_a_collection_and_the_librarys_options(tmp_path: Path, embedder: RecordingEmbedder) -> None:
    with Library.open(tmp_path / "d", embedder=embedder, collection="mine", batch_size=2, exact=True) as library:
        library.index_source(source("s", "one", "two", "three"))
        assert [len(batch) for batch in embedder.batches] == [2, 1]
    store = EmbeddedStore(tmp_path / "d")
    assert store.collection("mine") is not None
    assert store.collection("library") is None
    store.close()


def test_open_refuses_an_option_that_nobody_knows(tmp_path: Path, embedder: RecordingEmbedder) -> None:
    with pytest.raises(TypeError):
        Library.open(tmp_path / "d", embedder=embedder, no_such_option=1)


def test_close_closes_the_store_that_open_made(tmp_path: Path, embedder: RecordingEmbedder, scope: Scope) -> None:
    library = Library.open(tmp_path / "d", embedder=embedder)
    library.close()
    library.close()
    with pytest.raises(StoreError):
        library.count(scope=scope)


def test_close_closes_no_other_store(store: VectorStore, embedder: RecordingEmbedder, scope: Scope) -> None:
    with Library(store, "library", embedder) as library:
        library.index_source(source("s", "text"))
        library.search("text", scope=scope)
    assert Library(store, "library", embedder).count(scope=scope) == 1
