"""The kit turns red for rankers that break one rule each."""

from __future__ import annotations

import inspect
import threading
import time
import unicodedata
from collections.abc import Callable
from functools import partial
from pathlib import Path
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

    @property
    def tenants(self) -> dict[str, Any]:
        """What is held, by tenant; the passages of each under `labels`."""
        return self._indexes._tenants  # noqa: SLF001 - broken from within

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


class NeverComesBack(Broken):
    """A tenant that was forgotten stays so."""

    def __init__(self) -> None:
        super().__init__()
        self.forgotten: set[str] = set()
        self.told = lambda call: None if call["tenant_id"] in self.forgotten else call

    def forget_tenant(self, *, tenant_id: str) -> None:
        self.forgotten.add(tenant_id)
        super().forget_tenant(tenant_id=tenant_id)


class ForgetsNothing(Broken):
    def forget_tenant(self, *, tenant_id: str) -> None:
        pass


class ForgetsAll(Broken):
    def forget_tenant(self, *, tenant_id: str) -> None:  # noqa: ARG002 - that is the fault
        for name in [*self.tenants]:
            super().forget_tenant(tenant_id=name)


class Caches(Broken):
    """Answers the same question as before, whatever was written since."""

    def __init__(self) -> None:
        super().__init__()
        self.cache: dict[Any, Any] = {}

    def rank_by_similarity(self, **asked: Any) -> Any:
        key = asked["tenant_id"], asked["query"].tobytes(), asked["candidate_ids"], asked["limit"]
        if key not in self.cache:
            self.cache[key] = super().rank_by_similarity(**asked)
        return self.cache[key]


class StaleInTheIndex(Broken):
    """Listed candidates are scored by their present vectors, whole tenants by the first that each had."""

    def __init__(self) -> None:
        super().__init__()
        self.old = never_moves()

    def rank_by_similarity(self, **asked: Any) -> Any:
        if asked["candidate_ids"] is None:
            return self.old.rank_by_similarity(**asked)
        return super().rank_by_similarity(**asked)

    def on_embedding_persisted(self, **told: Any) -> None:
        self.old.on_embedding_persisted(**told)
        super().on_embedding_persisted(**told)

    def forget_tenant(self, *, tenant_id: str) -> None:
        self.old.forget_tenant(tenant_id=tenant_id)
        super().forget_tenant(tenant_id=tenant_id)


class FillsUp(Broken):
    """Answers other tenants' passages where its own are fewer than were asked for."""

    def rank_by_similarity(self, **asked: Any) -> Any:
        found = super().rank_by_similarity(**asked)
        for tenant_id in [*self.tenants]:
            if tenant_id != asked["tenant_id"] and found:
                found += super().rank_by_similarity(**{**asked, "tenant_id": tenant_id})
        return found[: asked["limit"]]


class FailsWhenEmpty(Broken):
    def rank_by_similarity(self, **asked: Any) -> Any:
        tenant = self.tenants.get(asked["tenant_id"])
        if tenant is not None and not tenant.labels:
            raise RuntimeError("the index is empty")
        return super().rank_by_similarity(**asked)


class FailsBeforeItIsFed(Broken):
    def rank_by_similarity(self, **asked: Any) -> Any:
        if not self.tenants:
            raise RuntimeError("there is no index yet")
        return super().rank_by_similarity(**asked)


class HoldsFewTenants(Broken):
    def on_embedding_persisted(self, **told: Any) -> None:
        super().on_embedding_persisted(**told)
        while len(self.tenants) > 64:
            super().forget_tenant(tenant_id=next(iter(self.tenants)))


class SharesItsQuery(Broken):
    """Keeps the query of whoever asks in one place, where another thread's takes it over."""

    query: Any = None

    def rank_by_similarity(self, **asked: Any) -> Any:
        self.query = asked["query"]
        time.sleep(0)
        return super().rank_by_similarity(**{**asked, "query": self.query})


class SharesItsTenant(Broken):
    """Keeps the tenant that is written to in one place, where another thread's takes it over."""

    tenant: Any = None

    def on_embedding_persisted(self, **told: Any) -> None:
        self.tenant = told["tenant_id"]
        time.sleep(0.0001)
        super().on_embedding_persisted(**{**told, "tenant_id": self.tenant})


def pattern(asked: dict[str, Any]) -> dict[str, Any]:
    return {**asked, "tenant_id": "tx"} if asked["tenant_id"] in {"%", "t%", "t_"} else asked


def joined(separator: str) -> Callable[[], Broken]:
    """Keep tenant and id joined to one key, in one index of all."""

    class Joined(Broken):
        def rank_by_similarity(self, **asked: Any) -> Any:
            start = asked["tenant_id"] + separator
            listed = asked["candidate_ids"]
            if listed is None:
                held = self.tenants["all"].labels if "all" in self.tenants else {}
                listed = [name.removeprefix(start) for name in held if name.startswith(start)]
            found = super().rank_by_similarity(
                **{**asked, "tenant_id": "all", "candidate_ids": [start + name for name in listed]}
            )
            return [Ranked(item.id.removeprefix(start), item.score) for item in found]

        def on_embedding_persisted(self, **told: Any) -> None:
            name = told["tenant_id"] + separator + told["passage_id"]
            super().on_embedding_persisted(**{**told, "tenant_id": "all", "passage_id": name})

        def forget_tenant(self, *, tenant_id: str) -> None:
            start = tenant_id + separator
            for name in [*self.tenants["all"].labels] if "all" in self.tenants else ():
                if name.startswith(start):
                    super().on_embedding_persisted(tenant_id="all", passage_id=name, vector=None)

    return Joined


def few(answer: list[Ranked], asked: dict[str, Any]) -> list[Ranked]:
    return answer[: max(1, asked["limit"] // 2)]


def distance(answer: list[Ranked], _asked: Any) -> list[Ranked]:
    return [Ranked(item.id, 1 - item.score) for item in answer]


def unscored(answer: list[Ranked], asked: dict[str, Any]) -> list[Ranked]:
    """A few candidates are answered as they were listed, without a look at them."""
    listed = asked["candidate_ids"]
    if listed is None or len(listed) > 60 or len(answer) < 2:
        return answer
    held = {item.id for item in answer}
    return [Ranked(name, 1.0) for name in listed if name in held]


def folded(fold: Callable[[str], str]) -> Callable[[], Broken]:
    """Keep passages under their folded ids."""
    return spoiled(
        told=lambda told: {**told, "passage_id": fold(told["passage_id"])},
        asked=lambda asked: (
            asked
            if asked["candidate_ids"] is None
            else {**asked, "candidate_ids": [*dict.fromkeys(fold(name) for name in asked["candidate_ids"])]}
        ),
    )


BREAKS: dict[str, tuple[Callable[[], Any], str]] = {
    "answers distances": (spoiled(answered=distance), "test_own_vector_first_with_its_cosine"),
    "unsorted": (spoiled(answered=lambda answer, _: answer[:1] + answer[:0:-1]), "test_higher_scores_come_first"),
    "half of the nearest": (spoiled(answered=few), "test_recall_against_the_exact_ranker"),
    "ignores candidates": (
        spoiled(asked=lambda asked: {**asked, "candidate_ids": None}),
        "test_candidates_are_all_that_is_answered",
    ),
    "only looks at the first thousand candidates": (
        spoiled(
            asked=lambda asked: {**asked, "candidate_ids": asked["candidate_ids"] and asked["candidate_ids"][:999]}
        ),
        "test_candidates_are_all_that_is_answered",
    ),
    "does not score a few candidates": (spoiled(answered=unscored), "test_few_candidates_get_their_cosines_too"),
    "empty means all": (
        spoiled(asked=lambda asked: {**asked, "candidate_ids": asked["candidate_ids"] or None}),
        "test_no_candidates_no_answer",
    ),
    "ignores the limit": (spoiled(asked=lambda asked: {**asked, "limit": 1_000}), "test_limits"),
    "ignores the limit for listed candidates": (
        spoiled(asked=lambda asked: {**asked, "limit": 1_000 if asked["candidate_ids"] else asked["limit"]}),
        "test_limits",
    ),
    "answers a page of five hundred": (
        spoiled(answered=lambda answer, _: answer[:500]),
        "test_as_many_are_answered_as_it_says_that_it_can",
    ),
    "fails before it is fed": (FailsBeforeItIsFed, "test_limits"),
    "fails when a tenant is empty": (FailsWhenEmpty, "test_a_tenant_may_become_empty"),
    "mixes tenants": (
        spoiled(
            asked=lambda asked: {**asked, "tenant_id": asked["tenant_id"].lower()},
            told=lambda told: {**told, "tenant_id": told["tenant_id"].lower()},
        ),
        "test_tenants_with_equal_ids_stay_apart",
    ),
    "fills up with another tenant's": (FillsUp, "test_no_passage_of_another_tenant_is_answered"),
    "takes a tenant for a pattern": (spoiled(asked=pattern), "test_no_passage_of_another_tenant_is_answered"),
    "joins tenant and id": (joined(""), "test_a_tenant_and_an_id_are_two_things"),
    "joins tenant and id by a colon": (joined(":"), "test_a_tenant_and_an_id_are_two_things"),
    "joins tenant and id by a slash": (joined("/"), "test_a_tenant_and_an_id_are_two_things"),
    "holds few tenants": (HoldsFewTenants, "test_many_tenants_are_held"),
    "drops quotes of ids": (folded(lambda name: name.replace("'", "")), "test_any_id_and_any_tenant"),
    "folds the case of ids": (folded(str.casefold), "test_any_id_and_any_tenant"),
    "strips ids": (folded(str.strip), "test_any_id_and_any_tenant"),
    "cuts ids": (folded(lambda name: name[:255]), "test_any_id_and_any_tenant"),
    "never moves": (never_moves, "test_an_upsert_moves"),
    "moves only where candidates are listed": (StaleInTheIndex, "test_an_upsert_moves"),
    "never removes": (
        spoiled(told=lambda told: None if told["vector"] is None else told),
        "test_a_removal_removes_and_a_removed_id_may_come_again",
    ),
    "a removed id stays away": (refuses_again, "test_a_removal_removes_and_a_removed_id_may_come_again"),
    "leaves traces": (refuses_again, "test_many_changes_leave_what_came_last"),
    "answers twice": (spoiled(answered=lambda answer, _: answer[:1] + answer), "test_repeating_a_call_is_harmless"),
    "answers from a cache": (Caches, "test_every_write_is_seen_by_the_next_search"),
    "a forgotten tenant stays away": (NeverComesBack, "test_a_forgotten_tenant_is_gone_and_may_come_again"),
    "forgets nothing": (ForgetsNothing, "test_a_forgotten_tenant_is_gone_and_may_come_again"),
    "forgets all tenants": (ForgetsAll, "test_a_forgotten_tenant_is_gone_and_may_come_again"),
    "two searches share a place": (SharesItsQuery, "test_eight_threads_search_while_one_writes"),
    "two writes share a place": (SharesItsTenant, "test_several_threads_write_to_tenants_of_their_own"),
}


def cases_of(test: str) -> list[dict[str, Any]]:
    """Return the arguments of each case of a test of the kit."""
    marks = getattr(getattr(RankerConformance, test), "pytestmark", [])
    return [{mark.args[0]: value} for mark in marks for value in mark.args[1]] or [{}]


def is_red(test: str, make: Callable[[], Any]) -> bool:
    """Tell whether a test of the kit fails for a ranker, in any of its cases."""
    for case in cases_of(test):
        try:
            getattr(RankerConformance(), test)(make(), **case)
        except Exception:  # noqa: BLE001 - whatever it is, pytest calls it a failure
            return True
    return False


FOLDS: dict[str, Callable[[str], str]] = {
    "strip": str.strip,
    "strip of an end": str.rstrip,
    "lower": str.lower,
    "casefold": str.casefold,
    "NFC": partial(unicodedata.normalize, "NFC"),
    "NFKC": partial(unicodedata.normalize, "NFKC"),
    "a path": lambda tenant: tenant.rstrip("/."),
    "a cut to 16": lambda tenant: tenant[:16],
    "a cut to 64": lambda tenant: tenant[:64],
    "a cut to 255": lambda tenant: tenant[:255],
}


def folding(fold: Callable[[str], str]) -> Callable[[], Any]:
    class Folds(ExactRanker):
        def rank_by_similarity(self, *, tenant_id: str, **asked: Any) -> Any:
            return super().rank_by_similarity(tenant_id=fold(tenant_id), **asked)

        def on_embedding_persisted(self, *, tenant_id: str, **told: Any) -> None:
            super().on_embedding_persisted(tenant_id=fold(tenant_id), **told)

        def forget_tenant(self, *, tenant_id: str) -> None:
            super().forget_tenant(tenant_id=fold(tenant_id))

    return Folds


BREAKS |= {
    f"merges tenants by {name}": (folding(fold), "test_hostile_tenants_stay_apart") for name, fold in FOLDS.items()
}


@pytest.mark.parametrize(("make", "test"), BREAKS.values(), ids=BREAKS)
def test_the_kit_turns_red(make: Callable[[], Any], test: str) -> None:
    assert not is_red(test, ExactRanker)
    assert is_red(test, make)


def test_every_test_of_the_kit_catches_something() -> None:
    asked_alone = {
        name
        for name, function in inspect.getmembers(RankerConformance, inspect.isfunction)
        if name.startswith("test_")
        and not {"tmp_path", "reopen", "reopen_unclosed"} & {*inspect.signature(function).parameters}
    }
    assert asked_alone - {test for _, test in BREAKS.values()} == {"test_unknown_candidates_are_fine"}
    assert is_red("test_unknown_candidates_are_fine", FailsOfUnknown)


class FailsOfUnknown(Broken):
    def rank_by_similarity(self, **asked: Any) -> Any:
        tenant = self.tenants.get(asked["tenant_id"])
        if tenant is not None and not {*(asked["candidate_ids"] or ())} <= tenant.labels.keys():
            raise KeyError
        return super().rank_by_similarity(**asked)


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


# Plugged in


class Declares(ExactRanker):
    def __init__(self, name: str, value: Any) -> None:
        super().__init__()
        setattr(self, name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_limit", 0), ("max_limit", None), ("max_candidates", 2.5), ("max_candidates", "10"), ("durable_id", 7)],
)
def test_what_it_declares_wrongly_is_seen(tmp_path: Path, name: str, value: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        RankerConformance().test_plugged_in_a_library_answers_as_without(Declares(name, value), tmp_path)


def test_a_ranker_that_answers_nothing_of_itself_is_seen_when_it_is_plugged_in(tmp_path: Path) -> None:
    class Raises(ExactRanker):
        def rank_by_similarity(self, **_: Any) -> Any:
            raise RuntimeError

    with pytest.raises(AssertionError):
        RankerConformance().test_plugged_in_a_library_answers_as_without(Raises(), tmp_path)


def test_no_thread_of_the_kit_is_left_behind() -> None:
    before = threading.active_count()
    RankerConformance().test_several_threads_write_to_tenants_of_their_own(ExactRanker())
    assert threading.active_count() == before
