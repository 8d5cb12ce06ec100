"""What the database judges itself: scopes and narrowings whole, of other filters as much as it can."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from stackroom import Narrowing, Scope
from stackroom._scoping import branches_of, condition
from stackroom.filters import And, Contains, Eq, Exists, Filter, In, Not, Or, Range
from stackroom.stores import CollectionSpec, Record, SqlStore
from stackroom.stores.sql._places import Tenant
from stackroom.stores.sql._tables import tables
from stackroom.stores.sql._where import Condition
from stackroom.stores.sql._where import condition as compiled

TENANT = Tenant(7, "t", 10, has_odd=False)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def of(where: Filter, tenant: Tenant | None = TENANT) -> Condition:
    return compiled(where, tables("stackroom_"), tenant)


NARROWINGS: list[dict[str, Any]] = [
    {},
    {"kinds": ["doc"]},
    {"folder_id": "f"},
    {"folder_ids": ["f", "é"]},
    {"tags": ["x", "y"]},
    {"source_ids": ["a"]},
]


@pytest.mark.parametrize("narrowing", NARROWINGS, ids=str)
def test_scopes_and_narrowings_are_judged_by_the_database(narrowing: dict[str, Any]) -> None:
    where = condition(Scope("t", ["g", "h"]), [Narrowing(**narrowing)], NOW)
    assert where is not None
    assert of(where).is_in_the_database
    assert of(where).is_of_sources


def test_branches_are_judged_by_the_database() -> None:
    where = condition(Scope("t", ["g"]), branches_of(Narrowing(), [{"tags": ["x"]}, {"folder_ids": ["a"]}]), NOW)
    assert where is not None
    assert of(where).is_in_the_database


def test_a_branch_that_the_database_cannot_judge_narrows_as_far_as_it_can() -> None:
    where = And(Eq("tenantId", "t"), Or(And(Eq("kind", "doc"), Eq("year", 5)), And(Eq("folderId", "f"), Eq("n", 1))))
    made = of(where)
    assert len(made.judged) == 1
    assert "folder_id" in str(made.of_source[-1])
    assert "kind" in str(made.of_source[-1])


def test_a_branch_of_which_nothing_is_known_narrows_nothing() -> None:
    made = of(Or(Eq("kind", "doc"), Eq("year", 5)))
    assert len(made.of_source) == 1, "the tenant alone"
    assert len(made.judged) == 1


def test_the_opposite_of_what_the_database_cannot_judge_narrows_nothing() -> None:
    made = of(Not(And(Eq("kind", "doc"), Eq("year", 5))))
    assert len(made.of_source) == 1
    assert len(made.judged) == 1


def test_a_place_in_a_source_is_judged_by_the_database() -> None:
    made = of(And(Eq("sourceId", "a"), In("index", [0, 3])))
    assert made.is_in_the_database
    assert len(made.of_passage) == 1


def test_more_values_than_a_statement_holds_are_judged_in_python() -> None:
    many = In("sourceId", [f"s{number}" for number in range(30_000)])
    made = of(And(Eq("kind", "doc"), many))
    assert made.judged_of_source == [many]
    assert "kind" in str(made.of_source[-1])


def test_times_of_expiry_that_are_no_ints_are_judged_in_python() -> None:
    alive = Or(Exists("stackroom.expiresAt", exists=False), Range("stackroom.expiresAt", gt=5))
    assert of(alive).is_in_the_database
    assert of(alive, Tenant(7, "t", 10, has_odd=True)).judged_of_source == [alive]


EXPIRIES: list[Any] = [None, 4, 5, 6, 4.5, 5.5, "5", True, [6], 2**63 - 1, -(2**63), 1e300]
BOUNDS: list[Any] = [4, 5, 5.0, 4.5, -1e300, 1e300, 2.0**63, -(2.0**63), 2**63 - 1]


def test_a_sweep_over_all_tenants_looks_at_those_alone_where_something_expires() -> None:
    made = of(Range("stackroom.expiresAt", lte=5), None)
    assert len(made.judged_of_source) == 1
    assert "expires_at <= " in str(made.of_source[0])
    assert "odd IS NOT NULL" in str(made.of_source[0])


def test_times_of_expiry_of_any_kind_compare_exactly(opened: Callable[..., SqlStore]) -> None:
    store = opened()
    store.create_collection("c", CollectionSpec(2, "m"))
    for number, expiry in enumerate(EXPIRIES):
        for tenant in ("mixed", "ints") if expiry is None or type(expiry) is int else ("mixed",):
            metadata = {"tenantId": tenant, "sourceId": f"s{number}", "index": 0, "stackroom.expiresAt": expiry}
            record = Record("", [1, 0], {key: value for key, value in metadata.items() if value is not None})
            store.replace("c", [record], where=And(Eq("tenantId", tenant), Eq("sourceId", f"s{number}")))
    every = list(store.scan("c", where=And(), limit=100))
    sides: list[Filter] = [
        Range("stackroom.expiresAt", **{side: bound}) for side in ("gt", "gte", "lt", "lte") for bound in BOUNDS
    ]
    equal = [Eq("stackroom.expiresAt", bound) for bound in BOUNDS]
    for asked in (
        *sides,
        *equal,
        *map(Not, sides),
        Exists("stackroom.expiresAt"),
        Contains("stackroom.expiresAt", "5"),
    ):
        for within in (And(), Eq("tenantId", "ints"), Eq("tenantId", "mixed")):
            where = And(within, asked)
            expected = [(record.tenant_id, record.id) for record in every if where_matches(where, record)]
            found = [(record.tenant_id, record.id) for record in store.scan("c", where=where, limit=100)]
            assert found == expected, where
            assert store.count("c", where=where) == len(expected)


def where_matches(where: Filter, record: Record) -> bool:
    from stackroom.filters import matches

    return matches(where, record.metadata)
