"""A leak test is green on what does not leak, red on what does in any way, and cleans up whatever happens."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.auditing.stores import (
    READS,
    BlursTenantRemovals,
    Change,
    CountsAll,
    Fails,
    ForgetsRemovals,
    ForgetsUpdates,
    KeepsOldVersions,
    Rewrites,
    TakesMore,
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

from stackroom import Library, Note, Scope, ScopeError, StoreUnavailable
from stackroom._check import Check
from stackroom._search import Notes
from stackroom.auditing import DoorReport, LeakReport, _leak_test, leak_test
from stackroom.auditing._canaries import LIFETIME, Names, Planting, lookalikes
from stackroom.auditing._removals import Witnesses, _Seen, clean_up
from stackroom.auditing._report import problems_of
from stackroom.embedders import HashingEmbedder
from stackroom.filters import Eq, Exists, Filter
from stackroom.stores import CollectionSpec, Cursor, EmbeddedStore, MemoryStore, VectorStore

OWN = Scope("t", ["g"])


def library_on(store: VectorStore, **options: Any) -> Library:
    """Return a library in use: two tenants, of which one has passages in a folder and a word of every canary."""
    library = Library(store, "library", HashingEmbedder(32), **options)
    library.index_source(source("s", "a heron in the tower", "more text", folder_id="f"))
    library.index_source(source("r", "a lantern", tenant_id="u"))
    if isinstance(store, Rewrites):
        store.is_broken = True
    return library


def stored(library: Library) -> list[str]:
    """Return all that a store really holds, by tenant and id."""
    records = library._store.scan("library", where=Exists("tenantId"), limit=1000)  # noqa: SLF001 - beyond any scope
    return [f"{record.tenant_id} {record.id}" for record in records]


HELD = ["t s#0", "t s#1", "u r#0"]


@pytest.fixture(params=["memory", "embedded"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[VectorStore]:
    made: VectorStore = MemoryStore() if request.param == "memory" else EmbeddedStore(tmp_path / "store")
    yield made
    made.close()


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
    library = library_on(store := Fails(WRITES), clock=clock)
    clock.now, made = now, store.made
    with pytest.raises(ValueError, match="clock"):
        leak_test(library)
    assert store.made == made


KILLED = """
import os, signal, sys
from stackroom import Library
from stackroom.auditing import _doors, leak_test
from stackroom.embedders import HashingEmbedder

_doors.Audit.try_all = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
leak_test(Library.open(sys.argv[1], embedder=HashingEmbedder(32)))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_what_a_killed_process_leaves_is_gone_an_hour_later(tmp_path: Path) -> None:
    path = tmp_path / "library"
    with Library.open(path, embedder=HashingEmbedder(32)) as library:
        library.index_source(source("s", "a heron"))
    ran = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert ran.returncode == -9
    later = HandClock()
    later.now = datetime.now(UTC) + timedelta(hours=1)
    with Library.open(path, embedder=HashingEmbedder(32), clock=later) as library:
        assert len(stored(library)) > 40
        library.sweep()
        assert stored(library) == ["t s#0"]


WRITES = frozenset({"replace", "update", "delete"})


def calls_before_the_clean_up(store: Fails, library: Library) -> int:
    """Return how many calls a leak test makes until it removes what it planted."""
    begin, made = store.made, 0

    def noted(*given: Any) -> list[str]:
        nonlocal made
        made = store.made - begin
        return clean_up(*given)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_leak_test, "clean_up", noted)
        leak_test(library)
    return made


@pytest.mark.parametrize("error", [StoreUnavailable("away"), KeyboardInterrupt(), ZeroDivisionError()], ids=repr)
@pytest.mark.parametrize(("calls", "step"), [(WRITES, 3), (READS, 307)], ids=["writes", "reads"])
def test_whatever_fails_at_whatever_step_it_cleans_up(error: BaseException, calls: frozenset[str], step: int) -> None:
    store = Fails(calls)
    library = library_on(store)
    made = calls_before_the_clean_up(store, library)
    store.error = error
    for number in range(1, made, step):
        store.fails_at = {store.made + number}
        with pytest.raises(type(error)):
            leak_test(library)
        store.fails_at = frozenset()
        assert stored(library) == HELD, f"call {number} of {made}"


@pytest.mark.parametrize("error", [StoreUnavailable("away"), KeyboardInterrupt()], ids=repr)
def test_what_interrupts_the_removal_does_not_end_it(error: BaseException) -> None:
    store = Fails({"delete"})
    library = library_on(store)
    leak_test(library)
    removals = store.made
    store.error = error
    for number in (removals - 6, removals):
        store.fails_at = {store.made + number}
        if isinstance(error, KeyboardInterrupt):
            with pytest.raises(KeyboardInterrupt):
                leak_test(library)
        else:
            assert leak_test(library).is_green
        assert stored(library) == HELD


def test_what_could_not_be_removed_is_reported() -> None:
    store = Fails({"delete"})
    library = library_on(store)
    first = calls_before_the_clean_up(store, library) + 1
    store.error, store.fails_at = StoreUnavailable("away"), set(range(store.made + first, 10_000))
    report = leak_test(library)
    assert (report.leak_rate, report.recall, report.is_green) == (0.0, 1.0, False)
    assert any("could not be removed (StoreUnavailable)" in problem for problem in report.problems)
    assert any("canaries are left" in problem for problem in report.problems)


def test_what_could_not_be_removed_after_an_error_is_said_with_it() -> None:
    store = Fails({"delete"})
    library = library_on(store)
    last = calls_before_the_clean_up(store, library)
    store.error, store.fails_at = StoreUnavailable("away"), set(range(store.made + last, 10_000))
    with pytest.raises(StoreUnavailable) as caught:
        leak_test(library)
    assert any("canaries are left" in note for note in caught.value.__notes__)


def test_sources_that_a_store_takes_for_one_are_said() -> None:
    report = leak_test(library_on(Rewrites(folds("tenantId", str.casefold), {"scan"})))
    assert any("could not be planted" in problem for problem in report.problems)
    assert report.leaked > 0


def test_a_tenant_that_a_store_mixes_with_others_is_not_removed() -> None:
    library = library_on(Rewrites(drops("tenantId"), {"scan"}))
    report = leak_test(library)
    assert any("was not removed" in problem for problem in report.problems)
    assert set(HELD) <= set(stored(library))


REACHES_TOO_FAR: dict[str, Change] = {
    "all": lambda _store, _where: Exists("tenantId"),
    "any case": folds("tenantId", str.casefold),
    "any normal form": folds("tenantId", composed),
    "any width": folds("tenantId", compatible),
    "trimmed": folds("tenantId", str.strip),
    "patterns": folds("tenantId", with_wildcards),
    "beginnings": takes_beginnings("tenantId"),
}


@pytest.mark.parametrize("change", REACHES_TOO_FAR.values(), ids=REACHES_TOO_FAR)
@pytest.mark.parametrize("broken", [BlursTenantRemovals, lambda change: Rewrites(change, {"delete"})])
def test_a_removal_that_reaches_too_far_is_red_and_cannot_reach_the_library(broken: Any, change: Change) -> None:
    library = library_on(broken(change))
    report = leak_test(library)
    assert not report.is_green
    assert ["throw-away collection" in problem for problem in report.problems] == [True]
    assert stored(library) == HELD
    assert list(library._store._collections) == ["library"]  # type: ignore[attr-defined] # noqa: SLF001 - what is left


def test_a_rehearsal_leaves_no_collection(store: VectorStore, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    create = type(store).create_collection

    def create_collection(self: VectorStore, name: str, spec: CollectionSpec) -> None:
        made.append(name)
        create(self, name, spec)

    library = library_on(store)
    monkeypatch.setattr(type(store), "create_collection", create_collection)
    leak_test(library)
    (name,) = made
    assert name.startswith("leak-test-")
    assert store.collection(name) is None


@pytest.mark.parametrize(("of_tenants", "begin"), [(False, 1), (True, 1), (True, 3)])
def test_at_the_first_of_the_librarys_own_that_goes_it_stops(of_tenants: Any, begin: int) -> None:
    library = library_on(TakesMore(of_tenants=of_tenants, begin=begin))
    report = leak_test(library)
    assert any("1 passages of the library's own went" in problem for problem in report.problems)
    assert any("canaries are left" in problem for problem in report.problems) is of_tenants
    assert sum(line in HELD for line in stored(library)) == len(HELD) - 1


def test_an_error_beside_the_loss_does_not_hide_it() -> None:
    class TakesAndFails(TakesMore):
        def delete(self, name: str, *, where: Filter) -> int:
            super().delete(name, where=where)
            if name == "library":
                raise StoreUnavailable("away")
            return 1

    library = library_on(TakesAndFails(of_tenants=False))
    assert any("the library's own went" in problem for problem in leak_test(library).problems)
    assert sum(line in HELD for line in stored(library)) == len(HELD) - 1


def test_a_tenants_removal_that_takes_other_canaries_in_the_library_alone_is_red() -> None:
    library = library_on(BlursTenantRemovals(takes_beginnings("tenantId"), "library"))
    report = leak_test(library)
    assert any("not found" in problem for problem in report.problems)
    assert report.leaked == 0
    assert stored(library) == HELD


def test_a_concurrent_writer_is_no_loss() -> None:
    seen = Witnesses.called(library := library_on(MemoryStore()), [OWN])
    with seen.watching():
        library.index_source(source("a", "another"))
    assert seen.tenant_ids == ("t", "u")


@pytest.mark.parametrize(("later", "lost"), [("abc", 0), ("bc", 1), ("Aabc", 0), ("c", 2), ("", 3)])
def test_what_a_full_page_has_no_room_for_any_more_is_not_lost(later: str, lost: int) -> None:
    def seen(names: str, end: str | None = None) -> _Seen:
        places = frozenset(Cursor("t", name, 0) for name in names)
        return _Seen(places, None if end is None else Cursor("t", end, 0))

    assert seen("abc", "c").lost_in(seen(later)) == lost
    assert seen("abc", "c").lost_in(seen("Aab", "b")) == 0
    assert seen("abc", "c").lost_in(seen("Ab", "b")) == 1


def test_what_is_no_scope_is_refused_before_anything_is_planted() -> None:
    store = Fails(WRITES)
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
