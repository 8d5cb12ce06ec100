"""A leak test removes all that it planted and nothing else, whatever happens."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.auditing.libraries import HELD, OWN, library_on, stored
from tests.auditing.stores import (
    READS,
    BlursTenantRemovals,
    Change,
    Fails,
    ForgetsTenantRemovals,
    Rewrites,
    TakesMore,
    compatible,
    composed,
    drops,
    folds,
    takes_beginnings,
    with_wildcards,
)
from tests.library.doubles import HandClock, source

from stackroom import Library, StoreUnavailable
from stackroom.auditing import _leak_test, leak_test
from stackroom.auditing._removals import Witnesses, _Seen, clean_up
from stackroom.embedders import HashingEmbedder
from stackroom.filters import Exists, Filter
from stackroom.stores import CollectionSpec, Cursor, MemoryStore, VectorStore

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
@pytest.mark.parametrize(("calls", "step"), [(WRITES, 3), (READS, 701)], ids=["writes", "reads"])
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


def test_sources_are_removed_by_their_ids_so_that_no_tenants_removal_is_needed() -> None:
    library = library_on(ForgetsTenantRemovals())
    assert leak_test(library).leaked > 0
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
