"""How often a busy server is asked again, and how long is waited between."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Final, TypeVar

from stackroom.embedders._openai_answers import Failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from stackroom._cancel import CancelToken

T = TypeVar("T")

_FIRST_WAIT: Final = 0.25
_LONGEST_WAIT: Final = 8.0
_LONGEST_ASKED_FOR: Final = 60.0
"""Seconds; what a server asks for beyond is left to the caller."""


def until_answered(attempt: Callable[[], T | Failure], attempts: int, cancel: CancelToken | None) -> T:
    """Return the first answer that is no Failure; EmbedderError after `attempts`, or at one that waiting cannot mend.

    IndexingCancelled at once when the token is cancelled, before an attempt or while waiting.
    """
    for number in range(1, attempts + 1):
        if cancel is not None:
            cancel.raise_if_cancelled()
        answer = attempt()
        if not isinstance(answer, Failure):
            return answer
        is_too_long = answer.retry_after is not None and answer.retry_after > _LONGEST_ASKED_FOR
        if not answer.retryable or number == attempts or is_too_long:
            raise answer.error()
        pause(backoff(number) if answer.retry_after is None else answer.retry_after, cancel)
    raise AssertionError("the last attempt answers or raises")


def backoff(number: int) -> float:
    """Return the seconds to wait after so many attempts: 0.25, doubling, at most 8, of which a random half is cut."""
    longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** (number - 1))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


def pause(seconds: float, cancel: CancelToken | None) -> None:
    """Wait so long, or until the token is cancelled."""
    if cancel is None:
        threading.Event().wait(seconds)
    else:
        cancel.wait(seconds)
