"""Copies between stores and through a file: everything comes over, any end is gone on from, nothing is mixed."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.library.doubles import HandClock, RecordingEmbedder, source
from tests.postgres_room import Room

from stackroom import Conflict, EmbedderMismatch, IndexingCancelled, Library, Scope, StoreError
from stackroom.copying import CopyProgress, CopyReport, copy_collection, export_collection, import_collection
from stackroom.filters import And, Eq, Exists
from stackroom.indexing import CancelToken
from stackroom.stores import CollectionSpec, EmbeddedStore, MemoryStore, PostgresStore, Record, VectorStore

ALL = Exists("tenantId")
SCOPE = Scope("t", ["g"])


def made(kind: str, name: str, tmp_path: Path, request: pytest.FixtureRequest) -> VectorStore:
    if kind == "memory":
        return MemoryStore()
    if kind == "embedded":
        return EmbeddedStore(tmp_path / name)
    room: Room = request.getfixturevalue("room")
    return PostgresStore(room.dsn, schema=room.schema, prefix=f"{name}_")


@pytest.fixture(params=["memory", "embedded", "postgres"])
def origin(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[VectorStore]:
    store = made(request.param, "origin", tmp_path, request)
    yield store
    store.close()


@pytest.fixture(params=["memory", "embedded", "postgres"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[VectorStore]:
    store = made(request.param, "target", tmp_path, request)
    yield store
    store.close()


def filled(store: VectorStore, sources: int = 5) -> Library:
    library = Library(store, "library", RecordingEmbedder(name="a", dimension=8), clock=HandClock())
    for number in range(sources):
        library.index_source(
            source(
                f"s{number}",
                f"apple {number}",
                "pear and plum",
                tags=["x", "é"],
                title=f"T{number}",
                metadata={"year": number, "share": number / 3, "is": True, "list": [1, "1", 1.0]},
            )
        )
    library.index_source(source("s0", "another tenant's", tenant_id="u", acl_groups=["h"]))
    library.index_source(source("odd/ #\U0001f600", "line\nbreak", "it’s \x85 é e\u0301", folder_id="f"))
    return library


def state(store: VectorStore, name: str = "library") -> list[tuple[str, bytes, dict[str, Any]]]:
    records = store.scan(name, where=ALL, limit=10_000, vectors=True)
    return [(record.text, np.asarray(record.vector).tobytes(), record.metadata) for record in records]


def test_everything_comes_over_as_it_is(origin: VectorStore, target: VectorStore) -> None:
    library = filled(origin)
    report = copy_collection(origin, target)
    assert state(target) == state(origin)
    assert target.collection("library") == origin.collection("library")
    assert (report.sources, report.passages, report.written, report.removed) == (7, 13, 13, 0)
    assert report.searched == 7
    copied = Library(target, "library", RecordingEmbedder(name="a", dimension=8))
    for scope in (SCOPE, Scope("u", ["h"]), Scope("t", ["h"])):
        found = [[hit.id for hit in each.search("apple pear", scope=scope)] for each in (library, copied)]
        assert found[0] == found[1]
    info, other = (each.source("s1", scope=SCOPE) for each in (library, copied))
    assert info == other


def test_a_second_copy_writes_nothing(origin: VectorStore, target: VectorStore) -> None:
    filled(origin)
    copy_collection(origin, target)
    before = [record.version for record in target.scan("library", where=ALL, limit=100)]
    assert copy_collection(origin, target).written == 0
    assert [record.version for record in target.scan("library", where=ALL, limit=100)] == before


def test_what_has_changed_since_is_brought_up_to_date(target: VectorStore) -> None:
    origin = MemoryStore()
    library = filled(origin)
    copy_collection(origin, target)
    library.index_source(source("s1", "new text"))
    library.set_source_scope("s2", tenant_id="t", acl_groups=["h"])
    library.index_source(source("s9", "more"))
    assert copy_collection(origin, target).written == 4
    assert state(target) == state(origin)


def test_what_was_removed_since_is_said_and_removed_on_request(target: VectorStore) -> None:
    origin = MemoryStore()
    library = filled(origin)
    copy_collection(origin, target)
    library.remove_source("s1", tenant_id="t")
    with pytest.raises(Conflict, match="1 sources that the origin does not"):
        copy_collection(origin, target)
    assert copy_collection(origin, target, prune=True).removed == 1
    assert state(target) == state(origin)


def test_what_stood_there_before_is_not_removed_unasked(target: VectorStore) -> None:
    origin = MemoryStore()
    filled(origin)
    Library(target, "library", RecordingEmbedder(name="a", dimension=8)).index_source(source("mine", "keep me"))
    with pytest.raises(Conflict, match="prune"):
        copy_collection(origin, target)
    assert target.count("library", where=Eq("sourceId", "mine")) == 1
    assert target.count("library", where=ALL) == 14


@pytest.mark.parametrize(("fingerprint", "dimension", "problem"), [("b@8", 8, "id"), ("a@9", 9, "dimension")])
def test_embedders_are_not_mixed(target: VectorStore, fingerprint: str, dimension: int, problem: str) -> None:
    origin = MemoryStore()
    filled(origin)
    target.create_collection("library", CollectionSpec(dimension, fingerprint))
    with pytest.raises(EmbedderMismatch) as refused:
        copy_collection(origin, target)
    assert (str(refused.value.stored), refused.value.problem) == (fingerprint, problem)
    assert target.count("library", where=ALL) == 0


def test_a_collection_that_is_not_there_is_said(target: VectorStore) -> None:
    with pytest.raises(StoreError, match="no such collection"):
        copy_collection(MemoryStore(), target)
    assert target.collection("library") is None
    with pytest.raises(ValueError, match="onto itself"):
        copy_collection(target, target)


def test_a_copy_within_a_store_has_another_name() -> None:
    store = MemoryStore()
    filled(store)
    copy_collection(store, store, to="second")
    assert state(store, "second") == state(store)


def test_a_copy_that_was_cancelled_goes_on_where_it_was(target: VectorStore, monkeypatch: pytest.MonkeyPatch) -> None:
    from stackroom.copying import _copy

    monkeypatch.setattr(_copy, "_SOURCES_AT_A_TIME", 2)
    origin = MemoryStore()
    filled(origin, sources=10)
    token = CancelToken()

    def cancel_soon(progress: CopyProgress) -> None:
        if progress.written >= 4:
            token.cancel()

    with pytest.raises(IndexingCancelled):
        copy_collection(origin, target, cancel=token, on_progress=cancel_soon)
    there = target.count("library", where=ALL)
    assert 0 < there < 23
    assert copy_collection(origin, target).written == 23 - there
    assert state(target) == state(origin)


class WritesMeanwhile(MemoryStore):
    """Calls back while its records are being read."""

    meanwhile: Callable[[], object] | None = None

    def scan(self, *given: Any, **options: Any) -> Any:
        page = super().scan(*given, **options)
        if self.meanwhile is not None and page:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        return page


def test_what_is_written_meanwhile_is_caught_up_with() -> None:
    origin, target = WritesMeanwhile(), MemoryStore()
    library = filled(origin)

    def write() -> None:
        library.index_source(source("s1", "written meanwhile"))
        library.remove_source("s2", tenant_id="t")
        library.index_source(source("a new one", "apple"))

    origin.meanwhile = write
    copy_collection(origin, target)
    assert state(target) == state(origin)


def test_an_origin_that_never_rests_is_given_up_with_what_was_copied_kept() -> None:
    target = MemoryStore()

    class NeverRests(MemoryStore):
        number = 0

        def scan(self, *given: Any, **options: Any) -> Any:
            page = super().scan(*given, **options)
            self.number += 1
            self.replace("library", [_record("s", f"text {self.number}")], where=_where("s"))
            return page

    origin = NeverRests()
    origin.create_collection("library", CollectionSpec(2, "a@2"))
    origin.replace("library", [_record("s", "text")], where=_where("s"))
    with pytest.raises(Conflict, match="10 rounds"):
        copy_collection(origin, target)
    assert target.count("library", where=ALL) == 1


def _record(source_id: str, text: str) -> Record:
    return Record(text, [1, 0], {"tenantId": "t", "sourceId": source_id, "index": 0})


def _where(source_id: str) -> And:
    return And(Eq("tenantId", "t"), Eq("sourceId", source_id))


# Stores that are not what they say


class LosesRecords(MemoryStore):
    def replace(self, name: str, records: Any, **options: Any) -> int:
        return super().replace(name, list(records)[:-1], **options)


class CountsOneMore(MemoryStore):
    def count(self, *given: Any, **options: Any) -> int:
        return super().count(*given, **options) + 1


class AnswersEverything(MemoryStore):
    def dense(self, name: str, vector: Any, *, where: Any, limit: int, fingerprint: str | None = None) -> Any:
        return super().dense(name, vector, where=ALL, limit=limit + 0 * len(str(where)), fingerprint=fingerprint)


class FindsNothing(MemoryStore):
    def dense(self, *_given: Any, **_options: Any) -> Any:
        return []


class KnowsNoWords(MemoryStore):
    def lexical(self, *_given: Any, **_options: Any) -> Any:
        return []


class ShortensVectors(MemoryStore):
    def scan(self, name: str, **options: Any) -> Any:
        page = super().scan(name, **options)
        for record in page:
            if record.vector is not None:
                record.vector[0] = np.nextafter(record.vector[0], np.float32(9))
        return page


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        (LosesRecords, "10 rounds"),
        (ShortensVectors, "10 rounds"),
        (CountsOneMore, "counts otherwise"),
        (AnswersEverything, "may not see"),
        (FindsNothing, "by its own vector"),
        (KnowsNoWords, "otherwise than at the origin"),
    ],
)
def test_a_copy_that_is_none_is_said(target: type[MemoryStore], problem: str) -> None:
    origin = MemoryStore()
    filled(origin)
    with pytest.raises(StoreError, match=problem):
        copy_collection(origin, target())


# The file


def exported(store: VectorStore, path: Path) -> CopyReport:
    return export_collection(store, path)


def test_a_collection_comes_back_from_a_file_as_it_was(
    origin: VectorStore, target: VectorStore, tmp_path: Path
) -> None:
    filled(origin)
    out = exported(origin, tmp_path / "library.stackroom")
    back = import_collection(tmp_path / "library.stackroom", target)
    assert state(target) == state(origin)
    assert target.collection("library") == origin.collection("library")
    assert (out.written, back.written, back.searched) == (13, 13, 7)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["library.stackroom"]


def test_an_export_is_brought_up_to_date(tmp_path: Path) -> None:
    store, path = MemoryStore(), tmp_path / "file"
    library = filled(store)
    exported(store, path)
    library.remove_source("s1", tenant_id="t")
    library.index_source(source("s2", "new"))
    report = exported(store, path)
    assert (report.written, report.removed) == (1, 1)
    again = MemoryStore()
    import_collection(path, again)
    assert state(again) == state(store)


def test_the_file_is_read_without_stackroom(tmp_path: Path) -> None:
    store = MemoryStore()
    filled(store)
    exported(store, tmp_path / "file")
    with sqlite3.connect(tmp_path / "file") as file:
        about = dict(file.execute("SELECT key, value FROM about"))
        rows = file.execute(
            "SELECT text, vector FROM source JOIN passage ON passage.source = source.number"
            " WHERE tenant = 'u' ORDER BY source_id, idx"
        ).fetchall()
    file.close()
    assert (about["format"], about["version"], about["complete"]) == ("stackroom-export", "1", "yes")
    assert (about["fingerprint"], about["dimension"], about["metric"]) == ("a@8", "8", "cosine")
    ((text, vector),) = rows
    assert (text, len(vector)) == ("another tenant's", 8 * 4)


def test_an_export_that_was_not_finished_is_refused_and_can_be_gone_on_with(tmp_path: Path) -> None:
    store, path = MemoryStore(), tmp_path / "file"
    filled(store)
    token = CancelToken()
    token.cancel()
    with pytest.raises(IndexingCancelled):
        export_collection(store, path, cancel=token)
    target = MemoryStore()
    with pytest.raises(StoreError, match="not finished"):
        import_collection(path, target)
    assert target.collection("library") is None
    exported(store, path)
    assert import_collection(path, target).passages == 13


def test_an_export_killed_at_any_step_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "file"
    store = EmbeddedStore(tmp_path / "store")
    filled(store, sources=40)
    store.close()
    for step in range(1, 12, 2):
        ended = subprocess.run(
            [sys.executable, "-c", KILLED, str(tmp_path / "store"), str(path), str(step)], check=False
        )
        assert ended.returncode in {0, -9}
    store = EmbeddedStore(tmp_path / "store")
    exported(store, path)
    target = MemoryStore()
    import_collection(path, target)
    assert state(target) == state(store)
    store.close()


KILLED = """
import os, signal, sys
from stackroom.copying import _copy, _file, export_collection
from stackroom.stores import EmbeddedStore
_copy._SOURCES_AT_A_TIME = 3
left = int(sys.argv[3])
insert = _file.InFile._insert
def dying(self, source):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    insert(self, source)
_file.InFile._insert = dying
export_collection(EmbeddedStore(sys.argv[1]), sys.argv[2])
"""


def test_other_files_are_not_touched(tmp_path: Path) -> None:
    store = MemoryStore()
    filled(store)
    for name, content in (("text", b"hello, this is no database at all"), ("other.db", _other_database(tmp_path))):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(StoreError):
            export_collection(store, path)
        with pytest.raises(StoreError):
            import_collection(path, MemoryStore())
        assert path.read_bytes() == content
    with pytest.raises(StoreError, match="no such file"):
        import_collection(tmp_path / "none", MemoryStore())
    with pytest.raises(StoreError, match="there is no directory"):
        export_collection(store, tmp_path / "no folder" / "file")


def _other_database(tmp_path: Path) -> bytes:
    made = sqlite3.connect(tmp_path / "made.db")
    made.execute("CREATE TABLE about (key, value)")
    made.close()
    return (tmp_path / "made.db").read_bytes()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE source SET metadata = '[1, 2'",
        "UPDATE passage SET vector = x'00'",
        "UPDATE passage SET metadata = '{\"a\": null}'",
        "UPDATE passage SET text = x'ff'",
        "UPDATE source SET metadata = '{}'",
        "UPDATE source SET metadata = '5'",
    ],
)
def test_a_file_that_was_tampered_with_is_refused(tmp_path: Path, damage: str) -> None:
    store, path = MemoryStore(), tmp_path / "file"
    filled(store)
    exported(store, path)
    with sqlite3.connect(path) as file:
        file.execute(damage)
    file.close()
    target = MemoryStore()
    with pytest.raises(StoreError):
        import_collection(path, target)
    assert target.count("library", where=ALL) == 0


def test_progress_is_told(tmp_path: Path) -> None:
    store = MemoryStore()
    filled(store)
    seen: list[CopyProgress] = []
    export_collection(store, tmp_path / "file", on_progress=seen.append)
    assert _rounds(seen) == [1, 2]
    assert (seen[-1].sources, seen[-1].written) == (7, 13)


def _rounds(seen: Sequence[CopyProgress]) -> list[int]:
    return sorted({progress.round for progress in seen})
