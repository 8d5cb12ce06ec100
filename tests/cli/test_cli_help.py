"""The help texts: each has examples, they run, and docs/cli.md says the same."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stackroom.cli._app import app
from stackroom.cli._examples import COMMANDS as EXAMPLES
from stackroom.cli.docs import page

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine

COMMANDS = [name for name in EXAMPLES if name != "stackroom"]


def examples_in(help_text: str) -> list[list[str]]:
    block = help_text.partition("Examples:")[2]
    return [shlex.split(line) for line in block.splitlines() if line.strip().startswith("stackroom ")]


@pytest.mark.parametrize(
    "command", [(), *((name,) for name in COMMANDS)], ids=lambda command: " ".join(command) or "all"
)
@pytest.mark.usefixtures("here")
def test_every_help_has_examples(stackroom: CommandLine, command: tuple[str, ...]) -> None:
    ran = stackroom(*command, "--help")
    assert ran.code == 0
    assert examples_in(ran.out)


def test_every_command_has_examples_and_a_place_on_the_page() -> None:
    assert set(COMMANDS) == {name for name in app if not name.startswith("-")}


def test_the_examples_run_in_order_on_a_library_that_holds_something(
    stackroom: CommandLine, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STACKROOM_EMBEDDER")
    helps = [stackroom(*command, "--help").out for command in [(), *((name,) for name in COMMANDS)]]
    assert notes.is_dir()
    for example in [example for text in helps for example in examples_in(text)]:
        ran = stackroom(*example[1:])
        assert ran.code == 0, (example, ran.err)
        assert ran.out, example
        assert "nothing found" not in ran.out, example
        assert "no source in" not in ran.out, example
        assert "0 tenants" not in ran.out, example
        assert ": 0 sources" not in ran.out, example
        assert "nothing" not in ran.out, example


def test_docs_cli_md_is_current() -> None:
    written = Path(__file__).parent.parent.parent / "docs" / "cli.md"
    assert written.read_text(encoding="utf-8") == page(), "run: make docs"


def test_version_is_the_packages(stackroom: CommandLine) -> None:
    from importlib.metadata import version

    assert stackroom("--version").out.strip() == version("stackroom")
