"""What the kit cannot know of the store in LanceDB: notes in a table, locks, old versions, killed writers."""

from __future__ import annotations

import multiprocessing
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import filelock
import lancedb
import pytest

from stackroom import StoreUnavailable
from stackroom.filters import And, Eq
from stackroom.stores import CollectionSpec, LanceStore, Record
from stackroom.stores.generations import _turns
from stackroom.stores.lance._engine import LanceEngine
from stackroom.stores.lance._notes import NotesInATable

T = Eq("tenantId", "t")


def records(text: str, source: str = "a", number: int = 4) -> list[Record]:
    return [Record(text, [1, index], {"tenantId": "t", "sourceId": source, "index": index}) for index in range(number)]


def made(path: Path) -> LanceStore:
    store = LanceStore(path)
    store.create_collection("c", CollectionSpec(2, "m"))
    return store


def test_notes_in_a_table_are_written_on_condition(tmp_path: Path) -> None:
    database = lancedb.connect(str(tmp_path), read_consistency_interval=timedelta(0))
    one, other = NotesInATable(database), NotesInATable(database)
    assert one.write("it's", b'{"a": "\'1\'"}', None)
    assert not other.write("it's", b"2", None)
    assert other.write("it's", b"3", b'{"a": "\'1\'"}')
    assert not one.write("it's", b"4", b'{"a": "\'1\'"}')
    assert one.read("it's") == b"3"
    assert one.beginning("it'") == {"it's": b"3"}
    assert one.write("it's", None, b"3")
    assert other.read("it's") is None


def test_a_lock_that_another_process_holds_is_waited_for_and_then_told(tmp_path: Path) -> None:
    store = LanceStore(tmp_path, lock_timeout=0.05)
    with filelock.FileLock(tmp_path / "stackroom.lock"), pytest.raises(StoreUnavailable, match="lock"):
        store.create_collection("c", CollectionSpec(2, "m"))
    store.close()


def _killed_at(path: str, step: str) -> None:
    store = LanceStore(path)
    write, erase, put = LanceEngine.write_note, LanceEngine.erase, LanceEngine.put

    def stop(*arguments: Any, **options: Any) -> Any:
        done: Any = {"sweeping": erase, "staging": put}[step]
        done(*arguments, **options)
        os._exit(9)

    if step == "committing":
        seen = []

        def second(self: LanceEngine, name: str, content: bytes | None, expected: bytes | None) -> bool:
            seen.append(name)
            done = write(self, name, content, expected)
            if len(seen) == 2:
                os._exit(9)
            return done

        LanceEngine.write_note = second  # type: ignore[method-assign]
    elif step == "sweeping":
        LanceEngine.erase = stop  # type: ignore[method-assign]
    else:
        LanceEngine.put = stop  # type: ignore[method-assign]
    store.replace("c", records("new"), where=And(T, Eq("sourceId", "a")))


@pytest.mark.parametrize(("step", "expected"), [("staging", "old"), ("committing", "new"), ("sweeping", "new")])
def test_a_writer_killed_at_a_step_leaves_the_old_or_the_new_and_the_next_sweeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, expected: str
) -> None:
    store = made(tmp_path)
    store.replace("c", records("old"), where=And(T, Eq("sourceId", "a")))
    store.close()
    killed = multiprocessing.get_context("spawn").Process(target=_killed_at, args=(str(tmp_path), step))
    killed.start()
    killed.join(60)
    assert killed.exitcode == 9
    store = LanceStore(tmp_path)
    assert {item.text for item in store.scan("c", where=T, limit=9)} == {expected}
    assert store.count("c", where=T) == 4
    later = time.time() + 2 * _turns.LEASE_SECONDS
    monkeypatch.setattr(time, "time", lambda: later)
    assert store.sweep_abandoned("c") == 1
    (shelf,) = (name for name in lancedb.connect(str(tmp_path)).list_tables().tables if name.startswith("shelf_"))
    assert lancedb.connect(str(tmp_path)).open_table(shelf).count_rows() == 4
    store.close()
