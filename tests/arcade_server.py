"""A database that speaks Bolt and Cypher to the official driver of Neo4j: ArcadeDB, in a process of its own.

Run as `python arcade_server.py DIRECTORY BOLT_PORT HTTP_PORT PASSWORD`: it serves until its input is closed, which the
end of the parent does, however it comes, and leaves nothing.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SECONDS = 60


class NoServer(Exception):
    """Why there is none."""


@dataclass(frozen=True)
class Running:
    """Where it listens, and as whom to come."""

    port: int
    password: str
    process: subprocess.Popen[str]

    @property
    def url(self) -> str:
        return f"bolt://127.0.0.1:{self.port}"

    @property
    def dsn(self) -> str:
        return f"bolt://root:{self.password}@127.0.0.1:{self.port}/stackroom"


@contextlib.contextmanager
def running() -> Iterator[Running]:
    """Start one, on loopback, with its data in a directory that goes with it."""
    try:
        import arcadedb_embedded
    except ImportError as error:
        raise NoServer("pip install arcadedb-embedded") from error
    assert arcadedb_embedded
    from tests.ports import free_port  # not above: the server itself runs without this project

    port, http, password = free_port(), free_port(), secrets.token_urlsafe(16)
    with tempfile.TemporaryDirectory(prefix="stackroom-arcade-", ignore_cleanup_errors=True) as directory:
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).absolute()), directory, str(port), str(http), password],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=directory,  # where it writes its log
            text=True,
        )
        try:
            if process.stdout is None or process.stdout.readline().strip() != "ready":
                raise NoServer("ArcadeDB did not start")
            yield Running(port, password, process)
        finally:
            if process.stdin is not None:
                process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _listens(port: int) -> bool:
    """Wait until somebody listens, for a minute at most."""
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        time.sleep(0.05)
    return False


def main(directory: str, port: int, http: int, password: str) -> None:
    """Serve until the input is closed."""
    import arcadedb_embedded

    told = os.dup(1)  # the engine writes to the standard output
    os.dup2(2, 1)
    server = arcadedb_embedded.ArcadeDBServer(
        directory,
        password,
        config={
            "http_port": http,
            "host": "127.0.0.1",
            "server_plugins": "Bolt:com.arcadedb.bolt.BoltProtocolPlugin",
            "bolt_port": port,
        },
        jvm_kwargs={"heap_size": "1g"},
    )
    server.start()
    server.create_database("stackroom")
    os.write(told, b"ready\n" if _listens(port) else b"deaf\n")
    sys.stdin.read()
    server.stop()
    shutil.rmtree(Path(directory), ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
