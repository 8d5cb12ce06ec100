"""Calls to an embedder: several at a time, answered in the order asked, tried again, and none after a failure."""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from stackroom._errors import EmbedderError, IndexingCancelled
from stackroom.embedders._door import embed_passages
from stackroom.indexing._refusals import may_be_of_a_text, reason_of
from stackroom.indexing._reports import EmbeddingReport

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from stackroom._cancel import CancelToken
    from stackroom.embedders import Embedder
    from stackroom.embedders._door import EmbedderLimits, Gate

LONGEST_WAIT: Final = 600.0
"""Seconds; a server that asks for a longer pause is taken to have failed for good."""

_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 8.0
_LOOKS_EVERY: Final = 0.05
"""Seconds between two looks at the caller's token during a pause."""

_IN_HAND: Final = 2
"""Batches that wait for the embedder beyond one for each call that is worked on."""

_HOPELESS: Final = 3
"""Files refused with nothing embedded in between after which the embedder, not the files, is at fault."""

Vector: TypeAlias = "NDArray[np.float32]"


@dataclass(frozen=True, slots=True)
class Text:
    """A text to embed, and whose it is: texts of one owner stand or fall together.

    Owners with a refused text are remembered to the end of the run: they should be small.
    """

    text: str
    owner: Hashable


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a call is made that may succeed later, and whether a refused text is looked for within its batch."""

    attempts: int = 1
    halves: bool = False


class Stopped(Exception):
    """A call was not made, since another one failed or the caller cancelled."""


@dataclass(slots=True)
class Calls:
    """Embeds batches in threads. After a failure or a cancel no new call starts; `wait` lets those in flight end.

    `answers` come in the order asked: for each text its vector, or the EmbedderError because of which it has none.
    """

    embedder: Embedder
    limits: EmbedderLimits
    gate: Gate
    width: int
    cancel: CancelToken | None
    patience: Patience
    count: int = 0
    failure: BaseException | None = None
    _asked: deque[Future[list[Vector | EmbedderError]]] = field(default_factory=deque)
    _threads: ThreadPoolExecutor = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ends: threading.Event = field(default_factory=threading.Event)
    _refused: set[Hashable] = field(default_factory=set)
    _lost: dict[Hashable, str] = field(default_factory=dict)
    _began: float | None = None
    _ended: float = 0.0
    _tokens: object = None

    def __post_init__(self) -> None:
        if self.limits.max_concurrency is not None:
            self.width = min(self.width, self.limits.max_concurrency)
        self._threads = ThreadPoolExecutor(self.width, thread_name_prefix="stackroom-embedding")
        self._tokens = getattr(self.embedder, "tokens_used", None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._fail(Stopped())
        self._threads.shutdown(wait=True)

    @property
    def is_full(self) -> bool:
        """Whether an answer should be taken before more is asked: enough wait to bridge the writing of one."""
        return len(self._asked) >= 2 * self.width + _IN_HAND

    @property
    def in_flight(self) -> int:
        """How many answers were asked for and not taken."""
        return len(self._asked)

    @property
    def has_stopped(self) -> bool:
        """Whether no further call will be made."""
        return self.failure is not None or (self.cancel is not None and self.cancel.cancelled)

    def ask(self, texts: Sequence[Text]) -> None:
        """Have a batch embedded, as soon as one of the threads is free."""
        self._asked.append(self._threads.submit(self._answer, texts))

    def answer(self) -> list[Vector | EmbedderError]:
        """Wait for the oldest batch asked for; raises what ended its call, or Stopped when it was not made."""
        return self._asked.popleft().result()

    def has_answer(self) -> bool:
        """Tell whether the oldest batch asked for has come back."""
        return bool(self._asked) and self._asked[0].done()

    def report(self) -> EmbeddingReport | None:
        """Return what was embedded, None when nothing was."""
        if not self.count or self._began is None:
            return None
        now = getattr(self.embedder, "tokens_used", None)
        tokens = now - self._tokens if isinstance(now, int) and isinstance(self._tokens, int) else None
        fingerprint = self.limits.fingerprint
        return EmbeddingReport(
            model=fingerprint.id,
            provider=self.limits.provider,
            input_kind="passage",
            dimension=fingerprint.dimension,
            count=self.count,
            seconds=self._ended - self._began,
            tokens=tokens,
        )

    # In the threads

    def _answer(self, texts: Sequence[Text]) -> list[Vector | EmbedderError]:
        try:
            return self._embedded(texts)
        except Stopped:
            raise
        except BaseException as error:
            self._fail(error)
            raise

    def _fail(self, error: BaseException) -> None:
        self.failure = self.failure or error
        self._ends.set()

    def _embedded(self, texts: Sequence[Text]) -> list[Vector | EmbedderError]:
        """Embed what is of no owner that is lost already, halving it where a text may be at fault."""
        lost = {text.owner: self._lost[text.owner] for text in texts if text.owner in self._lost}
        wanted = [text for text in texts if text.owner not in lost]
        vectors = iter(self._halved(wanted) if wanted else [])
        return [EmbedderError(lost[text.owner]) if text.owner in lost else next(vectors) for text in texts]

    def _halved(self, texts: Sequence[Text]) -> list[Vector | EmbedderError]:
        try:
            return self._tried(texts)
        except EmbedderError as error:
            if not self.patience.halves or not may_be_of_a_text(error):
                raise
            if len(texts) > 1:
                middle = len(texts) // 2
                return self._embedded(texts[:middle]) + self._embedded(texts[middle:])
            return [self._refusal(texts[0], error)]

    def _refusal(self, refused: Text, error: EmbedderError) -> EmbedderError:
        """Return what is said of a text that was refused alone; raises the error when there are too many such."""
        reason = reason_of(error, refused.text)
        with self._lock:
            self._lost[refused.owner] = reason
            self._refused.add(refused.owner)
            if len(self._refused) >= _HOPELESS:
                raise error
        return EmbedderError(reason)

    def _tried(self, texts: Sequence[Text]) -> list[Vector | EmbedderError]:
        for pause in self.pauses(self.patience.attempts):
            try:
                return self._called(texts)
            except EmbedderError as error:
                if self.cancel is not None:
                    self.cancel.raise_if_cancelled()
                if pause is None or not _may_succeed_later(error):
                    raise
                self.pause(pause if error.retry_after is None else error.retry_after)
        raise AssertionError("unreachable: the last pause is None")

    def _called(self, texts: Sequence[Text]) -> list[Vector | EmbedderError]:
        with self.gate:
            if self.has_stopped:
                raise Stopped
            with self._lock:
                self._began = self._began or time.perf_counter()
            vectors = embed_passages(
                self.embedder, [text.text for text in texts], self.limits.fingerprint.dimension, cancel=self.cancel
            )
        with self._lock:
            self.count += len(texts)
            self._ended = time.perf_counter()
            self._refused.clear()
        return list(vectors)

    @staticmethod
    def pauses(attempts: int) -> Iterator[float | None]:
        """Yield, for each attempt, the seconds to wait after it, None after the last."""
        for attempt in range(attempts - 1):
            yield min(_FIRST_PAUSE * 2**attempt, _LONGEST_PAUSE)
        yield None

    def pause(self, seconds: float) -> None:
        """Wait, but no longer than until a cancel, or until another call has failed for good."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self._ends.wait(min(left, _LOOKS_EVERY)):
                raise Stopped
            if self.cancel is not None:
                self.cancel.raise_if_cancelled()


def _may_succeed_later(error: EmbedderError) -> bool:
    return error.retryable and (error.retry_after is None or error.retry_after <= LONGEST_WAIT)


def is_cancel(error: BaseException, cancel: CancelToken | None) -> bool:
    """Tell whether an error is the end that the caller asked for: any of the embedder's is, once it was asked for."""
    asked_for = cancel is not None and cancel.cancelled
    return isinstance(error, IndexingCancelled) or (asked_for and isinstance(error, EmbedderError | Stopped))
