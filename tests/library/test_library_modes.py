"""What each mode embeds, finds, scores and notes; order and ties (cases 26, 27; embedders.md cases 8, 9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.library.doubles import RecordingEmbedder, RecordingStore, source

from stackroom import RRF, Answer, EmbedderError, Hit, Library, Scope, Weighted

if TYPE_CHECKING:
    from stackroom.stores import VectorStore

MODES: list[Any] = ["hybrid", "lexical", "dense"]


def ids(answer: Answer) -> list[str]:
    return [hit.id for hit in answer]


def codes(answer: Answer) -> list[str]:
    return [note.code for note in answer.notes]


def placed(store: VectorStore, *sources: tuple[str, str, list[float]], query: list[float]) -> Library:
    """Return a library of sources with vectors of their own, where "query" has a vector too."""
    embedder = RecordingEmbedder({"query": query, **{text: vector for _, text, vector in sources}})
    library = Library(store, "library", embedder)
    for source_id, text, _ in sources:
        library.index_source(source(source_id, text))
    return library


@pytest.mark.parametrize(("mode", "embedded"), [("lexical", 0), ("dense", 1), ("hybrid", 1)])
@pytest.mark.parametrize("any_of", [None, [{"kinds": ["doc"]}] * 3], ids=["plain", "any_of"])
def test_a_mode_embeds_the_text_once_or_never(
    library: Library, embedder: RecordingEmbedder, scope: Scope, mode: Any, embedded: int, any_of: Any
) -> None:
    library.index_source(source("s", "some text"))
    embedder.batches.clear()
    answer = library.search("Some  TEXT", scope=scope, mode=mode, any_of=any_of)
    assert (answer.mode, ids(answer)) == (mode, ["s#0"])
    assert (embedder.queries, embedder.batches) == (["Some  TEXT"] * embedded, [])


def test_embedders_case_9_passages_and_queries_are_told_apart(
    library: Library, embedder: RecordingEmbedder, scope: Scope
) -> None:
    library.index_source(source("s", "stored text"))
    library.search("a query", scope=scope)
    assert (embedder.batches, embedder.queries) == ([("stored text",)], ["a query"])


def test_listings_embed_nothing(library: Library, embedder: RecordingEmbedder, scope: Scope) -> None:
    library.index_source(source("s", "text"))
    embedder.batches.clear()
    library.sources(scope=scope)
    library.source("s", scope=scope)
    library.passages("s", scope=scope)
    library.count(scope=scope)
    library.sweep()
    library.remove_source("s", tenant_id="t")
    assert embedder.calls == 0


@pytest.mark.parametrize("mode", MODES)
def test_a_default_search_is_hybrid_with_ten_hits(library: Library, scope: Scope, mode: Any) -> None:
    library.index_source(source("s", *[f"text {number}" for number in range(12)]))
    answer = library.search("text", scope=scope)
    assert (answer.mode, len(answer)) == ("hybrid", 10)
    assert len(library.search("text", scope=scope, mode=mode, top_k=11)) == 11


def test_dense_search_ranks_every_passage_by_its_cosine(store: VectorStore, scope: Scope) -> None:
    library = placed(
        store, ("a", "one", [3, 4]), ("b", "two", [0, -2]), ("c", "three", [1e20, 0]), ("d", "4", [-1, 0]), query=[2, 0]
    )
    answer = library.search("query", scope=scope, mode="dense")
    assert ids(answer) == ["c#0", "a#0", "b#0", "d#0"]
    assert [hit.score for hit in answer] == pytest.approx([1, 0.6, 0, -1], abs=1e-5)
    assert all(-1 <= hit.score <= 1 for hit in answer)
    assert [(hit.dense_score, hit.dense_rank, hit.lexical_score, hit.lexical_rank) for hit in answer] == [
        (hit.score, rank, None, None) for rank, hit in enumerate(answer, start=1)
    ]


def test_lexical_search_finds_what_matches_by_words_and_scores_bm25(library: Library, scope: Scope) -> None:
    library.index_source(source("a", "red fox"))
    library.index_source(source("b", "blue hen"))
    (hit,) = library.search("RED", scope=scope, mode="lexical")
    assert (hit.id, hit.lexical_rank, hit.lexical_score) == ("a#0", 1, hit.score)
    assert (hit.dense_score, hit.dense_rank) == (None, None)


def test_hybrid_search_finds_the_union_of_both_legs(store: VectorStore, scope: Scope) -> None:
    library = placed(store, ("a", "query", [0, 1]), ("b", "two", [1, 0]), query=[1, 0.1])
    library.index_source(source("a", "a query here"))
    answer = library.search("query", scope=scope, fusion=RRF(k=60))
    assert {hit.id for hit in answer} == {"a#0", "b#0"}
    by_id = {hit.id: hit for hit in answer}
    assert (by_id["a#0"].lexical_rank, by_id["b#0"].lexical_rank, by_id["b#0"].lexical_score) == (1, None, None)


@pytest.mark.parametrize(("top_k", "length"), [(1, 50), (10, 50), (16, 50), (17, 51), (20, 60), (10_000, 30_000)])
def test_a_leg_has_the_best_of_three_times_top_k_and_at_least_50(
    watched: Library, recording: RecordingStore, scope: Scope, top_k: int, length: int
) -> None:
    watched.index_source(source("s", "some text"))
    watched.search("text", scope=scope, top_k=top_k)
    watched.search("text", scope=scope, top_k=top_k, mode="dense")
    assert recording.limits("dense") == [length] * 2
    assert recording.limits("lexical") == [length]


def test_a_passage_behind_a_legs_end_has_no_rank_there(store: VectorStore, scope: Scope) -> None:
    near = {f"near {number}": [1.0, number / 100] for number in range(50)}
    library = Library(store, "library", RecordingEmbedder({"needle": [1, 0], "the needle": [-1, 0], **near}))
    library.index_source(source("s", *near))
    library.index_source(source("far", "the needle"))
    (far,) = (
        hit for hit in library.search("needle", scope=scope, top_k=16, fusion=RRF(k=60)) if hit.source_id == "far"
    )
    assert (far.dense_rank, far.dense_score, far.lexical_rank) == (None, None, 1)
    assert len(library.search("needle", scope=scope, top_k=17)) == 17
    (far,) = (hit for hit in library.search("needle", scope=scope, top_k=17) if hit.source_id == "far")
    assert far.dense_rank == 51


@pytest.mark.parametrize("mode", MODES)
def test_case_26_equal_scores_are_ordered_by_id(store: VectorStore, scope: Scope, mode: Any) -> None:
    library = placed(store, ("b", "query", [1, 0]), ("a", "query", [1, 0]), query=[1, 0])
    answer = library.search("query", scope=scope, mode=mode)
    assert ids(answer) == ["a#0", "b#0"]
    ranks = [(hit.dense_rank, hit.lexical_rank) for hit in answer]
    assert ranks == [(None if mode == "lexical" else n, None if mode == "dense" else n) for n in (1, 2)]


@pytest.mark.parametrize("mode", MODES)
def test_ids_are_compared_as_python_compares_strings(library: Library, scope: Scope, mode: Any) -> None:
    names = ["s", "s!", "S", "é", "e" + chr(0x301), chr(0xFFFD), "😀", "s 1"]
    for name in names:
        library.index_source(source(name, *["same text"] * (12 if name == "s" else 1)))
    answer = library.search("same text", scope=scope, mode=mode, top_k=50)
    assert ids(answer) == sorted(ids(answer))
    assert ids(answer).index("s#10") < ids(answer).index("s#2")
    if mode != "hybrid":
        assert len({hit.score for hit in answer}) == 1


@pytest.mark.parametrize("mode", MODES)
def test_ties_at_the_cut_go_to_the_smaller_ids(library: Library, scope: Scope, mode: Any) -> None:
    for number in reversed(range(70)):
        library.index_source(source(f"s{number:02}", "same text"))
    answer = library.search("same text", scope=scope, mode=mode, top_k=3)
    assert ids(answer) == ["s00#0", "s01#0", "s02#0"]


@pytest.mark.parametrize("mode", MODES)
def test_the_first_of_more_hits_are_those_of_fewer(library: Library, scope: Scope, mode: Any) -> None:
    for number in range(20):
        library.index_source(source(f"s{number}", f"text number {number % 7} {'word ' * (number % 3)}"))
    whole = ids(library.search("text word 3", scope=scope, mode=mode, top_k=16))
    for top_k in (1, 5, 15):
        assert ids(library.search("text word 3", scope=scope, mode=mode, top_k=top_k)) == whole[:top_k]


def test_min_score_compares_with_the_score_of_the_mode(store: VectorStore, scope: Scope) -> None:
    library = placed(store, ("a", "query one", [3, 4]), ("b", "two", [0, 1]), ("c", "three", [-1, 0]), query=[1, 0])
    assert ids(library.search("query", scope=scope, mode="dense", min_score=0)) == ["a#0", "b#0"]
    assert ids(library.search("query", scope=scope, mode="dense", min_score=-1)) == ["a#0", "b#0", "c#0"]
    lexical = library.search("query", scope=scope, mode="lexical")[0].score
    assert ids(library.search("query", scope=scope, mode="lexical", min_score=lexical)) == ["a#0"]
    assert ids(library.search("query", scope=scope, mode="lexical", min_score=lexical + 1e-9)) == []
    assert ids(library.search("query", scope=scope, min_score=2 / 61 - 1e-12, fusion=RRF(k=60))) == ["a#0"]
    answer = library.search("query", scope=scope, min_score=1, fusion=RRF(k=60))
    assert (len(answer), answer.complete, answer.notes) == (0, True, ())


def test_case_27_a_text_without_terms_finds_no_words(
    library: Library, embedder: RecordingEmbedder, scope: Scope
) -> None:
    for name in "ba":
        library.index_source(source(name, "same text"))
    library.index_source(source("c", "other words"))
    lexical = library.search("?!", scope=scope, mode="lexical")
    assert (len(lexical), lexical.complete, embedder.queries) == (0, True, [])
    dense = library.search("?!", scope=scope, mode="dense")
    hybrid = library.search("?!", scope=scope, fusion=RRF(k=60))
    assert ids(hybrid) == ids(dense)
    assert [hit.score for hit in hybrid] == pytest.approx([1 / 61, 1 / 62, 1 / 63], abs=1e-9)
    assert (codes(hybrid), hybrid.complete, codes(dense)) == (["no_words"], True, [])
    assert all((hit.lexical_rank, hit.lexical_score) == (None, None) for hit in hybrid)


@pytest.mark.parametrize("text", ["", " ", "\n\t", chr(0x200B), "\x00"])
@pytest.mark.parametrize("mode", MODES)
def test_case_27_a_blank_text_finds_nothing_and_asks_nobody(
    watched: Library, recording: RecordingStore, embedder: RecordingEmbedder, scope: Scope, text: str, mode: Any
) -> None:
    watched.index_source(source("s", "some text"))
    recording.asked.clear()
    answer = watched.search(text, scope=scope, mode=mode)
    assert (len(answer), answer.complete, codes(answer)) == (0, True, ["empty_query"])
    assert (recording.asked, embedder.queries) == ([], [])


def test_a_lexical_search_without_words_asks_no_leg(watched: Library, recording: RecordingStore, scope: Scope) -> None:
    watched.index_source(source("s", "some text"))
    recording.asked.clear()
    watched.search("?!", scope=scope, mode="lexical")
    assert "dense" not in recording.names()


@pytest.mark.parametrize(("mode", "noted"), [("hybrid", True), ("dense", True), ("lexical", False)])
def test_a_text_that_is_too_long_for_the_embedder_is_handed_over_whole(
    store: VectorStore, scope: Scope, mode: Any, *, noted: bool
) -> None:
    embedder = RecordingEmbedder()
    embedder.max_input_chars = 10
    library = Library(store, "library", embedder)
    library.index_source(source("s", "some text that is long"))
    answer = library.search("some text that", scope=scope, mode=mode)
    assert (codes(answer), answer.complete) == (["clipped_query"] * noted, True)
    assert embedder.queries == ["some text that"] * noted
    assert codes(library.search("0123 56789", scope=scope, mode=mode)) == []


@pytest.mark.parametrize(
    "vector",
    [
        [[1.0, 0.0]],
        [float("nan"), 1.0],
        [0.0, 0.0],
        [1e39, 0.0],
        [1e-60, 0.0],
        [1.0],
        [1.0, 0.0, 0.0],
        None,
        "xy",
        [1j, 0],
    ],
    ids=str,
)
@pytest.mark.parametrize("mode", ["dense", "hybrid"])
def test_embedders_case_8_a_query_whose_vector_is_none_searches_nothing(
    recording: RecordingStore, scope: Scope, mode: Any, vector: Any
) -> None:
    embedder = RecordingEmbedder({"some text": [1, 0]})
    library = Library(recording, "library", embedder)
    library.index_source(source("s", "some text"))
    recording.asked.clear()
    embedder.embed_query = lambda text: vector  # type: ignore[method-assign] # noqa: ARG005 - a bad embedder
    with pytest.raises(EmbedderError):
        library.search("text", scope=scope, mode=mode)
    assert recording.asked == []
    assert ids(library.search("text", scope=scope, mode="lexical")) == ["s#0"]


def test_an_exception_of_embed_query_reaches_the_caller_as_a_cause(library: Library, scope: Scope) -> None:
    def fail(text: str) -> Any:
        raise ValueError(text)

    library._embedder.embed_query = fail  # type: ignore[method-assign] # noqa: SLF001 - the fixture's embedder
    with pytest.raises(EmbedderError) as caught:
        library.search("secret", scope=scope)
    assert isinstance(caught.value.__cause__, ValueError)
    assert "secret" not in str(caught.value)


def test_match_and_prefix_have_no_effect_in_dense_mode_nor_fusion_outside_hybrid(
    library: Library, scope: Scope
) -> None:
    library.index_source(source("a", "red fox"))
    library.index_source(source("b", "blue hen"))
    plain: list[list[tuple[str, float]]] = []
    for extra in ({}, {"match": "all", "prefix": True}, {"fusion": Weighted(0.5)}):
        given: dict[str, Any] = extra
        plain.append([(hit.id, hit.score) for hit in library.search("re fo", scope=scope, mode="dense", **given)])
    assert plain[0] == plain[1] == plain[2]
    lexical = library.search("red", scope=scope, mode="lexical")
    weighted = library.search("red", scope=scope, mode="lexical", fusion=Weighted(0.5))
    assert [(hit.id, hit.score) for hit in lexical] == [(hit.id, hit.score) for hit in weighted]


def test_match_and_prefix_concern_the_lexical_leg_of_a_hybrid_search(library: Library, scope: Scope) -> None:
    library.index_source(source("a", "red fox"))
    library.index_source(source("b", "red hen"))
    ranks = {hit.id: hit.lexical_rank for hit in library.search("red fox", scope=scope, match="all")}
    assert ranks == {"a#0": 1, "b#0": None}
    ranks = {hit.id: hit.lexical_rank for hit in library.search("fo", scope=scope, prefix=True)}
    assert ranks == {"a#0": 1, "b#0": None}


def test_an_answer_is_a_sequence_of_hits(library: Library, scope: Scope) -> None:
    library.index_source(source("s", "text one", "text two", "text three"))
    answer = library.search("text", scope=scope, mode="lexical")
    assert len(answer) == 3
    assert all(isinstance(hit, Hit) for hit in answer)
    assert answer[0] == next(iter(answer))
    assert list(answer[:2]) == list(answer)[:2]
    assert answer[-1] in answer
    assert list(reversed(answer)) == list(answer)[::-1]
    assert (answer.complete, answer.notes) == (True, ())
    with pytest.raises(IndexError):
        answer[3]


def test_a_search_of_a_tenant_without_sources_is_empty_and_complete(library: Library, scope: Scope) -> None:
    for mode in MODES:
        answer = library.search("text", scope=scope, mode=mode)
        assert (len(answer), answer.complete, answer.notes) == (0, True, ())
