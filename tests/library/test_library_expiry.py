"""Expiry: hidden at the microsecond, counted by writes, swept in all tenants (case 28)."""

from __future__ import annotations

from datetime import timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from tests.library.doubles import HandClock, source

from stackroom import Indexed, Library, Scope, Source

if TYPE_CHECKING:
    from datetime import datetime

MODES: list[Any] = ["hybrid", "lexical", "dense"]


def is_visible(library: Library, scope: Scope) -> bool:
    """Tell whether source s is seen; every read must say the same."""
    seen = {
        *(len(library.search("text", scope=scope, mode=mode)) > 0 for mode in MODES),
        len(library.search("text", scope=scope, any_of=[{"source_ids": ["s"]}])) > 0,
        len(library.sources(scope=scope)) > 0,
        library.source("s", scope=scope) is not None,
        len(library.passages("s", scope=scope)) > 0,
        library.count(scope=scope) > 0,
    }
    assert len(seen) == 1
    return seen.pop()


@pytest.fixture
def expiring(library: Library, clock: HandClock) -> datetime:
    """Return when source s, of two passages, expires."""
    expires_at = clock.now + timedelta(hours=1)
    library.index_source(source("s", "text one", "text two", expires_at=expires_at))
    return expires_at


def test_case_28_a_source_is_hidden_when_the_clock_reaches_its_end(
    library: Library, clock: HandClock, scope: Scope
) -> None:
    library.index_source(source("s", "text one", "text two", expires_at=clock.now))
    assert not is_visible(library, scope)
    assert library.sweep() == 2
    assert library.sweep() == 0


@pytest.mark.parametrize(("microseconds", "visible"), [(-1, True), (0, False), (1, False)])
def test_expiry_is_exact_to_the_microsecond(
    library: Library, clock: HandClock, scope: Scope, expiring: datetime, microseconds: int, *, visible: bool
) -> None:
    clock.now = expiring + timedelta(microseconds=microseconds)
    assert is_visible(library, scope) is visible
    assert library.sweep() == (0 if visible else 2)


def test_zones_do_not_move_an_expiry(library: Library, clock: HandClock, scope: Scope, expiring: datetime) -> None:
    there = timezone(timedelta(hours=9, minutes=30))
    library.index_source(source("s", "text", expires_at=expiring.astimezone(there)))
    clock.now = (expiring - timedelta(microseconds=1)).astimezone(timezone(timedelta(hours=-7)))
    assert is_visible(library, scope)
    clock.now += timedelta(microseconds=1)
    assert not is_visible(library, scope)


def test_what_expired_long_ago_or_ends_far_away_is_told_apart(library: Library, clock: HandClock, scope: Scope) -> None:
    library.index_source(source("s", "text", expires_at=clock.now.replace(year=1)))
    assert not is_visible(library, scope)
    library.index_source(source("s", "text", expires_at=clock.now.replace(year=9999)))
    assert is_visible(library, scope)


def test_an_expiry_is_shown(library: Library, scope: Scope, expiring: datetime) -> None:
    info = library.source("s", scope=scope)
    assert info is not None
    assert info.expires_at == expiring
    assert info.expires_at.utcoffset() is not None


def test_no_hit_shows_an_expiry_or_a_tier(library: Library, scope: Scope, expiring: datetime) -> None:
    library.index_source(source("s", "text", expires_at=expiring, tier="hot"))
    for hit in [*library.search("text", scope=scope), *library.passages("s", scope=scope)]:
        assert not [key for key in hit.metadata if key.startswith("stackroom")]


def test_an_expired_source_is_still_there_for_writes(
    library: Library, clock: HandClock, scope: Scope, expiring: datetime
) -> None:
    clock.now = expiring
    assert library.set_source_scope("s", tenant_id="t", tags=["n"]) == 2
    assert not is_visible(library, scope)
    assert library.index_source(source("s", "text one", expires_at=expiring)) == Indexed(1, 2, 0, 1)
    assert library.remove_source("s", tenant_id="t") == 1


def test_a_tenants_expired_passages_are_counted_when_it_goes(
    library: Library, clock: HandClock, expiring: datetime
) -> None:
    clock.now = expiring
    assert library.remove_tenant("t") == 2


def test_an_expired_source_replaced_by_nothing_is_counted(
    library: Library, clock: HandClock, expiring: datetime
) -> None:
    clock.now = expiring
    assert library.index_source(Source("s", "doc", "t", ["g"], [])) == Indexed(0, 2, 0, 0)


def test_a_replacement_sets_expiry_anew(library: Library, clock: HandClock, scope: Scope, expiring: datetime) -> None:
    library.index_source(source("s", "text one"))
    clock.now = expiring
    assert is_visible(library, scope)
    assert library.sweep() == 0


def test_a_rescope_leaves_expiry(library: Library, clock: HandClock, scope: Scope, expiring: datetime) -> None:
    library.set_source_scope("s", tenant_id="t", title="T", tags=["n"], folder_id="a")
    clock.now = expiring
    assert not is_visible(library, scope)
    assert library.sweep() == 2


def test_a_replacement_of_an_expired_source_keeps_when_it_was_made(
    library: Library, clock: HandClock, scope: Scope, expiring: datetime
) -> None:
    made_at = clock.now
    clock.now = expiring
    library.index_source(source("s", "text"))
    info = library.source("s", scope=scope)
    assert info is not None
    assert info.created_at == made_at


def test_sweep_deletes_what_is_expired_in_all_tenants_and_nothing_else(library: Library, clock: HandClock) -> None:
    later = clock.now + timedelta(microseconds=1)
    for tenant_id, groups in (("t", ["g"]), ("u", ["h"]), ("v", ["g"])):
        library.index_source(
            source("gone", "text", "more text", tenant_id=tenant_id, acl_groups=groups, expires_at=clock.now)
        )
        library.index_source(source("later", "text", tenant_id=tenant_id, expires_at=later))
        library.index_source(source("never", "text", tenant_id=tenant_id))
    assert library.sweep() == 6
    for tenant_id in "tuv":
        assert library.count(scope=Scope(tenant_id, ["g"])) == 2
    clock.now = later
    assert library.sweep() == 3


def test_words_of_expired_passages_count_until_they_are_swept(library: Library, clock: HandClock, scope: Scope) -> None:
    library.index_source(source("kept", "fox"))
    alone = library.search("fox", scope=scope, mode="lexical")[0].score
    library.index_source(source("s", "fox fox", expires_at=clock.now))
    (hit,) = library.search("fox", scope=scope, mode="lexical")
    assert hit.score != alone
    library.sweep()
    (hit,) = library.search("fox", scope=scope, mode="lexical")
    assert hit.score == pytest.approx(alone, rel=1e-6)


def test_a_source_indexed_after_it_expired_can_be_found_by_no_one(
    library: Library, clock: HandClock, scope: Scope
) -> None:
    assert library.index_source(source("s", "text", expires_at=clock.now - timedelta(days=1))) == Indexed(1, 0, 1, 0)
    assert not is_visible(library, scope)
