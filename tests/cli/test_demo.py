"""examples/demo.py: the tour tells the truth, and the commands it ends with work."""

from __future__ import annotations

import importlib.util
import io
import shlex
import subprocess
import sys
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


def test_the_tour_says_before_each_question_what_to_notice(demo: Any, here: Path) -> None:
    text = toured(demo, here / "demo-library", LocalEmbedder())
    assert text.count("Notice: ") == len(demo.QUESTIONS) + 1
    launch, passwords, deleted = ("".join(text.split("Notice: ")[part]) for part in (1, 2, 3))
    assert "leads-weekly" in launch
    assert "python/secrets" in passwords
    assert "nightly import" in deleted


def test_an_answer_shows_no_text_twice(demo: Any, here: Path) -> None:
    with Library.open(here / "library", embedder=HashingEmbedder()) as library:
        for name in ("a", "b"):
            text = "# Title\n\nDate and time are said twice."
            library.index_source(demo.document(name, text, "northwind", ["staff"]))
        answer = library.search("date", scope=demo.TOM.scope)
    assert len(answer) == 2
    assert len(demo.distinct(answer, "date")) == 1


def test_help_says_what_the_demo_does_and_runs_nothing(demo: Any, here: Path) -> None:
    ran = subprocess.run([sys.executable, demo.__file__, "--help"], capture_output=True, text=True, check=True)
    assert "It makes ./demo-library anew each time" in ran.stdout
    assert not list(here.iterdir())


def test_the_tour_is_made_anew_and_leaves_other_directories_alone(demo: Any, here: Path) -> None:
    assert "rebuilt" not in toured(demo, here / "demo-library", HashingEmbedder())
    assert "demo-library is there from an earlier run" in toured(demo, here / "demo-library", HashingEmbedder())
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
