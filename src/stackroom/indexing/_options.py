"""The options that both doors share, checked before anything is read."""

from __future__ import annotations

import warnings
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from stackroom._cancel import CancelToken
from stackroom._errors import InputCeilingWarning
from stackroom.text._arguments import require_size

if TYPE_CHECKING:
    from stackroom.embedders._door import EmbedderLimits

DEFAULT_CEILING: Final = 2000
"""Characters that a vector is taken to cover when nobody says."""


def check_shared(
    *, cancel: object, on_embedding: object, on_progress: object, max_concurrency: object, max_chunk_chars: object
) -> None:
    """Check the options of every bulk function: ValueError for a number, TypeError for what cannot be called."""
    require_size("max_concurrency", max_concurrency, least=1)
    if max_chunk_chars is not None:
        require_size("max_chunk_chars", max_chunk_chars, least=1)
    if cancel is not None and not isinstance(cancel, CancelToken):
        raise TypeError(f"cancel must be a CancelToken or None, not {type(cancel).__name__}")
    for name, callback in (("on_embedding", on_embedding), ("on_progress", on_progress)):
        if callback is not None and not callable(callback):
            raise TypeError(f"{name} must be a function of one argument or None, not {type(callback).__name__}")


def expiry_of(ttl: object, now: datetime) -> datetime | None:
    """Return when sources expire that live for `ttl` from now on; None lets them live on."""
    if ttl is None:
        return None
    if not isinstance(ttl, timedelta):
        raise TypeError(f"ttl must be a timedelta or None, not {type(ttl).__name__}")
    if ttl <= timedelta():
        raise ValueError("ttl must be longer than nothing; None lets the sources live on")
    try:
        return now + ttl
    except OverflowError:
        raise ValueError("ttl is too long: the sources would expire after the year 9999") from None


def ceiling_of(limits: EmbedderLimits, max_chunk_chars: int | None) -> tuple[int, str]:
    """Return the characters that a vector covers, and where the number comes from."""
    if max_chunk_chars is not None:
        return max_chunk_chars, "max_chunk_chars"
    if limits.max_input_chars is not None:
        return limits.max_input_chars, f"the embedder {limits.fingerprint.id}"
    return DEFAULT_CEILING, "the default, since the embedder declares none"


def warn_of_ceiling(
    function: str, over: int, of: str, ceiling: tuple[int, str], advice: str, *, stacklevel: int
) -> None:
    """Say once that some texts are longer than what a vector covers; `stacklevel` counts from who calls this."""
    if not over:
        return
    number, origin = ceiling
    warnings.warn(
        f"{function}: {over} of {of} are longer than {number} characters ({origin}). Their vectors cover only the "
        f"opening, while the whole text is stored and found by its words; {advice}",
        InputCeilingWarning,
        stacklevel=stacklevel + 1,
    )
