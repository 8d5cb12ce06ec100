"""The kit turns red for rankers whose state loses something between two processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stackroom.rankers import ExactRanker
from stackroom.testing import RankerConformance


class Durable(ExactRanker):
    """An exact ranker whose state is a list of the calls, kept by whoever made it; `lose` says what is not kept."""

    def __init__(self, calls: list[dict[str, Any]], lose: Callable[[dict[str, Any]], bool], name: str = "one") -> None:
        super().__init__()
        self.durable_id = name
        self._calls = calls
        self._lose = lose
        self._is_loading = True
        for call in list(calls):
            self._apply(call)
        self._is_loading = False

    def _apply(self, call: dict[str, Any]) -> None:
        if "passage_id" in call:
            super().on_embedding_persisted(**call)
        else:
            super().forget_tenant(**call)

    def _keep(self, call: dict[str, Any]) -> None:
        if not self._lose(call):
            self._calls.append(call)
        self._apply(call)

    def on_embedding_persisted(self, **call: Any) -> None:
        self._keep(call)

    def forget_tenant(self, **call: Any) -> None:
        self._keep(call)


def is_kept(call: dict[str, Any]) -> bool:  # noqa: ARG001 - all of them are
    return False


def saved_late() -> Callable[[dict[str, Any]], bool]:
    """Keep the first ten calls; the others would be kept at closing."""
    calls: list[None] = []

    def lose(_call: dict[str, Any]) -> bool:
        calls.append(None)
        return len(calls) > 10

    return lose


LOST: dict[str, tuple[Callable[[], Callable[[dict[str, Any]], bool]], str]] = {
    "all": (lambda: lambda _: True, "test_the_same_answers_after_close_and_open"),
    "removals": (lambda: lambda call: call.get("vector", 0) is None, "test_the_same_answers_after_close_and_open"),
    "the second tenant": (lambda: lambda call: call["tenant_id"] == "u", "test_the_same_answers_after_close_and_open"),
    "the emptying of a tenant": (
        lambda: lambda call: call["tenant_id"] == "u" and call.get("vector", 0) is None,
        "test_after_close_and_open_it_is_told_as_before",
    ),
    "what was told last": (saved_late, "test_the_same_answers_after_close_and_open"),
}


@pytest.mark.parametrize(("losing", "test"), LOST.values(), ids=LOST)
def test_a_state_that_loses_something_is_seen(losing: Callable[[], Any], test: str) -> None:
    for lose, is_broken in ((is_kept, False), (losing(), True)):
        calls: list[dict[str, Any]] = []
        ranker = Durable(calls, lose)

        def again(calls: list[dict[str, Any]] = calls, lose: Any = lose) -> Durable:
            return Durable(calls, lose)

        if is_broken:
            with pytest.raises((AssertionError, IndexError)):
                getattr(RankerConformance(), test)(ranker, again)
        else:
            getattr(RankerConformance(), test)(ranker, again)


def test_a_state_whose_name_changes_though_it_was_closed_is_seen() -> None:
    calls: list[dict[str, Any]] = []
    with pytest.raises(AssertionError):
        RankerConformance().test_the_same_answers_after_close_and_open(
            Durable(calls, is_kept), lambda: Durable(calls, is_kept, "two")
        )


def test_a_name_that_promises_more_than_is_kept_is_seen() -> None:
    calls: list[dict[str, Any]] = []
    check = RankerConformance().test_its_name_promises_what_it_was_told
    with pytest.raises(AssertionError):
        check(Durable(calls, saved_late()), lambda: Durable(calls, is_kept))
    check(Durable([], saved_late()), lambda: Durable([], is_kept, "two"))
