"""RRF's numbers (case 25) and the arithmetic of Weighted (rankers.md, cases 25 and 26)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.library.doubles import RecordingEmbedder, RecordingStore, RefusesLexical, source

from stackroom import RRF, Hit, Library, Scope, Weighted

if TYPE_CHECKING:
    from stackroom import Fusion
    from stackroom.stores import VectorStore

SCOPE = Scope("t", ["g"])


def placed(store: VectorStore, vectors: dict[str, list[float]], **options: Any) -> Library:
    """Return a library with a source for each text, named by its last word; "apple" is asked along the first axis."""
    library = Library(store, "library", RecordingEmbedder({"apple": [1, 0], "?!": [1, 0], **vectors}), **options)
    for text in vectors:
        library.index_source(source(text.split()[-1], text))
    return library


def hits(library: Library, text: str = "apple", fusion: Fusion | None = None, **options: Any) -> dict[str, Hit]:
    return {hit.source_id: hit for hit in library.search(text, scope=SCOPE, fusion=fusion, **options)}


def scores(library: Library, text: str = "apple", fusion: Fusion | None = None, **options: Any) -> dict[str, float]:
    return {name: hit.score for name, hit in hits(library, text, fusion, **options).items()}


def test_case_25_reciprocal_ranks_are_added(store: VectorStore) -> None:
    library = placed(store, {"apple apple a": [1, 0], "apple b": [0.8, 0.6], "c": [0.6, 0.8]})
    assert scores(library, fusion=RRF(k=60)) == pytest.approx({"a": 0.032787, "b": 2 / 62, "c": 1 / 63}, abs=1e-6)


def test_case_25_first_in_one_leg_and_second_in_the_other(store: VectorStore) -> None:
    library = placed(store, {"apple apple a": [0.8, 0.6], "apple b": [1, 0]})
    assert scores(library, fusion=RRF(k=60)) == pytest.approx({"a": 0.032522, "b": 0.032522}, abs=1e-6)
    assert list(scores(library, fusion=RRF(k=60))) == ["a", "b"]


def test_case_25_a_leg_the_passage_is_not_in_adds_nothing(store: VectorStore) -> None:
    library = placed(store, {"a": [1, 0]})
    assert scores(library, fusion=RRF(k=60)) == pytest.approx({"a": 0.016393}, abs=1e-6)


def test_without_a_word_cosine_and_best_bm25_count_alike(store: VectorStore) -> None:
    library = placed(store, {"apple a": [0.8, 0.6], "b": [0.6, 0.8], "c": [0, 1]})
    assert scores(library) == pytest.approx({"a": 0.9, "b": 0.3, "c": 0}, abs=1e-6)
    assert scores(library, fusion=Weighted(0.5)) == scores(library)


def test_the_fusion_of_the_search_wins_over_the_librarys(store: VectorStore) -> None:
    library = placed(store, {"apple a": [1, 0]}, fusion=RRF(k=1))
    assert scores(library) == pytest.approx({"a": 1.0})
    assert scores(library, fusion=RRF(k=9)) == pytest.approx({"a": 0.2})
    assert scores(library, fusion=Weighted(0.5)) == pytest.approx({"a": 1.0})
    assert scores(placed(store, {"apple a": [1, 0]}, fusion=Weighted(0.25))) == pytest.approx({"a": 1.0})


def test_rankers_case_25_cosine_and_best_bm25_are_weighed(store: VectorStore) -> None:
    library = placed(store, {"apple a": [0.8, 0.6], "b": [0, 1]})
    assert scores(library, fusion=Weighted(0.7)) == pytest.approx({"a": 0.86, "b": 0.0}, abs=1e-5)


def test_rankers_case_26_a_negative_cosine_counts_as_nothing_and_is_shown(store: VectorStore) -> None:
    library = placed(store, {"apple a": [-0.4, 0.84**0.5]})
    hit = hits(library, fusion=Weighted(0.5))["a"]
    assert (hit.score, hit.dense_score) == pytest.approx((0.5, -0.4), abs=1e-5)


@pytest.mark.parametrize("weight", [0, 0.25, 0.5, 1])
def test_a_candidate_of_both_legs_has_the_weighted_sum(store: VectorStore, weight: float) -> None:
    cosines = {"a": 0.28, "b": 0.8, "c": 1.0, "d": -1.0}
    library = placed(store, {"apple apple a": [0.28, 0.96], "apple b": [0.8, 0.6], "pear c": [1, 0], "pear d": [-1, 0]})
    words = {hit.source_id: hit.score for hit in library.search("apple", scope=SCOPE, mode="lexical")}
    expected = {
        name: weight * max(0.0, cosine) + (1 - weight) * words.get(name, 0.0) / words["a"]
        for name, cosine in cosines.items()
    }
    found = hits(library, fusion=Weighted(weight))
    assert {name: hit.score for name, hit in found.items()} == pytest.approx(expected, abs=1e-5)
    assert list(found) == sorted(expected, key=lambda name: (-round(expected[name], 4), name))
    assert {name: hit.dense_score for name, hit in found.items()} == pytest.approx(cosines, abs=1e-5)
    assert {name: found[name].lexical_score for name in words} == pytest.approx(words)
    assert (found["c"].lexical_rank, found["c"].lexical_score) == (None, 0.0)


def test_a_candidate_that_the_dense_legs_end_left_out_is_scored_there_as_well(store: VectorStore) -> None:
    near = {f"pear n{number}": [1.0, number / 1000] for number in range(60)}
    library = placed(store, {**near, "apple far": [0.6, -0.8]})
    far = hits(library, fusion=Weighted(0.5))["far"]
    assert (far.score, far.dense_score) == pytest.approx((0.8, 0.6), abs=1e-5)
    assert (far.dense_rank, far.lexical_rank) == (None, 1)


def test_a_candidate_that_the_lexical_legs_end_left_out_is_scored_there_as_well(store: VectorStore) -> None:
    worded = {f"apple w{number}": [-1.0, number / 1000] for number in range(60)}
    long = "apple " + "pear " * 30 + "long"
    library = placed(store, {**worded, long: [0.6, 0.8]})
    words = {hit.source_id: hit.score for hit in library.search("apple", scope=SCOPE, mode="lexical", top_k=100)}
    found = hits(library, fusion=Weighted(0.5))["long"]
    assert found.score == pytest.approx(0.5 * 0.6 + 0.5 * words["long"] / max(words.values()), abs=1e-5)
    assert found.lexical_score == pytest.approx(words["long"])
    assert (found.dense_rank, found.lexical_rank) == (1, None)


def test_a_score_depends_on_passage_query_and_best_bm25_only(store: VectorStore) -> None:
    vectors = {f"{'apple ' * (number % 5)}n{number:03}": [1.0, (number * 37 % 100) / 25 - 2] for number in range(100)}
    library = placed(store, vectors)
    whole = scores(library, fusion=Weighted(0.5), top_k=100)
    assert len(whole) == 100
    for top_k in (1, 10, 30):
        fewer = scores(library, fusion=Weighted(0.5), top_k=top_k)
        assert fewer == pytest.approx({name: whole[name] for name in fewer}, abs=1e-6)


def test_the_best_bm25_is_that_within_scope_and_narrowing(library: Library) -> None:
    library.index_source(source("a", "apple and more", folder_id="a"))
    library.index_source(source("b", "apple apple apple", folder_id="b"))
    library.index_source(source("h", "apple apple apple apple", acl_groups=["h"], folder_id="a"))
    everywhere, within = hits(library, fusion=Weighted(0)), hits(library, fusion=Weighted(0), folder_id="a")
    assert everywhere["b"].score == pytest.approx(1.0)
    assert everywhere["a"].score < 1
    assert within["a"].score == pytest.approx(1.0)


def test_without_a_word_found_there_is_no_lexical_part(store: VectorStore) -> None:
    library = placed(store, {"pear a": [0.8, 0.6], "pear b": [0, -1]})
    for text in ("apple", "?!"):
        assert scores(library, text, Weighted(0.5)) == pytest.approx({"a": 0.4, "b": 0.0}, abs=1e-5)
        assert set(scores(library, text, Weighted(0)).values()) == {0.0}
    assert hits(library, "?!", Weighted(0.5))["a"].lexical_score is None


def test_without_a_lexical_leg_there_is_no_lexical_part() -> None:
    library = placed(RefusesLexical(), {"apple a": [0.8, 0.6]})
    answer = library.search("apple", scope=SCOPE, fusion=Weighted(0.5))
    assert answer[0].score == pytest.approx(0.4, abs=1e-5)
    assert answer[0].lexical_score is None


@pytest.mark.parametrize("weight", [0, 1])
def test_both_legs_run_whatever_the_weight(recording: RecordingStore, weight: int) -> None:
    library = placed(recording, {"apple a": [0.8, 0.6]})
    recording.asked.clear()
    assert scores(library, fusion=Weighted(weight)) == pytest.approx({"a": 0.8 if weight else 1.0}, abs=1e-5)
    assert {"dense", "lexical"} <= set(recording.names())


def test_all_or_prefix_decide_what_the_lexical_leg_would_match(store: VectorStore) -> None:
    library = placed(store, {"apple a": [0.8, 0.6], "apple pie b": [0, 1]})
    library._embedder.vectors.update({"apple pie": [1, 0], "app": [1, 0]})  # type: ignore[attr-defined] # noqa: SLF001 - ours
    assert scores(library, "apple pie", Weighted(0.5), match="all") == pytest.approx({"a": 0.4, "b": 0.5}, abs=1e-5)
    assert scores(library, "app", Weighted(0)) == {"a": 0.0, "b": 0.0}
    assert scores(library, "app", Weighted(0), prefix=True)["a"] == pytest.approx(1.0, abs=1e-5)


def test_equal_weighted_scores_are_ordered_by_id(store: VectorStore) -> None:
    library = placed(store, {f"pear {name}": [-1, 0] for name in "cab"})
    assert list(scores(library, fusion=Weighted(0.5))) == ["a", "b", "c"]


def test_min_score_compares_with_the_fused_score(store: VectorStore) -> None:
    library = placed(store, {"apple a": [0.8, 0.6], "b": [0.6, 0.8]})
    assert list(scores(library, fusion=Weighted(0.5), min_score=0.31)) == ["a"]
    assert list(scores(library, fusion=Weighted(0.5), min_score=0.29)) == ["a", "b"]
