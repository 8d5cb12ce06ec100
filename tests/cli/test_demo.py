"""examples/demo.py: the tour tells the truth, and the commands it ends with work."""

from __future__ import annotations

import importlib.util
import io
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from stackroom import Library
from stackroom.embedders import Embedder, HashingEmbedder, LocalEmbedder

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine

MODULES = {"security": ["secrets", "hashlib"], "time": ["datetime"], "data": ["json", "no_such_module"]}


@pytest.fixture(scope="module")
def demo() -> Any:
    path = Path(__file__).parent.parent.parent / "examples" / "demo.py"
    spec = importlib.util.spec_from_file_location("stackroom_demo", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def toured(demo: Any, path: Path, embedder: Embedder) -> str:
    written = io.StringIO()
    console = Console(file=written, width=100, markup=False, emoji=False, highlight=False)
    demo.main(path, MODULES, embedder, console)
    return written.getvalue()


def test_the_tour_shows_what_each_may_see_and_ends_with_commands_that_work(
    demo: Any, here: Path, stackroom: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STACKROOM_EMBEDDER")
    text = toured(demo, here / "demo-library", LocalEmbedder())
    before, after = text.split("1. Re-scope")[1].split("2. Replace")[0], text.split("2. Replace")[1]
    assert "Weekly of the leads" in before
    assert "1 embedded, 2 reused" in after
    assert "13 passages gone" in after
    commands = [shlex.split(line) for line in text.splitlines() if "--library demo-library" in line]
    assert len(commands) == 7
    for command in commands:
        start = next(at for at, word in enumerate(command) if word in {"search", "sources", "show", "index", "info"})
        assert stackroom(*command[start:]).code == 0, command


def test_the_tour_is_made_anew_and_leaves_other_directories_alone(demo: Any, here: Path) -> None:
    toured(demo, here / "demo-library", HashingEmbedder())
    toured(demo, here / "demo-library", HashingEmbedder())
    (here / "mine").mkdir()
    (here / "mine" / "letter.txt").write_text("word", encoding="utf-8")
    with pytest.raises(Exception, match="nothing was touched"):
        toured(demo, here / "mine", HashingEmbedder())
    assert (here / "mine" / "letter.txt").exists()


def test_the_meeting_stays_with_the_leads(demo: Any, here: Path) -> None:
    with Library.open(here / "library", embedder=HashingEmbedder()) as library:
        for source in demo.all_sources({"security": ["secrets"]}):
            library.index_source(source)
        for person in (demo.TOM, demo.ZOE):
            assert library.source(demo.MEETING, scope=person.scope) is None
        assert library.source(demo.MEETING, scope=demo.MIA.scope) is not None
        assert library.source("python/secrets", scope=demo.MIA.scope) is None
        assert library.source("python/secrets", scope=demo.TOM.scope) is not None
