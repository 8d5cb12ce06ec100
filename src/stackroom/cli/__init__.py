"""The command line `stackroom`. Needs the extra `cli`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from stackroom.cli._saying import INTERRUPTED, say

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

_FAILED: Final = 1
_GO_ON: Final = frozenset({"index", "reembed", "copy", "export", "import"})
"""Commands that do what is left when they are given again."""
_AGAIN: Final = ": run the same command again to go on"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that `arguments` (default: the process's) ask for and return its exit code.

    0 done, 1 failed, 2 not understood, 130 interrupted. What failed is said on stderr, in one line, with what to do.
    """
    try:
        # Imported here, so that an interrupt while it loads ends like any other.
        from stackroom.cli._run import run

        return run(arguments)
    except KeyboardInterrupt:
        given = sys.argv[1:] if arguments is None else arguments
        say("interrupted; what was written by then stays" + (_AGAIN if given and given[0] in _GO_ON else ""))
        return INTERRUPTED
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] not in {"cyclopts", "rich"}:
            raise
        say('the command line needs its extra: pip install "stackroom[cli]"')
        return _FAILED
