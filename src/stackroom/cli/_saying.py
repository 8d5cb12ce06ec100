"""The one line on stderr that says why a command has not been done."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

INTERRUPTED: Final = 130
"""The exit code of a command that was interrupted."""

if TYPE_CHECKING:
    from typing import TextIO


def say(problem: str) -> None:
    """Write what is wrong to stderr; where there is none, or it takes nothing, the exit code has to do."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(f"stackroom: {problem}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        give_up(sys.stderr)


def give_up(stream: TextIO) -> None:
    """Lead a stream that takes nothing to nowhere; Python would complain when it flushes it at its end."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
