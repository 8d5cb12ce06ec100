"""CachingEmbedder: what was embedded once is not embedded again, and nothing but vectors is at stake with its file."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import sys
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from stackroom import EmbedderError, Library, Scope, Source
from stackroom._cancel import CancelToken
from stackroom.embedders import CachingEmbedder, Embedder, Fingerprint, FunctionEmbedder, HashingEmbedder, _vector_file
from stackroom.stores import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Watched:
    """Says what it was asked; a vector tells the text's length."""

    max_input_chars = 100
    max_batch = 7

    def __init__(self, name: str = "watched", dimension: int = 2) -> None:
        self.fingerprint = Fingerprint(name, dimension)
        self.asked: list[Any] = []
        self.cancel: object = None

    def embed_passages(self, texts: Sequence[str], *, cancel: object = None) -> list[list[float]]:
        self.asked.append(tuple(texts))
        self.cancel = cancel
        return [[len(text), *[1.0] * (self.fingerprint.dimension - 1)] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        self.asked.append(text)
        return [-len(text), *[1.0] * (self.fingerprint.dimension - 1)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "vectors.db"


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def caching(watched: Watched, path: Path) -> Iterator[CachingEmbedder]:
    made = CachingEmbedder(watched, path)
    yield made
    made.close()


def test_row_23_only_the_misses_are_passed_on_in_order_each_once(caching: CachingEmbedder, watched: Watched) -> None:
    assert caching.embed_passages(("a", "bb", "a")).tolist() == [[1, 1], [2, 1], [1, 1]]
    assert caching.embed_passages(("bb", "ccc")).tolist() == [[2, 1], [3, 1]]
    assert watched.asked == [("a", "bb"), ("ccc",)]


def test_without_misses_there_is_no_call(caching: CachingEmbedder, watched: Watched) -> None:
    for _ in range(2):
        assert caching.embed_passages(("a",)).dtype == np.float32
        assert caching.embed_query("a").tolist() == [-1, 1]
    assert watched.asked == [("a",), "a"]


def test_what_was_kept_is_there_after_closing_and_for_another_handle(path: Path, watched: Watched) -> None:
    for _ in range(2):
        caching = CachingEmbedder(watched, path)
        caching.embed_passages(("a",))
        other = CachingEmbedder(watched, path)
        other.embed_passages(("a",))
        caching.close()
        other.close()
    assert watched.asked == [("a",)]


def test_another_fingerprint_never_hits(path: Path) -> None:
    for other in (Watched("one"), Watched("two"), Watched("one", 3)):
        caching = CachingEmbedder(other, path)
        caching.embed_passages(("a",))
        caching.close()
        assert other.asked == [("a",)]


def test_it_has_the_wrapped_ones_fingerprint_limits_and_optional_members(
    caching: CachingEmbedder, watched: Watched
) -> None:
    assert isinstance(caching, Embedder)
    assert (caching.fingerprint, caching.max_input_chars, caching.max_batch) == (watched.fingerprint, 100, 7)
    assert not hasattr(caching, "max_concurrency")
    assert not hasattr(caching, "something_else")


def test_the_callers_token_reaches_the_wrapped_one(caching: CachingEmbedder, watched: Watched) -> None:
    token = CancelToken()
    caching.embed_passages(("a",), cancel=token)
    assert watched.cancel is token


def test_what_the_door_refuses_is_not_kept(path: Path) -> None:
    answers = [[[float("nan"), 1.0]], [[1.0, 1.0]]]
    caching = CachingEmbedder(FunctionEmbedder(lambda _texts: answers.pop(0), id="f", dimension=2), path)
    with pytest.raises(EmbedderError):
        caching.embed_passages(("a",))
    assert caching.embed_passages(("a",)).tolist() == [[1, 1]]
    caching.close()


def test_texts_are_not_in_the_file(caching: CachingEmbedder, path: Path) -> None:
    caching.embed_passages(("a secret passage",))
    caching.embed_query("a secret question")
    caching.close()
    assert b"secret" not in b"".join(file.read_bytes() for file in path.parent.iterdir())


@pytest.mark.parametrize("content", [b"no database at all " * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_torn_file_is_put_aside_with_a_warning_and_a_new_one_made(
    path: Path, watched: Watched, content: bytes
) -> None:
    path.write_bytes(content)
    with pytest.warns(UserWarning, match=r"vectors\.db\.bad"):
        caching = CachingEmbedder(watched, path)
    caching.embed_passages(("a",))
    caching.embed_passages(("a",))
    caching.close()
    assert watched.asked == [("a",)]
    assert path.with_name("vectors.db.bad").read_bytes() == content


def test_somebody_elses_database_is_put_aside_whole(path: Path, watched: Watched) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE theirs (value)")
        other.execute("INSERT INTO theirs VALUES (7)")
    other.close()
    with pytest.warns(UserWarning, match="put aside"):
        CachingEmbedder(watched, path).close()
    aside = sqlite3.connect(path.with_name("vectors.db.bad"))
    assert aside.execute("SELECT value FROM theirs").fetchall() == [(7,)]
    aside.close()


def test_a_file_that_is_torn_while_in_use_costs_its_vectors_alone(path: Path, watched: Watched) -> None:
    first = CachingEmbedder(watched, path)
    first.embed_passages(tuple(f"text {number}" for number in range(500)))
    first.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    caching = CachingEmbedder(watched, path)
    with pytest.warns(UserWarning, match="put aside"):
        assert caching.embed_passages(("text 7",)).tolist() == [[6, 1]]
    caching.close()


@pytest.mark.parametrize("blob", [b"", b"\0" * 8, b"\0" * 4, np.array([np.nan, 1], "<f4").tobytes(), "text", None])
def test_a_row_that_is_no_vector_of_this_length_is_a_miss(path: Path, watched: Watched, blob: object) -> None:
    first = CachingEmbedder(watched, path)
    first.embed_passages(("a",))
    first.close()
    with sqlite3.connect(path) as direct:
        direct.execute("UPDATE vectors SET vector = ?", (blob if blob is not None else 7,))
    direct.close()
    caching = CachingEmbedder(watched, path)
    assert caching.embed_passages(("a",)).tolist() == [[1, 1]]
    caching.close()
    assert watched.asked == [("a",), ("a",)]


def test_a_file_that_takes_no_write_costs_the_keeping_and_not_the_vectors(
    caching: CachingEmbedder, path: Path, watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    caching._file._opened().execute("PRAGMA query_only = 1")  # noqa: SLF001 - as a full disk would
    assert caching.embed_passages(("a secret",)).tolist() == [[8, 1]]
    assert "OperationalError" in caplog.text
    assert "secret" not in caplog.text
    assert path.exists()
    assert watched.asked == [("a secret",)]


@pytest.mark.parametrize(("name", "error"), [("no/such/file.db", FileNotFoundError), (".", IsADirectoryError)])
def test_a_place_that_can_hold_no_file_is_an_error(
    tmp_path: Path, watched: Watched, name: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        CachingEmbedder(watched, tmp_path / name)


def test_threads_share_it(path: Path) -> None:
    caching = CachingEmbedder(HashingEmbedder(8), path)
    failed: list[BaseException] = []

    def work(first: int) -> None:
        try:
            for number in range(first, first + 20):
                caching.embed_passages((f"text {number}", "the same"))
        except BaseException as error:  # noqa: BLE001 - handed over
            failed.append(error)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    caching.close()
    assert failed == []


def _embed_in_a_process(path: Path, first: int) -> None:
    caching = CachingEmbedder(HashingEmbedder(8), path)
    for number in range(first, first + 20):
        caching.embed_passages((f"text {number}",))
    caching.close()


def test_processes_share_it(path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_embed_in_a_process, args=(path, 20 * number)) for number in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    watched = Watched("hashing-v1", 8)
    caching = CachingEmbedder(watched, path)
    caching.embed_passages(tuple(f"text {number}" for number in range(40)))
    caching.close()
    assert watched.asked == []


def _begin_in_a_process(path: Path, barrier: Any, outcomes: Any) -> None:
    warnings.simplefilter("ignore")
    barrier.wait()
    try:
        caching = CachingEmbedder(HashingEmbedder(8), path)
        caching.embed_passages(("text",))
        caching.close()
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is what this is about
        outcomes.put(repr(error))
    else:
        outcomes.put(None)


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be put aside there")
@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0" + b"x" * 5000], ids=["new", "torn"])
def test_processes_begin_at_once_on_a_file_that_is_new_or_torn(tmp_path: Path, content: bytes) -> None:
    context = multiprocessing.get_context("fork")
    for number in range(8):
        path = tmp_path / f"{number}.db"
        path.write_bytes(content)
        barrier, outcomes = context.Barrier(6), context.SimpleQueue()
        workers = [context.Process(target=_begin_in_a_process, args=(path, barrier, outcomes)) for _ in range(6)]
        for worker in workers:
            worker.start()
        assert [outcomes.get() for _ in workers] == [None] * 6
        for worker in workers:
            worker.join()
        watched = Watched("hashing-v1", 8)
        caching = CachingEmbedder(watched, path)
        caching.embed_passages(("text",))
        caching.close()
        assert watched.asked == []


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be put aside there")
def test_a_file_that_two_find_torn_at_once_is_put_aside_once(
    path: Path, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(b"torn " * 1000)
    is_at_it, has_made_it = threading.Event(), threading.Event()
    replace = Path.replace

    def late_replace(self: Path, target: Path) -> Path:
        if threading.current_thread() is late:
            is_at_it.set()
            has_made_it.wait(0.5)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", late_replace)
    late = threading.Thread(target=lambda: CachingEmbedder(watched, path).close())

    def both() -> None:
        late.start()
        assert is_at_it.wait(10)
        early = CachingEmbedder(watched, path)
        early.embed_passages(("a",))
        early.close()
        has_made_it.set()
        late.join()

    with pytest.warns(UserWarning, match="put aside"):
        both()
    again = CachingEmbedder(watched, path)
    again.embed_passages(("a",))
    again.close()
    assert watched.asked == [("a",)]
    assert path.with_name("vectors.db.bad").read_bytes() == b"torn " * 1000


def test_who_finds_a_file_torn_late_leaves_the_new_one_that_another_has_made(path: Path, watched: Watched) -> None:
    path.write_bytes(b"torn " * 1000)
    torn = _vector_file._identity(path)  # noqa: SLF001 - what both processes found
    with pytest.warns(UserWarning, match="put aside"):
        _vector_file._renew(path, torn)  # noqa: SLF001 - the first of them
    caching = CachingEmbedder(watched, path)
    caching.embed_passages(("a",))
    _vector_file._renew(path, torn)  # noqa: SLF001 - the second, too late
    caching.embed_passages(("a",))
    caching.close()
    assert watched.asked == [("a",)]


def _open_as_nobody(path: Path, outcomes: Any) -> None:
    os.setuid(65534)
    try:
        CachingEmbedder(HashingEmbedder(8), path)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is what this is about
        outcomes.put(f"{type(error).__name__}: {error}")
    else:
        outcomes.put(None)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs POSIX permissions")
@pytest.mark.parametrize("content", [None, b"torn " * 1000], ids=["ours", "torn"])
def test_a_file_that_may_not_be_written_is_an_embedder_error_that_says_so(
    tmp_path: Path, watched: Watched, content: bytes | None
) -> None:
    directory = tmp_path / "closed"
    directory.mkdir()
    path = directory / "vectors.db"
    CachingEmbedder(watched, path).close()
    if content is not None:
        path.write_bytes(content)
    path.chmod(0o444)
    directory.chmod(0o555)
    for parent in directory.parents[: len(directory.parents) - 2]:
        parent.chmod(parent.stat().st_mode | 0o055)
    try:
        if os.geteuid() == 0:
            context = multiprocessing.get_context("fork")
            outcomes = context.SimpleQueue()
            worker = context.Process(target=_open_as_nobody, args=(path, outcomes))
            worker.start()
            worker.join()
            said = outcomes.get()
        else:
            with pytest.raises(EmbedderError) as raised:
                CachingEmbedder(HashingEmbedder(8), path)
            said = f"EmbedderError: {raised.value}"
    finally:
        directory.chmod(0o755)
    assert said.startswith("EmbedderError: vectors.db cannot be opened")
    assert "writable" in said


class Awaited(Watched):
    async def embed_passages(self, texts: Sequence[str], *, cancel: object = None) -> Any:  # type: ignore[override]
        return super().embed_passages(texts, cancel=cancel)

    async def embed_query(self, text: str) -> Any:  # type: ignore[override]
        return super().embed_query(text)


def test_an_async_embedder_is_refused_when_made_and_leaves_no_file(path: Path) -> None:
    embedder: Any = Awaited()
    with pytest.raises(EmbedderError, match="coroutine function"):
        CachingEmbedder(embedder, path)
    assert list(path.parent.iterdir()) == []


def test_a_library_works_with_it(path: Path, watched: Watched) -> None:
    for tenant in ("t", "u"):
        library = Library(MemoryStore(), "library", CachingEmbedder(watched, path))
        library.index_source(Source("s", "doc", tenant, ["g"], ["red", "blue"]))
        assert len(library.search("red", scope=Scope(tenant, ["g"]))) == 2
    assert watched.asked == [("red", "blue"), "red"]
