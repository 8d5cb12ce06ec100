"""The followers: caught up from the journal or built anew, they answer as the tables say, and as the reference does."""

from __future__ import annotations

import random
import sqlite3
import threading
from pathlib import Path

import pytest

from stackroom._filters import Filter
from stackroom.filters import All, And, Contains, Eq, Exists, In, Ne, Not, NotIn, Or, Range
from stackroom.stores import CollectionSpec, EmbeddedStore, LexicalQuery, Match, MemoryStore, Record, VectorStore
from stackroom.stores.embedded import _catalogue, _derived, _writes

SPEC = CollectionSpec(3, "m@3")
WORDS = ["apple", "pear", "plum", "fig", "quince", "東京", "京都", "apples"]
TENANT = Eq("tenantId", "t")
FILTERS: list[Filter] = [
    TENANT,
    And(TENANT, In("aclGroups", ["g1", "g2"])),
    And(TENANT, Not(Eq("folderId", "f1"))),
    And(TENANT, Or(Eq("folderId", "f0"), Range("n", gte=3))),
    And(TENANT, Eq("index", 1)),
    And(TENANT, Range("index", gt=0), Exists("title")),
    And(TENANT, All("tags", ["a", "b"])),
    And(TENANT, Ne("n", 2), NotIn("folderId", ["f2"])),
    And(TENANT, Contains("title", "T")),
    And(TENANT, Range("stackroom.expiresAt", lte=5)),
    In("tenantId", ["t", "nobody"]),
    Exists("tenantId"),
    Or(TENANT, Eq("index", 0)),
    And(TENANT, Or(Eq("n", "3"), Not(Exists("folderId")), Eq("index", 2))),
    And(TENANT, In("n", [2, True, 7]), Not(Range("n", lt=3))),
]


def records(chance: random.Random, source_id: str) -> list[Record]:
    shared: dict[str, object] = {
        "tenantId": "t",
        "sourceId": source_id,
        "aclGroups": chance.sample(["g0", "g1", "g2"], chance.randint(1, 3)),
        "tags": chance.sample(["a", "b", "c"], chance.randint(0, 3)),
    }
    if chance.random() < 0.7:
        shared["folderId"] = f"f{chance.randint(0, 2)}"
    if chance.random() < 0.5:
        shared["title"] = chance.choice(["T1", "t2", ""])
    if chance.random() < 0.5:
        shared["stackroom.expiresAt"] = chance.randint(0, 9)
    return [
        Record(
            " ".join(chance.choices(WORDS, k=chance.randint(0, 6))),
            [chance.choice([-1.0, 0.5, 1.0]) for _ in range(3)],
            {**shared, "index": index, "n": chance.choice([1, 2, 3, "3", True, 2.0])},  # type: ignore[dict-item] # all metadata values
        )
        for index in sorted(chance.sample(range(6), chance.randint(1, 4)))
    ]


def write(chance: random.Random, stores: list[VectorStore]) -> None:
    """Do one and the same random write to every store; they must answer alike."""
    source_id = f"s{chance.randint(0, 7)}"
    where = And(TENANT, Eq("sourceId", source_id))
    kind = chance.random()
    written = records(chance, source_id)
    if kind < 0.6:
        answers = [store.replace("c", written, where=where) for store in stores]
    elif kind < 0.75:
        answers = [store.delete("c", where=where) for store in stores]
    elif kind < 0.85:
        answers = [store.delete("c", where=And(TENANT, Eq("index", 1), Range("n", gte=2))) for store in stores]
    elif kind < 0.95:
        patch = {"aclGroups": [f"g{chance.randint(0, 2)}"], "folderId": chance.choice([None, "f0"])}
        answers = [store.update("c", patch, where=where) for store in stores]  # type: ignore[arg-type] # a metadata patch
    else:
        answers = [store.update("c", {"n": 7}, where=And(where, Range("index", lte=2))) for store in stores]
    assert len(set(answers)) == 1


def answers(store: VectorStore, where: Filter) -> list[object]:
    def shown(matches: list[Match]) -> list[object]:
        return [(match.id, match.score, match.record.text, match.record.metadata) for match in matches]

    scanned = store.scan("c", where=where, limit=1000, vectors=True)
    return [
        store.count("c", where=where),
        [
            (item.id, item.text, item.metadata, None if item.vector is None else item.vector.tolist())
            for item in scanned
        ],
        shown(store.dense("c", [1.0, 0.5, -1.0], where=where, limit=5)),
        shown(store.lexical("c", LexicalQuery("apple 京 fig"), where=where, limit=5)),
        shown(store.lexical("c", LexicalQuery("appl p", prefix=True, match="all"), where=where, limit=50)),
    ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "library"


@pytest.mark.parametrize("few_rows", [2000, 0], ids=["passages judged one by one", "by columns"])
@pytest.mark.parametrize("seed", range(4))
def test_followers_that_caught_up_answer_as_a_rebuild_and_as_the_reference(
    path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, few_rows: int
) -> None:
    monkeypatch.setattr(_catalogue, "_FEW_ROWS", few_rows)
    chance = random.Random(seed)
    reference = MemoryStore()
    following, writing = EmbeddedStore(path), EmbeddedStore(path)
    for store in (reference, following):
        store.create_collection("c", SPEC)
    for step in range(60):
        write(chance, [reference, writing])
        if step % 6 == 0:
            where = chance.choice(FILTERS)
            assert answers(following, where) == answers(reference, where)
    rebuilt = EmbeddedStore(path)
    for where in FILTERS:
        expected = answers(reference, where)
        assert answers(following, where) == expected
        assert answers(rebuilt, where) == expected
    for store in (following, writing, rebuilt):
        store.close()


def test_a_reader_that_is_further_behind_than_the_journal_reads_everything_anew(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_writes, "JOURNAL_LENGTH", 3)
    chance = random.Random(1)
    reference, reader, writer = MemoryStore(), EmbeddedStore(path), EmbeddedStore(path)
    for store in (reference, reader):
        store.create_collection("c", SPEC)
    for _ in range(3):
        for _ in range(12):
            write(chance, [reference, writer])
        assert answers(reader, TENANT) == answers(reference, TENANT)
    (shard,) = path.glob("1/*/shard.db")
    connection = sqlite3.connect(shard)
    assert connection.execute("SELECT count(*) FROM journal").fetchone()[0] <= 3
    connection.close()
    reader.close()
    writer.close()


def test_rows_of_what_went_are_given_again_when_they_are_too_many(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_derived, "SPARE_ROWS", 100)
    store = EmbeddedStore(path)
    store.create_collection("c", SPEC)
    where = And(TENANT, Eq("sourceId", "s"))
    for version in range(8):
        written = [
            Record(f"apple v{version}", [1, 0, 0], {"tenantId": "t", "sourceId": "s", "index": index})
            for index in range(300)
        ]
        store.replace("c", written, where=where)
        assert store.count("c", where=TENANT) == 300
    assert len(store.lexical("c", LexicalQuery("apple"), where=TENANT, limit=1000)) == 300
    assert store.lexical("c", LexicalQuery("v3"), where=TENANT, limit=10) == []
    store.close()
    (file,) = path.glob("1/*/shard.db")
    connection = sqlite3.connect(file)
    rows, live = connection.execute("SELECT rows, live FROM state").fetchone()
    assert live == 300
    assert rows <= 2 * live + 100
    connection.close()


def test_many_rows_are_ranked_as_the_reference_ranks_them(path: Path) -> None:
    chance = random.Random(5)
    reference, store = MemoryStore(), EmbeddedStore(path)
    spec = CollectionSpec(16, "m@16")
    for number in range(4):
        vectors = [[chance.gauss(0, 1) for _ in range(16)] for _ in range(1500)]
        vectors[7] = vectors[3] = [1e30] * 16
        vectors[11] = [1e-30] * 16
        written = [
            Record("word", vector, {"tenantId": "t", "sourceId": f"s{number}", "index": index})
            for index, vector in enumerate(vectors)
        ]
        for each in (reference, store):
            each.create_collection("c", spec)
            each.replace("c", written, where=And(TENANT, Eq("sourceId", f"s{number}")))
    for query in ([1.0] * 16, [chance.gauss(0, 1) for _ in range(16)]):
        for limit in (1, 10, 500):
            found = [
                [(match.id, match.score) for match in each.dense("c", query, where=TENANT, limit=limit)]
                for each in (reference, store)
            ]
            assert found[0] == found[1]
    store.close()


def test_threads_search_while_one_writes_and_each_answer_is_of_one_state(path: Path) -> None:
    store = EmbeddedStore(path)
    store.create_collection("c", SPEC)
    where = And(TENANT, Eq("sourceId", "s"))

    def version(number: int) -> list[Record]:
        return [
            Record(f"word v{number}", [1, number, 0], {"tenantId": "t", "sourceId": "s", "index": index})
            for index in range(1 + number % 4)
        ]

    store.replace("c", version(0), where=where)
    failures: list[str] = []
    is_done = threading.Event()

    def read() -> None:
        while not is_done.is_set():
            for found in (
                store.lexical("c", LexicalQuery("word"), where=TENANT, limit=9),
                store.dense("c", [1, 1, 0], where=TENANT, limit=9),
            ):
                texts = {match.record.text for match in found}
                if len(texts) != 1 or len(found) != 1 + int(texts.pop().split("v")[1]) % 4:
                    failures.append(str([match.id for match in found]))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(1, 80):
        store.replace("c", version(number), where=where)
    is_done.set()
    for reader in readers:
        reader.join()
    assert failures == []
    store.close()


def test_a_swap_takes_the_side_in_one_step_and_its_writers_go_on_in_the_new_generation(path: Path) -> None:
    store, other = EmbeddedStore(path), EmbeddedStore(path)
    for name in ("c", "c.side"):
        store.create_collection(name, SPEC)
    where = And(TENANT, Eq("sourceId", "s"))
    old = Record("old", [1, 0, 0], {"tenantId": "t", "sourceId": "s", "index": 0})
    new = Record("new", [0, 1, 0], {"tenantId": "t", "sourceId": "s", "index": 0})
    store.replace("c", [old], where=where)
    store.replace("c.side", [new], where=where)
    assert other.count("c", where=TENANT) == 1
    store.swap("c", "c.side")
    assert [item.text for item in other.scan("c", where=TENANT, limit=5)] == ["new"]
    assert other.collection("c.side") is None
    other.replace(
        "c",
        [
            old,
        ],
        where=where,
    )
    assert [item.text for item in store.scan("c", where=TENANT, limit=5)] == ["old"]
    assert [entry.name for entry in path.iterdir() if entry.is_dir()] == ["2"]
    store.close()
    other.close()
