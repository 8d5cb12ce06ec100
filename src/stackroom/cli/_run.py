"""From arguments to an exit code: every error becomes one line."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from cyclopts import CycloptsError, UnusedCliTokensError

from stackroom import EmbedderMismatch, StackroomError
from stackroom.cli._app import app
from stackroom.cli._opening import another_embedder
from stackroom.cli._problems import Refused, WrongUsage
from stackroom.cli._saying import give_up, say
from stackroom.cli._visible import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

DONE: Final = 0
FAILED: Final = 1
WRONG_USAGE: Final = 2

_EXPECTED: Final = (CycloptsError, WrongUsage, Refused, StackroomError, ImportError, OSError, ValueError)


def run(arguments: Sequence[str] | None) -> int:
    """Run a command and return its exit code; see `main`. KeyboardInterrupt is left to it."""
    _keep_standard_numbers()
    if sys.stdout is None:
        say(f"stdout is closed, so nothing was done; lead it to {os.devnull} when nobody is to read it")
        return FAILED
    # A terminal that cannot show a character shows a substitute; a file gets all of them.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        result = app(given, print_error=False, exit_on_error=False, result_action="return_value")
        sys.stdout.flush()
    except BrokenPipeError:
        # Who read our output has gone.
        give_up(sys.stdout)
        return FAILED
    except _EXPECTED as error:
        _flush_or_give_up()
        say(one_line(_message(error, given)))
        return _exit_code(error)
    return result if isinstance(result, int) else DONE


def _keep_standard_numbers() -> None:
    """Open nothing in the place of each standard stream that is closed, lest a file of the library get its number.

    Libraries in C write their complaints to number 2, whatever file that is.
    """
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if stream is None:
            os.open(os.devnull, os.O_RDWR)


def _flush_or_give_up() -> None:
    """Let go of what was written already, which may be what has failed: a full disk, a stream opened for reading."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        give_up(sys.stdout)


def _message(error: Exception, given: Sequence[str]) -> str:
    """Say what was wrong and what to do."""
    if isinstance(error, CycloptsError | WrongUsage):
        command = f" {given[0]}" if given and not given[0].startswith("-") and given[0] in app else ""
        hint = " Write a text of several words between quotes." if isinstance(error, UnusedCliTokensError) else ""
        return f"{error}{hint} See: stackroom{command} --help"
    if isinstance(error, EmbedderMismatch):
        return another_embedder(error.stored, error.given)
    if isinstance(error, OSError):
        return ": ".join(str(part) for part in (error.filename, error.strerror or type(error).__name__) if part)
    return _in_our_words(str(error)) if isinstance(error, StackroomError | ValueError) else str(error)


def _in_our_words(message: str) -> str:
    """Say what is an argument in Python as the command line takes it."""
    message = message.replace("begin again without after", "begin again without --after")
    for name in ("row_level_security", "manage_schema"):
        for value in (True, False):
            message = message.replace(f"{name}={value}", f"{name}={str(value).lower()} in the DSN")
    return message


def _exit_code(error: Exception) -> int:
    return WRONG_USAGE if isinstance(error, CycloptsError | WrongUsage) else FAILED
