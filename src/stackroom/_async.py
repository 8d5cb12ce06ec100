"""AsyncLibrary: a Library on an event loop. Its methods are the Library's own, run in threads."""

from __future__ import annotations

import inspect
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar, cast

from stackroom._cancel import interrupted_by
from stackroom._library import Library
from stackroom.text._arguments import require_size

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Coroutine, Generator, Sequence
    from types import TracebackType

    import anyio
    from numpy.typing import ArrayLike

    from stackroom.embedders import Embedder
    from stackroom.stores import VectorStore

P = ParamSpec("P")
T = TypeVar("T")
Opened = TypeVar("Opened", bound="AsyncLibrary")

_THREADS: Final = 40
"""As many as anyio's own limiter has."""


def _awaited(
    method: Callable[Concatenate[Library, P], T], *, waits: bool = False
) -> Callable[Concatenate[AsyncLibrary, P], Coroutine[Any, Any, T]]:
    """Return a method of Library as a coroutine function; `waits`: a cancelled call is over before the task goes on."""

    @wraps(method)
    async def call(self: AsyncLibrary, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(partial(method, self._library, *args, **kwargs), waits=waits)

    return cast("Callable[Concatenate[AsyncLibrary, P], Coroutine[Any, Any, T]]", call)


class AsyncLibrary:
    """A Library whose methods are awaited, on asyncio or trio; what they promise, `Library` says.

    They run in worker threads, at most `max_threads` at a time, and never block the loop. An embedder whose methods are
    coroutine functions is awaited on the loop; others run in the threads. Needs `pip install "stackroom[async]"`.

    A cancelled read ends at once, and its thread when the store answers. A cancelled write ends when the call to
    the embedder or the store that is under way has: nothing is written after it, and a source is as it was, or whole.
    """

    def __init__(
        self, store: VectorStore, collection: str, embedder: Any, *, max_threads: int = _THREADS, **options: Any
    ) -> None:
        """Make the Library, which asks the store about its collection, on the loop; `open` does so in a thread."""
        self._begin(Library(store, collection, _awaitable(embedder), **options), max_threads)

    def _begin(self, library: Library, max_threads: int) -> None:
        require_size("max_threads", max_threads, least=1)
        self._library = library
        self._max_threads = max_threads
        self._anyio = _anyio()
        self._limiter: anyio.CapacityLimiter | None = None

    @classmethod
    def of(cls, library: Library, *, max_threads: int = _THREADS) -> Self:
        """Return a Library's methods to be awaited; both may be used side by side, and either closes both."""
        made = cls.__new__(cls)
        made._begin(library, max_threads)  # noqa: SLF001 - its own
        return made

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        embedder: Any = None,
        max_threads: int = _THREADS,
        **options: Any,
    ) -> Opening[Self]:
        """Open the library in a directory, as `Library.open` does: await it, or enter it with `async with`."""

        async def opened() -> Self:
            fitting = None if embedder is None else _awaitable(embedder)
            call = partial(Library.open, path, embedder=fitting, **options)
            with _anyio().CancelScope(shield=True):  # what is opened must not be lost
                library = await _anyio().to_thread.run_sync(call)
            return cls.of(library, max_threads=max_threads)

        return Opening(opened)

    index_source = _awaited(Library.index_source, waits=True)
    set_source_scope = _awaited(Library.set_source_scope, waits=True)
    remove_source = _awaited(Library.remove_source, waits=True)
    remove_tenant = _awaited(Library.remove_tenant, waits=True)
    sweep = _awaited(Library.sweep, waits=True)
    search = _awaited(Library.search)
    sources = _awaited(Library.sources)
    source = _awaited(Library.source)
    passages = _awaited(Library.passages)
    count = _awaited(Library.count)
    verify_embedder = _awaited(Library.verify_embedder)

    async def close(self) -> None:
        """Close the Library, also when the task is being cancelled. Twice is fine."""
        with self._anyio.CancelScope(shield=True):
            await self._run(self._library.close, waits=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self, call: Callable[[], T], *, waits: bool) -> T:
        if self._limiter is None:
            self._limiter = self._anyio.CapacityLimiter(self._max_threads)
        check: Callable[[], object] = self._anyio.from_thread.check_cancelled
        with interrupted_by(check):
            result: T = await self._anyio.to_thread.run_sync(call, abandon_on_cancel=not waits, limiter=self._limiter)
        return result


class Opening(Generic[Opened]):
    """A library that is about to be opened: await it, and close it yourself, or use it with `async with`."""

    def __init__(self, opened: Callable[[], Coroutine[Any, Any, Opened]]) -> None:
        self._opened = opened
        self._library: Opened | None = None

    def __await__(self) -> Generator[Any, Any, Opened]:
        return self._opened().__await__()

    async def __aenter__(self) -> Opened:
        self._library = await self._opened()
        return self._library

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._library is not None:
            await self._library.close()


class _OnTheLoop:
    """An embedder whose coroutine functions are awaited on the loop, by threads that wait for them."""

    def __init__(self, embedder: Any) -> None:
        self._embedder = embedder
        self._anyio = _anyio()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    def embed_passages(self, texts: Sequence[str]) -> ArrayLike:
        """Return what the embedder answers."""
        return self._answer(self._embedder.embed_passages, texts)

    def embed_query(self, text: str) -> ArrayLike:
        """Return what the embedder answers."""
        return self._answer(self._embedder.embed_query, text)

    def _answer(self, method: Callable[[Any], Any], given: object) -> ArrayLike:
        if not _is_coroutine_function(method):
            return cast("ArrayLike", method(given))
        return cast("ArrayLike", self._anyio.from_thread.run(method, given))


def _awaitable(embedder: Any) -> Embedder:
    """Return an embedder that a Library takes, in the threads of an AsyncLibrary."""
    methods = [getattr(embedder, name, None) for name in ("embed_passages", "embed_query")]
    if any(map(_is_coroutine_function, methods)):
        return _OnTheLoop(embedder)
    return cast("Embedder", embedder)


def _is_coroutine_function(method: object) -> bool:
    return inspect.iscoroutinefunction(method) or inspect.iscoroutinefunction(getattr(method, "__call__", None))  # noqa: B004 - an object may have an async __call__


def _anyio() -> Any:
    try:
        import anyio
        import anyio.from_thread
        import anyio.to_thread
    except ImportError as missing:
        raise ImportError('AsyncLibrary needs anyio: pip install "stackroom[async]"') from missing
    return anyio
