"""A MariaDB server for tests and benchmarks: real, on a free loopback port, its data in a fresh directory, gone later.

Its programs are those on the PATH, or else those of Debian's packages, which are downloaded and unpacked into that
directory: nothing is installed, and no service of the machine is touched.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

_PACKAGES = ("mariadb-server-core", "mariadb-common", "mysql-common", "libaio1", "liburing2")
_PATIENCE = 60.0

_UNSAFE_BUT_QUICK = ("--innodb-flush-log-at-trx-commit=0", "--skip-log-bin")
"""A power failure may lose data; the death of a client may not."""


class NoMariadb(Exception):
    """There is no MariaDB to be had here; the message says why."""


@dataclass(frozen=True, slots=True)
class _Programs:
    """Where the server's program and its files lie."""

    server: Path
    base: Path

    def command(self, data: Path, *options: str) -> list[str]:
        """Return the command that runs the server on data."""
        user = ["--user=root"] if os.geteuid() == 0 else []
        return [
            str(self.server),
            "--no-defaults",
            *user,
            f"--basedir={self.base}",
            f"--lc-messages-dir={self.base / 'share/mysql'}",
            f"--datadir={data}",
            *options,
        ]

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment that the program finds its libraries in."""
        libraries = [str(folder) for folder in (self.base / "lib").glob("*-linux-gnu")]
        return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join([*libraries, os.environ.get("LD_LIBRARY_PATH", "")])}


@dataclass(slots=True)
class Server:
    """A running server."""

    programs: _Programs
    data: Path
    port: int
    options: tuple[str, ...]
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        """Where the superuser reaches it, without a database."""
        return f"mysql+pymysql://root@127.0.0.1:{self.port}/"

    def kill(self) -> None:
        """Let it crash."""
        self.process.kill()
        self.process.wait()

    def start(self) -> None:
        """Start it on its data, and wait until it answers."""
        self.process = _started(self.programs, self.data, self.port, self.options)


@contextmanager
def running(*, durable: bool = False) -> Iterator[Server]:
    """Start a server; stop it and erase its data at the end. NoMariadb says why not.

    With `durable` it acknowledges what is on disk, as it does unless told otherwise.
    """
    with tempfile.TemporaryDirectory(prefix="stackroom-mariadb-", ignore_cleanup_errors=True) as made:
        programs, data, port = _programs(Path(made)), Path(made) / "data", free_port()
        data.mkdir()
        _fill(programs, data)
        options = () if durable else _UNSAFE_BUT_QUICK
        server = Server(programs, data, port, options, _started(programs, data, port, options))
        try:
            yield server
        finally:
            server.kill()


def _programs(directory: Path) -> _Programs:
    found = shutil.which("mariadbd", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"]))
    if found:
        return _Programs(Path(found), Path(found).resolve().parents[1])
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        raise NoMariadb("no program mariadbd, and no apt to download it with")
    download = ["apt-get", "-q", "download", *_PACKAGES]
    if subprocess.run(download, cwd=directory, check=False, capture_output=True).returncode:
        raise NoMariadb("apt could not download mariadb-server-core")
    unpacked = directory / "unpacked"
    for package in directory.glob("*.deb"):
        subprocess.run(["dpkg", "-x", str(package), str(unpacked)], check=True, capture_output=True)  # noqa: S607
    return _Programs(unpacked / "usr/sbin/mariadbd", unpacked / "usr")


def _fill(programs: _Programs, data: Path) -> None:
    """Make the server's own tables."""
    begin = "CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n"
    names = ("mysql_system_tables", "mysql_performance_tables", "mysql_system_tables_data")
    statements = begin + "".join((programs.base / f"share/mysql/{name}.sql").read_text() for name in names)
    made = subprocess.run(
        programs.command(data, "--bootstrap"),
        input=statements.encode(),
        env=programs.environment,
        check=False,
        capture_output=True,
    )
    if made.returncode:
        raise NoMariadb(f"mariadbd --bootstrap ended with code {made.returncode}")


def _started(programs: _Programs, data: Path, port: int, settings: tuple[str, ...]) -> subprocess.Popen[bytes]:
    options = [
        f"--socket={data / 'socket'}",
        f"--pid-file={data / 'pid'}",
        f"--log-error={data / 'errors'}",
        "--bind-address=127.0.0.1",
        f"--port={port}",
        "--max-connections=300",
        "--innodb-buffer-pool-size=1G",
        "--innodb-log-file-size=256M",
        *settings,
    ]
    process = subprocess.Popen(
        programs.command(data, *options),
        env=programs.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as probe:
            if not probe.connect_ex(("127.0.0.1", port)):
                return process
        time.sleep(0.02)
    process.kill()
    raise NoMariadb("the server did not start")
