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

    from tests.cli.conftest import CommandLine

PROGRAM = (sys.executable, "-m", "stackroom.cli")
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs a device that is full")
SCOPE = ("--tenant", "acme", "--group", "staff")


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments, capture_output=True, text=True, check=False, encoding="utf-8", env={**os.environ, **environment}
    )


@pytest.mark.parametrize("missing", ["cyclopts", "rich"])
def test_without_the_extra_one_line_says_how_to_install_it(missing: str) -> None:
    ran = run(
        sys.executable,
        "-c",
        f"import sys; sys.modules[{missing!r}] = None; import stackroom.cli; sys.exit(stackroom.cli.main())",
    )
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


INTERRUPTED = "stackroom: interrupted; what was written by then stays\n"

PRESSES_AT_IMPORT = """
import runpy, signal, sys

class Presses:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Presses())
sys.argv = ["stackroom", {command!r}]
runpy.run_module("stackroom.cli", run_name="__main__", alter_sys=True)
"""

PRESSES_AT_OPENING = """
import signal, sys
from stackroom.cli import main

def press(event, arguments):
    if event == "open" and str(arguments[0]).endswith({name!r}):
        signal.raise_signal(signal.SIGINT)

sys.addaudithook(press)
sys.exit(main(sys.argv[1:]))
"""


AND_AGAIN = INTERRUPTED.replace("stays\n", "stays: run the same command again to go on\n")


@pytest.mark.parametrize(
    "module", ["numpy", "stackroom._library", "stackroom.cli._run", "cyclopts", "rich.console", "stackroom.cli._app"]
)
def test_an_interrupt_while_the_program_loads_ends_with_130_and_one_line(module: str) -> None:
    ran = run(sys.executable, "-c", PRESSES_AT_IMPORT.format(module=module, command="info"))
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", INTERRUPTED)


@pytest.mark.parametrize("command", ["index", "reembed", "copy", "export", "import"])
def test_an_interrupt_of_what_can_go_on_says_how_also_while_the_program_loads(command: str) -> None:
    ran = run(sys.executable, "-c", PRESSES_AT_IMPORT.format(module="numpy", command=command))
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", AND_AGAIN)


def test_an_interrupt_before_indexing_has_begun_says_how_to_go_on(here: Path) -> None:
    (here / "a.txt").write_text("word", encoding="utf-8")
    code = PRESSES_AT_IMPORT.replace('["stackroom", {command!r}]', '["stackroom", *sys.argv[1:]]')
    ran = run(sys.executable, "-c", code.format(module="stackroom.embedders._model2vec"), "index", "a.txt", *SCOPE)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", AND_AGAIN)


def test_what_loads_before_an_interrupt_is_minded_is_next_to_nothing() -> None:
    code = (
        "import __future__, sys, contextlib, importlib, typing; before = set(sys.modules); "
        "import stackroom.cli; print(*set(sys.modules) - before)"
    )
    loaded = set(run(sys.executable, "-c", code).stdout.split())
    assert loaded == {"stackroom", "stackroom.cli", "stackroom.cli._saying"}


def test_an_interrupt_of_indexing_ends_with_130_and_what_was_written_stays(here: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (here / name).write_text("word", encoding="utf-8")
    code = PRESSES_AT_OPENING.format(name="b.txt")
    ran = run(sys.executable, "-c", code, "index", "a.txt", "b.txt", *SCOPE)
    assert (ran.returncode, ran.stdout) == (130, "")
    assert ran.stderr == AND_AGAIN
    assert run(*PROGRAM, "sources", *SCOPE).stdout.splitlines()[1].startswith("a.txt\t")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
def test_an_interrupt_of_a_question_ends_with_130_and_removes_nothing(stackroom: CommandLine, notes: Path) -> None:
    stackroom.index(str(notes))
    import pty

    ours, theirs = pty.openpty()
    command = (*PROGRAM, "remove-tenant", "acme")
    with subprocess.Popen(command, stdin=theirs, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        asked = "".join(iter(lambda: process.stderr.read(1), "]"))  # type: ignore[union-attr] # asserted above
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    os.close(ours)
    os.close(theirs)
    assert asked.startswith("Remove tenant acme")
    assert said.strip().endswith(INTERRUPTED.strip())
    assert process.returncode == 130
    assert "budget.md" in run(*PROGRAM, "sources", *SCOPE).stdout


def in_a_shell(redirected: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program with its streams as a shell leads them."""
    return run("sh", "-c", f'"$@" {redirected}', "sh", *PROGRAM, *arguments)


COMMANDS = [
    ("index", "notes", *SCOPE),
    ("search", "budget", *SCOPE, "--json"),
    ("sources", *SCOPE),
    ("remove", "kickoff.vtt", "--tenant", "acme"),
    ("--help",),
]


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_without_a_stdout_nothing_is_done_and_one_line_says_so(
    stackroom: CommandLine, notes: Path, command: tuple[str, ...]
) -> None:
    if command[0] != "index":
        stackroom.index(str(notes))
    ran = in_a_shell(">&-", *command)
    assert (ran.returncode, ran.stderr.count("\n")) == (1, 1)
    assert ran.stderr.startswith("stackroom: stdout is closed, so nothing was done")
    assert (notes.parent / "library").exists() is (command[0] != "index")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
def test_without_any_stream_the_exit_code_says_it_all(notes: Path) -> None:
    assert in_a_shell("<&- >&- 2>&-", "index", str(notes), *SCOPE).returncode == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
def test_without_stderr_and_stdin_a_command_works(notes: Path) -> None:
    (notes / "broken.txt").write_bytes(b"caf\xe9")
    ran = in_a_shell("<&- 2>&-", "index", str(notes), *SCOPE)
    assert (ran.returncode, ran.stderr) == (1, "")
    assert "indexed 2 sources" in ran.stdout
    assert in_a_shell("<&- 2>&-", "show", "absent", *SCOPE).returncode == 1
    assert in_a_shell("<&- 2>&-", "show").returncode == 2


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
def test_without_stdin_a_question_is_refused_as_without_a_terminal(stackroom: CommandLine, notes: Path) -> None:
    stackroom.index(str(notes))
    ran = in_a_shell("<&-", "remove-tenant", "acme")
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (1, "", 1)
    assert "add --yes" in ran.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
@pytest.mark.parametrize("redirected", ["1</dev/null", pytest.param(">/dev/full", marks=LINUX)])
@pytest.mark.parametrize("options", [(), ("--json",)], ids=["plain", "json"])
def test_a_stdout_that_takes_nothing_is_one_line(
    stackroom: CommandLine, notes: Path, redirected: str, options: tuple[str, ...]
) -> None:
    stackroom.index(str(notes))
    ran = in_a_shell(redirected, "sources", *SCOPE, *options)
    assert (ran.returncode, ran.stderr.count("\n")) == (1, 1)
    assert ran.stderr.startswith("stackroom: ")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
@pytest.mark.parametrize("redirected", ["2</dev/null", pytest.param("2>/dev/full", marks=LINUX)])
def test_a_stderr_that_takes_nothing_leaves_the_exit_code_as_it_is(redirected: str) -> None:
    assert in_a_shell(redirected, "show").returncode == 2
    assert in_a_shell(redirected, "info").returncode == 1


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
