"""What outlives the process, whole tenants, re-embedding, threads, and what an operator sees."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.library.doubles import in_thread
from tests.rankers.conftest import OWN, SCOPE, Open, codes, found, health, rebuild, source, store_of, sync
from tests.rankers.doubles import HonestRanker, NeverForgets, RefusingRanker, Vector

from stackroom import Conflict, Library, Source, StoreError
from stackroom.filters import Eq
from stackroom.rankers import RankerHealth
from stackroom.stores import CollectionSpec, Record
from stackroom.stores.embedded import _writes
from stackroom.stores.embedded._book import file_name

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


def test_what_is_owed_of_an_earlier_tenant_never_takes_away_what_came_anew(three: Open) -> None:
    class KeepsAll(HonestRanker):
        is_stubborn = True

        def on_embedding_persisted(self, *, tenant_id: str, passage_id: str, vector: Vector | None) -> None:
            if vector is None and self.is_stubborn:
                raise ConnectionError
            super().on_embedding_persisted(tenant_id=tenant_id, passage_id=passage_id, vector=vector)

    ranker = KeepsAll()
    library = three(NeverForgets(ranker))
    library.remove_tenant("t")
    library.index_source(source("a", "car vehicle"))
    ranker.is_stubborn = False
    assert sync(library).owed == 0
    assert ranker.holds() == {"a#0": [0.0, 1.0, 0.0]}


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


# What an operator sees


def test_the_doctor_tells_what_is_owed(three: Open, opened: Open) -> None:
    library = three(RefusingRanker("a#0", "b#0", durable_id="one"))
    library.index_source(source("gone", "apple fruit", tenant="u"))
    library.remove_tenant("u")
    found = store_of(opened()).problems()
    assert [(problem.place, problem.what.split(" are owed")[0]) for problem in found] == [("1/t", "2 passages")]
    library = opened(NeverForgets(RefusingRanker("*", durable_id="one")))
    library.remove_tenant("t")
    places = {problem.place: problem.what for problem in store_of(opened()).problems()}
    assert places["ledger.db"].startswith("3 passages of removed tenants")


def owing_for_ever(three: Open) -> Library:
    """Leave passages owed to a ranker "lost" in a shard and in the ledger; open the library without it."""
    library = three(NeverForgets(RefusingRanker("*", durable_id="lost")))
    library.index_source(source("gone", "apple fruit", "car vehicle", tenant="u"))
    library.remove_tenant("u")
    return three()


def test_the_doctor_names_each_ranker_that_is_owed_something(three: Open) -> None:
    library = owing_for_ever(three)
    book = file_name("lost")
    told = {problem.place: problem.what for problem in store_of(library).problems()}
    assert told["ledger.db"].startswith(f"2 passages of removed tenants are owed to a vector ranker ({book})")
    assert told["1/t"].startswith(f"3 passages are owed to a vector ranker ({book})")
    assert all("forget_ranker" in what for what in told.values())


@pytest.mark.parametrize("name", ["lost", file_name("lost")])
def test_a_ranker_that_never_comes_back_can_be_forgotten(three: Open, opened: Open, name: str, tmp_path: Path) -> None:
    store = store_of(owing_for_ever(three))
    assert store.forget_ranker("another") == 0
    assert len(store.problems()) == 2
    assert store.forget_ranker(name) == 2
    assert store.problems() == []
    assert store.forget_ranker(name) == 0
    assert [*(tmp_path / "library").rglob("ranker-*")] == []
    ranker = HonestRanker(durable_id="lost")
    assert sync(opened(ranker)).owed == 0
    assert sorted(ranker.ids) == ["a#0", "b#0", "c#0"]


def test_the_ranker_that_is_plugged_in_is_not_forgotten(three: Open) -> None:
    store = store_of(three(RefusingRanker("*", durable_id="one")))
    for name in ("one", file_name("one")):
        with pytest.raises(StoreError, match="plugged in"):
            store.forget_ranker(name)
    assert store.ranker_health().owed == 3
    assert store_of(three()).forget_ranker("one") == 0


@pytest.mark.parametrize("name", ["", None, 7])
def test_a_ranker_is_forgotten_by_name(three: Open, name: Any) -> None:
    with pytest.raises(ValueError, match="durable_id"):
        store_of(three()).forget_ranker(name)


def test_a_name_that_is_a_path_forgets_no_file(three: Open, tmp_path: Path) -> None:
    store = store_of(three())
    (tmp_path / "library" / "1" / "t" / "ranker-").mkdir()
    (tmp_path / "ranker-x.db").write_text("not ours")
    assert store.forget_ranker("ranker-/../../../../ranker-x.db") == 0
    assert (tmp_path / "ranker-x.db").exists()


def test_a_swap_that_conflicts_leaves_the_ranker_as_it_was(three: Open) -> None:
    ranker = HonestRanker(durable_id="one")
    library = three(ranker)
    store = store_of(library)
    store.create_collection("library.side", CollectionSpec(3, "new@3"))
    with pytest.raises(Conflict):
        store.swap("library", "library.side", expect=frozenset())
    ranker.forgotten.clear()
    ranker.told.clear()
    assert sync(library).owed == 0
    assert (ranker.forgotten, ranker.told) == ([], [])


def test_a_search_of_the_side_never_asks_the_ranker(three: Open, embedder: Any) -> None:
    ranker = HonestRanker()
    library = three(ranker)
    store = store_of(library)
    store.create_collection("library.side", store.collection("library"))  # type: ignore[arg-type] # it is there
    side = Library(store, "library.side", embedder)
    side.index_source(source("new", "apple fruit"))
    assert found(side) == [("new", 1.0)]
    assert ranker.asked == []


def test_a_dropped_collection_makes_room_for_another(three: Open) -> None:
    store = store_of(three(HonestRanker()))
    store.drop_collection("library")
    store.create_collection("another", CollectionSpec(3, "m@3"))
    assert store.collection("another") is not None


def test_a_durable_state_hears_of_a_swap_by_a_process_without_the_ranker(three: Open, opened: Open) -> None:
    three(NeverForgets(HonestRanker(durable_id="one")))
    store = store_of(opened())
    store.create_collection("library.side", CollectionSpec(3, "recording@3"))
    store.swap("library", "library.side")
    ranker = HonestRanker(durable_id="one")
    library = opened(NeverForgets(ranker))
    assert sync(library).owed == 0
    assert sorted(ranker.ids) == ["-a#0", "-b#0", "-c#0"]
