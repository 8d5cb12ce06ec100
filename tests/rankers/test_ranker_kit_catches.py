"""The kit turns red for rankers that break one rule each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stackroom.rankers import ExactRanker, Ranked
from stackroom.testing import RankerConformance


class Broken(ExactRanker):
    """An exact ranker whose questions and answers go through functions."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Callable[[dict[str, Any]], dict[str, Any]] = lambda asked: asked
        self.answered: Callable[[list[Ranked], dict[str, Any]], Any] = lambda answer, _asked: answer
        self.told: Callable[[dict[str, Any]], dict[str, Any] | None] = lambda told: told

    def rank_by_similarity(self, **asked: Any) -> Any:
        return self.answered(super().rank_by_similarity(**self.asked(dict(asked))), asked)

    def on_embedding_persisted(self, **told: Any) -> None:
        call = self.told(dict(told))
        if call is not None:
            super().on_embedding_persisted(**call)


def spoiled(**how: Any) -> Callable[[], Broken]:
    def make() -> Broken:
        ranker = Broken()
        for name, function in how.items():
            setattr(ranker, name, function)
        return ranker

    return make


def refuses_again() -> Broken:
    ranker, removed = Broken(), set()

    def told(call: dict[str, Any]) -> dict[str, Any] | None:
        if call["vector"] is None:
            removed.add(call["passage_id"])
        return None if call["vector"] is not None and call["passage_id"] in removed else call

    ranker.told = told
    return ranker


def never_moves() -> Broken:
    ranker, seen = Broken(), set()

    def told(call: dict[str, Any]) -> dict[str, Any] | None:
        key = call["tenant_id"], call["passage_id"]
        if call["vector"] is None:
            seen.discard(key)
            return call
        is_known = key in seen
        seen.add(key)
        return None if is_known else call

    ranker.told = told
    return ranker


def few(answer: list[Ranked], asked: dict[str, Any]) -> list[Ranked]:
    return answer[: max(1, asked["limit"] // 2)]


def distance(answer: list[Ranked], _asked: Any) -> list[Ranked]:
    return [Ranked(item.id, 1 - item.score) for item in answer]


BREAKS: dict[str, tuple[Callable[[], Broken], str]] = {
    "answers distances": (spoiled(answered=distance), "test_own_vector_first_with_its_cosine"),
    "unsorted": (spoiled(answered=lambda answer, _: answer[:1] + answer[:0:-1]), "test_higher_scores_come_first"),
    "half of the nearest": (spoiled(answered=few), "test_recall_against_the_exact_ranker"),
    "ignores candidates": (
        spoiled(asked=lambda asked: {**asked, "candidate_ids": None}),
        "test_candidates_are_all_that_is_answered",
    ),
    "empty means all": (
        spoiled(asked=lambda asked: {**asked, "candidate_ids": asked["candidate_ids"] or None}),
        "test_no_candidates_no_answer",
    ),
    "ignores the limit": (spoiled(asked=lambda asked: {**asked, "limit": 1_000}), "test_limits"),
    "mixes tenants": (
        spoiled(
            asked=lambda asked: {**asked, "tenant_id": asked["tenant_id"].lower()},
            told=lambda told: {**told, "tenant_id": told["tenant_id"].lower()},
        ),
        "test_tenants_with_equal_ids_stay_apart",
    ),
    "folds ids": (
        spoiled(told=lambda told: {**told, "passage_id": told["passage_id"].replace("'", "")}),
        "test_any_id_and_any_tenant",
    ),
    "never moves": (never_moves, "test_an_upsert_moves"),
    "never removes": (
        spoiled(told=lambda told: None if told["vector"] is None else told),
        "test_a_removal_removes_and_a_removed_id_may_come_again",
    ),
    "a removed id stays away": (refuses_again, "test_a_removal_removes_and_a_removed_id_may_come_again"),
    "leaves traces": (refuses_again, "test_many_changes_leave_what_came_last"),
}


@pytest.mark.parametrize(("make", "test"), BREAKS.values(), ids=BREAKS)
def test_the_kit_turns_red(make: Callable[[], Broken], test: str) -> None:
    function = getattr(RankerConformance(), test)
    cases = (
        [(True,), (False,)]
        if test in {"test_own_vector_first_with_its_cosine", "test_higher_scores_come_first"}
        else [()]
    )
    for case in cases:
        function(ExactRanker(), *case)
        with pytest.raises(AssertionError):
            function(make(), *case)


def test_a_duplicate_is_seen() -> None:
    ranker = Broken()
    ranker.told = lambda told: told
    ranker.answered = lambda answer, _asked: answer + answer[:1]
    with pytest.raises(AssertionError):
        RankerConformance().test_repeating_a_call_is_harmless(ranker)


def test_a_ranker_that_bears_no_threads_is_seen() -> None:
    ranker, within = Broken(), []

    def asked(question: dict[str, Any]) -> dict[str, Any]:
        within.append(1)
        if len(within) > 1:
            raise RuntimeError("two at once")
        return question

    def answered(answer: list[Ranked], _asked: Any) -> list[Ranked]:
        within.pop()
        return answer

    ranker.asked, ranker.answered = asked, answered
    with pytest.raises(AssertionError):
        RankerConformance().test_eight_threads_search_while_one_writes(ranker)
