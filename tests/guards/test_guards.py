"""No guard can go unseen: each is taken out in turn, and the tests named beside it must fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.guards.guard import Guard
from tests.guards.table import GUARDS
from tests.guards.without import VARIABLE, without

ROOT = Path(__file__).parents[2]
SOME_FAILED = 1
PATIENCE = 120
"""Seconds after which a run without a guard is taken to hang, which no test here lets it do."""


def run_without(guard: Guard) -> subprocess.CompletedProcess[str]:
    """Run the tests of a guard in a process of their own where it is taken out, up to the first failure."""
    options = ["-x", "-q", "-p", "tests.guards.without", "-p", "no:cacheprovider", "--assert=plain"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    environment |= {VARIABLE: json.dumps([guard.module, guard.text, guard.instead])}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *guard.tests],
        cwd=ROOT,
        env=environment,
        timeout=PATIENCE,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("guard", GUARDS, ids=str)
def test_tests_turn_red_without_their_guard(guard: Guard) -> None:
    done = run_without(guard)
    if done.returncode >= 0:  # else a library of C ended the process, as some do without their guard
        assert done.returncode == SOME_FAILED, done.stdout + done.stderr
        assert "1 failed" in done.stdout


def test_every_guard_has_a_name_of_its_own() -> None:
    assert len({guard.name for guard in GUARDS}) == len(GUARDS)


def test_a_guard_that_no_longer_stands_in_the_source_is_an_error() -> None:
    assert without("a\nb\n", "a\n", "") == "b\n"
    for source in ("b\n", "a\na\n"):
        with pytest.raises(ValueError, match="not once"):
            without(source, "a\n", "")
