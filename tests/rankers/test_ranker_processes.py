"""Several processes, and kills at every point between a commit and its acknowledgement by the ranker."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.rankers.conftest import source

from stackroom import Library, Scope
from stackroom.embedders import HashingEmbedder
from stackroom.filters import And, Eq, Exists
from stackroom.rankers import ExactRanker
from stackroom.stores import Record

SCOPE = Scope("t", ["g"])

LINES = """
import json, os, signal, sys
from stackroom import *
from stackroom.embedders import HashingEmbedder
from stackroom.stores.embedded import _feed, _shards, _turns
from tests.rankers.test_ranker_processes import FileRanker
path, log = sys.argv[1:]
def library(ranker=True):
    return Library.open(path, embedder=HashingEmbedder(8), ranker=FileRanker(log) if ranker else None)
def source(source_id, *texts, tenant="t"):
    return Source(source_id, "doc", tenant, ["g"], texts)
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
"""

Start = Callable[[str], "subprocess.Popen[str]"]


class FileRanker:
    """A ranker whose state is a file of the calls it got, one a line; each is there when the call returns."""

    durable_id = "file"

    def __init__(self, log: Path | str) -> None:
        self.log = Path(log)

    def rank_by_similarity(self, **asked: Any) -> Any:
        exact = ExactRanker()
        for passage_id, vector in self.held(asked["tenant_id"]).items():
            import numpy as np

            exact.on_embedding_persisted(
                tenant_id=asked["tenant_id"], passage_id=passage_id, vector=np.asarray(vector, dtype=np.float32)
            )
        return exact.rank_by_similarity(**asked)

    def on_embedding_persisted(self, *, tenant_id: str, passage_id: str, vector: Any) -> None:
        self.write([tenant_id, passage_id, None if vector is None else vector.tolist()])

    def write(self, call: list[Any]) -> None:
        with self.log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(call) + "\n")

    def calls(self) -> list[list[Any]]:
        if not self.log.exists():
            return []
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]

    def held(self, tenant_id: str = "t") -> dict[str, Any]:
        held: dict[str, Any] = {}
        for tenant, passage_id, vector in self.calls():
            if tenant == tenant_id:
                held.pop(passage_id, None)
                if vector is not None:
                    held[passage_id] = vector
        return held


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "calls"


@pytest.fixture
def start(tmp_path: Path, log: Path) -> Start:
    def run(lines: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", LINES + lines, str(tmp_path / "library"), str(log)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return run


@pytest.fixture
def run(start: Start) -> Callable[..., None]:
    def to_the_end(lines: str, *, ends: int = 0) -> None:
        process = start(lines)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == ends, errors

    return to_the_end


@pytest.fixture
def library(tmp_path: Path, log: Path) -> Iterator[Library]:
    with Library.open(tmp_path / "library", embedder=HashingEmbedder(8), ranker=FileRanker(log)) as opened:
        yield opened


def stored(library: Library, scope: Scope = SCOPE) -> dict[str, list[float]]:
    """Return what the library holds, as the ranker should."""
    found = {}
    for info in library.sources(scope=scope):
        for hit in library.passages(info.source_id, scope=scope):
            found[hit.id] = HashingEmbedder(8).embed_query(hit.text)
    return {name: [float(number) for number in vector] for name, vector in found.items()}


def assert_ranker_has_what_is_stored(library: Library, log: Path) -> None:
    held, expected = FileRanker(log).held(), stored(library)
    assert held.keys() == expected.keys()
    for name, vector in held.items():
        assert vector == pytest.approx(expected[name], abs=1e-6)


KILLS = {
    "between commit and hook": "_feed.Feed.written = die",
    "between note and hook": "_turns.Hooks.call = die",
    "within the hook": "FileRanker.write = die",
    "between hook and acknowledgement": """
write = FileRanker.write
FileRanker.write = lambda *call: (write(*call), die())
""",
    "within the acknowledgement": """
from stackroom.stores.embedded import _book
_book.Book.strike_off = die
""",
    "before the acknowledgement is durable": """
from stackroom.stores.embedded import _book
strike_off = _book.Book.strike_off
_book.Book.strike_off = lambda *rest: (strike_off(*rest), die())
""",
}


@pytest.mark.parametrize("kill", KILLS.values(), ids=KILLS)
@pytest.mark.parametrize(
    "write",
    ['l.index_source(source("s", "new", "b"))', 'l.remove_source("s", tenant_id="t")'],
    ids=["replace", "remove"],
)
def test_a_kill_loses_no_call(tmp_path: Path, log: Path, run: Callable[..., None], kill: str, write: str) -> None:
    run('with library() as l: l.index_source(source("s", "a", "b", "c")); l.index_source(source("r", "d"))')
    assert len(FileRanker(log).held()) == 4
    run(
        f"with library() as l:\n    l.count(scope=Scope('t', ['g']))\n{_indented(kill)}\n    {write}",
        ends=-signal.SIGKILL,
    )
    with Library.open(tmp_path / "library", embedder=HashingEmbedder(8), ranker=FileRanker(log)) as library:
        assert library.count(scope=SCOPE) in {1, 3}  # the write itself was acknowledged by the disk
        assert_ranker_has_what_is_stored(library, log)


def _indented(lines: str) -> str:
    return "\n".join(f"    {line}" for line in lines.strip().splitlines())


def test_what_came_within_a_kill_and_went_before_the_next_feed_is_told_to_go(
    tmp_path: Path, log: Path, run: Callable[..., None]
) -> None:
    run('with library() as l: l.index_source(source("r", "d"))')
    run(
        "with library() as l:\n    l.count(scope=Scope('t', ['g']))\n"
        + _indented(KILLS["between hook and acknowledgement"])
        + '\n    l.index_source(source("s", "a"))',
        ends=-signal.SIGKILL,
    )
    assert "s#0" in FileRanker(log).held()
    run('with library(ranker=False) as l: l.remove_source("s", tenant_id="t")')
    with Library.open(tmp_path / "library", embedder=HashingEmbedder(8), ranker=FileRanker(log)) as library:
        assert library.count(scope=SCOPE) == 1
        assert_ranker_has_what_is_stored(library, log)


@pytest.mark.parametrize(
    "kill", ["_feed.Feed.departed = die", "_turns.Hooks.call = die", "_shards.Shards.remove_gone = die"]
)
def test_a_kill_loses_nothing_of_a_removed_tenant(
    tmp_path: Path, log: Path, run: Callable[..., None], kill: str
) -> None:
    run('with library() as l: l.index_source(source("s", "a", "b"))')
    run(f"with library() as l:\n    l.count(scope=Scope('t', ['g']))\n    {kill}\n    l.remove_tenant('t')", ends=-9)
    with Library.open(tmp_path / "library", embedder=HashingEmbedder(8), ranker=FileRanker(log)) as library:
        assert library._store.sync_ranker().owed == 0  # type: ignore[attr-defined] # noqa: SLF001 - an embedded store
    assert FileRanker(log).held() == {}


def test_the_first_search_that_sees_another_processs_write_delivers_it(
    library: Library, log: Path, run: Callable[..., None]
) -> None:
    library.index_source(source("s", "a"))
    run('with library(ranker=False) as l: l.index_source(source("s", "b")); l.index_source(source("r", "c"))')
    assert set(FileRanker(log).held()) == {"s#0"}
    assert len(library.search("c", scope=SCOPE, mode="dense")) == 2
    assert_ranker_has_what_is_stored(library, log)


def test_a_tenant_removed_by_another_process_is_told_by_the_next_sync(
    library: Library, log: Path, run: Callable[..., None]
) -> None:
    library.index_source(source("s", "a"))
    run('with library(ranker=False) as l: l.remove_tenant("t")')
    library._store.sync_ranker()  # type: ignore[attr-defined] # noqa: SLF001 - an embedded store
    assert FileRanker(log).held() == {}


def test_a_tenant_begun_anew_after_a_kill_within_its_removal_keeps_only_what_is_new(
    tmp_path: Path, log: Path, run: Callable[..., None]
) -> None:
    run('with library() as l: l.index_source(source("s", "a", "b"))')
    run(
        "with library() as l:\n    l.count(scope=Scope('t', ['g']))\n    _shards.Shards.remove_gone = die\n"
        "    l.remove_tenant('t')",
        ends=-signal.SIGKILL,
    )
    with Library.open(tmp_path / "library", embedder=HashingEmbedder(8), ranker=FileRanker(log)) as library:
        library.index_source(source("s", "a"))
        library._store.sync_ranker()  # type: ignore[attr-defined] # noqa: SLF001 - an embedded store
        assert_ranker_has_what_is_stored(library, log)


def test_two_processes_that_feed_one_state_leave_it_as_the_library_is(
    library: Library, log: Path, start: Start
) -> None:
    writers = [
        start(f"""
with library() as l:
    for step in range(30):
        try:
            l.index_source(source(f"s{{step % 3}}", *[f"{writer} {{step}} {{place}}" for place in range(1 + step % 4)]))
        except Conflict:
            pass
""")
        for writer in range(2)
    ]
    for process in writers:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    library.count(scope=SCOPE)
    assert library._store.sync_ranker().owed == 0  # type: ignore[attr-defined] # noqa: SLF001 - an embedded store
    assert_ranker_has_what_is_stored(library, log)


def test_what_was_removed_and_delivered_leaves_no_id_in_the_files(tmp_path: Path, log: Path) -> None:
    names = [f"{'secret' if number % 3 else 'other'}-{number}-{'x' * (number * 37 % 200)}" for number in range(150)]
    where = And(Eq("tenantId", "t"), Exists("sourceId"))
    with Library.open(tmp_path / "library", embedder=HashingEmbedder(8), ranker=FileRanker(log)) as library:
        store: Any = library._store  # noqa: SLF001 - records, written and removed together
        metadata: dict[str, Any] = {"tenantId": "t", "index": 0, "status": "active", "kind": "doc", "aclGroups": ["g"]}
        records = [Record("a", [1.0] * 8, {**metadata, "sourceId": name}) for name in names]
        store.replace("library", records, where=where)
        for name in names:
            if name.startswith("secret"):
                library.remove_source(name, tenant_id="t")
        assert store.ranker_health().owed == 0
    held = b"".join(path.read_bytes() for path in (tmp_path / "library").rglob("*") if path.is_file())
    assert b"other-0" in held
    assert b"secret-" not in held
