"""reembed: beside the use of the collection, resumable, and by one switch that loses no acknowledged write."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.library.doubles import PATIENCE, RecordingEmbedder, source
from tests.postgres_room import Room

from stackroom import (
    CapabilityError,
    Conflict,
    EmbedderError,
    EmbedderMismatch,
    IndexingCancelled,
    Library,
    Scope,
    StoreError,
)
from stackroom.embedders import HashingEmbedder
from stackroom.filters import Eq, Exists
from stackroom.indexing import CancelToken, Progress, ReembedReport, reembed
from stackroom.stores import EmbeddedStore, MemoryStore, PostgresStore, VectorStore

SCOPE = Scope("t", ["g"])
EVERYTHING = Exists("tenantId")


@pytest.fixture(params=["memory", "embedded", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[VectorStore]:
    made: VectorStore
    if request.param == "memory":
        made = MemoryStore()
    elif request.param == "embedded":
        made = EmbeddedStore(tmp_path / "store")
    else:
        room: Room = request.getfixturevalue("room")
        made = PostgresStore(room.dsn, schema=room.schema)
    yield made
    made.close()


def old(store: VectorStore, **options: Any) -> Library:
    return Library(store, "library", RecordingEmbedder(name="a", dimension=8), batch_size=2, **options)


def new_embedder(**options: Any) -> RecordingEmbedder:
    return RecordingEmbedder(name="b", dimension=16, **options)


def new(store: VectorStore) -> Library:
    return Library(store, "library", new_embedder())


def fill(library: Library) -> None:
    for number in range(3):
        library.index_source(source(f"s{number}", f"apple {number}", tags=["x"], title=f"T{number}"))
    library.index_source(source("s0", "pear", tenant_id="u"))
    library.index_source(source("s9", "plum one", "plum two"))


def state(store: VectorStore) -> list[tuple[str, dict[str, Any]]]:
    return [(record.text, record.metadata) for record in store.scan("library", where=EVERYTHING, limit=1000)]


def test_only_vectors_and_the_fingerprint_change(store: VectorStore) -> None:
    library = old(store)
    fill(library)
    before = state(store)
    embedder = new_embedder()
    report = reembed(library, embedder)
    assert (report.passages, report.embedded, report.reused) == (6, 6, 0)
    assert state(store) == before
    assert store.collection("library.side") is None
    moved = new(store)
    hits = moved.search("plum two", scope=SCOPE, mode="dense", top_k=1)
    assert (hits[0].id, round(hits[0].score, 5)) == ("s9#1", 1.0)
    assert moved.search("pear", scope=Scope("u", ["g"]), mode="lexical")[0].id == "s0#0"
    assert max(map(len, embedder.batches)) == 2


def test_libraries_of_the_old_embedder_are_refused_and_go_on_with_words(store: VectorStore) -> None:
    library = old(store)
    fill(library)
    reembed(library, new_embedder())
    for refused in (
        lambda: library.index_source(source("s0", "other")),
        lambda: library.search("apple", scope=SCOPE),
        lambda: library.search("apple", scope=SCOPE, mode="dense"),
    ):
        with pytest.raises(EmbedderMismatch):
            refused()
    assert len(library.search("apple", scope=SCOPE, mode="lexical")) == 3
    assert library.remove_source("s0", tenant_id="t") == 1


def test_the_fingerprint_that_it_has_is_nothing_to_do(store: VectorStore) -> None:
    library = old(store)
    fill(library)
    embedder = RecordingEmbedder(name="a", dimension=8)
    assert reembed(library, embedder).embedded == 0
    assert embedder.calls == 0
    assert library.search("apple", scope=SCOPE)


def test_an_empty_collection_moves_at_once(store: VectorStore) -> None:
    assert reembed(old(store), new_embedder()).passages == 0
    assert new(store).index_source(source()).embedded == 1


def stopped_after_one_call(library: Library) -> IndexingCancelled:
    token = CancelToken()
    with pytest.raises(IndexingCancelled) as caught:
        reembed(library, new_embedder(before_batch=lambda _: token.cancel()), cancel=token, max_concurrency=1)
    return caught.value


@pytest.mark.parametrize("passages", [1, 5], ids=["five sources", "one source"])
def test_a_run_that_was_stopped_goes_on_with_what_has_no_new_vector(store: VectorStore, passages: int) -> None:
    library = old(store)
    for number in range(5 // passages):
        library.index_source(source(f"s{number}", *(f"text {number} {part}" for part in range(passages))))
    error = stopped_after_one_call(library)
    assert isinstance(error.report, ReembedReport)
    assert library.search("text", scope=SCOPE, mode="dense")
    told: list[Progress] = []
    report = reembed(library, new_embedder(), on_progress=told.append)
    assert (report.passages, report.embedded, report.reused) == (5, 3, 2)
    assert told[-1].done == told[-1].total == 5 // passages
    assert len(new(store).search("text", scope=SCOPE, mode="dense")) == 5


def test_what_changed_since_a_stopped_run_is_embedded_and_what_went_is_gone(store: VectorStore) -> None:
    library = old(store)
    for number in range(4):
        library.index_source(source(f"s{number}", f"text {number}"))
    stopped_after_one_call(library)
    library.remove_source("s0", tenant_id="t")
    library.index_source(source("s1", "changed"))
    library.set_source_scope("s2", tenant_id="t", acl_groups=["h"])
    reembed(library, new_embedder())
    moved = new(store)
    assert [info.source_id for info in moved.sources(scope=SCOPE)] == ["s1", "s3"]
    assert moved.search("changed", scope=SCOPE, mode="dense", top_k=1)[0].source_id == "s1"
    assert [info.source_id for info in moved.sources(scope=Scope("t", ["h"]))] == ["s2"]


def test_a_third_embedder_discards_an_unfinished_side(store: VectorStore) -> None:
    library = old(store)
    fill(library)
    stopped_after_one_call(library)
    assert reembed(library, RecordingEmbedder(name="c", dimension=4)).reused == 0
    assert store.collection("library").fingerprint == "c@4"  # type: ignore[union-attr] # it is there


def test_a_failure_leaves_the_old_vectors_in_use(store: VectorStore) -> None:
    library = old(store)
    fill(library)

    def before(call: int) -> None:
        if call == 2:
            raise RuntimeError("down")

    with pytest.raises(EmbedderError) as caught:
        reembed(library, new_embedder(before_batch=before), max_concurrency=1)
    assert isinstance(caught.value.report, ReembedReport)
    assert library.search("apple", scope=SCOPE)
    assert reembed(library, new_embedder()).reused >= 2


def test_what_is_written_rescoped_and_removed_meanwhile_is_caught_up(store: VectorStore) -> None:
    library = old(store)
    fill(library)

    def meanwhile(call: int) -> None:
        if call == 3:
            library.index_source(source("s0", "changed"))
            library.index_source(source("new", "quite new"))
            library.set_source_scope("s1", tenant_id="t", acl_groups=["h"])
            library.remove_source("s2", tenant_id="t")
            library.remove_tenant("u")

    reembed(library, new_embedder(before_batch=meanwhile), max_concurrency=1)
    moved = new(store)
    assert [info.source_id for info in moved.sources(scope=SCOPE)] == ["new", "s0", "s9"]
    assert [info.source_id for info in moved.sources(scope=Scope("t", ["h"]))] == ["s1"]
    assert moved.search("quite new", scope=SCOPE, mode="dense", top_k=1)[0].source_id == "new"
    assert moved.count(scope=Scope("u", ["g"])) == 0


class WritesBeforeEachSwap(MemoryStore):
    """Is written just before each switch, so many times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.left = times
        self.library: Library | None = None

    def swap(self, name: str, side: str, *, expect: Any = None, expect_side: Any = None) -> None:
        if self.left and self.library is not None:
            self.left -= 1
            self.library.index_source(source("busy", f"number {self.left}"))
        super().swap(name, side, expect=expect, expect_side=expect_side)


def test_a_write_just_before_the_switch_is_caught_up_first() -> None:
    store = WritesBeforeEachSwap(9)
    store.library = old(store)
    fill(store.library)
    reembed(store.library, new_embedder())
    assert new(store).passages("busy", scope=SCOPE)[0].text == "number 0"


def test_writers_that_leave_no_room_in_ten_rounds_are_a_conflict_and_nothing_embedded_is_lost() -> None:
    store = WritesBeforeEachSwap(10)
    store.library = old(store)
    fill(store.library)
    with pytest.raises(Conflict) as caught:
        reembed(store.library, new_embedder())
    assert isinstance(caught.value.report, ReembedReport)
    assert store.library.search("apple", scope=SCOPE)
    assert reembed(store.library, new_embedder()).embedded == 1


def test_a_store_that_cannot_switch_refuses_before_anything_is_embedded() -> None:
    import dataclasses

    store = MemoryStore()
    store.capabilities = dataclasses.replace(store.capabilities, swap="refused")
    embedder = new_embedder()
    with pytest.raises(CapabilityError):
        reembed(old(store), embedder)
    assert embedder.calls == 0


def test_no_acknowledged_write_is_lost_by_writers_that_go_on_through_it(store: VectorStore) -> None:
    library = old(store)
    fill(library)
    acknowledged: dict[str, str] = {}
    permits = threading.Semaphore(0)
    given = iter(range(6))  # fewer than there are rounds

    def write() -> None:
        number = 0
        while permits.acquire(timeout=PATIENCE):
            number += 1
            try:
                library.index_source(source(f"w{number % 3}", f"word{number}"))
            except EmbedderMismatch:
                return
            acknowledged[f"w{number % 3}"] = f"word{number}"

    def permit(_: object) -> None:
        if next(given, None) is not None:
            permits.release()

    writer = threading.Thread(target=write)
    writer.start()
    reembed(library, new_embedder(before_batch=permit), on_progress=permit)
    for _ in range(7):  # those not used, and one that is refused
        permits.release()
    writer.join(PATIENCE)
    assert not writer.is_alive()
    assert acknowledged
    moved = new(store)
    assert {name: moved.passages(name, scope=SCOPE)[0].text for name in acknowledged} == acknowledged


KILLED = """
import os, sys, threading
from stackroom import Library, Source
from stackroom.embedders import HashingEmbedder
from stackroom.indexing import reembed

library = Library.open(sys.argv[1], embedder=HashingEmbedder(8), batch_size=2)
threading.Timer(float(sys.argv[2]), lambda: os.kill(os.getpid(), 9)).start()

def write():
    for number in range(100000):
        name, text = f"w{number % 5}", f"word{number}"
        library.index_source(Source(name, "doc", "t", ["g"], [text]))
        print(name, text, flush=True)

threading.Thread(target=write, daemon=True).start()
try:
    reembed(library, HashingEmbedder(16))
except Exception:
    pass
threading.Event().wait()
"""


@pytest.mark.parametrize("seed", range(4))
def test_a_kill_at_any_moment_leaves_one_generation_whole_and_every_acknowledged_write(
    tmp_path: Path, seed: int
) -> None:
    path = tmp_path / "library"
    with Library.open(path, embedder=HashingEmbedder(8)) as library:
        for number in range(60):
            library.index_source(source(f"s{number}", f"text {number}"))
    seconds = random.Random(seed).uniform(0.05, 0.6)
    ran = subprocess.run(
        [sys.executable, "-c", KILLED, str(path), str(seconds)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == -9, ran.stderr
    acknowledged = dict(line.split() for line in ran.stdout.splitlines() if len(line.split()) == 2)
    try:
        library = Library.open(path, embedder=HashingEmbedder(8))
    except EmbedderMismatch:
        library = Library.open(path, embedder=HashingEmbedder(16))
    with library:
        assert library.count(scope=SCOPE) >= 60
        for name, text in acknowledged.items():
            (hit,) = library.passages(name, scope=SCOPE)
            assert int(hit.text.removeprefix("word")) >= int(text.removeprefix("word"))
        assert library.verify_embedder() == pytest.approx(1.0)
        reembed(library, HashingEmbedder(32))
    with Library.open(path, embedder=HashingEmbedder(32)) as moved:
        assert moved.search("text 7", scope=SCOPE, mode="dense", top_k=1)[0].source_id == "s7"


def test_a_collection_that_was_dropped_meanwhile_is_an_error(store: VectorStore) -> None:
    library = old(store)
    fill(library)
    with pytest.raises(StoreError):
        reembed(library, new_embedder(before_batch=lambda _: store.drop_collection("library")), max_concurrency=1)


# Two at once, and what an ended run leaves


def test_what_was_removed_after_a_run_that_ended_within_it_does_not_come_back(store: VectorStore) -> None:
    library = old(store)
    library.index_source(source("secret", *(f"salary {number}" for number in range(4))))
    library.index_source(source("b", "other"))
    second = threading.Event()

    def fail(number: int) -> None:
        if number == 1:
            assert second.wait(PATIENCE)
            raise ValueError("down")
        second.set()

    with pytest.raises(EmbedderError) as failed:
        reembed(library, new_embedder(before_batch=fail), max_concurrency=2)
    report: Any = failed.value.report
    assert report.passages == report.embedded >= 2  # those of the second half, without the first
    library.remove_source("secret", tenant_id="t")
    assert reembed(library, new_embedder()).passages == 1
    assert new(store).source("secret", scope=SCOPE) is None
    assert store.count("library", where=EVERYTHING) == 1


class StopsBeforeTheSwitch(MemoryStore):
    """Calls back just before a switch, once."""

    meanwhile: Any = None

    def swap(self, name: str, side: str, *, expect: Any = None, expect_side: Any = None) -> None:
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        super().swap(name, side, expect=expect, expect_side=expect_side)


def test_what_another_run_takes_from_the_side_is_brought_again() -> None:
    store = StopsBeforeTheSwitch()
    library = old(store)
    fill(library)
    store.meanwhile = lambda: store.delete("library.side", where=Eq("sourceId", "s1"))
    reembed(library, new_embedder())
    assert new(store).count(scope=SCOPE) == 5


def test_a_run_that_another_one_to_the_same_embedder_overtakes_has_what_it_wished() -> None:
    store = StopsBeforeTheSwitch()
    library = old(store)
    fill(library)
    store.meanwhile = lambda: reembed(library, new_embedder())
    reembed(library, new_embedder())
    assert new(store).count(scope=SCOPE) == 5


def test_a_run_that_one_to_a_third_embedder_overtakes_says_so_and_nothing_is_lost() -> None:
    store = StopsBeforeTheSwitch()
    library = old(store)
    fill(library)
    third = RecordingEmbedder(name="c", dimension=5)

    def begin() -> None:
        def fail(_number: int) -> None:
            raise ValueError("down")

        with pytest.raises(EmbedderError):
            reembed(library, RecordingEmbedder(name="c", dimension=5, before_batch=fail))

    store.meanwhile = begin
    with pytest.raises(Conflict, match="another re-embedding"):
        reembed(library, new_embedder())
    assert library.count(scope=SCOPE) == 5
    assert reembed(library, third).passages == 6
