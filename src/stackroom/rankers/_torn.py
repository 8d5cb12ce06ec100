"""What a ranker does with a saved state that is torn: it is put aside with a warning, and a new one begun."""

from __future__ import annotations

import shutil
import warnings
import zlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_AT_A_TIME: Final = 1 << 20


class TornFile(Exception):
    """A saved file is not what was saved."""


def checksum(file: Path) -> int:
    """Return the CRC-32 of a file."""
    found = 0
    with file.open("rb") as opened:
        while part := opened.read(_AT_A_TIME):
            found = zlib.crc32(part, found)
    return found


def put_aside(files: Iterable[Path], aside: Path) -> None:
    """Move torn files into a directory, in place of what was put aside there before; warn of it."""
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    for file in files:
        if file.exists():
            file.rename(aside / file.name)
    warnings.warn(
        f"the saved state of a vector ranker is torn, or of another version: it was put aside in {aside.name}, and the"
        " store feeds the ranker anew",
        stacklevel=4,
    )
