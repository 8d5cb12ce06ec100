"""From arguments to an exit code: every error becomes one line."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from cyclopts import CycloptsError

from stackroom import EmbedderMismatch, StackroomError
from stackroom.cli._app import app
from stackroom.cli._problems import Refused, WrongUsage
from stackroom.cli._visible import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

DONE: Final = 0
FAILED: Final = 1
WRONG_USAGE: Final = 2
INTERRUPTED: Final = 130

_EXPECTED: Final = (
    CycloptsError,
    WrongUsage,
    Refused,
    StackroomError,
    ImportError,
    OSError,
    ValueError,
    KeyboardInterrupt,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that `arguments` (default: the process's) ask for and return its exit code.

    0 done, 1 failed, 2 not understood, 130 interrupted. What failed is said on stderr, in one line, with what to do.
    """
    # A terminal that cannot show a character shows a substitute; a file gets all of them.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        result = app(
            given,
            print_error=False,
            exit_on_error=False,
            result_action="return_value",
        )
        sys.stdout.flush()
    except BrokenPipeError:
        # Who read our output has gone. Python would complain again when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except _EXPECTED as error:
        sys.stderr.write(f"stackroom: {one_line(_message(error, given))}\n")
        return _exit_code(error)
    return result if isinstance(result, int) else DONE


def _message(error: BaseException, given: Sequence[str]) -> str:
    """Say what was wrong and what to do."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted; what was written by then stays"
    if isinstance(error, CycloptsError | WrongUsage):
        command = f" {given[0]}" if given and not given[0].startswith("-") and given[0] in app else ""
        return f"{error} See: stackroom{command} --help"
    if isinstance(error, EmbedderMismatch):
        return f"{error}; without --embedder the library's own is taken"
    if isinstance(error, OSError):
        return ": ".join(str(part) for part in (error.filename, error.strerror or type(error).__name__) if part)
    return str(error)


def _exit_code(error: BaseException) -> int:
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return WRONG_USAGE if isinstance(error, CycloptsError | WrongUsage) else FAILED
