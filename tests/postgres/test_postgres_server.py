"""The tests' own server: it does not outlive a run, whatever ends that."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import missing

RUN = """
import sys
from tests.postgres_server import PACKAGE, NoServer, running
try:
    with running(PACKAGE) as server:
        print(server.data, flush=True)
        if sys.argv[1:] == ["forks"]:
            import os, signal
            if os.fork() == 0:
                os.close(1)
                signal.pause()
        sys.stdin.read()
except NoServer as error:
    print("none", error, flush=True)
"""


def is_running(process: int) -> bool:
    """Tell whether a process runs; one that has ended and that nobody asked after does not."""
    asked = ["ps", "-o", "stat=", "-p", str(process)]
    state = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return bool(state) and not state.startswith("Z")


@pytest.mark.parametrize("way", ["at its end", "killed", "killed with a child that lives on"])
def test_a_server_ends_with_the_run_that_started_it(way: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", RUN, *(["forks"] if "child" in way else [])],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        said = process.stdout.readline().strip()
        if said.startswith("none"):
            process.communicate()
            missing(said)
        try:
            data = Path(said)
            server = int((data / "postmaster.pid").read_text().splitlines()[0])
            assert is_running(server)
            if way == "at its end":
                process.stdin.close()
            else:
                process.kill()
            assert process.stdout.read() == ""  # which ends when the keeper has ended, too
        finally:
            process.kill()
            if "child" in way:
                os.killpg(process.pid, signal.SIGKILL)
    assert not is_running(server)
    assert not data.parent.exists()
