"""A leak test is green on what does not leak, red on what does in any way, and cleans up whatever happens."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.auditing.libraries import HELD, OWN, library_on, stored
from tests.auditing.stores import (
    READS,
    Change,
    CountsAll,
    Fails,
    ForgetsRemovals,
    ForgetsUpdates,
    KeepsOldVersions,
    RefusesDense,
    Rewrites,
    SaysItDroppedNothing,
    compatible,
    composed,
    drops,
    finds_nothing,
    folds,
    takes_beginnings,
    with_wildcards,
    without_words,
)
from tests.library.doubles import DropsConditions, HandClock, RepeatsRows, source

from stackroom import CapabilityError, Library, Note, Scope, ScopeError
from stackroom._check import Check
from stackroom._search import Notes
from stackroom.auditing import DoorReport, LeakReport, leak_test
from stackroom.auditing._canaries import LIFETIME, Names, Planting, lookalikes
from stackroom.auditing._report import problems_of
from stackroom.embedders import HashingEmbedder
from stackroom.filters import Eq
from stackroom.stores import MemoryStore, VectorStore


def test_it_is_green_where_nothing_leaks_and_says_how_much_it_tried(store: VectorStore) -> None:
    report = leak_test(library_on(store), others=[OWN, Scope("u", ["g", "h"])])
    assert report.problems == ()
    assert report.is_green
    assert (report.leak_rate, report.recall, report.leaked, report.dropped, report.leaks) == (0.0, 1.0, 0, 0, ())
    assert report.canaries > 40
    assert report.callers > 20
    assert report.calls > 1000
    assert {(door.door, door.mode) for door in report.doors} >= {
        *(("search", mode) for mode in ("hybrid", "lexical", "dense")),
        *(("search: any_of", mode) for mode in ("hybrid", "lexical", "dense")),
        *((door, None) for door in ("sources", "source", "passages", "count", "count: source_ids")),
    }
    assert all(door.recall == 1.0 and door.leak_rate == 0.0 and door.calls > 20 for door in report.doors)


def test_it_leaves_nothing_behind(store: VectorStore) -> None:
    library = library_on(store)
    leak_test(library)
    assert stored(library) == HELD


def test_it_leaves_no_file_behind(tmp_path: Path) -> None:
    with Library.open(tmp_path / "library", embedder=HashingEmbedder(32)) as library:
        library.index_source(source())
        before = sorted((tmp_path / "library").glob("*/*"))
        leak_test(library)
        assert sorted((tmp_path / "library").glob("*/*")) == before


BROKEN: dict[str, Change] = {
    "no tenants": drops("tenantId"),
    "no groups": drops("aclGroups"),
    "no expiry": drops("stackroom.expiresAt"),
    "tenants in any case": folds("tenantId", str.casefold),
    "tenants in any normal form": folds("tenantId", composed),
    "tenants in any width": folds("tenantId", compatible),
    "tenants trimmed": folds("tenantId", str.strip),
    "tenants as patterns": folds("tenantId", with_wildcards),
    "tenants that begin so": takes_beginnings("tenantId"),
    "groups in any case": folds("aclGroups", str.casefold),
    "groups in any normal form": folds("aclGroups", composed),
    "groups in any width": folds("aclGroups", compatible),
    "groups trimmed": folds("aclGroups", str.strip),
    "groups as patterns": folds("aclGroups", with_wildcards),
    "groups that begin so": takes_beginnings("aclGroups"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_it_is_red_when_a_store_forgets_or_blurs_a_condition(fault: str) -> None:
    report = leak_test(library_on(Rewrites(BROKEN[fault])))
    searches = [door for door in report.doors if door.mode is not None]
    assert {door.mode for door in searches if door.dropped} == {"hybrid", "lexical", "dense"}
    assert sum(door.leaked for door in searches) == 0
    assert any("second lock" in problem for problem in report.problems)
    leaking = {door.door.partition(":")[0] for door in report.doors if door.leaked}
    assert leaking == {"sources", "source", "passages", "count"}
    assert {leak.door.partition(":")[0] for leak in report.leaks} <= leaking


@pytest.mark.parametrize("call", sorted(READS))
def test_one_call_that_forgets_a_condition_is_enough(call: str) -> None:
    report = leak_test(library_on(Rewrites(drops("aclGroups"), {call})))
    assert not report.is_green
    assert (report.leaked == 0) is (report.dropped > 0) is (call in {"dense", "lexical"})


@pytest.mark.parametrize("fault", ["no tenants", "groups trimmed", "no expiry"])
def test_without_the_check_what_a_store_leaks_is_seen(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Check, "kept", lambda _check, found, _where=None: list(found))
    report = leak_test(library_on(Rewrites(BROKEN[fault], {"dense", "lexical"})))
    searches = [door for door in report.doors if door.mode is not None]
    assert {door.mode for door in searches if door.leaked} == {"hybrid", "lexical", "dense"}
    assert report.leak_rate > 0
    assert report.dropped == 0


@pytest.mark.parametrize("broken", [DropsConditions, RepeatsRows])
def test_what_the_check_drops_is_counted(broken: type[MemoryStore]) -> None:
    report = leak_test(library_on(broken()))
    assert report.dropped > 0
    assert report.leaked == 0
    assert not report.is_green


@pytest.mark.parametrize(
    ("broken", "leaks"),
    [
        pytest.param(ForgetsRemovals, True, id="a removal that removes nothing"),
        pytest.param(ForgetsUpdates, True, id="a re-scope that changes nothing"),
        pytest.param(KeepsOldVersions, True, id="a replacement that leaves some of the old"),
        pytest.param(CountsAll, True, id="a count of everything"),
        pytest.param(lambda: Rewrites(drops("tenantId"), {"update"}), False, id="a re-scope of every tenant's"),
        pytest.param(lambda: Rewrites(drops("tenantId"), {"delete"}), False, id="a removal of every tenant's"),
        pytest.param(lambda: Rewrites(folds("tenantId", str.casefold), {"update"}), False, id="of the lookalike's"),
    ],
)
def test_it_is_red_when_a_write_does_too_little_or_too_much(broken: Any, leaks: Any) -> None:
    report = leak_test(library_on(broken()))
    assert not report.is_green
    assert (report.leaked > 0) if leaks else (report.recall < 1.0)


@pytest.mark.parametrize("call", ["dense", "lexical", "scan", "count"])
def test_a_store_that_hides_everything_leaks_nothing_and_is_red(call: str) -> None:
    report = leak_test(library_on(Rewrites(finds_nothing, {call})))
    assert report.leak_rate == 0.0
    assert report.recall < 1.0
    assert any("not found" in problem for problem in report.problems)


def test_a_scope_of_the_library_that_sees_a_canary_is_a_leak() -> None:
    report = leak_test(library_on(Rewrites(drops("tenantId"), {"scan"})), others=[OWN])
    assert "a scope of the library" in {leak.caller for leak in report.leaks} | callers_in(report)
    quiet = leak_test(library_on(Rewrites(folds("tenantId", str.casefold), {"scan"})), others=[OWN])
    assert "a scope of the library" not in callers_in(quiet)


def callers_in(report: LeakReport) -> set[str]:
    return {leak.caller for leak in report.leaks}


def test_a_scope_of_the_library_is_shown_nothing_outside_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Check, "kept", lambda _check, found, _where=None: list(found))
    store = Rewrites(folds("tenantId", lambda name: "t" if name == "u" else name), {"dense", "lexical"})
    report = leak_test(library_on(store), others=[OWN])
    assert callers_in(report) == {"a scope of the library"}
    assert {leak.what for leak in report.leaks} == {"a passage that was not planted"}


def test_an_empty_library_is_never_green_and_nothing_is_planted() -> None:
    library = Library(MemoryStore(), "library", HashingEmbedder(32))
    report = leak_test(library)
    assert not report.is_green
    assert "empty" in report.problems[0]
    assert (report.calls, report.canaries, report.recall) == (0, 0, 0.0)
    assert stored(library) == []


def test_a_library_of_which_nobody_can_see_anything_is_never_green() -> None:
    clock = HandClock()
    library = Library(MemoryStore(), "library", HashingEmbedder(32), clock=clock)
    library.index_source(source(expires_at=clock.now + timedelta(hours=1)))
    assert leak_test(library).is_green
    clock.forward(hours=1)
    report = leak_test(library, others=[OWN])
    assert "nobody can see" in report.problems[0]
    assert report.calls == 0
    assert stored(library) == ["t s#0"]


def test_canaries_that_a_killed_process_left_are_no_content() -> None:
    library = Library(MemoryStore(), "library", HashingEmbedder(32))
    Planting(library, Names.drawn(), datetime.now(UTC)).plant()
    assert "empty" in leak_test(library).problems[0]


@pytest.mark.parametrize("now", [datetime(1999, 1, 1, tzinfo=UTC), datetime(2199, 1, 1, tzinfo=UTC)])
def test_whatever_the_librarys_clock_says_it_is_green_and_canaries_expire_within_an_hour(now: datetime) -> None:
    clock = HandClock()
    clock.now = now
    library = library_on(MemoryStore(), clock=clock)
    assert leak_test(library).is_green
    planting = Planting(library, Names.drawn(), now)
    planting.plant()
    clock.now = now + LIFETIME
    scopes = [Scope(canary.tenant_id, canary.acl_groups) for canary in planting.canaries if canary.acl_groups]
    assert sum(library.count(scope=scope) for scope in scopes) == 0
    assert timedelta(hours=1) >= LIFETIME
    library.sweep()
    assert stored(library) == HELD


@pytest.mark.parametrize("minutes", [5, 0.6])
def test_a_clock_that_moves_an_hour_meanwhile_is_said_to_and_nothing_else_is_blamed(minutes: float) -> None:
    clock = HandClock()

    def moving() -> datetime:
        clock.now += timedelta(minutes=minutes)
        return clock.now

    library = library_on(MemoryStore(), clock=moving)
    report = leak_test(library, others=[OWN])
    assert not report.is_green
    assert "expired while the test ran" in report.problems[0]
    assert not any("not found" in problem for problem in report.problems)
    assert stored(library) == HELD


def test_a_clock_that_jumps_while_somebody_looks_is_said_too() -> None:
    clock, told = HandClock(), 0

    def jumping() -> datetime:
        nonlocal told
        told += 1
        return clock.forward(hours=2) if told == 500 else clock.now

    report = leak_test(library_on(MemoryStore(), clock=jumping))
    assert report.recall < 1.0
    assert report.problems[0].startswith("the canaries expired")
    assert not any("not found" in problem for problem in report.problems)


def test_a_clock_that_goes_back_is_said() -> None:
    clock = HandClock()
    library = library_on(MemoryStore(), clock=clock)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            Planting, "plant", lambda planting, plant=Planting.plant: (plant(planting), clock.forward(days=-1))
        )
        report = leak_test(library)
    assert any("went back" in problem for problem in report.problems)
    assert stored(library) == HELD


@pytest.mark.parametrize(
    "now",
    [
        datetime(9999, 12, 31, 23, 30, tzinfo=UTC),
        datetime(1, 1, 1, 0, 30, tzinfo=UTC),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
    ],
    ids=str,
)
def test_an_impossible_clock_is_refused_before_anything_is_planted(now: datetime) -> None:
    clock = HandClock()
    library = library_on(store := Fails({"replace", "update", "delete"}), clock=clock)
    clock.now, made = now, store.made
    with pytest.raises(ValueError, match="clock"):
        leak_test(library)
    assert store.made == made


def test_sources_that_a_store_takes_for_one_are_said() -> None:
    report = leak_test(library_on(Rewrites(folds("tenantId", str.casefold), {"scan"})))
    assert any("could not be planted" in problem for problem in report.problems)
    assert report.leaked > 0


def test_what_is_no_scope_is_refused_before_anything_is_planted() -> None:
    store = Fails({"replace", "update", "delete"})
    library = library_on(store)
    made = store.made
    with pytest.raises(ScopeError):
        leak_test(library, others=[OWN, "t"])  # type: ignore[list-item] # that is the test
    with pytest.raises(ValueError, match="Library"):
        leak_test(store)  # type: ignore[arg-type] # that is the test
    assert store.made == made


def test_a_store_without_words_is_green_and_its_report_says_what_was_refused() -> None:
    report = leak_test(library_on(without_words()))
    assert report.is_green
    assert {door.mode for door in report.doors if door.is_refused} == {"lexical"}


def test_a_report_names_no_tenant_no_group_and_no_text() -> None:
    store = Rewrites(drops("tenantId"))
    library = library_on(store)
    library.index_source(source("visible", "secret text", tenant_id="realtenant", acl_groups=["realgroup"]))
    said = repr(leak_test(library, others=[Scope("realtenant", ["realgroup"])]))
    for name in ("realtenant", "realgroup", "secret", "canary-", "heron"):
        assert name not in said


@pytest.mark.parametrize(
    ("note", "number"),
    [
        (Notes.dropped(12), 12),
        (Note("dropped_by_check", "a store's own words"), 1),
        (Note("scan_limit", "3 were left"), 0),
    ],
)
def test_the_number_dropped_is_read_from_the_note_that_tells_it(note: Note, number: int) -> None:
    assert Notes.dropped_in(note) == number


DOOR = DoorReport("search", "dense", 5, 4, 4, 4, 0, 0, is_refused=False)


@pytest.mark.parametrize(
    ("doors", "problem"),
    [
        ((), "nothing was checked"),
        ((DoorReport("search", "dense", 0, 0, 0, 0, 0, 0, is_refused=False), DOOR), "not checked: search (dense)"),
        ((DoorReport("search", "dense", 0, 0, 0, 0, 0, 0, is_refused=True),), "nothing was checked"),
        ((DoorReport("count", None, 5, 0, 0, 0, 0, 0, is_refused=False), DOOR), "nothing found says nothing: count"),
        ((DoorReport("count", None, 5, 4, 3, 3, 0, 0, is_refused=False),), "1 that callers may see were not found"),
        ((DoorReport("count", None, 5, 4, 4, 5, 1, 0, is_refused=False),), "1 passages or sources leaked"),
        ((DOOR, DoorReport("search", "lexical", 1, 4, 4, 6, 2, 0, is_refused=True)), "2 passages or sources leaked"),
        ((DoorReport("count", None, 5, 4, 4, 4, 0, 2, is_refused=False),), "dropped 2 hits"),
    ],
)
def test_what_makes_a_report_red(doors: tuple[DoorReport, ...], problem: str) -> None:
    assert any(problem in said for said in problems_of(doors))


def test_a_sound_door_is_no_problem() -> None:
    assert problems_of((DOOR,)) == []


def test_lookalikes_are_all_different_and_none_is_a_pattern_for_anothers_names() -> None:
    one, other = Names.drawn(), Names.drawn()
    assert len(set(one.tenants.values())) == len(set(one.groups.values())) == len(lookalikes("a")) == 7
    assert not set(one.tenants.values()) & set(other.tenants.values())
    assert not {"%", "*", "?"} & set("".join([*one.tenants.values(), *one.groups.values()]))


def test_it_needs_neither_pytest_nor_the_command_line() -> None:
    code = "import sys, stackroom.auditing; print(*{'pytest', 'hypothesis', 'cyclopts', 'rich'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == ""


def test_a_removed_canary_is_gone_from_the_store_at_once() -> None:
    library = library_on(MemoryStore())
    names = Names.drawn()
    Planting(library, names, datetime.now(UTC)).plant()
    removed = f"{names.source_ids['as it is']} removed"
    held = library._store.scan("library", where=Eq("sourceId", removed), limit=10)  # noqa: SLF001 - beyond any scope
    assert {record.tenant_id for record in held} == {names.tenants["in upper case"]}


def test_a_stores_own_notes_hide_nothing() -> None:
    report = leak_test(library_on(SaysItDroppedNothing()))
    assert report.dropped == leak_test(library_on(DropsConditions())).dropped > 100


def test_a_note_of_what_was_dropped_counts_whatever_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Notes, "dropped", lambda _number: Note("dropped_by_check", "0 hits were dropped"))
    assert leak_test(library_on(DropsConditions())).dropped > 0


def test_a_store_that_refuses_what_it_declares_is_an_error() -> None:
    with pytest.raises(CapabilityError):
        leak_test(library_on(RefusesDense()))
