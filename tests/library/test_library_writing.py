"""index_source: whole replacement, reuse of vectors, what a passage holds, and failing half-way (cases 4–9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.library.doubles import HandClock, RecordingEmbedder, source

from stackroom import EmbedderError, Hit, Indexed, Library, Passage, Scope, Source

if TYPE_CHECKING:
    from stackroom.stores import VectorStore


def texts_of(library: Library, source_id: str = "s") -> list[str]:
    return [hit.text for hit in library.passages(source_id, scope=Scope("t", ["g"]))]


def only_hit(library: Library) -> Hit:
    (hit,) = library.passages("s", scope=Scope("t", ["g"]))
    return hit


def test_case_4_passages_are_embedded_and_numbered(library: Library, scope: Scope) -> None:
    assert library.index_source(source("s", "first", "second")) == Indexed(2, 0, 2, 0)
    assert [hit.id for hit in library.passages("s", scope=scope)] == ["s#0", "s#1"]


def test_case_5_vectors_of_unchanged_text_are_reused_wherever_it_stands(
    library: Library, embedder: RecordingEmbedder
) -> None:
    library.index_source(source("s", "first", "second"))
    embedder.batches.clear()
    assert library.index_source(source("s", "second", "new")) == Indexed(2, 2, 1, 1)
    assert texts_of(library) == ["second", "new"]
    assert embedder.texts == ["new"]


def test_case_6_a_source_without_passages_is_a_removal(
    library: Library, embedder: RecordingEmbedder, scope: Scope
) -> None:
    library.index_source(source("s", "first", "second"))
    embedder.batches.clear()
    empty = Source("s", "doc", "t", ["g"], [])
    assert library.index_source(empty) == Indexed(0, 2, 0, 0)
    assert library.source("s", scope=scope) is None
    assert library.count(scope=scope) == 0
    assert embedder.calls == 0
    assert library.index_source(empty) == Indexed(0, 0, 0, 0)


def test_case_7_documented_keys_come_from_the_fields_alone(library: Library, scope: Scope) -> None:
    meant: dict[str, Any] = {"folderId": "a", "title": "b", "tenantId": "u", "tags": ["x"]}
    library.index_source(source("s", Passage("text", meant), metadata=meant))
    info = library.source("s", scope=scope)
    assert info is not None
    assert (info.folder_id, info.title, info.tenant_id, info.tags, dict(info.metadata)) == (None, None, "t", (), {})
    hit = only_hit(library)
    assert (hit.folder_id, hit.title, hit.tags) == (None, None, ())
    assert hit.metadata["tenantId"] == "t"
    assert "folderId" not in hit.metadata
    assert "title" not in hit.metadata
    assert library.count(scope=scope, folder_id="a") == 0
    assert library.count(scope=Scope("u", ["g"])) == 0


def test_every_reserved_key_is_ignored_in_what_is_handed_in(library: Library, scope: Scope) -> None:
    meant: dict[str, Any] = {
        **dict.fromkeys(["tenantId", "sourceId", "kind", "status", "folderId", "title"], "u"),
        **{key: ["u"] for key in ["aclGroups", "tags"]},
        "index": 7,
        **dict.fromkeys(
            ["stackroom.tier", "stackroom.expiresAt", "stackroom.passages", "stackroom.", "stackroom.x"], 0
        ),
        "stackroom": "free",
        "Status": "free",
    }
    library.index_source(source("s", Passage("text", meant), metadata=meant))
    assert dict(only_hit(library).metadata) == {
        "tenantId": "t",
        "aclGroups": ["g"],
        "sourceId": "s",
        "kind": "doc",
        "status": "active",
        "index": 0,
        "tags": [],
        "stackroom": "free",
        "Status": "free",
    }
    info = library.source("s", scope=scope)
    assert info is not None
    assert dict(info.metadata) == {"stackroom": "free", "Status": "free"}
    assert (info.tier, info.expires_at, info.passages) == (None, None, 1)


def test_case_8_the_sources_metadata_wins_over_the_passages(library: Library) -> None:
    library.index_source(source("s", Passage("text", {"team": "b", "x": 1}), metadata={"team": "a"}))
    metadata = only_hit(library).metadata
    assert (metadata["team"], metadata["x"]) == ("a", 1)


def test_a_hit_shows_the_sources_fields_and_the_documented_keys(library: Library, scope: Scope) -> None:
    given = source("s", "one", "two", folder_id="a", tags=["x", "y"], title="T", acl_groups=["g", "h"], tier="hot")
    library.index_source(given)
    hit = library.search("two", scope=scope, mode="lexical")[0]
    assert (hit.id, hit.source_id, hit.kind, hit.index, hit.text) == ("s#1", "s", "doc", 1, "two")
    assert (hit.title, hit.folder_id, hit.tags) == ("T", "a", ("x", "y"))
    assert dict(hit.metadata) == {
        "tenantId": "t",
        "aclGroups": ["g", "h"],
        "sourceId": "s",
        "kind": "doc",
        "status": "active",
        "index": 1,
        "tags": ["x", "y"],
        "folderId": "a",
        "title": "T",
    }


def test_a_hits_metadata_is_read_only_and_reaches_nothing_stored(library: Library, scope: Scope) -> None:
    library.index_source(source("s", "text", metadata={"labels": ["q3"]}))
    hit = library.search("text", scope=scope)[0]
    with pytest.raises(TypeError):
        hit.metadata["labels"] = []  # type: ignore[index] # that is what must fail
    held: Any = hit.metadata["labels"]
    if isinstance(held, list):
        held.append("q4")
    assert list(only_hit(library).metadata["labels"]) == ["q3"]  # type: ignore[arg-type] # a list


def test_values_of_metadata_come_back_as_they_were(library: Library) -> None:
    given: dict[str, Any] = {"i": 5, "f": 5.0, "b": True, "l": [1, "1", True], "e": "", "n": [], "$gt": 2**63 - 1}
    library.index_source(source("s", Passage("text", given)))
    metadata = only_hit(library).metadata
    assert {key: (type(metadata[key]), metadata[key]) for key in given} == {
        key: (type(value), value) for key, value in given.items()
    }


@pytest.mark.parametrize("text", ["a  b\r\n", " padded ", "e" + chr(0x301), "😀" * 3, "a" + chr(0x200B)])
def test_texts_reach_embedder_and_store_to_the_letter(
    library: Library, embedder: RecordingEmbedder, scope: Scope, text: str
) -> None:
    library.index_source(source("s", text))
    assert embedder.texts == [text]
    assert texts_of(library) == [text]
    library.search(text, scope=scope)
    assert embedder.queries == [text]


def test_text_that_differs_in_a_letter_is_embedded_anew(library: Library) -> None:
    library.index_source(source("s", "text"))
    assert library.index_source(source("s", "Text", "text ", "text")) == Indexed(3, 1, 2, 1)


def test_one_stored_vector_serves_each_passage_with_its_text(library: Library) -> None:
    library.index_source(source("s", "text"))
    assert library.index_source(source("s", "text", "other", "text")) == Indexed(3, 1, 1, 2)
    assert texts_of(library) == ["text", "other", "text"]


def test_vectors_are_reused_within_a_source_only(library: Library) -> None:
    library.index_source(source("s", "text"))
    assert library.index_source(source("r", "text")) == Indexed(1, 0, 1, 0)
    assert library.index_source(source("s", "text", tenant_id="u")) == Indexed(1, 0, 1, 0)


def test_reused_vectors_are_those_that_were_stored(
    library: Library, store: VectorStore, embedder: RecordingEmbedder, scope: Scope
) -> None:
    library.index_source(source("s", "text"))
    before = library.search("text", scope=scope, mode="dense")[0].dense_score
    embedder.vectors["text"] = [-number for number in embedder.vector("text")]
    library.index_source(source("s", "new", "text"))
    embedder.vectors.clear()
    after = Library(store, "library", embedder).search("text", scope=scope, mode="dense")[0]
    assert (after.text, after.dense_score) == ("text", before)


def test_long_sources_are_replaced_and_reused_whole(library: Library, embedder: RecordingEmbedder) -> None:
    passages = [f"number {number}" for number in range(1005)]
    embedder.vectors.update({text: [float(place + 1), *[1.0] * 15] for place, text in enumerate(passages)})
    library.index_source(source("s", *passages))
    assert library.index_source(source("s", *reversed(passages))) == Indexed(1005, 1005, 0, 1005)
    assert texts_of(library) == passages[::-1]


def test_times_are_those_of_the_clock(library: Library, clock: HandClock, scope: Scope) -> None:
    made_at = clock.now
    library.index_source(source("s", "one"))
    replaced_at = clock.forward(microseconds=1)
    library.index_source(source("s", "two"))
    info = library.source("s", scope=scope)
    assert info is not None
    assert (info.created_at, info.updated_at) == (made_at, replaced_at)
    rescoped_at = clock.forward(days=1)
    library.set_source_scope("s", tenant_id="t", tags=["x"])
    info = library.source("s", scope=scope)
    assert info is not None
    assert (info.created_at, info.updated_at) == (made_at, rescoped_at)
    assert info.created_at.utcoffset() is not None


def test_a_removed_source_begins_anew(library: Library, clock: HandClock, scope: Scope) -> None:
    library.index_source(source("s", "one"))
    library.remove_source("s", tenant_id="t")
    begun_at = clock.forward(hours=1)
    library.index_source(source("s", "one"))
    info = library.source("s", scope=scope)
    assert info is not None
    assert info.created_at == begun_at


def test_case_9_an_embedder_that_fails_half_way_leaves_the_old_version_whole(
    store: VectorStore, embedder: RecordingEmbedder, scope: Scope
) -> None:
    library = Library(store, "library", embedder, batch_size=2)
    library.index_source(source("s", "old one", "old two"))
    embedder.batches.clear()

    def fail(number: int) -> None:
        if number == 2:
            raise RuntimeError("boom")

    embedder.before_batch = fail
    with pytest.raises(EmbedderError) as caught:
        library.index_source(source("s", "old one", "new one", "new two", "new three", folder_id="a"))
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert texts_of(library) == ["old one", "old two"]
    assert {hit.text for hit in library.search("old one two", scope=scope)} == {"old one", "old two"}
    assert len(library.search("new", scope=scope, mode="lexical")) == 0
    assert library.count(scope=scope, folder_id="a") == 0


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda vectors: vectors[:-1], id="one fewer"),
        pytest.param(lambda vectors: [*vectors, vectors[0]], id="one more"),
        pytest.param(lambda vectors: [*vectors[:-1], vectors[-1][:-1]], id="ragged"),
        pytest.param(lambda vectors: [vector[:-1] for vector in vectors], id="shorter"),
        pytest.param(lambda vectors: [*vectors[:-1], [float("nan")] * len(vectors[0])], id="NaN"),
        pytest.param(lambda vectors: [*vectors[:-1], [float("inf")] * len(vectors[0])], id="infinity"),
        pytest.param(lambda vectors: [*vectors[:-1], [1e39] * len(vectors[0])], id="infinite as float32"),
        pytest.param(lambda vectors: [*vectors[:-1], [0.0] * len(vectors[0])], id="zeros"),
        pytest.param(lambda vectors: [*vectors[:-1], [1e-60] * len(vectors[0])], id="zeros as float32"),
        pytest.param(lambda vectors: [[str(number) for number in vector] for vector in vectors], id="strings"),
        pytest.param(lambda _vectors: None, id="None"),
        pytest.param(iter, id="iterator"),
    ],
)
def test_one_bad_vector_refuses_the_whole_source(
    library: Library, embedder: RecordingEmbedder, scope: Scope, spoil: Any
) -> None:
    library.index_source(source("s", "old one", "old two"))
    embedder.answering = spoil
    with pytest.raises(EmbedderError):
        library.index_source(source("s", "new one", "new two", "old one"))
    with pytest.raises(EmbedderError):
        library.index_source(source("r", "new one", "new two", "old one"))
    assert texts_of(library) == ["old one", "old two"]
    assert library.count(scope=scope) == 2
    embedder.answering = lambda vectors: vectors
    assert library.index_source(source("s", "new one", "old one")) == Indexed(2, 2, 1, 1)


def test_a_vector_that_changes_after_it_was_answered_changes_nothing(
    library: Library, embedder: RecordingEmbedder, scope: Scope
) -> None:
    answered: list[Any] = []

    def keep(vectors: Any) -> Any:
        answered.append(np.array(vectors))
        return answered[-1]

    embedder.answering = keep
    library.index_source(source("s", "one", "two"))
    before = [(hit.id, hit.score) for hit in library.search("one", scope=scope)]
    answered[0][:] = 7.0
    assert [(hit.id, hit.score) for hit in library.search("one", scope=scope)] == before


def test_sources_whose_ids_look_alike_stay_apart(library: Library, scope: Scope) -> None:
    names = ["a", "A", "a ", " a", "a#0", "a#0#0", "é", "e" + chr(0x301), "../a", "a\n", "😀", "%", "_"]
    for name in names:
        library.index_source(source(name, f"text of {names.index(name)}"))
    assert library.count(scope=scope) == len(names)
    for name in names:
        assert texts_of(library, name) == [f"text of {names.index(name)}"]
        assert [hit.id for hit in library.search("text", scope=scope, source_ids=[name])] == [f"{name}#0"]
