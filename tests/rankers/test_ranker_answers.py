"""What a ranker answers is judged item by item; its scores decide nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.rankers.conftest import OWN, SCOPE, Open, codes, found, source
from tests.rankers.doubles import Answering, HonestRanker

from stackroom import RRF, Scope, Weighted
from stackroom.rankers import Ranked


def one(score: Any) -> Callable[[list[Ranked]], Any]:
    return lambda honest: [("a#0", score), *honest[1:]]


class Liar(tuple[str, float]):  # noqa: SLOT001 - a hostile pair
    def __getitem__(self, _place: Any) -> Any:
        raise RuntimeError("looked at")

    def __iter__(self) -> Any:
        raise RuntimeError("looked at")

    def __len__(self) -> int:
        raise RuntimeError("looked at")


class Untouchable:
    def __getattribute__(self, _name: str) -> Any:
        raise RuntimeError("looked at")


HARMLESS: dict[str, Callable[[list[Ranked]], Any]] = {
    "reversed": lambda honest: [Ranked(item.id, -item.score) for item in honest],
    "unsorted": lambda honest: honest[::-1],
    "pairs": lambda honest: [tuple(item) for item in honest],
    "lists": lambda honest: [[item.id, item.score] for item in honest],
    "a generator": lambda honest: (item for item in honest),
    "numpy scores": lambda honest: [(item.id, np.float32(item.score)) for item in honest],
    "numpy ids": lambda honest: [(np.str_(item.id), item.score) for item in honest],
    "hostile tuples": lambda honest: [Liar(item) for item in honest],
}


@pytest.mark.parametrize("make", HARMLESS.values(), ids=HARMLESS)
def test_what_is_right_in_any_shape_is_taken(three: Open, make: Callable[[list[Ranked]], Any]) -> None:
    library = three(Answering(make))
    assert found(library) == OWN
    assert codes(library) == []


DROPPED: dict[str, tuple[Callable[[list[Ranked]], Any], str]] = {
    "unknown": (lambda honest: [*honest, ("x#0", 0.8)], "1 unknown"),
    "another tenant's": (lambda honest: [("u-only#0", 0.9), *honest], "1 unknown"),
    "a twisted spelling": (lambda honest: [*honest, ("a#00", 1), ("a# 0", 1), ("a", 1)], "3 unknown"),
    "twice": (lambda honest: [*honest, *honest], "3 duplicate"),
    "malformed": (lambda honest: [*honest, None, "a#0", ("a#0",), (1, 0.5), Untouchable(), {}], "6 malformed"),
    "too many": (lambda honest: honest + [("a#0", 1.0)] * 200, "97 too_many"),
}


@pytest.mark.parametrize(("make", "reason"), DROPPED.values(), ids=DROPPED)
def test_what_is_dropped_is_counted_by_reason_and_no_id_is_told(
    three: Open, make: Callable[[list[Ranked]], Any], reason: str
) -> None:
    library = three(Answering(make))
    library.index_source(source("u-only", "car vehicle", tenant="u"))
    answer = library.search("apple", scope=SCOPE, mode="dense")
    assert [(hit.source_id, round(hit.score, 6)) for hit in answer] == OWN
    assert answer.complete
    (note,) = answer.notes
    assert note.code == "ranker_dropped"
    assert reason in note.message
    assert "#0" not in note.message


@pytest.mark.parametrize(
    "score",
    [float("nan"), float("inf"), -float("inf"), "0.5", None, True, np.True_, 1j, [], 10**400, Untouchable],
    ids=lambda score: type(score).__name__,
)
def test_an_item_without_a_finite_score_is_dropped(three: Open, score: Any) -> None:
    library = three(Answering(one(score() if score is Untouchable else score)))
    assert found(library) == OWN
    assert codes(library) == ["ranker_dropped", "ranker_short"]


def test_an_id_named_twice_stands_once_and_the_others_are_found_by_the_store(three: Open) -> None:
    library = three(Answering(lambda _: [("a#0", 0.9), ("a#0", 0.1)]))
    assert found(library) == OWN
    assert codes(library) == ["ranker_dropped", "ranker_short"]


def test_an_empty_answer_is_completed_and_is_no_failure(three: Open) -> None:
    heard: list[Any] = []
    library = three(Answering(lambda _: []), on_ranker_fallback=heard.append)
    assert found(library) == OWN
    assert codes(library) == ["ranker_short"]
    assert heard == []


def test_scores_beyond_a_cosines_are_noted_and_decide_nothing(three: Open) -> None:
    library = three(Answering(lambda honest: [(item.id, 5.0) for item in honest]))
    assert found(library) == OWN
    assert codes(library) == ["ranker_scale"]


def test_no_more_is_read_than_twice_the_limit_and_a_hundred_and_the_generator_is_closed(three: Open) -> None:
    read: list[int] = []
    closed: list[bool] = []
    kept: list[Any] = []

    def endless(_honest: list[Ranked]) -> Any:
        try:
            while True:
                read.append(1)
                yield ("a#0", 1.0)
        finally:
            closed.append(True)

    def keeping(honest: list[Ranked]) -> Any:
        kept.append(endless(honest))
        return kept[-1]

    library = three(Answering(keeping))
    assert found(library) == OWN
    assert len(read) == 2 * 3 + 100
    assert closed == [True]
    assert "too_many" in library.search("apple", scope=SCOPE, mode="dense").notes[0].message


def unlisted(opened: Open, ranker: HonestRanker) -> Any:
    """Return a library whose scope is a part of the tenant; twelve passages of 72 are in it."""
    library = opened(ranker)
    for number in range(6):
        library.index_source(
            source(f"s{number}", *[f"text {place}" for place in range(12)], acl_groups=["g"] if number == 0 else ["h"])
        )
    return library


def test_ids_out_of_scope_are_skipped_uncounted_when_nothing_was_listed(opened: Open) -> None:
    ranker = HonestRanker(max_candidates=2)
    library = unlisted(opened, ranker)
    answer = library.search("text 1", scope=SCOPE, mode="dense", top_k=12)
    assert {hit.source_id for hit in answer} == {"s0"}
    assert (len(answer), answer.notes) == (12, ())
    assert len(ranker.asked) == 1


def test_a_short_answer_to_an_unlisted_question_is_asked_for_once_more(opened: Open) -> None:
    ranker = Answering(lambda honest: honest[: len(honest) - 10], max_candidates=2)
    library = opened(ranker)
    for number in range(40):
        texts = [f"text {place}" for place in range(12)]
        library.index_source(source(f"s{number}", *texts, acl_groups=["g"] if number % 4 == 0 else ["h"]))

    def first_nothing(honest: list[Ranked]) -> list[Ranked]:
        ranker.asked[-1]["query"] *= -1
        return [] if len(ranker.asked) == 1 else honest

    ranker.make = first_nothing
    answer = library.search("text 1", scope=SCOPE, mode="dense")
    assert [asked["limit"] for asked in ranker.asked] == [300, 480]
    assert ranker.asked[0]["query"].tolist() == ranker.asked[1]["query"].tolist()
    assert (len(answer), answer.notes) == (10, ())


def test_it_is_never_asked_a_third_time(opened: Open) -> None:
    ranker = Answering(lambda _: [], max_candidates=2)
    library = opened(ranker)
    for number in range(40):
        texts = [f"text {place}" for place in range(12)]
        library.index_source(source(f"s{number}", *texts, acl_groups=["g"] if number % 4 == 0 else ["h"]))
    answer = library.search("text 1", scope=SCOPE, mode="dense")
    assert len(ranker.asked) == 2
    assert [note.code for note in answer.notes] == ["ranker_short"]
    assert (len(answer), answer.complete) == (10, True)


def test_a_listed_question_that_is_answered_too_briefly_is_not_asked_again(opened: Open) -> None:
    ranker = HonestRanker(max_limit=5)
    library = opened(ranker)
    library.index_source(source("s", *[f"text {place}" for place in range(12)]))
    answer = library.search("text 1", scope=SCOPE, mode="dense")
    assert [asked["limit"] for asked in ranker.asked] == [5]
    assert [note.code for note in answer.notes] == ["ranker_short"]
    assert len(answer) == 10


@pytest.mark.parametrize(("vector", "rank"), [([1.0, 0.0, 0.0], 1), ([-1.0, 0.0, 0.0], None)], ids=["near", "far"])
def test_a_lexical_hit_that_the_ranker_left_out_keeps_its_true_cosine(
    opened: Open, embedder: Any, vector: list[float], rank: int | None
) -> None:
    embedder.vectors.update({f"n{place}": [1.0, 1 + place / 100, 0.0] for place in range(60)})
    embedder.vectors.update({"zebra": [1.0, 0.0, 0.0], "a zebra": vector})
    ranker = Answering(lambda _: [(f"s#{place}", 1.0) for place in range(60)])
    library = opened(ranker)
    library.index_source(source("s", *[f"n{place}" for place in range(60)]))
    library.index_source(source("w", "a zebra"))
    answer = library.search("zebra", scope=SCOPE, fusion=Weighted(0.5))
    (hit,) = [hit for hit in answer if hit.id == "w#0"]
    assert (hit.dense_score, hit.dense_rank) == (vector[0], rank)
    assert answer.notes == ()


def test_enough_candidates_that_are_not_the_nearest_are_ranked_by_their_true_cosine(
    opened: Open, embedder: Any
) -> None:
    embedder.vectors.update({f"n{place}": [1.0, place / 100, 0.0] for place in range(60)})
    ranker = Answering(lambda honest: honest[::-1][:50])
    library = opened(ranker)
    ranker.make = lambda _: [(f"s#{place}", 0.0) for place in range(10, 60)]
    library.index_source(source("s", *[f"n{place}" for place in range(60)]))
    answer = library.search("n0", scope=SCOPE, mode="dense", top_k=3)
    assert [hit.index for hit in answer] == [10, 11, 12]
    assert answer[0].score == pytest.approx(1 / np.sqrt(1.01))


@pytest.mark.parametrize("fusion", [RRF(), Weighted(0.7), Weighted(0.0), Weighted(1.0)], ids=str)
@pytest.mark.parametrize("text", ["apple", "car apple", "fruit vehicle"])
def test_hybrid_answers_are_those_without_a_ranker(three: Open, embedder: Any, fusion: Any, text: str) -> None:
    embedder.vectors.update({"car apple": [0.2, 0.9, 0.1], "fruit vehicle": [-0.4, 0.1, 0.3]})
    plain = three().search(text, scope=SCOPE, fusion=fusion)
    ranked = three(HonestRanker()).search(text, scope=SCOPE, fusion=fusion)
    assert ranked.hits == plain.hits
    assert ranked.notes == ()


def test_weighted_is_the_formula_with_a_ranker_too(opened: Open, embedder: Any) -> None:
    embedder.vectors.update({"the word": [0.8, 0.6, 0.0], "other": [1.0, 0.0, 0.0], "word": [1.0, 0.0, 0.0]})
    library = opened(HonestRanker())
    library.index_source(source("a", "the word"))
    library.index_source(source("b", "other"))
    scores = {hit.source_id: hit.score for hit in library.search("word", scope=SCOPE, fusion=Weighted(0.7))}
    assert scores == pytest.approx({"a": 0.86, "b": 0.7})


def test_weighted_floors_a_negative_cosine_and_shows_it_raw(opened: Open, embedder: Any) -> None:
    embedder.vectors.update({"the word": [-0.4, float(np.sqrt(1 - 0.16)), 0.0], "word": [1.0, 0.0, 0.0]})
    library = opened(HonestRanker())
    library.index_source(source("a", "the word"))
    (hit,) = library.search("word", scope=SCOPE, fusion=Weighted(0.5))
    assert hit.score == pytest.approx(0.5)
    assert hit.dense_score == pytest.approx(-0.4)


def test_a_ranker_cannot_widen_a_scope(three: Open) -> None:
    library = three(Answering(lambda _: [("secret#0", 1.0), ("a#0", 1.0), ("b#0", 0.5), ("c#0", 0.5)]))
    library.index_source(source("secret", "apple", acl_groups=["h"]))
    assert found(library) == OWN
    assert codes(library) == ["ranker_dropped"]
    assert found(library, scope=Scope("t", ["h"])) == [("secret", 1.0)]
