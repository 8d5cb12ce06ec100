"""The door that every answer of an embedder passes before anything is deleted, written or searched.

Messages name kinds, positions (from 0) and sizes. They never hold a text, nor a number of a vector.
"""

from __future__ import annotations

import inspect
import threading
import weakref
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stackroom._cancel import raise_if_interrupted
from stackroom._errors import EmbedderError, IndexingCancelled
from stackroom.embedders._protocol import Embedder, Fingerprint, limit_problem
from stackroom.text import is_blank

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

_METHODS = ("embed_passages", "embed_query")


@dataclass(frozen=True, slots=True)
class EmbedderLimits:
    """What an embedder declares, as read and checked once. None is no limit of its own.

    ``takes_cancel``: its ``embed_passages`` has a keyword parameter ``cancel``.
    """

    fingerprint: Fingerprint
    max_input_chars: int | None
    max_batch: int | None
    max_concurrency: int | None
    provider: str
    takes_cancel: bool


def check_embedder(embedder: Embedder) -> EmbedderLimits:
    """Read what a synchronous embedder declares; called once, when a Library is made.

    EmbedderError: its fingerprint is none, a limit is neither None nor an int of at least 1, a method is missing or
    a coroutine function, or reading any of these failed.
    """
    if isinstance(embedder, type):
        raise EmbedderError(f"{embedder.__name__} is a class, not an embedder: make one of it, {embedder.__name__}(…)")
    if isinstance(embedder, str):
        raise EmbedderError(
            "an embedder is an object, not its name: from stackroom.embedders import LocalEmbedder, HashingEmbedder, … "
            "and give one, such as HashingEmbedder(), or wrap a function of yours in FunctionEmbedder"
        )
    check_methods(embedder)
    return EmbedderLimits(
        max_input_chars=_limit(embedder, "max_input_chars"),
        max_batch=_limit(embedder, "max_batch"),
        max_concurrency=_limit(embedder, "max_concurrency"),
        provider=_provider(embedder),
        takes_cancel=_takes_cancel(embedder.embed_passages),
        fingerprint=_fingerprint(embedder),  # last, since an embedder may have to ask its server for it
    )


def check_methods(embedder: Embedder) -> None:
    """Refuse, as EmbedderError, what lacks a method, or has a coroutine function for one."""
    for name in _METHODS:
        _check_method(name, _member(embedder, name))


class Gate:
    """Lets as many calls into an embedder at a time as it bears; None is no limit."""

    def __init__(self, width: int | None) -> None:
        self._places = None if width is None else threading.BoundedSemaphore(width)

    def __enter__(self) -> None:
        if self._places is not None:
            self._places.acquire()

    def __exit__(self, *_exception: object) -> None:
        if self._places is not None:
            self._places.release()


_NO_LIMIT = Gate(None)

_gates: weakref.WeakValueDictionary[int, Gate] = weakref.WeakValueDictionary()
_gates_lock = threading.Lock()


def gate_of(embedder: Embedder, limits: EmbedderLimits) -> Gate:
    """Return the gate that all Libraries of this process share before one embedder; keep it as long as the embedder."""
    with _gates_lock:
        return _gates.setdefault(id(embedder), Gate(limits.max_concurrency))


def embed_in_batches(
    embedder: Embedder,
    limits: EmbedderLimits,
    texts: Sequence[str],
    batch_size: int,
    *,
    gate: Gate = _NO_LIMIT,
    cancel: object = None,
) -> NDArray[np.float32]:
    """Return the vectors of `texts`, shape (n, dimension), asked for in order, one call after the other.

    A call has at most `batch_size` texts, lowered to the embedder's ``max_batch``, and passes the `gate` by itself;
    without texts there is no call.
    The first answer that the door refuses ends it with EmbedderError; positions count from the first of `texts`.
    """
    size = batch_size if limits.max_batch is None else min(batch_size, limits.max_batch)
    dimension = limits.fingerprint.dimension
    vectors = np.empty((len(texts), dimension), dtype=np.float32)
    for first in range(0, len(texts), size):
        batch = texts[first : first + size]
        raise_if_interrupted()
        with gate:
            vectors[first : first + size] = embed_passages(embedder, batch, dimension, cancel=cancel, first=first)
    return vectors


def embed_passages(
    embedder: Embedder, texts: Sequence[str], dimension: int, *, cancel: object = None, first: int = 0
) -> NDArray[np.float32]:
    """Return the vectors of stored texts in one call: float32, shape (n, dimension), C order, nobody else's memory.

    `cancel` is handed to an embedder that takes it. `first` is the position that messages count from. Without texts
    there is no call. EmbedderError: the embedder failed (``__cause__``), or answered what the door refuses.
    """
    if not texts:
        return np.empty((0, dimension), dtype=np.float32)
    keywords = _cancel_keyword(embedder.embed_passages, cancel)
    with _failures_as_embedder_errors():
        answer = embedder.embed_passages(tuple(texts), **keywords)
    return checked_passage_vectors(answer, len(texts), dimension, first=first)


def embed_query(embedder: Embedder, text: str, dimension: int, *, cancel: object = None) -> NDArray[np.float32]:
    """Return the vector of a search's text in one call: float32, shape (dimension,), nobody else's memory.

    `cancel` and errors are as in `embed_passages`.
    """
    keywords = _cancel_keyword(embedder.embed_query, cancel)
    with _failures_as_embedder_errors():
        answer = embedder.embed_query(text, **keywords)
    return checked_query_vector(answer, dimension)


def checked_passage_vectors(answer: object, count: int, dimension: int, *, first: int = 0) -> NDArray[np.float32]:
    """Return a float32 copy, shape (count, dimension), of what was answered to `count` texts, or raise EmbedderError.

    A row is refused when it holds NaN or an infinity, also one that only float32 makes, and when it is all zeros as
    float32. Rows keep the values they have as float32: nothing is scaled.
    """
    numbers = _real_numbers(answer)
    if numbers.ndim == 0 or len(numbers) != count:
        came = "a single number" if numbers.ndim == 0 else f"{len(numbers)} vectors"
        raise EmbedderError(f"the embedder answered {came} for {count} texts; it must answer one vector for each text")
    _check_row_shape(numbers.shape[1:], dimension)
    return _float32_rows(numbers, "the vector of text {}", first)


def checked_query_vector(answer: object, dimension: int) -> NDArray[np.float32]:
    """Return a float32 copy, shape (dimension,), of what was answered to a query, or raise EmbedderError.

    The rules are those of a row of passages; any other shape is refused, (1, dimension) included.
    """
    numbers = _real_numbers(answer)
    _check_row_shape(numbers.shape, dimension)
    vector: NDArray[np.float32] = _float32_rows(numbers[np.newaxis], "the query's vector", 0)[0]
    return vector


@contextmanager
def _failures_as_embedder_errors() -> Iterator[None]:
    """Turn an embedder's exception into EmbedderError, the original as its cause; its text stays out of the message.

    EmbedderError passes unchanged, and so does IndexingCancelled, by which an embedder obeys the caller's token.
    """
    try:
        yield
    except (EmbedderError, IndexingCancelled):
        raise
    except Exception as error:
        raise EmbedderError(
            f"the embedder failed with {type(error).__name__}; its own exception is the __cause__ of this one"
        ) from error


def _real_numbers(answer: object) -> NDArray[Any]:
    """Return an answer as an array of a float or int dtype, not yet copied."""
    if inspect.iscoroutine(answer):
        answer.close()  # or Python would warn that it was never awaited
        raise EmbedderError("the embedder answered a coroutine, no vectors; a Library cannot await it")
    try:
        numbers = np.asarray(answer)
    except EmbedderError:
        raise
    except Exception as error:
        raise EmbedderError(
            f"the embedder answered a {type(answer).__name__} that makes no array of numbers (ragged rows, perhaps)"
        ) from error
    if numbers.dtype.kind not in "fiu":
        raise EmbedderError(
            f"the embedder answered a {type(answer).__name__} of dtype {numbers.dtype.name}; "
            "it must answer an array, or nested lists, of real numbers"
        )
    return numbers


def _check_row_shape(shape: tuple[int, ...], dimension: int) -> None:
    """Refuse rows that are no plain vectors of the declared length."""
    if len(shape) != 1:
        raise EmbedderError(
            f"the embedder declares dimension {dimension}: one vector has shape ({dimension},), but it answered {shape}"
        )
    if shape[0] != dimension:
        raise EmbedderError(f"the embedder declares dimension {dimension} but answered vectors of length {shape[0]}")


def _float32_rows(numbers: NDArray[Any], named: str, first: int) -> NDArray[np.float32]:
    """Return a checked float32 copy of rows; `named` is how a message names one of them by its position."""
    with np.errstate(all="ignore"):
        rows: NDArray[np.float32] = np.array(numbers, dtype=np.float32, order="C", copy=True, subok=False)
    finite = np.isfinite(rows)
    if not finite.all():
        row, component = (int(position) for position in np.argwhere(~finite)[0])
        problem = "is too large for float32" if np.isfinite(numbers[row, component]) else "is NaN or infinite"
        raise EmbedderError(f"{named.format(first + row)} {problem} at component {component}")
    empty = np.flatnonzero(~rows.any(axis=1))
    if empty.size:
        raise EmbedderError(f"{named.format(first + int(empty[0]))} is all zeros as float32; it has no direction")
    return rows


def _member(embedder: object, name: str, *default: object) -> object:
    """Return a member of an embedder; what reading it raises comes as EmbedderError."""
    with _failures_as_embedder_errors():
        try:
            return getattr(embedder, name, *default)
        except AttributeError as error:
            raise EmbedderError(
                f"a {type(embedder).__name__} is no embedder: its {name} cannot be read; "
                "wrap a function in FunctionEmbedder(function, id=…, dimension=…)"
            ) from error


def _check_method(name: str, method: object) -> None:
    if not callable(method):
        raise EmbedderError(f"an embedder needs the method {name}; this one's is a {type(method).__name__}")
    for called in (method, getattr(method, "__call__", None)):  # noqa: B004 - an object may have an async __call__
        if inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called):
            raise EmbedderError(
                f"{name} of this embedder is a coroutine function, which an AsyncLibrary alone awaits; make it plain"
            )


def _fingerprint(embedder: Embedder) -> Fingerprint:
    fingerprint = _member(embedder, "fingerprint")
    if not isinstance(fingerprint, Fingerprint):
        raise EmbedderError(f"an embedder's fingerprint must be a Fingerprint, not {type(fingerprint).__name__}")
    return fingerprint


def _limit(embedder: Embedder, name: str) -> int | None:
    value = _member(embedder, name, None)
    problem = limit_problem(name, value)
    if problem is not None:
        raise EmbedderError(f"this embedder's {problem}")
    return value if isinstance(value, int) else None


def _provider(embedder: Embedder) -> str:
    provider = _member(embedder, "provider", "custom")
    if not isinstance(provider, str) or is_blank(provider):
        raise EmbedderError(f"an embedder's provider must be a str that is not blank, not {type(provider).__name__}")
    return provider


def _takes_cancel(method: Callable[..., object]) -> bool:
    """Tell whether a method has a parameter named `cancel` that can be given by keyword."""
    try:
        parameter = inspect.signature(method).parameters.get("cancel")
    except (ValueError, TypeError):  # some callables of compiled modules have no signature
        return False
    return parameter is not None and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)


def _cancel_keyword(method: Callable[..., object], cancel: object) -> dict[str, Any]:
    """Return the keyword that hands a token to a method that takes it; nothing when there is no token."""
    return {} if cancel is None or not _takes_cancel(method) else {"cancel": cancel}
