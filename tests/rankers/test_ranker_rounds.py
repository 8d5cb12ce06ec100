"""Rounds of deliveries: whose turn it is, what hooks may do themselves, and that nothing starves behind what fails."""

from __future__ import annotations

import contextvars
import sqlite3
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.library.doubles import in_thread
from tests.rankers.conftest import SCOPE, Open, found, health, rebuild, source, store_of, sync
from tests.rankers.doubles import HandClock, HonestRanker, NeverForgets, RefusingRanker, Vector

from stackroom import Library
from stackroom.rankers import _calls
from stackroom.stores import CollectionSpec
from stackroom.stores.embedded._book import PATTERN, Book
from stackroom.stores.embedded._turns import Hooks, Report, Turn

# Turns


def test_nobody_waits_for_a_call_that_was_given_up() -> None:
    turn = Turn()
    assert turn.take(0)
    turn.begin_calls()
    assert turn.leave()
    turn.give_back()
    assert not in_thread(lambda: turn.take(60))
    assert turn.end_calls()
    turn.give_back()
    assert turn.take(0)


def test_a_turn_lasts_until_both_its_taker_and_its_calls_have_ended() -> None:
    for is_caller_first in (True, False):
        turn = Turn()
        assert turn.take(0)
        turn.begin_calls()
        assert turn.leave()
        if not is_caller_first:
            assert turn.end_calls()
        turn.give_back()
        assert not in_thread(partial(turn.take, 0))
        if is_caller_first:
            assert turn.end_calls()
        turn.give_back()
        assert in_thread(partial(turn.take, 0))


def test_a_late_hook_that_returns_while_the_write_ends_harms_no_other_write(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go, second_is_told, may_end = threading.Event(), threading.Event(), threading.Event()

    class Late(HonestRanker):
        def on_embedding_persisted(self, *, tenant_id: str, passage_id: str, vector: Vector | None) -> None:
            if passage_id == "late#0":
                assert may_go.wait(20)
            if passage_id == "second#0":
                second_is_told.set()
                assert may_end.wait(20)
            super().on_embedding_persisted(tenant_id=tenant_id, passage_id=passage_id, vector=vector)

    library = opened(Late(), ranker_timeout=0.3)
    library.index_source(source("first", "apple fruit"))
    failures: list[BaseException] = []

    def write_second() -> None:
        try:
            library.index_source(source("second", "car vehicle"))
        except BaseException as error:  # noqa: BLE001 - told by the test's own thread
            failures.append(error)

    second = threading.Thread(target=write_second)
    end_turn = Book.end_turn

    def end_slowly(book: Book) -> None:
        end_turn(book)
        if threading.current_thread() is threading.main_thread() and not may_go.is_set():
            may_go.set()
            second.start()
            second_is_told.wait(0.2)

    monkeypatch.setattr(Book, "end_turn", end_slowly)
    library.index_source(source("late", "apple fruit"))
    may_end.set()
    second.join(20)
    assert failures == []
    tries = 500
    while sync(library).owed and tries:
        tries -= 1
    assert health(library).owed == 0


def test_a_system_without_threads_left_costs_no_write_and_no_turn(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    ranker = HonestRanker()
    library = opened(ranker)
    with monkeypatch.context() as patched:
        patched.setattr(_calls.threading.Thread, "start", refuse)  # type: ignore[attr-defined] # its import
        library.index_source(source("a", "apple fruit"))
        assert found(library) == [("a", 1.0)]
        assert health(library).last_error == "RuntimeError"
    assert sync(library).owed == 0
    assert ranker.ids == ["a#0"]


def test_what_is_called_hears_of_a_thread_that_could_not_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    hooks, report = Hooks(object(), 5.0), Report()
    turn = hooks.turn_of("t")
    assert turn.take(0)
    monkeypatch.setattr(_calls.Calls, "_worker", lambda _: (_ for _ in ()).throw(RuntimeError))
    hooks.call(turn, [lambda: None], report)
    assert (report.outcomes, report.is_left) == (["RuntimeError"], False)
    turn.give_back()
    assert turn.take(0)


# What a hook may do itself

WITHIN: dict[str, Callable[[Library], object]] = {
    "indexes": lambda library: library.index_source(source("second", "car vehicle")),
    "replaces itself": lambda library: library.index_source(source("first", "car vehicle")),
    "removes itself": lambda library: library.remove_source("first", tenant_id="t"),
    "re-scopes": lambda library: library.set_source_scope("first", tenant_id="t", tags=["x"]),
    "indexes for another tenant": lambda library: library.index_source(source("second", "car vehicle", tenant="u")),
    "removes its tenant": lambda library: library.remove_tenant("t"),
    "removes another tenant": lambda library: library.remove_tenant("other"),
    "sweeps": lambda library: library.sweep(),
    "searches": found,
    "syncs": sync,
    "rebuilds": rebuild,
    "looks at its health": health,
    "writes from a thread that runs in its context": lambda library: _in_context(
        lambda: library.index_source(source("second", "car vehicle"))
    ),
    "makes a side collection": lambda library: store_of(library).create_collection(
        "library.side", CollectionSpec(3, "new@3")
    ),
}


def _in_context(work: Callable[[], object]) -> None:
    context = contextvars.copy_context()
    in_thread(lambda: context.run(work))


@pytest.mark.parametrize("durable_id", [None, "one"])
@pytest.mark.parametrize("timeout", [60.0, None])
@pytest.mark.parametrize("act", WITHIN.values(), ids=WITHIN)
def test_a_hook_may_use_the_library_and_never_waits_for_itself(
    opened: Open, act: Callable[[Library], object], timeout: float | None, durable_id: str | None
) -> None:
    class Acts(HonestRanker):
        has_acted = False

        def on_embedding_persisted(self, *, tenant_id: str, passage_id: str, vector: Vector | None) -> None:
            super().on_embedding_persisted(tenant_id=tenant_id, passage_id=passage_id, vector=vector)
            if passage_id == "first#0" and not self.has_acted:
                self.has_acted = True
                act(library)

    ranker = Acts(durable_id=durable_id)
    library = opened(ranker, ranker_timeout=timeout)
    library.index_source(source("before", "cart apple", tenant="other"))
    in_thread(lambda: library.index_source(source("first", "apple fruit")))
    assert ranker.has_acted
    assert health(library) == health(library)
    assert (health(library).owed, health(library).last_error) == (0, None)
    for tenant in ("t", "u", "other"):
        scope = type(SCOPE)(tenant, ["g"])
        stored = [
            hit.id for info in library.sources(scope=scope) for hit in library.passages(info.source_id, scope=scope)
        ]
        held = ranker.exact.rank_by_similarity(
            tenant_id=tenant,
            query=np.asarray([1, 0, 0], dtype=np.float32),
            candidate_ids=None,
            limit=9,
        )
        assert sorted(item.id for item in held) == sorted(stored)


def test_a_hook_that_always_writes_ends_and_what_is_left_is_told_later(opened: Open) -> None:
    class Writes(HonestRanker):
        def on_embedding_persisted(self, *, tenant_id: str, passage_id: str, vector: Vector | None) -> None:
            super().on_embedding_persisted(tenant_id=tenant_id, passage_id=passage_id, vector=vector)
            if len(self.told) < 12:
                library.index_source(source(f"s{len(self.told)}", "car vehicle"))

    ranker = Writes()
    library = opened(ranker)
    in_thread(lambda: library.index_source(source("first", "apple fruit")))
    assert 1 < len(ranker.told) < 12
    assert health(library).owed == 1
    for _ in range(4):
        sync(library)
    assert health(library).owed == 0
    assert len(ranker.holds()) == 12 == library.count(scope=SCOPE)


def test_two_hooks_that_write_to_each_others_tenants_do_not_wait_for_each_other(opened: Open) -> None:
    both = threading.Barrier(2)

    class Crosses(HonestRanker):
        def on_embedding_persisted(self, *, tenant_id: str, passage_id: str, vector: Vector | None) -> None:
            super().on_embedding_persisted(tenant_id=tenant_id, passage_id=passage_id, vector=vector)
            if passage_id == "first#0":
                both.wait(20)
                library.index_source(source("second", "car vehicle", tenant="u" if tenant_id == "t" else "t"))
                both.wait(20)

    ranker = Crosses()
    library = opened(ranker, ranker_timeout=60.0)
    threads = [
        threading.Thread(
            target=library.index_source, args=(source("first", "apple fruit", tenant=tenant),), daemon=True
        )
        for tenant in ("t", "u")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
    assert sync(library).owed == 0
    assert set(ranker.holds("t")) == set(ranker.holds("u")) == {"first#0", "second#0"}


# Nothing starves

POISON = [f"poison#{place}" for place in range(8)]


def test_eight_that_always_fail_hold_nothing_up_for_longer_than_the_first_wait(opened: Open, clock: HandClock) -> None:
    ranker = RefusingRanker(*POISON)
    library = opened(ranker)
    library.index_source(source("poison", *["apple fruit"] * 12))
    assert ranker.ids == []
    clock.forward(5)
    library.index_source(source("next", "car vehicle"))
    assert ranker.ids == ["poison#8", "poison#9", "poison#10", "poison#11", "next#0"]
    for number in range(5):
        library.index_source(source(f"s{number}", "car vehicle"))
        assert f"s{number}#0" in ranker.ids
    assert (health(library).owed, health(library).last_error) == (8, "ConnectionError")


def test_retries_alone_pause_nothing(opened: Open, clock: HandClock) -> None:
    names = ("poison", "a", "venom", "b")
    ranker = RefusingRanker(*[f"{name}#{place}" for name in names[::2] for place in range(4)])
    library = opened(ranker)
    for name in names:
        library.index_source(source(name, *["apple fruit"] * (1 if len(name) == 1 else 4)))
    for _ in range(3):
        clock.forward(300)
        library.set_source_scope("a", tenant_id="t", tags=[])
    assert health(library).owed == 8
    library.index_source(source("next", "apple fruit"))
    assert ranker.ids[-1] == "next#0"


def test_eight_that_always_fail_starve_nothing_when_all_else_is_new(opened: Open, clock: HandClock) -> None:
    ranker = RefusingRanker(*POISON)
    library = opened(ranker)
    library.index_source(source("poison", *["apple fruit"] * 8))
    library.index_source(source("waits", "car vehicle"))
    assert ranker.ids == []
    clock.forward(5)
    library.index_source(source("next", "car vehicle"))
    assert ranker.ids == ["waits#0", "next#0"]


def test_a_sync_reaches_what_lies_behind_eight_that_always_fail(opened: Open) -> None:
    ranker = RefusingRanker(*POISON)
    library = opened(ranker)
    library.index_source(source("poison", *["apple fruit"] * 12))
    assert sync(library).owed == 8
    ranker.refused.discard("poison#7")
    assert sync(library).owed == 7


def test_what_failed_once_is_reached_behind_eight_that_always_fail(opened: Open, clock: HandClock) -> None:
    ranker = RefusingRanker(*POISON, "a#0")
    library = opened(ranker)
    library.index_source(source("poison", *["apple fruit"] * 4))
    library.index_source(source("fine", "apple fruit"))
    library.index_source(source("poison", *["apple fruit"] * 8))
    library.index_source(source("fine", "car vehicle"))
    library.index_source(source("a", "car vehicle"))
    ranker.refused.discard("a#0")
    for _ in range(2):
        clock.forward(300)
        library.set_source_scope("fine", tenant_id="t", tags=["x"])
    assert "a#0" in ranker.ids


def test_eight_that_always_fail_are_opened_with_and_others_are_fed(opened: Open) -> None:
    library = opened(RefusingRanker(*POISON, durable_id="one"))
    library.index_source(source("poison", *["apple fruit"] * 8))
    opened().index_source(source("next", "car vehicle"))
    ranker = RefusingRanker(*POISON, durable_id="one")
    library = opened(ranker)
    library.count(scope=SCOPE)
    assert ranker.ids == ["next#0"]
    library.index_source(source("third", "car vehicle"))
    assert ranker.ids == ["next#0", "third#0"]


def test_a_pause_outlives_the_process(opened: Open, tmp_path: Path) -> None:
    library = opened(RefusingRanker("*", durable_id="one"))
    library.index_source(source("s", *["apple fruit"] * 9))
    library.close()
    (book,) = (tmp_path / "library").rglob(PATTERN)
    with sqlite3.connect(book) as connection:
        assert connection.execute("SELECT in_row, failures FROM feed").fetchone() == (8, 8)
    connection.close()


def test_a_book_of_the_first_version_is_brought_up_to_date(opened: Open, tmp_path: Path) -> None:
    library = opened(RefusingRanker("a#0", durable_id="one"))
    library.index_source(source("a", "apple fruit"))
    library.close()
    (book,) = (tmp_path / "library").rglob(PATTERN)
    with sqlite3.connect(book) as connection:
        connection.execute("ALTER TABLE feed DROP COLUMN in_row")
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    ranker = HonestRanker(durable_id="one")
    assert sync(opened(ranker)).owed == 0
    assert ranker.ids == ["a#0"]


# Tenants that are gone


def test_a_departed_tenants_wait_is_its_own(opened: Open, clock: HandClock) -> None:
    ranker = RefusingRanker()
    library = opened(NeverForgets(ranker))
    for tenant in ("u", "v"):
        library.index_source(source(f"of-{tenant}", "apple fruit", tenant=tenant))
    library.index_source(source("s", "apple fruit"))
    ranker.refused.update({"of-u#0", "of-v#0"})
    library.remove_tenant("u")
    clock.forward(5)
    library.set_source_scope("s", tenant_id="t", tags=["x"])  # the second try of u's: the next is in 10 seconds
    library.remove_tenant("v")
    ranker.tried.clear()
    clock.forward(5)
    library.set_source_scope("s", tenant_id="t", tags=["y"])
    assert ranker.tried == ["of-v#0"]
    clock.forward(5)
    library.set_source_scope("s", tenant_id="t", tags=["z"])
    assert ranker.tried == ["of-v#0", "of-u#0"]
    assert health(library).failures == 5
    assert dict(health(library).tenants) == {"u": 1, "v": 1}


def test_another_departed_tenants_success_does_not_shorten_a_wait(opened: Open, clock: HandClock) -> None:
    ranker = RefusingRanker()
    library = opened(NeverForgets(ranker))
    for tenant in ("u", "v"):
        library.index_source(source(f"of-{tenant}", "apple fruit", tenant=tenant))
    library.index_source(source("s", "apple fruit"))
    ranker.refused.add("of-u#0")
    library.remove_tenant("u")
    library.remove_tenant("v")
    ranker.tried.clear()
    library.set_source_scope("s", tenant_id="t", tags=["x"])
    assert ranker.tried == []
    told = health(library)
    assert (told.failures, told.last_error, told.owed_since) == (1, "ConnectionError", clock.now)


def test_of_a_departed_tenant_what_lies_behind_eight_that_always_fail_is_told(opened: Open) -> None:
    ranker = RefusingRanker()
    library = opened(NeverForgets(ranker))
    library.index_source(source("poison", *["apple fruit"] * 8))
    library.index_source(source("well", "apple fruit", "car vehicle"))
    ranker.refused.update(POISON)
    library.remove_tenant("t")
    assert health(library).owed == 10
    assert sync(library).owed == 8
    assert ranker.ids[-2:] == ["-well#0", "-well#1"]


def test_eight_that_fail_of_an_earlier_tenant_do_not_starve_the_one_that_is_back(opened: Open) -> None:
    ranker = RefusingRanker()
    library = opened(NeverForgets(ranker))
    library.index_source(source("poison", *["apple fruit"] * 8))
    ranker.refused.update(POISON)
    library.remove_tenant("t")
    library.index_source(source("new", "car vehicle"))
    assert ranker.ids[-1] == "new#0"
    assert found(library) == [("new", 0.0)]
    assert health(library).owed == 8
    ranker.refused.clear()
    assert sync(library).owed == 0
    assert ranker.holds() == {"new#0": [0.0, 1.0, 0.0]}
