"""Who holds a lock: a small file beside it, so that who waits too long can be told."""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

HOST: Final = socket.gethostname()

_BYTES: Final = 256


class Holder:
    """The file that names who took a lock last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None

    def sign(self) -> None:
        """Write down that this process has it now."""
        with suppress(OSError):
            if self._handle is None:
                self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            since = datetime.now(UTC).isoformat(timespec="seconds")
            signed = json.dumps({"process": os.getpid(), "host": HOST, "since": since})
            os.lseek(self._handle, 0, os.SEEK_SET)
            os.write(self._handle, signed.ljust(_BYTES).encode())

    def name(self) -> str:
        """Say who has it, as far as the file tells."""
        with suppress(OSError, ValueError, KeyError):
            read = json.loads(self._path.read_text(encoding="utf-8"))
            return f"process {read['process']} on {read['host']} (since {read['since']})"
        return "another process"

    def close(self) -> None:
        """Let the file go."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
