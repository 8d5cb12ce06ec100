"""Code blocks of the README and of docs/ are tests: Python runs as it stands, `stackroom` commands run in a shell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sybil import Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser, SkipParser

if TYPE_CHECKING:
    from sybil import Example

ROOT = Path(__file__).parent


def run_stackroom_commands(example: Example) -> None:
    """Run the lines of a block that call `stackroom`; `make` and `pip` are what sets the machine up."""
    scripts = sysconfig.get_path("scripts")
    for line in example.parsed.replace("\\\n", " ").splitlines():
        if line.startswith("stackroom "):
            environment = {**os.environ, "PATH": os.pathsep.join([scripts, os.environ["PATH"]])}
            done = subprocess.run(  # noqa: S602 - a line of our own documentation, quoted for a shell
                line, shell=True, capture_output=True, text=True, check=False, env=environment
            )
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"  # noqa: S101 - this is a test


def in_a_directory_of_its_own(namespace: dict[str, Any]) -> None:
    """Begin a page in an empty directory that holds the project's docs, as a reader's checkout does."""
    namespace["__before"] = Path.cwd()
    namespace["__page"] = tempfile.mkdtemp()
    shutil.copytree(ROOT / "docs", Path(namespace["__page"]) / "docs")
    os.chdir(namespace["__page"])
    sys.stdout.flush()


def back_again(namespace: dict[str, Any]) -> None:
    """Leave the page's directory."""
    os.chdir(namespace["__before"])
    shutil.rmtree(namespace["__page"])


pytest_collect_file = Sybil(
    parsers=[
        SkipParser(),
        PythonCodeBlockParser(),
        CodeBlockParser(language="sh", evaluator=run_stackroom_commands),
    ],
    patterns=["README.md", "docs/*.md", "docs/**/*.md"],
    excludes=["docs/stores/postgres.md"],  # tests/postgres runs it, on a server
    setup=in_a_directory_of_its_own,
    teardown=back_again,
).pytest()
