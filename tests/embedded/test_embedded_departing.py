"""Tenants that go while others read, write and make them again: each test is a way in which that failed once."""

from __future__ import annotations

import collections
import multiprocessing
import shutil
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.embedded.made import T, made, of, record

from stackroom.filters import Eq, Exists, In
from stackroom.stores import EmbeddedStore
from stackroom.stores.embedded import _shard
from stackroom.stores.embedded._names import listed
from stackroom.stores.embedded._schema import make_tables


def _write_and_remove(path: str, seconds: float, errors: Any) -> None:
    store, end = EmbeddedStore(path), time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            store.replace("c", [record("t", "s", at) for at in range(5)], where=of("t", "s"))
            store.delete("c", where=T)
        except Exception as error:  # noqa: BLE001 - any is one too many
            errors.put(repr(error)[:200])
    store.close()


def _read(path: str, seconds: float, errors: Any) -> None:
    store, end = EmbeddedStore(path), time.monotonic() + seconds
    while time.monotonic() < end:
        for where in (T, Exists("tenantId")):
            try:
                found = store.dense("c", [1, 0], where=where, limit=9)
                if len(found) not in (0, 5) or any(abs(match.score - 1) > 1e-9 for match in found):
                    errors.put(f"{len(found)} found, scores {[match.score for match in found]}")
            except Exception as error:  # noqa: BLE001 - any is one too many
                errors.put(repr(error)[:200])
    store.close()


def test_a_tenant_removed_and_made_again_and_again_troubles_no_reader_nor_writer(tmp_path: Path) -> None:
    made(tmp_path).close()
    context = multiprocessing.get_context("spawn")
    errors = context.Queue()
    workers = [
        context.Process(target=work, args=(str(tmp_path), 2.5, errors))
        for work in (_write_and_remove, _write_and_remove, _read)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    seen: collections.Counter[str] = collections.Counter()
    while not errors.empty():
        seen[errors.get()] += 1
    assert not seen


def test_a_shard_is_seen_by_nobody_before_it_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, seen = made(tmp_path), []

    def looked_at(connection: sqlite3.Connection, *arguments: Any) -> None:
        make_tables(connection, *arguments)
        seen.append([path.name for path in (tmp_path / "1").glob("[!.]*")])

    monkeypatch.setattr(_shard, "make_tables", looked_at)
    store.replace("c", [record("t", "s", 0)], where=of("t", "s"))
    assert seen == [[]]
    assert store.count("c", where=T) == 1
    store.close()


def test_a_directory_that_goes_while_it_is_looked_at_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_path: Path, _pattern: str) -> Any:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "glob", gone)
    assert listed(Path("anywhere")) == []


def test_a_directory_is_erased_though_somebody_still_adds_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, erase, late = made(tmp_path), shutil.rmtree, [1, 1, 1]

    def erased(path: Path, **options: Any) -> None:
        erase(path, **options)
        if path.name.startswith(".removed-") and late:
            late.pop()
            path.mkdir()
            (path / "shard.db-shm").touch()

    store.replace("c", [record("t", "s", 0)], where=of("t", "s"))
    monkeypatch.setattr(shutil, "rmtree", erased)
    assert store.delete("c", where=T) == 1
    assert list((tmp_path / "1").iterdir()) == []
    assert not late
    store.close()


def test_removing_a_tenant_that_is_being_written_keeps_no_other_waiting(tmp_path: Path) -> None:
    store = made(tmp_path)
    store.replace("c", [record("a", "s", 0)], where=of("a", "s"))
    entry = store._directory.register().entry("c")  # noqa: SLF001 - a writer that takes its time
    is_held, may_go = threading.Event(), threading.Event()

    def hold() -> None:
        with store._shards.used(store._shards.path_of(entry, "a"), entry) as shard:  # noqa: SLF001 - likewise
            assert shard is not None
            with shard.writing(lambda _reader, _followers: None):
                is_held.set()
                may_go.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    is_held.wait(20)
    remover = threading.Thread(target=store.delete, args=("c",), kwargs={"where": Eq("tenantId", "a")})
    remover.start()
    quick = EmbeddedStore(tmp_path, lock_timeout=2)
    assert quick.replace("c", [record("b", "s", 0)], where=of("b", "s")) == 0
    may_go.set()
    remover.join(20)
    holder.join(20)
    assert quick.count("c", where=In("tenantId", ["a", "b"])) == 1
    quick.close()
    store.close()
