"""A leak test looks at the library's own passages, too: what its scopes are shown is what an operator sees they may."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.auditing.libraries import OWN, library_on
from tests.auditing.stores import LosesGroups, Rewrites, finds_nothing, is_of_many, names
from tests.library.doubles import HandClock, source

from stackroom import Library, Scope
from stackroom.auditing import LeakReport, _leak_test, _own, leak_test
from stackroom.auditing._doors import Audit, Caller, callers_of
from stackroom.auditing._own import try_own
from stackroom.filters import Filter
from stackroom.stores import MemoryStore, VectorStore

OWN_CALLERS = {"a scope of the library", "a tenant of the library, a wrong group"}


def with_more(store: VectorStore) -> Library:
    """Return a library of which the scope of the tests sees three sources of 109."""
    library = library_on(store)
    library.index_source(source("mine", "a lantern", tags=["q3"], kind="plan", tier="hot", folder_id="g"))
    for number in range(105):
        library.index_source(source(f"b{number}", f"secret {number}", acl_groups=["board"]))
    secret = source(
        "z", "a secret", "another", acl_groups=["board"], tags=["q4"], kind="memo", tier="cold", folder_id="h"
    )
    library.index_source(secret)
    return library


@pytest.fixture
def only_own_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the throw-away tenants' callers at home, for they take most of the time."""

    def own(*given: Any) -> list[Caller]:
        return [caller for caller in callers_of(*given) if caller.is_of_library]

    monkeypatch.setattr(_leak_test, "callers_of", own)


def own_leaks(report: LeakReport) -> set[str]:
    return {leak.door for leak in report.leaks if leak.caller in OWN_CALLERS}


def test_what_a_scope_may_see_is_green_and_all_of_it_is_found(store: VectorStore) -> None:
    alone, report = leak_test(with_more(store)), leak_test(with_more(store), others=[OWN, Scope("t", ["board", "g"])])
    assert report.problems == ()
    assert report.recall == 1.0
    expected = [{(door.door, door.mode): door.expected for door in one.doors} for one in (alone, report)]
    more = {place: number - expected[0][place] for place, number in expected[1].items()}
    assert more["sources", None] == 2 + 108
    assert more["count", None] == 3 + 110
    assert more["count: tags", None] == 1


LOST: dict[str, Callable[[MemoryStore, Filter], bool]] = {
    "large tenants": is_of_many,
    "tags": names("tags"),
    "kinds": names("kind"),
    "tiers": names("stackroom.tier"),
    "folders": names("folderId"),
    "source ids": names("sourceId"),
}


@pytest.mark.usefixtures("only_own_callers")
@pytest.mark.parametrize("call", ["scan", "count"])
@pytest.mark.parametrize("lost", LOST)
def test_groups_that_get_lost_on_the_way_to_the_librarys_own_are_seen(lost: str, call: str) -> None:
    report = leak_test(with_more(LosesGroups(LOST[lost], {call})), others=[OWN])
    assert own_leaks(report)
    assert {door.partition(":")[0] for door in own_leaks(report)} <= {"sources", "source", "passages", "count"}


@pytest.mark.usefixtures("only_own_callers")
@pytest.mark.parametrize("call", ["dense", "lexical"])
@pytest.mark.parametrize("lost", LOST)
def test_and_in_searches_the_check_drops_them(lost: str, call: str) -> None:
    report = leak_test(with_more(LosesGroups(LOST[lost], {call})), others=[OWN])
    assert report.dropped > 0


@pytest.mark.parametrize("lost", ["tags", "kinds", "tiers"])
def test_canaries_have_tags_kinds_and_tiers_themselves(lost: str) -> None:
    report = leak_test(library_on(LosesGroups(LOST[lost], {"scan", "count"})))
    doors = {door.door for door in report.doors if door.leaked}
    named = "tags" if lost == "tags" else "kinds and tiers"
    assert doors == {f"sources: {named}", f"count: {named}"}


@pytest.mark.usefixtures("only_own_callers")
def test_a_scope_that_sees_all_of_its_tenant_is_not_the_only_one_that_comes() -> None:
    report = leak_test(with_more(LosesGroups(is_of_many, {"scan"})), others=[Scope("t", ["g", "board"])])
    assert {leak.caller for leak in report.leaks} == {"a tenant of the library, a wrong group"}


@pytest.mark.usefixtures("only_own_callers")
def test_own_passages_that_are_hidden_are_missing() -> None:
    store = Rewrites(
        lambda one, where: finds_nothing(one, where) if getattr(where, "value", "") == "t" else where, {"count"}
    )
    report = leak_test(library_on(store), others=[OWN])
    assert any("not found" in problem for problem in report.problems)
    assert report.leaked == 0


def test_of_a_large_tenant_a_page_is_judged_by_its_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_own, "_MOST_PASSAGES", 50)
    assert leak_test(with_more(MemoryStore()), others=[OWN]).is_green
    report = leak_test(with_more(LosesGroups(is_of_many, {"scan"})), others=[OWN])
    assert own_leaks(report) >= {"sources", "passages", "source"}


class IsWrittenTo(LosesGroups):
    """Somebody else writes a source of its own anew, longer each time, at each of so many counts."""

    def __init__(self, times: int, calls: frozenset[str]) -> None:
        super().__init__(is_of_many, calls)
        self.left = times
        self.written = 0
        self.library: Library | None = None

    def count(self, name: str, *, where: Filter) -> int:
        if self.library is not None and self.left:
            self.left -= 1
            self.written += 1
            self.library.index_source(source("s", *(f"heron {number}" for number in range(2 + self.written))))
        return super().count(name, where=where)


def written_to_while_own(store: IsWrittenTo) -> LeakReport:
    library = with_more(store)

    def own(audit: Audit, caller: Caller) -> None:
        store.library = library
        try_own(audit, caller)
        store.library = None

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_leak_test, "try_own", own)
        return leak_test(library, others=[OWN])


@pytest.mark.usefixtures("only_own_callers")
def test_writes_of_others_meanwhile_are_no_leak() -> None:
    report = written_to_while_own(IsWrittenTo(1000, frozenset()))
    assert report.leaked == 0
    assert not any("not found" in problem for problem in report.problems)


@pytest.mark.usefixtures("only_own_callers")
def test_and_when_they_are_over_all_is_compared() -> None:
    report = written_to_while_own(IsWrittenTo(1, frozenset({"count"})))
    assert {leak.caller for leak in report.leaks if leak.door == "count"} == OWN_CALLERS


@pytest.mark.usefixtures("only_own_callers")
def test_what_expires_meanwhile_is_no_leak_and_not_missed() -> None:
    clock = HandClock()
    library = library_on(MemoryStore(), clock=lambda: clock.forward(milliseconds=500))
    begin = clock.now
    for number in range(200):
        expires_at = begin + timedelta(seconds=100 + 5 * number)
        library.index_source(source(f"e{number}", "soon gone", expires_at=expires_at))
    report = leak_test(library, others=[OWN])
    assert report.leaked == 0
    assert not any("not found" in problem for problem in report.problems)
