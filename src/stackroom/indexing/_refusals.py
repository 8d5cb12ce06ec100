"""What an embedder's refusal says: whether a text may be its reason, and the reason in words that a report may hold."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from stackroom._errors import EmbedderMismatch

if TYPE_CHECKING:
    from stackroom._errors import EmbedderError

_OF_A_TEXT: Final = frozenset(
    {HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY}
)
_MOST_CHARS: Final = 200
_TELLING: Final = 12
"""Characters in a row that words share with a text by more than chance."""


def may_be_of_a_text(error: EmbedderError) -> bool:
    """Tell whether another text might have been embedded: not where a key, a quota or an address is refused."""
    if error.retryable or isinstance(error, EmbedderMismatch):
        return False
    return error.status is None or error.status in _OF_A_TEXT


def reason_of(error: EmbedderError, text: str) -> str:
    """Return why the embedder refused a text, on one line of at most 200 characters and without any of the text."""
    if error.__cause__ is not None:
        return f"it failed with {type(error.__cause__).__name__}"
    words = " ".join("".join(char if char.isprintable() else " " for char in str(error)).split())
    if not _quotes(words, " ".join(text.split())):
        return words[:_MOST_CHARS]
    return "it gave a reason that repeats the text" + (f" (status {error.status})" if error.status is not None else "")


def _quotes(words: str, text: str) -> bool:
    length = min(_TELLING, len(text))
    return any(words[first : first + length] in text for first in range(len(words) - length + 1))
