"""What broke the embedded store once: each test is a way in which it did."""

from __future__ import annotations

import itertools
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.embedded.made import T, made, of, record

from stackroom import StoreError
from stackroom.filters import And, Eq, Exists
from stackroom.stores import CollectionSpec, EmbeddedStore, LexicalQuery
from stackroom.stores.embedded import _codes, _derived, _reads, _segments, _shards, _vectors, _writes
from stackroom.stores.embedded._shard import create_shard


def bytes_below(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.rglob("*") if file.is_file())


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_codes, "BLOCK", 256)
    monkeypatch.setattr(_vectors, "EXACT_ROWS", 100)
    monkeypatch.setattr(_segments, "SMALL", 128)
    monkeypatch.setattr(_segments, "LARGE", 512)
    monkeypatch.setattr(_derived, "SPARE_ROWS", 100)


@pytest.mark.usefixtures("small_steps")
def test_lists_of_an_old_numbering_never_answer_for_a_new_one(tmp_path: Path) -> None:
    store, other = made(tmp_path), EmbeddedStore(tmp_path)
    for round_ in range(40):
        store.replace(
            "c", [record("t", "s", at, "alpha" if at == round_ else "beta") for at in range(50)], where=of("t", "s")
        )
        for reader in (store, other):
            found = reader.lexical("c", LexicalQuery("alpha"), where=T, limit=50)
            assert [match.id for match in found] == [f"s#{round_}"]
    store.close()
    other.close()


@pytest.mark.usefixtures("small_steps")
def test_the_last_sources_may_go_and_the_store_be_opened_again(tmp_path: Path) -> None:
    store = made(tmp_path)
    for source, number in (("a", 100), ("b", 60)):
        store.replace("c", [record("t", source, at, f"word {source}") for at in range(number)], where=of("t", source))
    store.delete("c", where=of("t", "b"))
    for reader in (EmbeddedStore(tmp_path), store):
        assert len(reader.lexical("c", LexicalQuery("word"), where=T, limit=500)) == 100
        assert len(reader.dense("c", [1, 0], where=T, limit=500)) == 100
        reader.close()


def test_what_a_killed_renumbering_left_is_never_taken_for_the_next_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = np.random.default_rng(0).standard_normal((50, 8)).astype(np.float32)
    store = made(tmp_path, 8)
    store.replace("c", [record("t", "s", at, "w", vectors[at]) for at in range(50)], where=of("t", "s"))
    derive = _derived.derive

    def killed(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_derived, "derive", killed)
    with pytest.raises(KeyboardInterrupt):
        store.compact()
    monkeypatch.setattr(_derived, "derive", derive)
    store.replace("c", [record("t", "s", at, "w", -vectors[at]) for at in range(50)], where=of("t", "s"))
    store.compact()
    (nearest,) = store.dense("c", -vectors[5], where=T, limit=1)
    assert (nearest.id, round(nearest.score, 6)) == ("s#5", 1.0)
    store.close()


def in_a_child(work: Callable[[], None]) -> int:
    """Run something in a forked process that ends as if killed; return its exit code."""
    child = os.fork()
    if not child:
        try:
            work()
        finally:
            os._exit(9)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
tells_of_threads = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


@forks
@tells_of_threads
def test_a_number_of_a_shard_is_spent_before_the_shard_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path).close()

    def killed_when_made() -> None:
        make = create_shard
        monkeypatch.setattr(_shards, "create_shard", lambda *arguments: (make(*arguments), os._exit(9)))
        EmbeddedStore(tmp_path).replace("c", [record("a", "s", 0)], where=of("a", "s"))

    assert in_a_child(killed_when_made) == 9
    store = EmbeddedStore(tmp_path)
    for tenant in ("a", "b"):
        store.replace("c", [record(tenant, "s", 0)], where=of(tenant, "s"))
    versions = [found.version for found in store.scan("c", where=Exists("tenantId"), limit=9)]
    assert len(set(versions)) == 2
    store.close()


def test_closing_holds_few_files_open_and_erases_what_was_removed_of_many_tenants(tmp_path: Path) -> None:
    store = made(tmp_path, max_open_shards=3)
    tenants = [f"t{number}" for number in range(40)]
    for tenant in tenants:
        store.replace("c", [record(tenant, "s", 0, "secretword"), record(tenant, "s", 1)], where=of(tenant, "s"))
        store.delete("c", where=And(of(tenant, "s"), Eq("index", 0)))
    opened = []
    connect = sqlite3.connect

    def counted(*arguments: Any, **options: Any) -> Any:
        opened.append(len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0)
        return connect(*arguments, **options)

    sqlite3.connect = counted
    try:
        store.close()
    finally:
        sqlite3.connect = connect
    assert max(opened) - min(opened) < 20
    assert b"secretword" not in bytes_below(tmp_path)


@pytest.mark.usefixtures("small_steps")
def test_queries_unlike_what_was_measured_still_find_the_nearest(tmp_path: Path) -> None:
    chance = np.random.default_rng(1)
    store, exact = made(tmp_path, 32), EmbeddedStore(tmp_path, exact=True)

    def near(centre: Any, number: int, spread: float) -> Any:
        return (centre + spread * chance.standard_normal((number, 32))).astype(np.float32)

    for number in range(30):
        rows = near(chance.standard_normal(32), 20, 0.3)
        written = [record("t", f"x{number}", at, "w", row) for at, row in enumerate(rows)]
        store.replace("c", written, where=of("t", f"x{number}"))
    form = chance.standard_normal(32)
    rows = near(form, 400, 0.05)
    store.replace("c", [record("t", "forms", at, "w", row) for at, row in enumerate(rows)], where=of("t", "forms"))
    for queries in (near(form, 30, 0.05), chance.standard_normal((30, 32))):
        found = []
        for query in queries:
            near_ones, expected = ({m.id for m in each.dense("c", query, where=T, limit=10)} for each in (store, exact))
            found.append(len(near_ones & expected))
        assert np.mean(found) >= 9.9
    store.close()
    exact.close()


def test_a_read_begun_before_a_removal_ranks_by_what_was_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = made(tmp_path)
    first.replace("c", [record("t", "s", at, "old", (1, 0)) for at in range(4)], where=of("t", "s"))
    first.close()
    reader, writer = EmbeddedStore(tmp_path), EmbeddedStore(tmp_path)
    look = _reads._look  # noqa: SLF001 - the moment between two looks is what is tried

    def late(*arguments: Any) -> Any:
        monkeypatch.setattr(_reads, "_look", look)
        writer.delete("c", where=T)
        writer.replace("c", [record("t", "n", at, "new", (0, 1)) for at in range(9)], where=of("t", "n"))
        return look(*arguments)

    monkeypatch.setattr(_reads, "_look", late)
    found = {(match.record.text, round(match.score, 6)) for match in reader.dense("c", [1, 0], where=T, limit=9)}
    assert found in ({("old", 1.0)}, {("new", 0.0)})
    reader.close()
    writer.close()


@forks
@tells_of_threads
@pytest.mark.parametrize("road", ["deleted", "tenant removed", "partly deleted before the commit"])
def test_what_a_killed_process_removed_is_erased_by_the_next_close_of_any_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, road: str
) -> None:
    store = made(tmp_path)
    vector = np.asarray([0.123456, 0.654321], dtype=np.float32)
    store.replace("c", [record("t", "s", at, "secretsecret", vector) for at in range(20)], where=of("t", "s"))
    store.close()

    def killed() -> None:
        child = EmbeddedStore(tmp_path)
        if road == "deleted":
            child.delete("c", where=of("t", "s"))
        elif road == "tenant removed":
            monkeypatch.setattr(child._directory, "remove", lambda _path: os._exit(9))  # noqa: SLF001 - dies there
            child.delete("c", where=T)
        else:
            monkeypatch.setattr(_writes._Writing, "finish", lambda _self: os._exit(9))  # noqa: SLF001 - likewise
            child.delete("c", where=And(of("t", "s"), Eq("index", 3)))

    assert in_a_child(killed) == 9
    if road.startswith("partly"):
        EmbeddedStore(tmp_path).delete("c", where=of("t", "s"))
    again = EmbeddedStore(tmp_path)
    again.replace("c", [record("u", "s", 0)], where=of("u", "s"))
    if road.startswith("partly"):
        again.delete("c", where=of("t", "s"))
    again.close()
    left = bytes_below(tmp_path)
    assert b"secretsecret" not in left
    assert vector.tobytes() not in left


def test_side_files_deleted_under_an_open_store_are_made_anew(tmp_path: Path) -> None:
    store = made(tmp_path)
    store.replace("c", [record("t", "s", 0)], where=of("t", "s"))
    assert len(store.dense("c", [1, 0], where=T, limit=1)) == 1
    for file in tmp_path.glob("1/t/codes.*"):
        file.unlink()
    store.replace("c", [record("t", "n", 0)], where=of("t", "n"))
    assert len(store.dense("c", [1, 0], where=T, limit=5)) == 2
    other = EmbeddedStore(tmp_path)
    assert len(other.dense("c", [1, 0], where=T, limit=5)) == 2
    store.close()
    other.close()


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("harm", ["zeros", "noise"])
def test_a_side_file_of_the_right_length_with_other_bytes_is_made_anew(tmp_path: Path, harm: str) -> None:
    chance = np.random.default_rng(3)
    vectors = chance.standard_normal((600, 4)).astype(np.float32)
    store = made(tmp_path, 4)
    for number in range(6):
        some = vectors[number * 100 : number * 100 + 100]
        store.replace(
            "c", [record("t", f"s{number}", at, "w", row) for at, row in enumerate(some)], where=of("t", f"s{number}")
        )
    expected = [(match.id, match.score) for match in store.dense("c", vectors[7], where=T, limit=9)]
    store.close()
    (file,) = tmp_path.glob("1/t/codes.*.vectors")
    length = file.stat().st_size
    file.write_bytes(bytes(length) if harm == "zeros" else chance.bytes(length))
    again = EmbeddedStore(tmp_path)
    assert [(match.id, match.score) for match in again.dense("c", vectors[7], where=T, limit=9)] == expected
    again.close()


@forks
@tells_of_threads
def test_a_forked_child_closes_nothing_of_its_parent_and_does_not_hang(tmp_path: Path) -> None:
    store = made(tmp_path)
    store.replace("c", [record("t", "s", 0)], where=of("t", "s"))
    is_done = threading.Event()

    def spin() -> None:
        while not is_done.is_set():
            store.count("c", where=T)

    spinning = [threading.Thread(target=spin) for _ in range(3)]
    for thread in spinning:
        thread.start()
    for _ in range(10):
        child = os.fork()
        if not child:
            store.close()
            os._exit(0)
        end = time.monotonic() + 10
        while (status := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < end:
            time.sleep(0.005)
        assert status == (child, 0)
    is_done.set()
    for thread in spinning:
        thread.join()
    assert store.count("c", where=T) == 1
    store.close()


def test_a_read_of_all_tenants_sees_one_generation_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, other = made(tmp_path), EmbeddedStore(tmp_path)
    store.create_collection("c.side", CollectionSpec(2, "m"))
    for name in ("c", "c.side"):
        for tenant in "tuv":
            store.replace(name, [record(tenant, "s", 0)], where=of(tenant, "s"))
    paths_of = _shards.Shards.paths_of

    def late(self: Any, entry: Any) -> Any:
        monkeypatch.setattr(_shards.Shards, "paths_of", paths_of)
        other.swap("c", "c.side")
        return paths_of(self, entry)

    monkeypatch.setattr(_shards.Shards, "paths_of", late)
    assert store.count("c", where=Exists("tenantId")) == 3
    store.close()
    other.close()


def test_a_shard_of_a_newer_format_is_refused_and_not_taken_for_none(tmp_path: Path) -> None:
    store = made(tmp_path)
    store.replace("c", [record("t", "s", at) for at in range(5)], where=of("t", "s"))
    store.close()
    file = tmp_path / "1" / "t" / "shard.db"
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    again = EmbeddedStore(tmp_path)
    calls: list[Callable[[], object]] = [
        lambda: again.count("c", where=T),
        lambda: again.replace("c", [record("t", "n", 0)], where=of("t", "n")),
    ]
    for call in calls:
        with pytest.raises(StoreError, match="format 99"):
            call()
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT count(*) FROM passage").fetchone() == (5,)
    connection.close()
    again.close()


@pytest.mark.usefixtures("small_steps")
def test_a_merge_takes_small_segments_alone_and_none_twice(tmp_path: Path) -> None:
    store = made(tmp_path)
    for number in range(40):
        written = [record("t", f"s{number}", at, f"word{at} common") for at in range(32)]
        store.replace("c", written, where=of("t", f"s{number}"))
    store.close()
    with sqlite3.connect(tmp_path / "1" / "t" / "shard.db") as connection:
        runs = connection.execute("SELECT first_row, end_row FROM segment ORDER BY first_row").fetchall()
    connection.close()
    assert all(end - first <= 512 for first, end in runs), "no more than a large one's rows are merged"
    assert all(first == end for (_, end), (first, _) in itertools.pairwise(runs))


@pytest.mark.usefixtures("small_steps")
def test_two_that_merge_at_once_count_no_posting_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_shards.Shards, "care_soon", lambda *_arguments: None)
    store, other = made(tmp_path), EmbeddedStore(tmp_path)
    for number in range(32):
        store.replace("c", [record("t", f"s{number}", at, "common") for at in range(32)], where=of("t", f"s{number}"))
    entry = store._directory.register().entry("c")  # noqa: SLF001 - two at the same work is what is tried
    lists_of = _segments.lists_of

    def late(passages: Any) -> Any:
        monkeypatch.setattr(_segments, "lists_of", lists_of)
        with other._shards.used(other._shards.path_of(entry, "t"), entry) as theirs:  # noqa: SLF001 - likewise
            assert theirs is not None
            assert _derived.merge(theirs)
        return lists_of(passages)

    monkeypatch.setattr(_segments, "lists_of", late)
    with store._shards.used(store._shards.path_of(entry, "t"), entry) as ours:  # noqa: SLF001 - likewise
        assert ours is not None
        assert _derived.merge(ours)
    assert store.problems() == []
    assert len(store.lexical("c", LexicalQuery("common"), where=T, limit=5000)) == 1024
    store.close()
    other.close()


def test_a_swap_after_a_tenant_was_made_anew_by_another_handle_succeeds(tmp_path: Path) -> None:
    store, other = made(tmp_path), EmbeddedStore(tmp_path)
    store.create_collection("c.side", CollectionSpec(2, "m"))
    store.replace("c", [record("t", "s", 0)], where=of("t", "s"))
    other.delete("c", where=T)
    assert store.problems() == []
    other.replace("c", [record("t", "n", 0)], where=of("t", "n"))
    assert store.problems() == []
    store.swap("c", "c.side")
    assert other.count("c", where=Exists("tenantId")) == 0
    store.close()
    other.close()


def test_each_handle_erases_what_it_removed_whichever_closes_first(tmp_path: Path) -> None:
    one, other = made(tmp_path), EmbeddedStore(tmp_path)
    for store, word in ((one, "secretone"), (other, "secrettwo")):
        store.replace("c", [record("t", word, at, word) for at in range(3)], where=of("t", word))
        kept = f"kept{len(word)}"
        store.replace("c", [record("t", kept, 0, "stays")], where=of("t", kept))
    one.delete("c", where=of("t", "secretone"))
    other.delete("c", where=And(of("t", "secrettwo"), Eq("index", 0)))
    one.close()
    assert b"secretone" not in bytes_below(tmp_path), "not in the log either, though another handle is open"
    other.delete("c", where=of("t", "secrettwo"))
    other.close()
    assert b"secrettwo" not in bytes_below(tmp_path)


def test_a_shard_without_sources_has_no_problems(tmp_path: Path) -> None:
    store = made(tmp_path)
    store.replace("c", [record("t", "s", 0)], where=of("t", "s"))
    store.delete("c", where=of("t", "s"))
    assert store.problems() == []
    store.close()
