"""What only shows in a process of its own: exit codes, missing extras, interrupts, pipes, terminals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = (sys.executable, "-m", "stackroom.cli")
SCOPE = ("--tenant", "acme", "--group", "staff")


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments, capture_output=True, text=True, check=False, encoding="utf-8", env={**os.environ, **environment}
    )


@pytest.mark.parametrize("missing", ["cyclopts", "rich"])
def test_without_the_extra_one_line_says_how_to_install_it(missing: str) -> None:
    ran = run(sys.executable, "-c", f"import sys; sys.modules[{missing!r}] = None; import stackroom.cli")
    assert ran.returncode == 1
    assert ran.stderr.count("\n") == 1
    assert 'pip install "stackroom[cli]"' in ran.stderr


def test_exit_codes_are_those_of_the_process(notes: Path) -> None:
    assert run(*PROGRAM, "index", str(notes), *SCOPE).returncode == 0
    assert run(*PROGRAM, "show", "absent", *SCOPE).returncode == 1
    assert run(*PROGRAM, "show", *SCOPE).returncode == 2


def test_a_listing_loads_no_model(notes: Path) -> None:
    run(*PROGRAM, "index", str(notes), *SCOPE, "--embedder", "local")
    code = (
        "import os, sys; del os.environ['STACKROOM_EMBEDDER']; from stackroom.cli import main; "
        f"assert main(['search', 'budget', '--mode', 'lexical', *{SCOPE!r}]) == 0; "
        f"assert main(['sources', *{SCOPE!r}]) == 0; "
        "assert 'tokenizers' not in sys.modules"
    )
    ran = run(sys.executable, "-c", code)
    assert ran.returncode == 0, ran.stderr


def test_json_on_a_stdout_of_ascii_is_whole(here: Path) -> None:
    (here / "a.txt").write_text("Straße", encoding="utf-8")
    run(*PROGRAM, "index", "a.txt", *SCOPE)
    ran = run(*PROGRAM, "show", "a.txt", *SCOPE, "--json", PYTHONIOENCODING="ascii")
    assert "Stra\\u00dfe" in ran.stdout
    plain = run(*PROGRAM, "show", "a.txt", *SCOPE, PYTHONIOENCODING="ascii")
    assert plain.returncode == 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a named pipe to wait at")
def test_an_interrupt_ends_with_130_and_no_traceback(here: Path) -> None:
    os.mkfifo(here / "slow.txt")
    index = [*PROGRAM, "index", "slow.txt", *SCOPE]
    slow = here / "slow.txt"
    # Opening the pipe waits until the program reads it.
    with subprocess.Popen(index, stderr=subprocess.PIPE, text=True) as process, slow.open("wb"):
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == "stackroom: interrupted; what was written by then stays\n"


@pytest.mark.skipif(sys.platform == "win32", reason="a pipe that closes is another error there")
def test_a_reader_who_goes_is_no_traceback(here: Path) -> None:
    (here / "a.txt").write_text("word " * 100_000, encoding="utf-8")
    run(*PROGRAM, "index", "a.txt", *SCOPE)
    for options in ((), ("--json",)):
        show = [*PROGRAM, "show", "a.txt", *SCOPE, *options]
        with subprocess.Popen(show, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.read(10)
            process.stdout.close()
            assert process.stderr.read() == b""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
@pytest.mark.parametrize(("options", "is_shown"), [((), True), (("--json",), False)], ids=["plain", "json"])
def test_a_bar_shows_on_a_terminal_and_not_with_json(notes: Path, options: tuple[str, ...], *, is_shown: bool) -> None:
    import pty

    ours, theirs = pty.openpty()
    index = [*PROGRAM, "index", str(notes), *SCOPE, *options]
    environment = {**os.environ, "TERM": "xterm"}
    subprocess.run(index, stdout=subprocess.DEVNULL, stderr=theirs, check=True, env=environment)
    os.write(theirs, b".")
    written = os.read(ours, 65536)
    os.close(ours)
    os.close(theirs)
    assert (b"indexing" in written) is is_shown
