"""Codes, segments, renumbering, torn files, many tenants, forks, locks: the same answers, whatever happens."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from stackroom import Library, Scope, Source, StoreError, StoreUnavailable
from stackroom.embedders import HashingEmbedder
from stackroom.filters import And, Eq, In
from stackroom.stores import CollectionSpec, EmbeddedStore, LexicalQuery, MemoryStore, Record, VectorStore
from stackroom.stores.embedded import _codes, _derived, _segments, _vectors

Start = Callable[[str], "subprocess.Popen[str]"]
TENANT = Eq("tenantId", "t")
WORDS = [f"word{number}" for number in range(60)]


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let blocks, segments and merges be so small that a test crosses all of their borders."""
    monkeypatch.setattr(_codes, "BLOCK", 256)
    monkeypatch.setattr(_vectors, "EXACT_ROWS", 100)
    monkeypatch.setattr(_segments, "SMALL", 128)
    monkeypatch.setattr(_segments, "LARGE", 512)
    monkeypatch.setattr(_derived, "SPARE_ROWS", 300)


def fill(store: VectorStore, vectors: NDArray[np.float32], *, groups: int = 4, size: int = 10) -> None:
    """Write vectors as sources of `size` passages, each source in one of some groups."""
    if store.collection("c") is None:
        store.create_collection("c", CollectionSpec(vectors.shape[1], "m"))
    chance = random.Random(0)
    for number, first in enumerate(range(0, len(vectors), size)):
        some = vectors[first : first + size]
        shared = {"tenantId": "t", "sourceId": f"s{number}", "aclGroups": [f"g{number % groups}"]}
        written = [
            Record(" ".join(chance.choices(WORDS, k=8)), vector, {**shared, "index": index})  # type: ignore[dict-item] # all metadata values
            for index, vector in enumerate(some)
        ]
        store.replace("c", written, where=And(TENANT, Eq("sourceId", f"s{number}")))


def clustered(rows: int, dimension: int, seed: int = 1) -> NDArray[np.float32]:
    chance = np.random.default_rng(seed)
    centres = chance.standard_normal((40, dimension))
    places = centres[chance.integers(0, 40, rows)]
    return (places + 0.4 * chance.standard_normal((rows, dimension))).astype(np.float32)


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("dimension", [1, 2, 33, 64, 65, 600])
def test_codes_of_any_dimension_find_what_comparing_all_finds(tmp_path: Path, dimension: int) -> None:
    store = EmbeddedStore(tmp_path)
    vectors = clustered(1200, dimension)
    fill(store, vectors)
    store.close()
    coded, exact = EmbeddedStore(tmp_path), EmbeddedStore(tmp_path, exact=True)
    hits = wanted = 0
    for groups in (["g0"], ["g1", "g2"], ["g0", "g1", "g2", "g3"]):
        where = And(TENANT, In("aclGroups", groups))
        for query in clustered(12, dimension, seed=2):
            near = {match.id for match in exact.dense("c", query, where=where, limit=10)}
            hits += len(near & {match.id for match in coded.dense("c", query, where=where, limit=10)})
            wanted += len(near)
    assert hits >= 0.99 * wanted
    assert list(tmp_path.glob("1/t/codes.*.bits"))
    coded.close()
    exact.close()


def test_many_candidates_are_needed_where_vectors_have_no_structure_and_then_all_are_compared() -> None:
    chance = np.random.default_rng(5)
    rows = chance.standard_normal((4096, 64)).astype(np.float32)
    quantiser = _codes.Quantiser(1, 7, _codes.mean_of(rows), len(rows))
    blocks = quantiser.encode(rows).T[None]
    pairs = _codes.calibrated(quantiser, rows, np.ascontiguousarray(blocks), np.arange(4096))
    assert pairs[-1][1] > 1000
    trusted = _codes.Quantiser(1, 7, quantiser.mean, len(rows), 4096, pairs)
    assert trusted.needed(3000, 50) is None


@pytest.mark.usefixtures("small_steps")
def test_equal_vectors_are_cut_by_their_ids_among_codes_as_well(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path)
    vectors = clustered(800, 32)
    vectors[100:500] = vectors[3]
    fill(store, vectors)
    ids = sorted([f"s{row // 10}#{row % 10}" for row in [3, *range(100, 500)]])
    assert [match.id for match in store.dense("c", vectors[3], where=TENANT, limit=30)] == ids[:30]
    store.close()


def same_answers(store: VectorStore, reference: VectorStore) -> None:
    for where in (TENANT, And(TENANT, In("aclGroups", ["g1"])), And(TENANT, Eq("index", 3))):
        assert store.count("c", where=where) == reference.count("c", where=where)
        for text in ("word1", "word2 word3 word59", "word4 nobody"):
            for match, prefix in (("any", False), ("all", False), ("any", True)):
                query = LexicalQuery(text, match, prefix)  # type: ignore[arg-type] # any or all
                found, expected = (
                    [(hit.id, hit.score) for hit in each.lexical("c", query, where=where, limit=40)]
                    for each in (store, reference)
                )
                assert found == expected


@pytest.mark.usefixtures("small_steps")
def test_segments_merged_and_rows_renumbered_under_writes_answer_as_the_reference(tmp_path: Path) -> None:
    chance = random.Random(2)
    store, reader, reference = EmbeddedStore(tmp_path), EmbeddedStore(tmp_path), MemoryStore()
    for each in (store, reference):
        fill(each, clustered(900, 8))
    for step in range(80):
        source = f"s{chance.randint(0, 89)}"
        where = And(TENANT, Eq("sourceId", source))
        written = [
            Record(
                " ".join(chance.choices(WORDS, k=8)),
                [chance.random() for _ in range(8)],
                {"tenantId": "t", "sourceId": source, "index": index, "aclGroups": ["g1"]},
            )
            for index in range(chance.randint(0, 14))
        ]
        for each in (store, reference):
            each.replace("c", written, where=where)
        if step % 20 == 19:
            same_answers(reader, reference)
    same_answers(store, reference)
    reader.close()
    store.close()
    with_care = EmbeddedStore(tmp_path)
    same_answers(with_care, reference)
    assert with_care.problems() == []
    with_care.compact()
    same_answers(with_care, reference)
    assert with_care.problems() == []
    assert with_care.statistics("c")[0].rows == with_care.statistics("c")[0].passages
    with_care.close()


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("harm", ["deleted", "emptied", "truncated", "foreign"])
@pytest.mark.parametrize("kind", ["vectors", "bits"])
def test_a_side_file_that_is_missing_or_torn_is_made_anew(tmp_path: Path, kind: str, harm: str) -> None:
    store = EmbeddedStore(tmp_path)
    vectors = clustered(900, 16)
    fill(store, vectors)
    expected = [(hit.id, hit.score) for hit in store.dense("c", vectors[5], where=TENANT, limit=20)]
    store.close()
    (file,) = tmp_path.glob(f"1/t/codes.*.{kind}")
    whole = file.read_bytes()
    if harm == "deleted":
        file.unlink()
    else:
        file.write_bytes({"emptied": b"", "truncated": whole[: len(whole) // 2], "foreign": b"x" * 100}[harm])
    again = EmbeddedStore(tmp_path)
    assert [(hit.id, hit.score) for hit in again.dense("c", vectors[5], where=TENANT, limit=20)] == expected
    assert again.problems() == []
    again.close()


@pytest.mark.usefixtures("small_steps")
def test_wrong_bytes_in_a_side_file_are_found_by_looking_and_mended_by_compacting(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path)
    vectors = clustered(900, 16)
    fill(store, vectors)
    expected = [(hit.id, hit.score) for hit in store.dense("c", vectors[5], where=TENANT, limit=20)]
    store.close()
    for file in tmp_path.glob("1/t/codes.*"):
        harmed = bytearray(file.read_bytes())
        harmed[200:2000] = bytes(1800)
        file.write_bytes(harmed)
    again = EmbeddedStore(tmp_path)
    found = again.problems()
    assert {problem.what.split(" differs")[0] for problem in found} == {
        "the file of the vectors",
        "the file of the codes",
    }
    assert all(problem.is_mended_by_compact for problem in found)
    assert {problem.place for problem in found} == {"1/t"}
    again.compact()
    assert again.problems() == []
    assert [(hit.id, hit.score) for hit in again.dense("c", vectors[5], where=TENANT, limit=20)] == expected
    again.close()


def test_damage_to_the_truth_is_told_from_damage_to_what_is_derived(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path)
    fill(store, clustered(50, 4))
    store.close()
    connection = sqlite3.connect(tmp_path / "1" / "t" / "shard.db")
    connection.execute("DELETE FROM passage WHERE row = 7")
    connection.execute("DELETE FROM vectors WHERE source = 3")
    connection.commit()
    connection.close()
    again = EmbeddedStore(tmp_path)
    found = again.problems()
    assert [problem.is_mended_by_compact for problem in found] == [False, False]
    assert all("backup" in problem.what for problem in found)
    again.close()


def test_thousands_of_tenants_keep_few_files_open(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path, max_open_shards=4)
    store.create_collection("c", CollectionSpec(2, "m"))

    def write_and_read(first: int) -> None:
        for number in range(first, 60, 2):
            tenant = f"tenant{number}"
            record = Record("apple", [1, 0], {"tenantId": tenant, "sourceId": "s", "index": 0})
            where = And(Eq("tenantId", tenant), Eq("sourceId", "s"))
            store.replace("c", [record], where=where)
            assert len(store.dense("c", [1, 0], where=where, limit=3)) == 1
            if number % 3 == 0:
                assert store.delete("c", where=where) == 1

    threads = [threading.Thread(target=write_and_read, args=(first,)) for first in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if Path("/proc/self/fd").exists():
        held = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink() and link.exists()]
        assert len([name for name in held if str(tmp_path) in name]) < 40
    assert sum(store.count("c", where=Eq("tenantId", f"tenant{number}")) for number in range(60)) == 40
    store.close()
    assert not (tmp_path / "1" / "tenant3").exists(), "not even its name is left"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_store_used_after_a_fork_says_so(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path)
    fill(store, clustered(20, 4))
    child = os.fork()
    if not child:
        try:
            store.count("c", where=TENANT)
        except StoreError as error:
            store.close()
            os._exit(7 if "fork" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert store.count("c", where=TENANT) == 20
    store.close()


def test_a_writer_that_waits_too_long_is_told_who_holds_the_lock(tmp_path: Path, start: Start) -> None:
    store = EmbeddedStore(tmp_path / "library", lock_timeout=0.3)
    fill(store, clustered(20, 4))
    holder = start("""
store = EmbeddedStore(path)
entry = store._directory.register().entry("c")
(shard,) = store._shards.every(entry)
with shard.writing(lambda reader, followers: None):
    say("held")
    sys.stdin.readline()
""")
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    where = And(TENANT, Eq("sourceId", "s0"))
    with pytest.raises(StoreUnavailable, match=rf"process {holder.pid} on "):
        store.delete("c", where=where)
    assert store.count("c", where=where) == 10
    holder.communicate("\n")
    assert store.delete("c", where=where) == 10
    store.close()


def test_kill_minus_nine_between_blocks_segments_merges_and_renumbering_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_codes, "BLOCK", 64)
    monkeypatch.setattr(_vectors, "EXACT_ROWS", 30)
    monkeypatch.setattr(_segments, "SMALL", 32)
    monkeypatch.setattr(_segments, "LARGE", 128)
    monkeypatch.setattr(_derived, "SPARE_ROWS", 60)
    lines = """
import itertools, sys, random
from stackroom.stores.embedded import _codes, _derived, _segments, _vectors
from stackroom.stores import *
from stackroom.filters import *
_codes.BLOCK, _vectors.EXACT_ROWS, _segments.SMALL, _segments.LARGE, _derived.SPARE_ROWS = 64, 30, 32, 128, 60
store = EmbeddedStore(sys.argv[1])
store.create_collection("c", CollectionSpec(2, "m"))
for version in itertools.count(int(sys.argv[2])):
    source = f"s{version % 7}"
    records = [
        Record(f"v{version} common", [version % 5 + 1, index], {"tenantId": "t", "sourceId": source, "index": index})
        for index in range(20)
    ]
    store.replace("c", records, where=And(Eq("tenantId", "t"), Eq("sourceId", source)))
    print(version, flush=True)
"""
    chance = random.Random(11)
    newest: dict[str, int] = {}
    for kill in range(6):
        writer = subprocess.Popen(
            [sys.executable, "-c", lines, str(tmp_path / "library"), str(1 + kill * 1_000_000)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert writer.stdout is not None
        for _ in range(chance.randint(5, 60)):
            version = int(writer.stdout.readline())
            newest[f"s{version % 7}"] = version
        writer.kill()
        for line in writer.stdout.read().splitlines():
            newest[f"s{int(line) % 7}"] = int(line)
        writer.wait()
        writer.stdout.close()
        store = EmbeddedStore(tmp_path / "library")
        for source, version in newest.items():
            found = store.scan("c", where=And(TENANT, Eq("sourceId", source)), limit=100)
            texts = {record.text for record in found}
            assert len(found) == 20
            assert len(texts) == 1
            assert int(texts.pop().split()[0][1:]) >= version
        assert len(store.lexical("c", LexicalQuery("common"), where=TENANT, limit=1000)) == 20 * len(newest)
        assert len(store.dense("c", [1, 1], where=TENANT, limit=1000)) == 20 * len(newest)
        store.close()


def test_memory_stays_bounded_by_what_is_in_hand(tmp_path: Path) -> None:
    lines = """
import resource, sys
import numpy as np
from stackroom.stores import *
from stackroom.filters import *
store = EmbeddedStore(sys.argv[1])
store.create_collection("c", CollectionSpec(64, "m"))
def put(number):
    records = [
        Record("word " * 200, np.full(64, 1 + index), {"tenantId": "t", "sourceId": f"s{number}", "index": index})
        for index in range(20)
    ]
    store.replace("c", records, where=And(Eq("tenantId", "t"), Eq("sourceId", f"s{number}")))
for number in range(50):
    put(number)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for number in range(50, 400):
    put(number)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", lines, str(tmp_path)], capture_output=True, text=True, check=True, timeout=100
    )
    grown = int(done.stdout) * (1 if sys.platform == "darwin" else 1024)
    assert grown < 15 * 2**20, f"7,000 passages of 1 kB grew the process by {grown} bytes"


def test_a_clock_that_goes_back_loses_nothing(tmp_path: Path) -> None:
    times = [datetime(2026, 1, 1, tzinfo=UTC) - timedelta(days=step) for step in range(40)]
    with Library.open(tmp_path, embedder=HashingEmbedder(8), clock=lambda: times.pop(0)) as library:
        for version in range(3):
            library.index_source(Source("s", "doc", "t", ["g"], [f"version {version}"]))
            library.set_source_scope("s", tenant_id="t", tags=[f"v{version}"])
        scope = Scope("t", ["g"])
        assert [hit.text for hit in library.search("version", scope=scope)] == ["version 2"]
        info = library.source("s", scope=scope)
        assert info is not None
        assert info.updated_at < info.created_at
        library.index_source(
            Source("gone", "doc", "t", ["g"], ["expired"], expires_at=datetime(2025, 12, 31, tzinfo=UTC))
        )
        assert library.sweep() == 0
        times[:] = [datetime(2026, 1, 1, tzinfo=UTC)] * 4
        assert library.sweep() == 1
        assert library.count(scope=scope) == 1
