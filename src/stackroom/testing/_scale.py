"""Scale: ten thousand records and a little more, where engines begin to cut, to page and to search approximately."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stackroom.filters import And, Eq, Exists, Filter, In, Or, Range, matches
from stackroom.stores import CollectionSpec, Record, VectorStore
from stackroom.stores._legs import answers_legs
from stackroom.testing._both_legs import legs_of
from stackroom.testing._records import PAGE, SPEC, place, record, tenant
from stackroom.testing._refusals import is_refused
from stackroom.testing._shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stackroom.testing._records import Place

DIMENSION: Final = 8
SOURCES: Final = 1_011
PASSAGES: Final = 10
"""Together a little more than 10,000, the limit that many engines have."""

NOW: Final = 1_000


class ScaleTests:
    """What holds however much there is."""

    def test_scale_every_method_keeps_a_scope_among_ten_thousand(self, store: VectorStore, unused: str) -> None:
        """Look at limits, pages and approximate roads: tenant, groups and expiry hold on each, nothing is missing."""
        shelf = _filled(store, unused)
        scope = _scope()
        expected = sorted(place(of) for of in _records() if matches(scope, of.metadata))
        assert 300 < len(expected) < 1_000, "few enough for an exact answer"
        assert shelf.count(scope) == len(expected)
        assert [place(of) for of in shelf.scan(scope)] == expected
        assert _walked(shelf, scope) == expected
        query = np.ones(DIMENSION)
        assert sorted(place(match.record) for match in shelf.dense(query, scope)) == expected
        if not is_refused(shelf, "lexical"):
            assert sorted(place(match.record) for match in shelf.lexical("red", scope)) == expected
            if answers_legs(type(store)):
                found = legs_of(shelf, query, "red", scope)
                names = {f"{source}#{index}" for _, source, index in expected}
                for of_leg in (found.dense, found.lexical):
                    assert len(of_leg) == len(names)
                    assert {name for name, _ in of_leg} == names

    def test_scale_answers_are_whole_beyond_ten_thousand(self, store: VectorStore, unused: str) -> None:
        """Look at an engine's largest answer: a limit of 100,000 is served in one call, by scan, dense and lexical."""
        shelf = _filled(store, unused)
        number = SOURCES * PASSAGES
        assert shelf.count(tenant()) == number
        page = shelf.scan(tenant(), PAGE)
        assert (len(page), page.next) == (number, None)
        assert len(shelf.dense(np.ones(DIMENSION), tenant())) == number
        if not is_refused(shelf, "lexical"):
            assert len(shelf.lexical("red", tenant())) == number

    def test_scale_writes_reach_all_that_matches_and_nothing_else(self, store: VectorStore, unused: str) -> None:
        """Look at writes in batches: an update and a delete reach every record, count each, and leave the others."""
        shelf = _filled(store, unused)
        number = SOURCES * PASSAGES
        if not is_refused(shelf, "update"):
            assert shelf.update({"aclGroups": ["board"], "mark": 1}, tenant()) == number
            assert shelf.count(And(tenant(), Eq("mark", 1), In("aclGroups", ["board"]))) == number
            assert shelf.count(In("aclGroups", ["rare", "common"])) == shelf.count(tenant("u"))
        kept = And(tenant(), Range("index", lt=3))
        assert shelf.delete(And(tenant(), Range("index", gte=3))) == SOURCES * 7
        assert shelf.count(tenant()) == shelf.count(kept) == SOURCES * 3
        assert shelf.replace([record("a#0", "new", np.ones(DIMENSION))], tenant()) == SOURCES * 3
        assert shelf.ids(tenant()) == ["a#0"]
        assert shelf.count(tenant("u")) == PASSAGES * 100


def _records() -> Iterator[Record]:
    """Yield the records of a large tenant t and of a smaller u, which has the same source ids."""
    directions = np.random.default_rng(3).standard_normal((SOURCES * PASSAGES, DIMENSION)).astype(np.float32)
    for owner, sources in (("t", SOURCES), ("u", 100)):
        for number in range(sources):
            keys = {"aclGroups": ["rare" if number % 13 == 0 else "common"], "stackroom.expiresAt": 500 + number}
            for index in range(PASSAGES):
                vector = directions[number * PASSAGES + index]
                yield record(f"s{number:04}#{index}", "red", vector, tenant=owner, metadata=keys)


def _filled(store: VectorStore, name: str) -> Shelf:
    store.create_collection(name, CollectionSpec(DIMENSION, SPEC.fingerprint))
    shelf = Shelf(store, name)
    records = list(_records())
    for owner in ("t", "u"):
        shelf.replace([of for of in records if of.tenant_id == owner], tenant(owner))
    return shelf


def _scope() -> Filter:
    """Return what a Library asks: a tenant, a group, and what has not expired."""
    alive = Or(Exists("stackroom.expiresAt", exists=False), Range("stackroom.expiresAt", gt=NOW))
    return And(tenant(), In("aclGroups", ["rare", "none"]), alive)


def _walked(shelf: Shelf, where: Filter) -> list[Place]:
    """Return what pages of 37 show, one after the other."""
    page = shelf.scan(where, 37)
    found = [place(of) for of in page]
    while page.next is not None:
        page = shelf.scan(where, 37, page.next)
        found += [place(of) for of in page]
    return found
