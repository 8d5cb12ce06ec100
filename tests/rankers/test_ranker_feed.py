"""What a ranker is told, when, and what becomes of what it did not take."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from tests.rankers.conftest import OWN, SCOPE, THREE, Open, found, health, rebuild, source, sync
from tests.rankers.doubles import VECTORS, HandClock, HonestRanker, RefusingRanker, Vector

from stackroom import EmbedderError, Library
from stackroom.rankers import RankerHealth, _calls

# What it is told


def test_a_write_tells_each_passage_once_in_unit_length(opened: Open, embedder: Any) -> None:
    embedder.vectors["long"] = [3.0, 4.0, 0.0]
    ranker = HonestRanker()
    library = opened(ranker)
    library.index_source(source("s", "long", "apple fruit"))
    assert ranker.ids == ["s#0", "s#1"]
    assert [tenant for tenant, _, _ in ranker.told] == ["t", "t"]
    vector = ranker.told[0][2]
    assert vector is not None
    assert vector.dtype == np.float32
    assert vector.shape == (3,)
    assert vector.tolist() == pytest.approx([0.6, 0.8, 0.0])


def test_what_it_does_to_a_vector_changes_nothing(three: Open) -> None:
    class Spoils(HonestRanker):
        def on_embedding_persisted(self, *, tenant_id: str, passage_id: str, vector: Vector | None) -> None:
            super().on_embedding_persisted(tenant_id=tenant_id, passage_id=passage_id, vector=vector)
            if vector is not None:
                vector[0] = -999

    library = three(Spoils())
    assert found(library) == OWN
    assert found(three()) == OWN


def test_a_shorter_replacement_tells_what_went(opened: Open) -> None:
    ranker = HonestRanker()
    library = opened(ranker)
    library.index_source(source("s", "apple fruit", "car vehicle", "cart apple"))
    ranker.told.clear()
    library.index_source(source("s", "car vehicle", "apple fruit"))
    assert sorted(ranker.ids) == ["-s#2", "s#0", "s#1"]
    assert ranker.holds() == {"s#0": [0.0, 1.0, 0.0], "s#1": [1.0, 0.0, 0.0]}


WENT: dict[str, Callable[[Library], object]] = {
    "removed": lambda library: library.remove_source("a", tenant_id="t"),
    "replaced by nothing": lambda library: library.index_source(source("a")),
    "swept": lambda library: library.sweep(),
}


@pytest.mark.parametrize("go", WENT.values(), ids=WENT)
def test_what_went_is_told(three: Open, go: Callable[[Library], object]) -> None:
    ranker = HonestRanker()
    library = three(ranker)
    library.index_source(source("a", "apple fruit", expires_at=datetime(2000, 1, 1, tzinfo=UTC)))
    ranker.told.clear()
    go(library)
    assert ranker.ids == ["-a#0"]
    assert health(library).owed == 0


def test_a_re_scope_tells_nothing(three: Open) -> None:
    ranker = HonestRanker()
    library = three(ranker)
    ranker.told.clear()
    library.set_source_scope("a", tenant_id="t", acl_groups=["h"], folder_id="f", tags=["x"], title="y")
    assert ranker.told == []


def test_it_is_told_after_the_commit_and_may_read_the_library(opened: Open) -> None:
    seen: list[list[str]] = []

    class Reads(HonestRanker):
        def on_embedding_persisted(self, *, tenant_id: str, passage_id: str, vector: Vector | None) -> None:
            super().on_embedding_persisted(tenant_id=tenant_id, passage_id=passage_id, vector=vector)
            seen.append([hit.text for hit in library.passages("s", scope=SCOPE)])
            found(library)

    library = opened(Reads())
    library.index_source(source("s", "apple fruit"))
    library.index_source(source("s", "car vehicle"))
    assert seen == [["apple fruit"], ["car vehicle"]]


def test_without_a_timeout_a_hook_may_read_the_library_too(opened: Open) -> None:
    class Reads(HonestRanker):
        def on_embedding_persisted(self, *, tenant_id: str, passage_id: str, vector: Vector | None) -> None:
            super().on_embedding_persisted(tenant_id=tenant_id, passage_id=passage_id, vector=vector)
            found(library)

    library = opened(Reads(), ranker_timeout=None)
    library.index_source(source("s", "apple fruit"))
    assert found(library) == [("s", 1.0)]


def test_nothing_rolled_back_is_told(three: Open, embedder: Any) -> None:
    ranker = HonestRanker()
    library = three(ranker)
    ranker.told.clear()
    embedder.answering = lambda _: [[float("nan")] * 3]
    with pytest.raises(EmbedderError):
        library.index_source(source("a", "new text"))
    assert ranker.told == []


def test_one_without_the_hook_is_owed_nothing_and_is_asked(three: Open) -> None:
    honest = HonestRanker()

    class OnlyRanks:
        rank_by_similarity = staticmethod(honest.rank_by_similarity)

    library = three(OnlyRanks())
    assert health(library) == RankerHealth("OnlyRanks", 0, 0, None, None, None, {})
    assert found(library) == OWN
    assert len(honest.asked) == 1


def test_without_a_ranker_health_says_so(three: Open) -> None:
    library = three()
    expected = RankerHealth(None, 0, 0, None, None, None, {})
    assert (health(library), sync(library), rebuild(library)) == (expected,) * 3


def test_whoever_applies_the_calls_in_order_ends_with_the_tenants_passages(opened: Open) -> None:
    ranker = HonestRanker()
    library = opened(ranker)
    texts = list(THREE.values())
    for step in range(30):
        name = f"s{step * 7 % 4}"
        if step % 5 == 4:
            library.remove_source(name, tenant_id="t")
        else:
            library.index_source(source(name, *(texts[place % 3] for place in range(step, step + 1 + step % 3))))
    hits = [hit for info in library.sources(scope=SCOPE) for hit in library.passages(info.source_id, scope=SCOPE)]
    assert ranker.holds() == {hit.id: [round(x, 5) for x in VECTORS[hit.text]] for hit in hits}


# Failures


def test_a_failing_hook_never_fails_a_write_and_the_passage_is_found(opened: Open, clock: HandClock) -> None:
    library = opened(RefusingRanker("a#0"))
    for source_id, text in THREE.items():
        library.index_source(source(source_id, text))
    assert found(library) == OWN
    told = health(library)
    assert (told.ranker, told.owed, told.last_error, dict(told.tenants)) == (
        "RefusingRanker",
        1,
        "ConnectionError",
        {"t": 1},
    )
    assert told.owed_since == clock.now
    assert told.next_try == clock.now + timedelta(seconds=5)


def test_sync_delivers_what_is_owed_at_once(three: Open) -> None:
    ranker = RefusingRanker("a#0")
    library = three(ranker)
    ranker.refused.clear()
    assert sync(library) == RankerHealth("RefusingRanker", 0, 0, None, None, None, {})
    assert ranker.holds()["a#0"] == [1.0, 0.0, 0.0]


def test_what_is_owed_is_retried_by_a_write_once_its_time_has_come(opened: Open, clock: HandClock) -> None:
    ranker = RefusingRanker("a#0")
    library = opened(ranker)
    waits = []
    for number in range(9):
        library.index_source(source("a" if number == 0 else f"s{number}", "apple fruit"))
        next_try = health(library).next_try
        assert next_try is not None
        waits.append((next_try - clock.now).total_seconds())
        before = ranker.tried.count("a#0")
        clock.forward(waits[-1] - 0.001)
        library.index_source(source("other", "car vehicle"))
        assert ranker.tried.count("a#0") == before
        clock.forward(0.001)
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300, 300]


def test_a_retry_delivers_the_present_state(opened: Open, clock: HandClock) -> None:
    ranker = RefusingRanker("s#0")
    library = opened(ranker)
    library.index_source(source("s", "apple fruit"))
    library.remove_source("s", tenant_id="t")
    ranker.refused.clear()
    clock.forward(5)
    library.index_source(source("other", "car vehicle"))
    assert ranker.ids == ["-s#0", "other#0"]
    assert health(library).owed == 0


def test_others_go_on_while_one_is_owed(opened: Open) -> None:
    ranker = RefusingRanker("s#1")
    library = opened(ranker)
    library.index_source(source("s", "apple fruit", "car vehicle", "cart apple"))
    assert ranker.ids == ["s#0", "s#2"]
    assert health(library).failures == 0


def test_after_eight_failures_in_a_row_the_feed_pauses(opened: Open, clock: HandClock) -> None:
    ranker = RefusingRanker("*")
    library = opened(ranker)
    library.index_source(source("s", *["apple fruit"] * 20))
    assert len(ranker.tried) == 8
    library.index_source(source("other", "car vehicle"))
    assert len(ranker.tried) == 8
    told = health(library)
    assert (told.owed, told.failures) == (21, 8)
    clock.forward(5)
    library.index_source(source("third", "car vehicle"))
    assert len(ranker.tried) == 9
    ranker.refused.clear()
    clock.forward(10)
    library.set_source_scope("third", tenant_id="t", tags=["x"])
    assert health(library).owed == 0
    assert len(ranker.holds()) == 22


def test_searches_find_what_is_owed_even_when_the_ranker_answers_enough(opened: Open, embedder: Any) -> None:
    embedder.vectors.update({f"n{place}": [1.0, place / 10, 0.0] for place in range(90)})
    ranker = RefusingRanker("first#0")
    library = opened(ranker)
    library.index_source(source("s", *[f"n{place}" for place in range(10, 90)]))
    library.index_source(source("first", "n0"))
    answer = library.search("n0", scope=SCOPE, mode="dense", top_k=3)
    assert [hit.id for hit in answer] == ["first#0", "s#0", "s#1"]
    assert answer.notes == ()
    assert "first#0" not in [item.id for item in ranker.exact.rank_by_similarity(**ranker.asked[-1])]


def test_when_too_much_is_owed_the_ranker_is_not_asked(opened: Open) -> None:
    ranker = RefusingRanker("*", max_candidates=2)
    library = opened(ranker)
    for source_id, text in THREE.items():
        library.index_source(source(source_id, text))
    answer = library.search("apple", scope=SCOPE, mode="dense")
    assert [(hit.source_id, round(hit.score, 6)) for hit in answer] == OWN
    assert [note.code for note in answer.notes] == ["ranker_behind"]
    assert answer.complete
    assert ranker.asked == []


@pytest.mark.parametrize("timeout", [5.0, None])
def test_what_is_no_exception_passes_through_a_hook_after_the_commit(opened: Open, timeout: float | None) -> None:
    class Interrupts(HonestRanker):
        def on_embedding_persisted(self, *, tenant_id: str, passage_id: str, vector: Vector | None) -> None:
            if passage_id == "s#1":
                raise KeyboardInterrupt
            super().on_embedding_persisted(tenant_id=tenant_id, passage_id=passage_id, vector=vector)

    ranker = Interrupts()
    library = opened(ranker, ranker_timeout=timeout)
    with pytest.raises(KeyboardInterrupt):
        library.index_source(source("s", "apple fruit", "car vehicle"))
    assert ranker.ids == ["s#0"]
    assert library.count(scope=SCOPE) == 2
    assert health(library).owed == 1


def test_a_coroutine_of_a_hook_is_a_failure(opened: Open) -> None:
    class Awaits(HonestRanker):
        async def on_embedding_persisted(self, **_: Any) -> None:  # type: ignore[override] # that is the fault
            pass

    library = opened(Awaits())
    library.index_source(source("s", "apple fruit"))
    assert health(library).last_error == "TypeError"


class Slow(HonestRanker):
    """Does not return from the hook of one passage before it is let go."""

    def __init__(self, durable_id: str | None = None) -> None:
        super().__init__(durable_id=durable_id)
        self.may_go = threading.Event()
        self.has_begun = threading.Event()
        self.calls: list[str] = []

    def on_embedding_persisted(self, *, tenant_id: str, passage_id: str, vector: Vector | None) -> None:
        self.calls.append(passage_id)
        if passage_id == "slow#0" and not self.may_go.is_set():
            self.has_begun.set()
            assert self.may_go.wait(20)
        super().on_embedding_persisted(tenant_id=tenant_id, passage_id=passage_id, vector=vector)


def test_a_hook_that_is_too_slow_has_failed_and_its_tenant_hears_nothing_until_it_returns(opened: Open) -> None:
    ranker = Slow()
    library = opened(ranker, ranker_timeout=0.05)
    library.index_source(source("slow", "apple fruit"))
    assert health(library).last_error == "TimeoutError"
    library.index_source(source("next", "car vehicle"))
    library.index_source(source("next", "car vehicle", tenant="u"))
    assert ranker.calls == ["slow#0", "next#0"]
    assert ranker.told[0][0] == "u"
    assert sync(library).owed == 2
    ranker.may_go.set()
    tries = 200
    while sync(library).owed and tries:
        tries -= 1
    assert health(library).owed == 0
    assert set(ranker.holds()) == {"slow#0", "next#0"}


def test_a_call_that_returns_late_is_made_once_more_for_another_may_have_overtaken_it(
    opened: Open, embedder: Any, tmp_path: Any
) -> None:
    ranker = Slow(durable_id="one")
    library = opened(ranker, ranker_timeout=0.05)
    library.index_source(source("slow", "apple fruit"))
    with Library.open(tmp_path / "library", embedder=embedder, ranker=HonestRanker(durable_id="one")) as other:
        other.index_source(source("slow", "car vehicle"))
        assert health(other).owed == 0
        ranker.may_go.set()
        tries = 500
        while "slow#0" not in ranker.holds() and tries:  # the late call has an overtaken state
            tries -= 1
            health(library)
        while not sync(library).failures and ranker.holds()["slow#0"] != [0.0, 1.0, 0.0] and tries:
            tries -= 1
    assert ranker.holds()["slow#0"] == [0.0, 1.0, 0.0]


def test_an_interrupted_writer_leaves_the_call_behind_and_the_rest_owed(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranker = Slow()
    library = opened(ranker, ranker_timeout=20)
    library.index_source(source("first", "apple fruit"))

    class Interrupted(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            assert ranker.has_begun.wait(timeout)
            raise KeyboardInterrupt

    class InterruptedCall(_calls.Call[Any]):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.is_done = Interrupted()

    with monkeypatch.context() as patched:
        patched.setattr(_calls, "Call", InterruptedCall)
        with pytest.raises(KeyboardInterrupt):
            library.index_source(source("slow", "apple fruit", "car vehicle"))
    assert ranker.calls == ["first#0", "slow#0"]
    assert health(library).owed == 2
    ranker.may_go.set()
    tries = 500
    while sync(library).owed and tries:  # the call that was left behind is just returning
        tries -= 1
    assert set(ranker.holds()) == {"first#0", "slow#0", "slow#1"}
    assert health(library).owed == 0


def test_a_failing_hook_is_logged_by_its_kind_alone(opened: Open, caplog: pytest.LogCaptureFixture) -> None:
    opened(RefusingRanker("*")).index_source(source("s", "apple fruit"))
    (record,) = caplog.records
    assert (record.name, record.levelname, record.exc_info) == ("stackroom.rankers", "WARNING", None)
    assert "ConnectionError" in caplog.text
    assert "secret" not in caplog.text


def test_a_ranker_that_only_forgets_is_told_when_a_tenant_goes(three: Open) -> None:
    honest = HonestRanker()

    class Forgets:
        rank_by_similarity = staticmethod(honest.rank_by_similarity)
        forget_tenant = staticmethod(honest.forget_tenant)

    library = three(Forgets())
    library.remove_tenant("t")
    assert honest.forgotten == ["t"]
