"""Ends the servers in a directory and erases it, when the process that made it has ended, however it did.

Run as a process of its own: `python postgres_keeper.py DIRECTORY PG_CTL USER PARENT`, with a pipe as its input that is
closed when the work is done. A parent that is killed closes it too; a child that the parent forked may hold it open, so
the parent is looked for as well.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
from pathlib import Path

_SECONDS = 0.5


def _wait_for_the_end_of(parent: int) -> None:
    while os.getppid() == parent and not select.select([sys.stdin], [], [], _SECONDS)[0]:
        pass


def main(directory: Path, pg_ctl: str, user: str, parent: int) -> None:
    """Wait, stop what runs, and erase the directory."""
    _wait_for_the_end_of(parent)
    for running in directory.glob("*/postmaster.pid"):
        subprocess.run(
            [pg_ctl, "-D", str(running.parent), "-m", "immediate", "-w", "stop"],
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            user=user or None,
        )
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
