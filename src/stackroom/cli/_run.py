"""From arguments to an exit code: every error becomes one line."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from cyclopts import CycloptsError

from stackroom import EmbedderMismatch, StackroomError
from stackroom.cli._app import app
from stackroom.cli._problems import Refused, WrongUsage
from stackroom.cli._shown import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

DONE: Final = 0
FAILED: Final = 1
WRONG_USAGE: Final = 2
INTERRUPTED: Final = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that `arguments` (default: the process's) ask for and return its exit code.

    0 done, 1 failed, 2 not understood, 130 interrupted. What failed is said on stderr, in one line, with what to do.
    """
    # A terminal that cannot show a character shows a substitute; a file gets all of them.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        result = app(
            sys.argv[1:] if arguments is None else list(arguments),
            print_error=False,
            exit_on_error=False,
            result_action="return_value",
        )
        sys.stdout.flush()
    except (CycloptsError, WrongUsage) as error:
        return _said(f"{error} See: stackroom --help", WRONG_USAGE)
    except BrokenPipeError:
        # Who read our output has gone. Python would complain again when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except EmbedderMismatch as error:
        return _said(f"{error}; without --embedder the library's own is taken", FAILED)
    except (StackroomError, Refused, ImportError, ValueError) as error:
        return _said(str(error), FAILED)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        return _said(f"{error.strerror or type(error).__name__}{where}", FAILED)
    except KeyboardInterrupt:
        return _said("interrupted; what was written stays", INTERRUPTED)
    return result if isinstance(result, int) else DONE


def _said(message: str, code: int) -> int:
    sys.stderr.write(f"stackroom: {one_line(message)}\n")
    return code
