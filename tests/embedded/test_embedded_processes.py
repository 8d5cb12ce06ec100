"""Several processes on one directory: what was committed is seen, what was acknowledged is there, nothing is half."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stackroom import Library, Scope, Source
from stackroom.embedders import HashingEmbedder

Run = Callable[[str], str]
Start = Callable[[str], "subprocess.Popen[str]"]

SCOPE = Scope("t", ["g"])


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    with Library.open(tmp_path / "library", embedder=HashingEmbedder(8)) as opened:
        yield opened


def source(source_id: str, text: str, tenant: str = "t", groups: tuple[str, ...] = ("g",)) -> Source:
    return Source(source_id, "doc", tenant, groups, [f"{text} {number}" for number in range(3)])


def found(library: Library, words: str, mode: str = "lexical", scope: Scope = SCOPE) -> set[str]:
    return {hit.source_id for hit in library.search(words, scope=scope, mode=mode)}  # type: ignore[arg-type]


def test_an_open_reader_sees_another_process_write_rescope_and_remove(library: Library, run: Run) -> None:
    library.index_source(source("mine", "apple"))
    assert found(library, "apple pear") == {"mine"}

    run('with library() as l: l.index_source(source("theirs", "pear"))')
    assert found(library, "apple pear") == {"mine", "theirs"}
    assert found(library, "pear", "dense") == {"mine", "theirs"}

    run('with library() as l: l.index_source(source("theirs", "plum", passages=1))')
    assert found(library, "pear") == set()
    assert len(library.search("plum", scope=SCOPE, mode="dense")) == 4

    run('with library() as l: l.set_source_scope("theirs", tenant_id="t", acl_groups=["h"])')
    assert found(library, "plum") == set()
    assert found(library, "plum", scope=Scope("t", ["h"])) == {"theirs"}

    run('with library() as l: l.remove_source("theirs", tenant_id="t")')
    assert found(library, "plum", scope=Scope("t", ["h"])) == set()


def test_an_open_store_sees_a_tenant_removed_and_begun_anew_by_another_process(library: Library, run: Run) -> None:
    library.index_source(source("s", "apple"))
    assert found(library, "apple", "dense") == {"s"}

    assert run('with library() as l: say(l.remove_tenant("t"))') == "3"
    assert found(library, "apple", "dense") == set()
    assert library.count(scope=SCOPE) == 0

    run('with library() as l: l.index_source(source("new", "apple"))')
    assert found(library, "apple", "dense") == {"new"}
    assert library.index_source(source("s", "apple")).passages == 3
    assert run('with library() as l: say(l.count(scope=Scope("t", ["g"])))') == "6"


def test_a_collection_dropped_by_another_process_is_gone(library: Library, run: Run) -> None:
    library.index_source(source("s", "apple"))
    run('store = EmbeddedStore(path); store.drop_collection("library"); store.close()')
    with pytest.raises(LookupError):
        library.count(scope=SCOPE)
    with pytest.raises(LookupError):
        library.index_source(source("s", "pear"))


def test_processes_that_write_one_source_leave_one_version_whole(library: Library, start: Start) -> None:
    lines = """
wins = 0
with library() as l:
    for round in range(25):
        try:
            l.index_source(source("s", f"word{id(l)}x{round}"))
            wins += 1
        except Conflict:
            pass
say(wins)
"""
    writers = [start(lines) for _ in range(2)]
    wins = [int(writer.communicate(timeout=60)[0]) for writer in writers]
    assert all(win >= 1 for win in wins)
    words = {hit.text.split()[0] for hit in library.passages("s", scope=SCOPE)}
    assert len(words) == 1
    assert library.count(scope=SCOPE) == 3


def test_kill_minus_nine_loses_no_acknowledged_write_and_leaves_every_source_whole(
    tmp_path: Path, start: Start
) -> None:
    chance = random.Random(7)
    lines = """
import itertools
with library() as l:
    say("open")
    for version in itertools.count(BASE):
        l.index_source(source(f"s{version % 5}", f"v{version}", passages=1 + version % 4)); say("index", version)
        if version % 3 == 0:
            l.set_source_scope(f"s{version % 5}", tenant_id="t", tags=[f"v{version}"]); say("tag", version)
        if version % 7 == 0:
            l.remove_source(f"s{(version + 1) % 5}", tenant_id="t"); say("remove", version)
"""
    acknowledged: list[tuple[str, int]] = []
    for kill in range(6):
        writer = start(lines.replace("BASE", str(1 + kill * 1_000_000)))
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        time.sleep(chance.uniform(0.01, 0.25))  # a random point of the writer's work is what is tried
        writer.kill()
        for line in writer.stdout.read().splitlines():
            what, _, version = line.partition(" ")
            if version.isdigit():
                acknowledged.append((what, int(version)))
        writer.wait()
        for pipe in (writer.stdin, writer.stdout, writer.stderr):
            assert pipe is not None
            pipe.close()
        _check(tmp_path / "library", acknowledged)


def _check(path: Path, acknowledged: list[tuple[str, int]]) -> None:
    newest: dict[str, int] = defaultdict(int)
    for what, version in acknowledged:
        newest[f"s{(version + (what == 'remove')) % 5}"] = version if what != "remove" else -version
    with Library.open(path, embedder=HashingEmbedder(8)) as library:
        for source_id, version in newest.items():
            passages = library.passages(source_id, scope=SCOPE)
            stored = {int(hit.text.split()[0][1:]) for hit in passages}
            assert len(stored) <= 1, "a source is of one version"
            if stored:
                (there,) = stored
                assert len(passages) == 1 + there % 4, "a source is whole"
                assert there >= abs(version), "what was acknowledged is there, or what came after it"
                tags = {hit.tags for hit in passages}
                assert len(tags) == 1, "a re-scope is whole"
            dense = library.search("v1", scope=SCOPE, mode="dense", source_ids=[source_id], top_k=50)
            assert len(dense) == len(passages), "the legs agree with the truth"


def test_a_reader_never_sees_a_part_a_gap_or_a_mixture_while_another_process_replaces(
    library: Library, start: Start
) -> None:
    library.index_source(source("s", "word v0"))
    writer = start("""
with library() as l:
    for version in range(60):
        l.index_source(source("s", f"word v{version}", passages=2 + version % 5))
say("done")
""")
    seen = set()
    while writer.poll() is None:
        texts = [hit.text for hit in library.search("word", scope=SCOPE, mode="lexical", top_k=20)]
        versions = {text.split()[1] for text in texts}
        assert len(versions) == 1
        version = versions.pop()
        assert len(texts) in (3, 2 + int(version[1:]) % 5)
        seen.add(version)
    writer.communicate()
    assert len(seen) > 1


def test_a_full_disk_is_an_error_and_the_old_version_stands(tmp_path: Path, library: Library) -> None:
    library.index_source(source("s", "old"))
    library.close()

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))

    lines = """
import signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from stackroom import *
from stackroom.embedders import HashingEmbedder
library = Library.open(sys.argv[1], embedder=HashingEmbedder(8))
try:
    library.index_source(Source("s", "doc", "t", ["g"], ["new " + "x" * 2_000_000]))
except StoreUnavailable as error:
    print("unavailable:", error)
print(len(library.search("old", scope=Scope("t", ["g"]), mode="lexical")))
"""
    done = subprocess.run(
        [sys.executable, "-c", lines, str(tmp_path / "library")],
        preexec_fn=limited,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout.startswith("unavailable:"), done.stderr
    assert done.stdout.splitlines()[-1] == "3"
    with Library.open(tmp_path / "library", embedder=HashingEmbedder(8)) as again:
        assert found(again, "old", "dense") == {"s"}
        assert [hit.text for hit in again.passages("s", scope=SCOPE)] == ["old 0", "old 1", "old 2"]


def test_a_read_only_directory_is_an_error_and_the_old_version_stands(
    tmp_path: Path, library: Library, run: Run
) -> None:
    library.index_source(source("s", "old"))
    library.close()
    for parent in [tmp_path, *tmp_path.parents]:
        if os.geteuid() == 0 and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    for entry in [tmp_path / "library", *(tmp_path / "library").rglob("*")]:
        entry.chmod(0o555 if entry.is_dir() else 0o444)
    refused = run("""
import os
if os.geteuid() == 0:  # root may write anywhere, so the child becomes somebody else
    os.setgid(65534)
    os.setuid(65534)
try:
    with library() as l:
        l.index_source(source("s", "new"))
    say("written")
except StoreError as error:
    say("refused:", error)
""")
    for entry in [tmp_path / "library", *(tmp_path / "library").rglob("*")]:
        entry.chmod(0o755 if entry.is_dir() else 0o644)
    assert refused.startswith("refused:")
    assert "read-only" in refused
    with Library.open(tmp_path / "library", embedder=HashingEmbedder(8)) as again:
        assert [hit.text for hit in again.passages("s", scope=SCOPE)] == ["old 0", "old 1", "old 2"]
