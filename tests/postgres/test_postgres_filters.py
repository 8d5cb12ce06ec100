"""The compiler of filters where the kit does not look: numbers as they are stored, filters that are hard to plan."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from tests.postgres_room import Room

from stackroom.filters import All, And, Eq, Exists, Filter, In, Ne, NotIn, Or, Range, matches
from stackroom.stores import CollectionSpec, Record

NUMBERS: list[Any] = [
    *(0, 1, -1, 1.0, -1.5, 0.1, 1e-7, 5e-324, -5e-324, 2.2250738585072014e-308, 1e16, 1e22, 1e23, 1e300, -1e300),
    *(1.7976931348623157e308, 2**53, 2**53 + 1, float(2**53), float(2**53 + 2), 2**62 + 1, float(2**62), 2**63 - 1),
    *(float(2**63), -(2**63), float(-(2**63)), 9223372036854774900, 9223372036854774784.0, 9223372036854775295),
    *(True, False, "1", "1.0", "1e16", "", "NaN", "Infinity", "null"),
]
TENANT = Eq("tenantId", "t")


def test_numbers_of_any_size_come_back_and_compare_exactly(room: Room) -> None:
    store = room.store()
    store.create_collection("c", CollectionSpec(2, "m"))
    metadata = [{"k": value, "l": [value, "x"], "stackroom.k": value} for value in NUMBERS]
    records = [
        Record("", [1, 0], {"tenantId": "t", "sourceId": f"s{at:02}", "index": 0, **of})
        for at, of in enumerate(metadata)
    ]
    store.replace("c", records, where=TENANT)
    found = [record.metadata["k"] for record in store.scan("c", where=TENANT, limit=100)]
    assert [(type(value), value) for value in found] == [(type(value), value) for value in NUMBERS]
    for value in NUMBERS:
        asked: list[Filter] = [Eq("k", value), Eq("l", value), Eq("stackroom.k", value), In("k", [value, "y", 7, 8.5])]
        asked += [Ne("k", value), NotIn("k", [value, "y"]), All("l", [value, "x"])]
        if not isinstance(value, bool):
            asked += [Range("k", gt=value), Range("k", lte=value), Range("stackroom.k", gte=value)]
        for where in asked:
            expected = [f"s{at:02}" for at, of in enumerate(metadata) if matches(where, of)]
            ids = [record.source_id for record in store.scan("c", where=And(TENANT, where), limit=100)]
            assert ids == expected, where


def deep(levels: int) -> Filter:
    """Return a filter whose members are And and Or by turns."""
    found: Filter = Eq("k", 999)
    for level in range(levels):
        found = Or(And(found, Exists("s")), In("k", [f"{level}"]))
    return found


@pytest.mark.parametrize("partitions", [0, 3])
def test_a_filter_that_is_as_deep_as_may_be_is_answered_at_once(room: Room, partitions: int) -> None:
    """Planned as it stands, such a filter takes minutes over partitions."""
    impatient = psycopg.conninfo.make_conninfo(room.dsn, options="-cstatement_timeout=10s")
    store = room.store(impatient, partitions=partitions, vector_index=False)
    store.create_collection("c", CollectionSpec(2, "m"))
    metadata: list[dict[str, Any]] = [{"k": 999, "s": "x"}, {"k": 999}, {"k": "29"}, {"k": "5", "s": 1}]
    records = [
        Record("", [1, 0], {"tenantId": "t", "sourceId": f"s{at}", "index": 0, **of}) for at, of in enumerate(metadata)
    ]
    store.replace("c", records, where=TENANT)
    where = deep(30)
    expected = [f"s{at}" for at, of in enumerate(metadata) if matches(where, of)]
    assert [record.source_id for record in store.scan("c", where=And(TENANT, where), limit=9)] == expected
