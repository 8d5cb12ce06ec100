"""The commands of README.md do what somebody who types them expects, in their order."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine, Ran

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def ran(stackroom: CommandLine, here: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Ran]:
    """What each command came to, by its name."""
    monkeypatch.delenv("STACKROOM_EMBEDDER")
    shutil.copytree(ROOT / "docs", here / "docs")
    lines = re.findall(r"^stackroom (.+)$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    return {line.split()[0]: stackroom(*shlex.split(line)) for line in lines}


def test_they_all_work_and_the_first_hit_answers_the_question(ran: dict[str, Ran]) -> None:
    assert {name: one.err for name, one in ran.items() if one.code} == {}
    assert set(ran) >= {"index", "search", "sources", "rescope", "info"}
    first = ran["search"].out.partition(" 2. ")[0]
    assert "security.md" in first
    assert "A source is visible to whoever has one of its groups" in first
