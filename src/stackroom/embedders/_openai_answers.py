"""What an embeddings server's answer says: vectors, each in its place, or what went wrong."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stackroom._errors import EmbedderError
from stackroom.embedders._protocol import MAX_DIMENSION
from stackroom.text._arguments import is_whole_number

if TYPE_CHECKING:
    import httpx2
    from numpy.typing import NDArray

_TRIED_AGAIN: Final = frozenset({408, 429, 500, 502, 503, 504})
_OUT_OF_QUOTA: Final = "insufficient_quota"
_MOST_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt brought no vectors."""

    message: str
    retryable: bool
    status: int | None = None
    retry_after: float | None = None

    def error(self) -> EmbedderError:
        """Return what the caller is told when no attempt is left."""
        return EmbedderError(self.message, retryable=self.retryable, retry_after=self.retry_after, status=self.status)


def failure_of(response: httpx2.Response, key: str | None) -> Failure:
    """Return what an answer that is no success says: the server's own words are cut, and the key is masked."""
    status = response.status_code
    words, code = _said(response)
    if key is not None:
        words = words.replace(key, "[key]")
    said = " ".join("".join(char if char.isprintable() else " " for char in words).split())[:_MOST_CHARS]
    is_spent = status == HTTPStatus.TOO_MANY_REQUESTS and code == _OUT_OF_QUOTA
    return Failure(
        f"the embeddings server answered {status}" + (f": {said}" if said else ""),
        retryable=status in _TRIED_AGAIN and not is_spent,
        status=status,
        retry_after=_retry_after(response.headers.get("Retry-After")),
    )


def undecodable(response: httpx2.Response) -> Failure:
    """Return what is said of an answer whose body is not encoded as its headers say; of a success it has no status."""
    status = response.status_code
    return Failure(
        f"the embeddings server answered {status} with a body that cannot be decoded",
        retryable=status in _TRIED_AGAIN,
        status=None if response.is_success else status,
        retry_after=_retry_after(response.headers.get("Retry-After")),
    )


def vectors_of(response: httpx2.Response, count: int) -> tuple[NDArray[np.float32], int]:
    """Return the vectors of `count` texts in the order of the texts, and the tokens spent; else EmbedderError."""
    answer = _json(response)
    items = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise EmbedderError("the embeddings server answered no list of vectors under `data`; is the base_url right?")
    if len(items) != count:
        raise EmbedderError(f"the embeddings server answered {len(items)} vectors for {count} texts")
    rows = [_row(item.get("embedding")) for item in _in_order(items)]
    if len({len(row) for row in rows}) != 1:
        raise EmbedderError("the embeddings server answered vectors of different lengths")
    if not 1 <= len(rows[0]) <= MAX_DIMENSION:
        raise EmbedderError(f"the embeddings server answered vectors of length {len(rows[0])}, which none may have")
    usage = answer.get("usage")
    tokens = usage.get("total_tokens") if isinstance(usage, dict) else 0
    return np.stack(rows), tokens if is_whole_number(tokens) and tokens > 0 else 0


def _in_order(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the items by their index; in the order given when none has one."""
    indexes = [item.get("index") for item in items]
    if all(index is None for index in indexes):
        return items
    by_index = {index: item for index, item in zip(indexes, items, strict=True) if is_whole_number(index)}
    if by_index.keys() != set(range(len(items))):
        raise EmbedderError(f"the indexes of the embeddings server's answer are not 0 to {len(items) - 1}, each once")
    return [by_index[index] for index in range(len(items))]


def _row(embedding: object) -> NDArray[np.float32]:
    """Return one vector, written as numbers or as base64 of little-endian float32."""
    try:
        if isinstance(embedding, str):
            return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4")
        if isinstance(embedding, list) and all(type(number) in {int, float} for number in embedding):
            with np.errstate(over="ignore"):  # what is too large for float32 is refused at the door, by its position
                return np.asarray(embedding, dtype=np.float32)
    except (ValueError, OverflowError, binascii.Error):
        pass
    raise EmbedderError("the embeddings server answered a vector that is no list of numbers, nor base64 of one")


def _json(response: httpx2.Response) -> Any:
    try:
        return response.json()
    except (ValueError, RecursionError):
        raise EmbedderError("the embeddings server's answer is not JSON; is the base_url right?") from None


def _said(response: httpx2.Response) -> tuple[str, object]:
    """Return the server's own words and its code for what went wrong."""
    try:
        answer = response.json()
    except (ValueError, RecursionError):
        return response.text, None
    error = answer.get("error", answer) if isinstance(answer, dict) else answer
    if isinstance(error, dict):
        message = next((error[name] for name in ("message", "detail", "msg") if isinstance(error.get(name), str)), "")
        return message, error.get("code") or error.get("type")
    return str(error), None


def _retry_after(header: str | None) -> float | None:
    """Return the seconds that a server asks to wait, written as a number or as a date; None when it does not."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        seconds = _seconds_until(header)
    return max(0.0, seconds) if seconds < float("inf") else None  # NaN is no time either


def _seconds_until(date: str) -> float:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return float("nan")
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - datetime.now(UTC)).total_seconds()
