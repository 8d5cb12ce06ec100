"""What a ranker is told, when, and what becomes of what it did not take."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from tests.library.doubles import in_thread
from tests.rankers.conftest import OWN, SCOPE, THREE, Open, codes, found, source, store_of
from tests.rankers.doubles import VECTORS, HandClock, HonestRanker, NeverForgets, RefusingRanker, Vector

from stackroom import EmbedderError, Library, Source
from stackroom.filters import Eq
from stackroom.rankers import RankerHealth
from stackroom.stores import CollectionSpec, Record
from stackroom.stores.embedded import _writes


def health(library: Library) -> RankerHealth:
    return store_of(library).ranker_health()


def sync(library: Library, **options: Any) -> RankerHealth:
    return store_of(library).sync_ranker(**options)


def rebuild(library: Library, **options: Any) -> RankerHealth:
    return store_of(library).rebuild_ranker(**options)


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

    def __init__(self) -> None:
        super().__init__()
        self.may_go = threading.Event()
        self.has_gone = threading.Event()
        self.calls: list[str] = []

    def on_embedding_persisted(self, *, tenant_id: str, passage_id: str, vector: Vector | None) -> None:
        self.calls.append(passage_id)
        if passage_id == "slow#0" and not self.may_go.is_set():
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


# Plugged in later, and what outlives the process


def test_plugged_in_later_it_is_told_all(opened: Open) -> None:
    library = opened()
    for number in range(5):
        library.index_source(source(f"s{number}", "apple fruit"))
    ranker = HonestRanker()
    library = opened(ranker)
    assert health(library).owed == 5
    assert sync(library).owed == 0
    assert sorted(ranker.ids) == [f"s{number}#0" for number in range(5)]
    assert ranker.forgotten == ["t"]


def test_plugged_in_later_it_is_fed_when_a_tenant_is_first_opened(three: Open, opened: Open) -> None:
    three()
    ranker = HonestRanker()
    library = opened(ranker)
    assert found(library) == OWN
    assert len(ranker.ids) == 3
    assert len(ranker.asked) == 1


def test_a_ranker_in_memory_is_fed_anew_in_each_process(three: Open, opened: Open) -> None:
    ranker = HonestRanker()
    three(ranker)
    ranker.told.clear()
    library = opened(ranker)
    assert found(library) == OWN
    assert sorted(ranker.ids) == ["a#0", "b#0", "c#0"]


def test_a_durable_state_hears_only_what_came_after(three: Open, opened: Open) -> None:
    three(HonestRanker(durable_id="one"))
    library = opened()
    library.index_source(source("a", "cart apple"))
    library.remove_source("b", tenant_id="t")
    ranker = HonestRanker(durable_id="one")
    library = opened(ranker)
    assert health(library).owed == 2
    library.count(scope=SCOPE)
    assert sorted(ranker.ids) == ["-b#0", "a#0"]
    assert ranker.forgotten == []


def test_an_unknown_state_is_fed_in_full(three: Open, opened: Open) -> None:
    three(HonestRanker(durable_id="one"))
    ranker = HonestRanker(durable_id="two")
    library = opened(ranker)
    library.count(scope=SCOPE)
    assert sorted(ranker.ids) == ["a#0", "b#0", "c#0"]
    assert ranker.forgotten == ["t"]


def test_what_a_durable_state_is_owed_survives_the_process_and_is_retried_on_opening(three: Open, opened: Open) -> None:
    three(RefusingRanker("a#0", durable_id="one"))
    ranker = HonestRanker(durable_id="one")
    library = opened(ranker)
    assert health(library).owed == 1
    library.count(scope=SCOPE)
    assert ranker.ids == ["a#0"]


def test_a_source_that_came_and_went_unheard_leaves_nothing_owed(three: Open, opened: Open) -> None:
    three(HonestRanker(durable_id="one"))
    library = opened()
    library.index_source(source("x", "apple fruit"))
    library.remove_source("x", tenant_id="t")
    ranker = HonestRanker(durable_id="one")
    library = opened(ranker)
    assert sync(library).owed == 0
    assert ranker.told == []


def test_when_the_journal_no_longer_reaches_back_only_differences_are_told(
    three: Open, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    three(HonestRanker(durable_id="one"))
    monkeypatch.setattr(_writes, "JOURNAL_LENGTH", 3)
    library = opened()
    library.remove_source("b", tenant_id="t")
    for number in range(10):
        library.index_source(source("new", f"text {number}"))
    ranker = HonestRanker(durable_id="one")
    library = opened(ranker)
    assert sync(library).owed == 0
    assert sorted(ranker.ids) == ["-b#0", "new#0"]


# Whole tenants


def test_removing_a_tenant_forgets_it(three: Open) -> None:
    ranker = HonestRanker()
    library = three(ranker)
    ranker.forgotten.clear()
    library.remove_tenant("t")
    assert ranker.forgotten == ["t"]
    assert health(library).owed == 0


def test_removing_a_tenant_tells_each_passage_where_it_cannot_be_forgotten(three: Open) -> None:
    ranker = HonestRanker()
    library = three(NeverForgets(ranker))
    ranker.told.clear()
    library.remove_tenant("t")
    assert sorted(ranker.ids) == ["-a#0", "-b#0", "-c#0"]
    assert health(library).owed == 0


@pytest.mark.parametrize("durable_id", [None, "one"])
def test_what_fails_of_a_removed_tenant_is_owed_and_delivered_by_sync(three: Open, durable_id: str | None) -> None:
    ranker = RefusingRanker(durable_id=durable_id)
    library = three(NeverForgets(ranker))
    ranker.refused.add("b#0")
    library.remove_tenant("t")
    told = health(library)
    assert (told.owed, dict(told.tenants), told.last_error) == (1, {"t": 1}, "ConnectionError")
    ranker.refused.clear()
    assert sync(library).owed == 0
    assert ranker.holds() == {}


def test_the_ledger_of_a_durable_state_survives_the_process(three: Open, opened: Open) -> None:
    ranker = RefusingRanker(durable_id="one")
    library = three(NeverForgets(ranker))
    ranker.refused.add("*")
    library.remove_tenant("t")
    assert health(library).owed == 3
    again = HonestRanker(durable_id="one")
    library = opened(NeverForgets(again))
    assert health(library).owed == 3
    assert sync(library).owed == 0
    assert sorted(again.ids) == ["-a#0", "-b#0", "-c#0"]


def test_a_tenant_removed_without_the_ranker_is_told_when_it_is_plugged_in_again(three: Open, opened: Open) -> None:
    three(HonestRanker(durable_id="one"))
    opened().remove_tenant("t")
    ranker = HonestRanker(durable_id="one")
    library = opened(ranker)
    assert health(library).owed == 3
    assert sync(library).owed == 0
    assert ranker.forgotten == ["t"]


def test_until_a_due_forgetting_has_succeeded_nothing_else_of_the_tenant_is_told(three: Open) -> None:
    class Keeps(HonestRanker):
        is_down = False

        def forget_tenant(self, *, tenant_id: str) -> None:
            if self.is_down:
                raise ConnectionError
            super().forget_tenant(tenant_id=tenant_id)

    ranker = Keeps()
    library = three(ranker)
    ranker.is_down = True
    library.remove_tenant("t")
    ranker.told.clear()
    library.index_source(source("new", "apple fruit"))
    assert ranker.told == []
    assert codes(library) == ["ranker_behind"]
    assert found(library) == [("new", 1.0)]
    ranker.is_down = False
    assert sync(library).owed == 0
    assert ranker.ids == ["new#0"]
    assert ranker.forgotten[-1] == "t"


def test_a_tenant_that_comes_again_keeps_what_is_new(three: Open) -> None:
    ranker = RefusingRanker()
    library = three(NeverForgets(ranker))
    ranker.refused.add("*")
    library.remove_tenant("t")
    ranker.refused.clear()
    library.index_source(source("a", "car vehicle"))
    sync(library)
    assert ranker.holds() == {"a#0": [0.0, 1.0, 0.0]}
    assert health(library).owed == 0


def test_rebuild_forgets_and_feeds_every_passage_again(three: Open) -> None:
    ranker = HonestRanker()
    library = three(ranker)
    library.index_source(source("a", "apple fruit", tenant="u"))
    ranker.told.clear()
    ranker.forgotten.clear()
    assert rebuild(library, tenant_id="t").owed == 0
    assert (ranker.forgotten, sorted(ranker.ids)) == (["t"], ["a#0", "b#0", "c#0"])
    rebuild(library)
    assert sorted(ranker.forgotten) == ["t", "t", "u"]
    assert len(ranker.ids) == 3 + 4


@pytest.mark.parametrize("work", [sync, rebuild])
def test_sync_and_rebuild_raise_nothing_for_a_failing_ranker(
    three: Open, work: Callable[[Library], RankerHealth]
) -> None:
    ranker = RefusingRanker()
    library = three(ranker)
    library.index_source(source("d", "apple fruit"))
    ranker.refused.add("*")
    library.index_source(source("a", "car vehicle"))
    assert work(library).owed >= 1


def test_health_counts_each_tenant(opened: Open) -> None:
    library = opened(RefusingRanker("*"))
    for tenant, number in (("t", 1), ("u", 2), ("v", 0)):
        library.index_source(source("s", *["apple fruit"] * number, tenant=tenant))
    told = health(library)
    assert (told.owed, dict(told.tenants)) == (3, {"t": 1, "u": 2})


# Re-embedding


def test_the_side_of_a_re_embedding_is_heard_of_only_after_the_switch(three: Open) -> None:
    ranker = HonestRanker()
    library = three(ranker)
    ranker.told.clear()
    ranker.forgotten.clear()
    store = store_of(library)
    store.create_collection("library.side", CollectionSpec(3, "new@3"))
    metadata: dict[str, Any] = {
        "tenantId": "t",
        "sourceId": "a",
        "index": 0,
        "aclGroups": ["g"],
        "status": "active",
        "kind": "doc",
    }
    store.replace("library.side", [Record("x", [0, 0, 1], metadata)], where=Eq("tenantId", "t"))
    assert (ranker.told, ranker.forgotten) == ([], [])
    store.swap("library", "library.side")
    assert sync(library).owed == 0
    assert set(ranker.forgotten) == {"t"}
    assert ranker.ids == ["a#0"]
    assert ranker.holds() == {"a#0": [0.0, 0.0, 1.0]}


def test_a_tenant_that_a_re_embedding_left_behind_is_forgotten(three: Open) -> None:
    ranker = HonestRanker()
    library = three(NeverForgets(ranker))
    ranker.told.clear()
    store = store_of(library)
    store.create_collection("library.side", CollectionSpec(3, "new@3"))
    store.swap("library", "library.side")
    assert sorted(ranker.ids) == ["-a#0", "-b#0", "-c#0"]


def test_dropping_the_collection_forgets_its_tenants(three: Open) -> None:
    ranker = HonestRanker()
    library = three(ranker)
    ranker.forgotten.clear()
    store_of(library).drop_collection("library")
    assert ranker.forgotten == ["t"]


# Threads


def test_eight_threads_writing_leave_the_ranker_with_what_is_stored(opened: Open) -> None:
    ranker = HonestRanker()
    library = opened(ranker)

    def write(thread: int) -> None:
        for step in range(12):
            library.index_source(source(f"s{thread}", *["apple fruit", "car vehicle"][: 1 + step % 2]))
            found(library)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert health(library).owed == 0
    assert len(ranker.holds()) == 16 == library.count(scope=SCOPE)


def test_an_idle_shard_that_is_closed_forgets_nothing_of_its_feed(opened: Open) -> None:
    ranker = RefusingRanker("s#0")
    library = opened(ranker, max_open_shards=1)
    for number in range(4):
        library.index_source(Source("s", "doc", f"t{number}", ["g"], ["apple fruit"]))
    assert health(library).owed == 4
    ranker.refused.clear()
    assert sync(library).owed == 0
    assert in_thread(lambda: health(library).owed) == 0
