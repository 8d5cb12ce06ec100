"""Second processes on the same directory: each runs a few lines of Python that begin with an open store."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROLOGUE = """
import sys
from stackroom import *
from stackroom.embedders import HashingEmbedder
from stackroom.filters import *
from stackroom.stores import *
path = sys.argv[1]
def library():
    return Library.open(path, embedder=HashingEmbedder(8))
def source(source_id, text, tenant="t", groups=("g",), passages=3):
    return Source(source_id, "doc", tenant, groups, [f"{text} {n}" for n in range(passages)])
def say(*words):
    print(*words, flush=True)
"""

Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Start Python on some lines; `path`, `library()`, `source(…)` and `say(…)` are there."""

    def run(lines: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", PROLOGUE + lines, str(tmp_path / "library")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return run


@pytest.fixture
def run(start: Start) -> Callable[[str], str]:
    """Run Python on some lines to its end and return what it printed; it must succeed."""

    def to_the_end(lines: str) -> str:
        out, errors = start(lines).communicate(timeout=60)
        assert not errors, errors
        return out.strip()

    return to_the_end
