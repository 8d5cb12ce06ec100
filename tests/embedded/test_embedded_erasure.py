"""What was removed is gone from the files, not only from the answers."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from stackroom import Library, MetadataValue, Scope, Source
from stackroom.embedders import HashingEmbedder
from stackroom.filters import And, Eq
from stackroom.stores import CollectionSpec, EmbeddedStore, Record


def bytes_below(path: Path) -> bytes:
    return b"".join(entry.read_bytes() for entry in sorted(path.rglob("*")) if entry.is_file())


def record(source: str, index: int, text: str, vector: list[float]) -> Record:
    metadata: dict[str, MetadataValue] = {
        "tenantId": "t",
        "sourceId": source,
        "index": index,
        "title": f"TITLE-{text}",
        "own": f"OWN-{text}",
    }
    return Record(text, vector, metadata)


@pytest.mark.parametrize("way", ["replace", "delete", "empty source", "one passage of two"])
def test_text_words_metadata_and_vectors_of_what_went_are_in_no_file(tmp_path: Path, way: str) -> None:
    store = EmbeddedStore(tmp_path / "library")
    store.create_collection("c", CollectionSpec(4, "m@4"))
    where = And(Eq("tenantId", "t"), Eq("sourceId", "s"))
    vector = [0.123, 0.456, 0.789, 1.234]
    gone = [record("s", 0, "zebracadabra", vector), record("s", 1, "staying here", [1, 0, 0, 0])]
    gone[1] = Record(gone[1].text, gone[1].vector, {**gone[1].metadata, "title": gone[0].metadata["title"]})
    store.replace("c", gone, where=where)
    store.close()
    traces = [b"zebracadabra", np.asarray(vector, dtype="<f4").tobytes()]
    assert all(trace in bytes_below(tmp_path) for trace in traces), "else this test would prove nothing"

    again = EmbeddedStore(tmp_path / "library")
    if way == "replace":
        again.replace("c", [record("s", 0, "another", [0, 1, 0, 0])], where=where)
    elif way == "empty source":
        again.replace("c", [], where=where)
    elif way == "delete":
        again.delete("c", where=where)
    else:
        again.delete("c", where=And(where, Eq("index", 0)))
        again.update("c", {"title": "kept"}, where=where)
    again.close()
    left = bytes_below(tmp_path)
    assert not [trace for trace in traces if trace in left]


def test_nothing_of_many_removed_sources_is_left_between_the_pages(tmp_path: Path) -> None:
    chance = random.Random(3)
    library = Library.open(tmp_path / "library", embedder=HashingEmbedder(8))
    alive = set()
    for number in range(250):
        text = f"mark{number:05d}end " + "x" * chance.randint(1, 1500)
        library.index_source(Source(f"s{number}", "doc", "t", ["g"], [text, f"mark{number:05d}end again"]))
        alive.add(number)
        if number > 20 and chance.random() < 0.6:
            victim = chance.choice(sorted(alive))
            library.remove_source(f"s{victim}", tenant_id="t")
            alive.discard(victim)
    library.close()
    left = bytes_below(tmp_path)
    found = {number for number in range(250) if f"mark{number:05d}end".encode() in left}
    assert found == alive


def test_what_a_killed_process_removed_is_erased_by_the_next_that_closes(tmp_path: Path) -> None:
    first = EmbeddedStore(tmp_path / "library")
    first.create_collection("c", CollectionSpec(4, "m@4"))
    where = And(Eq("tenantId", "t"), Eq("sourceId", "s"))
    first.replace("c", [record("s", 0, "zebracadabra", [1, 0, 0, 0])], where=where)
    first.delete("c", where=where)
    second = EmbeddedStore(tmp_path / "library")  # as after a kill: the first never closes in order
    assert second.count("c", where=where) == 0
    second.close()
    first.close()
    assert b"zebracadabra" not in bytes_below(tmp_path)


def test_erasing_loses_nothing_of_what_stays(tmp_path: Path) -> None:
    scope = Scope("t", ["g"])
    with Library.open(tmp_path / "library", embedder=HashingEmbedder(8)) as library:
        for number in range(20):
            library.index_source(Source(f"s{number}", "doc", "t", ["g"], [f"common word{number}"]))
        for number in range(0, 20, 2):
            library.remove_source(f"s{number}", tenant_id="t")
        before = library.search("common word3", scope=scope, top_k=20)
    with Library.open(tmp_path / "library", embedder=HashingEmbedder(8)) as library:
        assert library.search("common word3", scope=scope, top_k=20) == before
        library.index_source(Source("new", "doc", "t", ["g"], ["common word0"]))
        assert [hit.source_id for hit in library.search("word0", scope=scope, mode="lexical")] == ["new"]
