"""Saved states that are torn, and what the shipped rankers keep open and on disk."""

# ruff: noqa: SLF001 - what is kept lies inside

from __future__ import annotations

import gc
import json
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.rankers.conftest import OWN, Open, found, health

from stackroom.rankers import ExactRanker, FaissRanker, HnswRanker, SqliteVecRanker, UsearchRanker
from stackroom.rankers._indexes import RankerIsClosed

SAVED = {
    "exact": (ExactRanker, "numpy"),
    "faiss": (FaissRanker, "faiss"),
    "hnswlib": (HnswRanker, "hnswlib"),
    "usearch": (UsearchRanker, "usearch"),
}


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def overwritten(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)


TEARS: dict[str, Callable[[Path], object]] = {
    "cut": cut,
    "emptied": emptied,
    "one byte of it changed": overwritten,
    "gone": Path.unlink,
}


def fill(ranker: Any) -> None:
    for place in range(30):
        vector = np.eye(1, 32, place % 32, dtype=np.float32)[0]
        ranker.on_embedding_persisted(tenant_id="t", passage_id=f"s#{place}", vector=vector)


def held(ranker: Any) -> int:
    query = np.eye(1, 32, 0, dtype=np.float32)[0]
    return len(ranker.rank_by_similarity(tenant_id="t", query=query, candidate_ids=None, limit=100))


@pytest.mark.parametrize("tear", TEARS.values(), ids=TEARS)
@pytest.mark.parametrize(("kind", "package"), SAVED.values(), ids=SAVED)
def test_a_saved_directory_with_a_torn_file_is_put_aside_and_the_state_has_a_new_name(
    tmp_path: Path, kind: Callable[..., Any], package: str, tear: Callable[[Path], object]
) -> None:
    pytest.importorskip(package)
    made = kind(path=tmp_path / "vectors")
    fill(made)
    made.close()
    names = sorted(file.name for file in (tmp_path / "vectors").iterdir())
    for name in names:
        if name == "state.json" and tear in {Path.unlink, overwritten}:
            continue  # what has no mark was never closed; one byte of an id is not seen
        made = kind(path=tmp_path / "vectors")
        fill(made)
        made.close()
        (torn,) = (tmp_path / "vectors").glob("*" + name.partition("-")[2] if "-" in name else name)
        tear(torn)
        with pytest.warns(UserWarning, match="put aside in bad"):
            again = kind(path=tmp_path / "vectors")
        assert again.durable_id != made.durable_id
        assert held(again) == 0
        assert (tmp_path / "vectors" / "bad" / torn.name).exists() is (tear is not Path.unlink)
        fill(again)
        again.close()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            once_more = kind(path=tmp_path / "vectors")
        assert (once_more.durable_id, held(once_more)) == (again.durable_id, 30)
        once_more.close()


def test_a_state_of_another_version_is_put_aside(tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    made = FaissRanker(path=tmp_path / "vectors")
    fill(made)
    made.close()
    (tmp_path / "vectors" / "state.json").write_text(json.dumps({"version": 9}), encoding="utf-8")
    with pytest.warns(UserWarning, match="another version"):
        again = FaissRanker(path=tmp_path / "vectors")
    assert held(again) == 0
    again.close()


def test_a_directory_that_cannot_be_read_is_not_taken_for_a_torn_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("faiss")
    made = FaissRanker(path=tmp_path / "vectors")
    fill(made)
    made.close()

    def refuse(*_: Any, **__: Any) -> str:
        raise PermissionError

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_text", refuse)
        with pytest.raises(PermissionError):
            FaissRanker(path=tmp_path / "vectors")
    again = FaissRanker(path=tmp_path / "vectors")
    assert (again.durable_id, held(again)) == (made.durable_id, 30)
    again.close()


def without_its_last_page(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-4096])


def no_database(file: Path) -> None:
    file.write_bytes(b"no database at all" * 500)


@pytest.mark.parametrize("tear", [cut, without_its_last_page, no_database])
def test_a_torn_file_of_sqlite_vec_is_put_aside(tmp_path: Path, tear: Callable[[Path], object]) -> None:
    pytest.importorskip("sqlite_vec")
    made = SqliteVecRanker(tmp_path / "vectors.db")
    fill(made)
    made.close()
    tear(tmp_path / "vectors.db")
    with pytest.warns(UserWarning, match="put aside in vectors.db.bad"):
        again = SqliteVecRanker(tmp_path / "vectors.db")
    assert (tmp_path / "vectors.db.bad" / "vectors.db").exists()
    assert again.durable_id != made.durable_id
    assert held(again) == 0
    fill(again)
    assert held(again) == 30
    again.close()


def test_a_file_of_sqlite_vec_that_is_in_use_is_whole(tmp_path: Path) -> None:
    pytest.importorskip("sqlite_vec")
    made = SqliteVecRanker(tmp_path / "vectors.db")
    fill(made)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = SqliteVecRanker(tmp_path / "vectors.db")
    assert (again.durable_id, held(again)) == (made.durable_id, 30)
    for ranker in (made, again):
        ranker.close()


def test_a_library_feeds_what_was_torn_anew(tmp_path: Path, three: Open, opened: Open) -> None:
    pytest.importorskip("faiss")
    made = FaissRanker(path=tmp_path / "vectors")
    library = three(made)
    assert found(library) == OWN
    made.close()
    for file in (tmp_path / "vectors").glob("*.index"):
        cut(file)
    with pytest.warns(UserWarning, match="put aside"):
        again = FaissRanker(path=tmp_path / "vectors")
    library = opened(again)
    answer = library.search("apple", scope=_scope(), mode="dense")
    assert [(hit.source_id, round(hit.score, 6)) for hit in answer] == OWN
    assert answer.notes == ()
    assert health(library).owed == 0
    again.close()


def _scope() -> Any:
    from tests.rankers.conftest import SCOPE

    return SCOPE


# Connections, and room


@pytest.mark.parametrize(
    ("kind", "package", "rows"),
    [
        (ExactRanker, "numpy", lambda index: len(index._labels)),
        (FaissRanker, "faiss", lambda index: index._index.ntotal),
        (HnswRanker, "hnswlib", lambda index: index._index.get_max_elements()),
    ],
    ids=["exact", "faiss", "hnswlib"],
)
def test_what_was_removed_makes_room_for_what_comes(kind: Any, package: str, rows: Callable[[Any], int]) -> None:
    pytest.importorskip(package)
    ranker = kind()
    for _ in range(60):
        fill(ranker)
    assert held(ranker) == 30
    (tenant,) = ranker._indexes._tenants.values()
    assert rows(tenant.index) <= 1024 if kind is HnswRanker else rows(tenant.index) <= 3 * 64
    ranker.close()


def test_what_the_exact_ranker_was_told_to_remove_is_in_no_file(tmp_path: Path) -> None:
    ranker = ExactRanker(path=tmp_path / "vectors")
    fill(ranker)
    vector = np.full(32, 0.123456789, dtype=np.float32)
    ranker.on_embedding_persisted(tenant_id="t", passage_id="secret#0", vector=vector)
    ranker.on_embedding_persisted(tenant_id="t", passage_id="secret#0", vector=None)
    ranker.close()
    saved = b"".join(file.read_bytes() for file in (tmp_path / "vectors").iterdir())
    assert vector.tobytes() not in saved
    assert b"secret" not in saved


def open_files(name: str) -> int:
    """Return how many handles this process holds on a file."""
    there = Path("/proc/self/fd")
    if not there.exists():
        pytest.skip("not applicable: this system does not show what a process holds open")
    return sum(link.is_symlink() and str(link.readlink()).endswith(name) for link in there.iterdir())


def test_threads_that_have_ended_leave_no_connection_behind(tmp_path: Path) -> None:
    pytest.importorskip("sqlite_vec")
    ranker = SqliteVecRanker(tmp_path / "vectors.db")
    fill(ranker)
    for _ in range(40):
        thread = threading.Thread(target=held, args=(ranker,))
        thread.start()
        thread.join()
    gc.collect()
    assert open_files("vectors.db") == 1
    ranker.close()
    assert open_files("vectors.db") == 0


def test_many_threads_at_once_leave_a_few_connections(tmp_path: Path) -> None:
    pytest.importorskip("sqlite_vec")
    ranker = SqliteVecRanker(tmp_path / "vectors.db")
    fill(ranker)
    all_are_there, failures = threading.Barrier(30), []
    lent = ranker._lent  # so that all are lent at once

    def slowly() -> Any:
        connection = lent()
        all_are_there.wait(20)
        return connection

    ranker._lent = slowly  # type: ignore[method-assign]

    def search() -> None:
        try:
            assert held(ranker) == 30
        except BaseException as error:  # noqa: BLE001 - told by the test's own thread
            failures.append(error)

    for _ in range(3):
        threads = [threading.Thread(target=search) for _ in range(30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert failures == []
        assert len(ranker._idle) == 8  # SQLite keeps the handles of the others for the next to come
        assert open_files("vectors.db") <= 30
    ranker.close()


def test_a_call_that_fails_leaves_no_transaction_open(tmp_path: Path) -> None:
    pytest.importorskip("sqlite_vec")
    ranker = SqliteVecRanker(tmp_path / "vectors.db")
    fill(ranker)
    with pytest.raises(Exception, match="type"):
        ranker.on_embedding_persisted(tenant_id="t", passage_id=object(), vector=np.zeros(32, dtype=np.float32))  # type: ignore[arg-type] # that is the fault
    ranker.on_embedding_persisted(tenant_id="t", passage_id="s#0", vector=None)
    assert held(ranker) == 29
    ranker.close()


def test_a_closed_one_refuses_every_call(tmp_path: Path) -> None:
    pytest.importorskip("sqlite_vec")
    ranker = SqliteVecRanker(tmp_path / "vectors.db")
    fill(ranker)
    ranker.close()
    with pytest.raises(RankerIsClosed):
        held(ranker)
    with pytest.raises(RankerIsClosed):
        fill(ranker)


def test_a_small_tenant_takes_little_room(tmp_path: Path) -> None:
    pytest.importorskip("sqlite_vec")
    ranker = SqliteVecRanker(tmp_path / "vectors.db")
    vector = np.eye(1, 384, 0, dtype=np.float32)[0]
    for tenant in range(50):
        ranker.on_embedding_persisted(tenant_id=f"t{tenant}", passage_id="s#0", vector=vector)
    ranker.close()
    assert (tmp_path / "vectors.db").stat().st_size < 50 * 150_000
