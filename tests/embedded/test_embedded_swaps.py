"""A swap: as many tenants as there are, no write between the versions it expects and the switch, no mark left."""

from __future__ import annotations

import resource
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.library.doubles import PATIENCE

from stackroom import Conflict
from stackroom.filters import And, Eq, Exists
from stackroom.stores import CollectionSpec, EmbeddedStore, Record
from stackroom.stores.embedded._directory import Directory, Entry
from stackroom.stores.embedded._shard import Shard

ALL = Exists("tenantId")


def put(store: EmbeddedStore, name: str, tenant_id: str, text: str, source_id: str = "s") -> None:
    metadata: dict[str, Any] = {"tenantId": tenant_id, "sourceId": source_id, "index": 0}
    where = And(Eq("tenantId", tenant_id), Eq("sourceId", source_id))
    store.replace(name, [Record(text, [1, 0, 0], metadata)], where=where)


def filled(path: Path, tenants: int, **options: int) -> EmbeddedStore:
    """Return a store with a collection and its side; it has written in every shard, and needs no more leave to."""
    store = EmbeddedStore(path, **options)  # type: ignore[arg-type]
    for name in ("c", "c.side"):
        store.create_collection(name, CollectionSpec(3, name))
        for number in range(tenants):
            put(store, name, f"t{number}", name)
    return store


def texts(store: EmbeddedStore) -> list[str]:
    return [record.text for record in store.scan("c", where=ALL, limit=1000)]


def marks(path: Path) -> list[Path]:
    return list(path.glob("*.swapping"))


class Meanwhile:
    """Runs writes while a swap stands still: after it has looked at a shard, before it switches."""

    def __init__(self, store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self._store = store
        self._has_looked, self._goes_on, self._waits = threading.Event(), threading.Event(), threading.Semaphore(0)
        settled_versions, await_swap = Shard.settled_versions, Directory.await_swap

        def slow(shard: Shard) -> set[int]:
            found = settled_versions(shard)
            self._has_looked.set()
            assert self._goes_on.wait(PATIENCE)
            return found

        def waiting(directory: Directory, entry: Entry) -> None:
            self._waits.release()
            await_swap(directory, entry)

        monkeypatch.setattr(Shard, "settled_versions", slow)
        monkeypatch.setattr(Directory, "await_swap", waiting)

    def run(self, *writes: Callable[[], object]) -> list[object]:
        """Return what the writes answered; each has waited, or has ended, before the swap goes on."""
        with ThreadPoolExecutor() as pool:
            swap = pool.submit(self._store.swap, "c", "c.side")
            assert self._has_looked.wait(PATIENCE)
            begun = [pool.submit(write) for write in writes]
            for write in begun:
                write.add_done_callback(lambda _done: self._waits.release())
            for _ in begun:
                assert self._waits.acquire(timeout=PATIENCE)
            self._goes_on.set()
            swap.result(PATIENCE)
            return [write.result(PATIENCE) for write in begun]


def test_a_swap_needs_no_more_files_than_a_few_tenants(tmp_path: Path) -> None:
    store = filled(tmp_path, tenants=40, max_open_shards=4)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    in_use = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 64
    resource.setrlimit(resource.RLIMIT_NOFILE, (in_use + 32, before[1]))
    try:
        store.swap("c", "c.side")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert texts(store) == ["c.side"] * 40
    store.close()


def test_a_write_that_comes_during_a_swap_waits_and_is_in_what_was_swapped_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = EmbeddedStore(tmp_path), filled(tmp_path, tenants=1)
    Meanwhile(store, monkeypatch).run(lambda: put(other, "c", "t0", "written meanwhile", "new"))
    assert sorted(texts(store)) == ["c.side", "written meanwhile"]
    store.close()
    other.close()


def test_a_removal_and_a_change_of_scope_wait_for_a_swap_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, other = EmbeddedStore(tmp_path), filled(tmp_path, tenants=3)
    of_one = [And(Eq("tenantId", f"t{number}"), Eq("sourceId", "s")) for number in range(2)]
    went = Meanwhile(store, monkeypatch).run(
        lambda: other.update("c", {"folderId": "f"}, where=of_one[0]),
        lambda: other.delete("c", where=of_one[1]),
        lambda: other.delete("c", where=Eq("tenantId", "t2")),
    )
    assert went == [1, 1, 1]
    (left,) = store.scan("c", where=ALL, limit=10)
    assert (left.text, left.metadata["folderId"]) == ("c.side", "f")
    store.close()
    other.close()


def test_a_writer_that_the_swap_did_not_wait_for_does_not_write_into_what_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = EmbeddedStore(tmp_path), filled(tmp_path, tenants=1)
    is_in, has_swapped, follow = threading.Event(), threading.Event(), Shard._follow  # noqa: SLF001 - what is slow

    def late(shard: Shard, *given: Any) -> Any:
        found = follow(shard, *given)
        if threading.current_thread().name.startswith("writer"):
            is_in.set()
            assert has_swapped.wait(PATIENCE)
        return found

    settled_versions = Shard.settled_versions

    def without_waiting(shard: Shard) -> set[int]:
        return set() if is_in.is_set() else settled_versions(shard)  # as if it had waited before the writer came

    monkeypatch.setattr(Shard, "_follow", late)
    monkeypatch.setattr(Shard, "settled_versions", without_waiting)
    with ThreadPoolExecutor(thread_name_prefix="writer") as pool:
        write = pool.submit(put, other, "c", "t0", "written meanwhile", "new")
        assert is_in.wait(PATIENCE)
        store.swap("c", "c.side")
        has_swapped.set()
        write.result(PATIENCE)
    assert sorted(texts(store)) == ["c.side", "written meanwhile"]
    store.close()
    other.close()


def test_a_side_that_is_not_as_expected_takes_no_name(tmp_path: Path) -> None:
    store = filled(tmp_path, tenants=2)
    versions = {record.version or 0 for record in store.scan("c.side", where=ALL, limit=10)}
    put(store, "c.side", "t0", "somebody else's")
    with pytest.raises(Conflict):
        store.swap("c", "c.side", expect_side=versions)
    assert texts(store) == ["c", "c"]
    store.close()


def test_readers_do_not_wait_for_a_swap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, other = EmbeddedStore(tmp_path), filled(tmp_path, tenants=1)
    assert Meanwhile(store, monkeypatch).run(lambda: texts(other)) == [["c"]]
    store.close()
    other.close()


def test_the_mark_of_a_swap_that_died_holds_no_writer_up(tmp_path: Path) -> None:
    store = filled(tmp_path, tenants=1)
    (tmp_path / "1.swapping").touch()
    put(store, "c", "t0", "new")
    assert texts(store) == ["new"]
    assert marks(tmp_path) == []
    store.close()


def test_a_swap_that_is_refused_leaves_no_mark(tmp_path: Path) -> None:
    store = filled(tmp_path, tenants=2)
    with pytest.raises(Conflict):
        store.swap("c", "c.side", expect=set())
    assert marks(tmp_path) == []
    put(store, "c", "t0", "new")
    assert sorted(texts(store)) == ["c", "new"]
    store.close()
