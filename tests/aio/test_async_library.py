"""AsyncLibrary: the Library's answers, a loop that never waits, and cancelled calls that leave nothing half done."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from tests.library.doubles import PATIENCE, HandClock, RecordingEmbedder, source

from stackroom import AsyncLibrary, EmbedderError, EmbedderMismatch, Library, Scope, StoreError
from stackroom.embedders import Fingerprint, HashingEmbedder
from stackroom.stores import MemoryStore

SCOPE = Scope("t", ["g"])

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


class OnTheLoop:
    """An embedder to be awaited; it sees that it is on the loop of the test."""

    max_input_chars: int | None = None

    def __init__(self, before: Callable[[], Any] = anyio.lowlevel.checkpoint) -> None:
        self._hashing = HashingEmbedder(32)
        self.fingerprint = Fingerprint("on the loop", 32)
        self.threads: set[int] = set()
        self._before = before

    async def embed_passages(self, texts: Sequence[str]) -> Any:
        await self._before()
        self.threads.add(threading.get_ident())
        return self._hashing.embed_passages(texts)

    async def embed_query(self, text: str) -> Any:
        await self._before()
        self.threads.add(threading.get_ident())
        return self._hashing.embed_query(text)


class Held:
    """A gate for threads: they stop at it until it is opened; it says when one has come."""

    def __init__(self) -> None:
        self.has_come, self.goes_on = threading.Event(), threading.Event()

    def __call__(self, *_given: object) -> None:
        self.has_come.set()
        assert self.goes_on.wait(PATIENCE)


async def come(held: Held) -> None:
    await anyio.to_thread.run_sync(held.has_come.wait, PATIENCE)


def fill(library: Library) -> None:
    for number in range(20):
        library.index_source(source(f"s{number}", f"apple {number}", "pear", tags=["x"], metadata={"n": number}))


def test_every_method_of_library_is_there_and_takes_the_same() -> None:
    for name, method in inspect.getmembers(Library, inspect.isfunction):
        if name.startswith("_") or name in {"close", "as_async"}:
            continue
        twin = getattr(AsyncLibrary, name)
        assert inspect.iscoroutinefunction(twin), name
        assert inspect.signature(twin) == inspect.signature(method), name
        assert twin.__doc__ == method.__doc__


async def test_answers_are_the_librarys() -> None:
    library = Library(MemoryStore(), "library", HashingEmbedder(32), clock=HandClock())
    fill(library)
    twin = library.as_async()
    asked: list[dict[str, Any]] = [{}, {"mode": "lexical"}, {"mode": "dense", "where": {"n": {"$gt": 5}}}, {"top_k": 3}]
    for options in asked:
        assert await twin.search("apple 7", scope=SCOPE, **options) == library.search("apple 7", scope=SCOPE, **options)
    assert await twin.sources(scope=SCOPE, limit=7) == library.sources(scope=SCOPE, limit=7)
    assert await twin.source("s3", scope=SCOPE) == library.source("s3", scope=SCOPE)
    assert await twin.passages("s3", scope=SCOPE) == library.passages("s3", scope=SCOPE)
    assert await twin.count(scope=SCOPE) == library.count(scope=SCOPE) == 40
    assert await twin.verify_embedder() == pytest.approx(1)
    assert (await twin.index_source(source("new", "plum"))).embedded == 1
    assert await twin.set_source_scope("new", tenant_id="t", acl_groups=["h"]) == 1
    assert await twin.remove_source("new", tenant_id="t") == 1
    assert await twin.sweep() == 0
    assert await twin.remove_tenant("t") == 40
    assert library.count(scope=SCOPE) == 0


async def test_errors_are_the_librarys() -> None:
    twin = AsyncLibrary(MemoryStore(), "library", HashingEmbedder(32))
    with pytest.raises(ValueError, match="top_k"):
        await twin.search("a", scope=SCOPE, top_k=0)
    with pytest.raises(ValueError, match="max_threads"):
        AsyncLibrary(MemoryStore(), "library", HashingEmbedder(32), max_threads=0)


async def test_a_library_is_opened_and_closed(tmp_path: Path) -> None:
    async with AsyncLibrary.open(tmp_path, embedder=HashingEmbedder(32)) as library:
        await library.index_source(source("s", "apple"))
    with pytest.raises(StoreError, match="closed"):
        await library.count(scope=SCOPE)
    again = await AsyncLibrary.open(tmp_path, embedder=HashingEmbedder(32))
    assert await again.count(scope=SCOPE) == 1
    await again.close()
    await again.close()
    with pytest.raises(EmbedderMismatch):
        await AsyncLibrary.open(tmp_path, embedder=HashingEmbedder(16))


async def test_an_async_embedder_is_awaited_on_the_loop(tmp_path: Path) -> None:
    embedder = OnTheLoop()
    async with AsyncLibrary.open(tmp_path, embedder=embedder, batch_size=2) as library:
        await library.index_source(source("s", "apple", "pear", "plum"))
        assert [hit.id for hit in await library.search("pear", scope=SCOPE, top_k=1)] == ["s#1"]
        assert await library.verify_embedder() == pytest.approx(1)
    assert embedder.threads == {threading.get_ident()}


def test_a_library_still_refuses_an_async_embedder() -> None:
    with pytest.raises(EmbedderError, match="coroutine"):
        Library(MemoryStore(), "library", OnTheLoop())  # type: ignore[arg-type] # that is what is refused


async def test_what_an_async_embedder_raises_is_told() -> None:
    async def fail() -> None:
        raise RuntimeError("no")

    library = AsyncLibrary(MemoryStore(), "library", OnTheLoop(fail))
    with pytest.raises(EmbedderError) as told:
        await library.index_source(source("s", "apple"))
    assert isinstance(told.value.__cause__, RuntimeError)


# The loop


async def test_the_loop_is_not_held_up_by_a_slow_embedder_and_a_slow_store() -> None:
    class Slow(MemoryStore):
        def dense(self, *given: Any, **options: Any) -> Any:
            time.sleep(0.05)
            return super().dense(*given, **options)

    embedder = RecordingEmbedder(before_batch=lambda _number: time.sleep(0.05))
    library = AsyncLibrary(Slow(), "library", embedder)
    gaps: list[float] = []

    async def beat() -> None:
        last = time.perf_counter()
        while True:
            await anyio.lowlevel.checkpoint()
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beat)
        for number in range(4):
            await library.index_source(source(f"s{number}", "apple"))
            await library.search("apple", scope=SCOPE)
        tasks.cancel_scope.cancel()
    assert len(gaps) > 100
    assert sorted(gaps)[len(gaps) * 99 // 100] < 0.005  # the machine itself may stop for longer now and then


async def test_no_more_threads_are_used_than_allowed_and_others_wait() -> None:
    running, most, lock = [0], [0], threading.Lock()

    def enter(_number: int) -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.01)
        with lock:
            running[0] -= 1

    library = AsyncLibrary(MemoryStore(), "library", RecordingEmbedder(before_batch=enter), max_threads=2)
    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(library.index_source, source(f"s{number}", "apple"))
    assert most == [2]
    assert await library.count(scope=SCOPE) == 8


# Cancellation


async def test_a_cancelled_write_that_embeds_leaves_the_old_version_and_the_thread_free() -> None:
    held = Held()
    embedder = RecordingEmbedder(before_batch=lambda _number: held() if armed else None)
    armed: list[bool] = []
    library = AsyncLibrary(MemoryStore(), "library", embedder, batch_size=1, max_threads=1)
    await library.index_source(source("s", "old"))
    armed.append(True)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(library.index_source, source("s", "new one", "new two"))
        await come(held)
        tasks.cancel_scope.cancel()
        held.goes_on.set()
    armed.clear()
    assert [hit.text for hit in await library.passages("s", scope=SCOPE)] == ["old"]
    assert len(embedder.batches) == 2  # the second batch of the new version was not asked for
    await library.index_source(source("s", "newer"))
    assert [hit.text for hit in await library.passages("s", scope=SCOPE)] == ["newer"]


async def test_a_cancelled_async_embedder_ends_at_once_and_nothing_is_written() -> None:
    begun = anyio.Event()

    async def forever() -> None:
        begun.set()
        await anyio.sleep_forever()

    library = AsyncLibrary(MemoryStore(), "library", OnTheLoop(forever), max_threads=1)
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(library.index_source, source("s", "apple"))
            await begun.wait()
            tasks.cancel_scope.cancel()
        assert await library.count(scope=SCOPE) == 0


async def test_a_write_that_is_under_way_when_it_is_cancelled_is_whole() -> None:
    held = Held()

    class HeldWhileWriting(MemoryStore):
        def replace(self, *given: Any, **options: Any) -> int:
            held()
            return super().replace(*given, **options)

    library = AsyncLibrary(HeldWhileWriting(), "library", HashingEmbedder(32))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(library.index_source, source("s", "apple", "pear"))
        await come(held)
        tasks.cancel_scope.cancel()
        held.goes_on.set()
    assert await library.count(scope=SCOPE) == 2


async def test_a_cancelled_search_ends_at_once() -> None:
    held = Held()

    class HeldWhileReading(MemoryStore):
        def dense(self, *given: Any, **options: Any) -> Any:
            held()
            return super().dense(*given, **options)

    library = AsyncLibrary(HeldWhileReading(), "library", HashingEmbedder(32), max_threads=2)
    with anyio.fail_after(PATIENCE / 2):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: library.search("apple", scope=SCOPE, mode="dense"))
            await come(held)
            tasks.cancel_scope.cancel()
        assert await library.count(scope=SCOPE) == 0
    held.goes_on.set()
    for _ in range(3):  # as many as there are places, and one more
        assert len(await library.search("apple", scope=SCOPE)) == 0


async def test_closing_is_not_cancelled(tmp_path: Path) -> None:
    library = await AsyncLibrary.open(tmp_path, embedder=HashingEmbedder(32))
    with anyio.CancelScope() as cancelled:
        cancelled.cancel()
        await library.close()
    with pytest.raises(StoreError, match="closed"):
        await library.count(scope=SCOPE)
