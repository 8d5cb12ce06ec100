"""Calls that end late: after their tenant went, after another told of what is newer, after their store was closed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.library.doubles import RecordingEmbedder
from tests.rankers.conftest import SCOPE, found, health, source, sync
from tests.rankers.doubles import HandClock, HonestRanker, NeverForgets, Vector

from stackroom import Library
from stackroom.rankers import ExactRanker, Ranked
from stackroom.stores.embedded._turns import Hooks

OpenMore = Callable[..., Library]


@pytest.fixture
def open_more(tmp_path: Path, embedder: RecordingEmbedder, clock: HandClock) -> Iterator[OpenMore]:
    """Open the directory once more each time, as other processes do."""
    there: list[Library] = []

    def open_library(ranker: object, **options: float) -> Library:
        there.append(
            Library.open(tmp_path / "library", embedder=embedder, ranker=ranker, ranker_clock=clock, **options)  # type: ignore[arg-type] # a double
        )
        return there[-1]

    yield open_library
    for library in there:
        library.close()


class Shares(HonestRanker):
    """One process's ranker over a state that it shares with those of others. A call waits when it is held."""

    def __init__(self, state: ExactRanker) -> None:
        super().__init__(durable_id="shared")
        self.exact = state
        self.held: str | None = None
        self.is_waiting, self.may_go, self.has_returned = (threading.Event() for _ in range(3))

    def on_embedding_persisted(self, *, tenant_id: str, passage_id: str, vector: Vector | None) -> None:
        self.wait_for(passage_id)
        super().on_embedding_persisted(tenant_id=tenant_id, passage_id=passage_id, vector=vector)

    def forget_tenant(self, *, tenant_id: str) -> None:
        self.wait_for("forget")
        super().forget_tenant(tenant_id=tenant_id)

    def wait_for(self, call: str) -> None:
        if self.held == call:
            self.held = None
            self.is_waiting.set()
            assert self.may_go.wait(20)


@contextmanager
def going_on(work: Callable[[], object], ranker: Shares) -> Iterator[None]:
    """Do something in a thread until the ranker is held; at the end let it go, and wait."""
    thread = threading.Thread(target=work)
    thread.start()
    assert ranker.is_waiting.wait(20)
    try:
        yield
    finally:
        ranker.may_go.set()
        thread.join(20)


def held_by(state: ExactRanker) -> dict[str, list[float]]:
    """Return what a state holds of the tenant, by asking it for each axis."""
    axes = [{item.id: round(item.score, 4) for item in _all_of(state, axis)} for axis in np.eye(3, dtype=np.float32)]
    return {passage_id: [axis[passage_id] for axis in axes] for passage_id in axes[0]}


def _all_of(state: ExactRanker, query: Vector) -> list[Ranked]:
    return state.rank_by_similarity(tenant_id="t", query=query, candidate_ids=None, limit=99)


def plugged(ranker: HonestRanker, *, forgets: bool) -> object:
    return ranker if forgets else NeverForgets(ranker)


@pytest.mark.parametrize("forgets", [True, False])
@pytest.mark.parametrize("held", ["s#0", "s#1", "s#3"])
def test_a_tenant_removed_during_anothers_round_leaves_nothing_behind(
    open_more: OpenMore, held: str, *, forgets: bool
) -> None:
    state = ExactRanker()
    mine, others = Shares(state), Shares(state)
    library, other = (open_more(plugged(ranker, forgets=forgets)) for ranker in (mine, others))
    library.index_source(source("first", "apple fruit"))
    found(other)
    mine.held = held
    with going_on(lambda: library.index_source(source("s", *["car vehicle"] * 4)), mine):
        other.remove_tenant("t")
    assert held_by(state) == {}
    assert health(library).owed == health(other).owed == 0


@pytest.mark.parametrize("forgets", [True, False])
def test_a_tenant_made_again_during_anothers_round_is_told_as_it_is_now(open_more: OpenMore, *, forgets: bool) -> None:
    state = ExactRanker()
    mine, others = Shares(state), Shares(state)
    library, other = (open_more(plugged(ranker, forgets=forgets)) for ranker in (mine, others))
    library.index_source(source("first", "apple fruit"))
    found(other)
    mine.held = "s#1"
    with going_on(lambda: library.index_source(source("s", *["car vehicle"] * 4)), mine):
        other.remove_tenant("t")
        other.index_source(source("s", "apple fruit", "apple fruit"))
    found(library)
    assert held_by(state) == {"s#0": [1.0, 0.0, 0.0], "s#1": [1.0, 0.0, 0.0]}
    assert health(library).owed == health(other).owed == 0


def test_a_forgetting_that_ends_after_the_tenant_was_made_again_is_made_up_for(open_more: OpenMore) -> None:
    state = ExactRanker()
    mine, others = Shares(state), Shares(state)
    library, other = open_more(mine, ranker_timeout=0.1), open_more(others)
    mine.held = "forget"
    with going_on(lambda: library.index_source(source("first", "apple fruit")), mine):
        _wait_until(lambda: health(library).last_error == "TimeoutError")
        other.remove_tenant("t")
        other.index_source(source("s", "apple fruit"))
    _wait_until(lambda: len(mine.forgotten) > 0)
    _wait_until(lambda: sync(library).owed == 0 and held_by(state) == {"s#0": [1.0, 0.0, 0.0]})


def test_a_call_that_ends_late_in_a_tenant_removed_by_another_is_taken_back(open_more: OpenMore) -> None:
    state = ExactRanker()
    mine, others = Shares(state), Shares(state)
    library, other = open_more(mine, ranker_timeout=0.1), open_more(others)
    mine.held = "s#0"
    with going_on(lambda: library.index_source(source("s", "car vehicle")), mine):
        _wait_until(lambda: health(library).last_error == "TimeoutError")
        other.remove_tenant("t")
    _wait_until(lambda: held_by(state) != {} or "s#0" in mine.ids)
    _wait_until(lambda: sync(library).owed == 0 and held_by(state) == {})


def test_a_late_call_of_a_closed_store_is_made_up_for_by_the_next(open_more: OpenMore) -> None:
    ranker = Shares(ExactRanker())
    library = open_more(ranker, ranker_timeout=0.1)
    ranker.held = "s#0"
    library.index_source(source("s", "car vehicle"))
    library.close()
    library = open_more(ranker, ranker_timeout=0.1)
    library.index_source(source("s", "apple fruit"))
    assert sync(library).owed == 1  # no further call while that one goes on
    assert ranker.ids == []
    ranker.may_go.set()
    _wait_until(lambda: sync(library).owed == 0)
    assert held_by(ranker.exact) == {"s#0": [1.0, 0.0, 0.0]}


def test_what_a_late_call_may_have_overtaken_is_tried_again_in_its_time(open_more: OpenMore, clock: HandClock) -> None:
    state = ExactRanker()
    mine, others = Shares(state), Shares(state)
    library, other = open_more(mine, ranker_timeout=0.1), open_more(others)
    mine.held = "s#0"
    library.index_source(source("s", "car vehicle"))
    other.index_source(source("s", "apple fruit"))
    assert sync(other).owed == 0
    mine.may_go.set()
    _wait_until(lambda: health(other).owed == 1)
    assert health(other).next_try is not None
    assert found(other, "car vehicle") == [("s", 0.0)]
    clock.forward(5)
    other.index_source(source("next", "cart apple"))
    assert health(other).owed == 0
    assert held_by(state)["s#0"] == [1.0, 0.0, 0.0]


def test_two_stores_with_one_ranker_share_its_turns() -> None:
    ranker = HonestRanker()
    assert Hooks(ranker, 1.0).turn_of("t") is not Hooks(HonestRanker(), 1.0).turn_of("t")
    one, two = Hooks(ranker, 1.0), Hooks(ranker, None)
    assert one.turn_of("t") is two.turn_of("t")
    assert one.turn_of("t") is not two.turn_of("u")


@pytest.mark.parametrize("forgets", [True, False])
def test_a_departure_is_told_at_a_search_whatever_books_are_open(open_more: OpenMore, *, forgets: bool) -> None:
    ranker = Shares(ExactRanker())
    library, other = open_more(plugged(ranker, forgets=forgets), max_open_shards=1), open_more(None)
    for tenant in ("t", "u", "v"):
        library.index_source(source("s", "apple fruit", tenant=tenant))
    other.remove_tenant("t")
    assert list(library.search("apple", scope=SCOPE)) == []
    assert held_by(ranker.exact) == {}


def _wait_until(is_so: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(2000):
        if is_so():
            return
        pause.wait(0.005)
    raise AssertionError("it has not come about")
