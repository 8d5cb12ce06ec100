"""The table of cases, row by row: which of six records each filter matches."""

from __future__ import annotations

from typing import Any

import pytest

from stackroom import FilterError
from stackroom.filters import And, Eq, Ne, Range, matches, parse

RECORDS: dict[str, dict[str, Any]] = {
    "r1": {"n": 5, "s": "alpha", "labels": ["q3", "plan"], "flag": True},
    "r2": {"n": 10, "s": "Beta 50%", "labels": ["q3"], "flag": False},
    "r3": {"s": "gamma_x", "labels": []},
    "r4": {"n": "5", "labels": "q3", "s": "50 beta"},
    "r5": {},
    "r6": {"n": 2, "labels": [5, "5"]},
}

MATCHED = [
    ("1", {"n": 5}, "r1"),
    ("2-short", {"labels": "q3"}, "r1 r2 r4"),
    ("2-eq", {"labels": {"$eq": "q3"}}, "r1 r2 r4"),
    ("3-true", {"flag": True}, "r1"),
    ("3-one", {"flag": 1}, ""),
    ("4", {"n": {"$ne": 5}}, "r2 r4 r6"),
    ("5", {"n": {"$gt": 4}}, "r1 r2"),
    ("6", {"n": {"$lt": "6"}}, "r4"),
    ("7", {"labels": {"$gt": 4}}, ""),
    ("8-in", {"labels": {"$in": []}}, ""),
    ("8-nin", {"labels": {"$nin": []}}, "r1 r2 r3 r4 r6"),
    ("9-number", {"labels": {"$in": [5]}}, "r6"),
    ("9-string", {"labels": {"$in": ["5"]}}, "r6"),
    ("10", {"labels": {"$nin": ["plan"]}}, "r2 r3 r4 r6"),
    ("11-two", {"labels": {"$all": ["q3", "plan"]}}, "r1"),
    ("11-one", {"labels": {"$all": ["q3"]}}, "r1 r2 r4"),
    ("12-element", {"labels": {"$contains": "q3"}}, "r1 r2 r4"),
    ("12-part", {"s": {"$contains": "50%"}}, "r2"),
    ("12-literal", {"s": {"$contains": "a%a"}}, ""),
    ("13-there", {"n": {"$exists": True, "$eq": 10}}, "r2"),
    ("13-missing", {"n": {"$exists": False}}, "r3 r5"),
    ("14", {"n": {"$gt": 4, "$lt": 10}}, "r1"),
    ("15-eq", {"$not": {"n": 5}}, "r2 r3 r4 r5 r6"),
    ("15-ne", {"$not": {"n": {"$ne": 5}}}, "r1 r3 r5"),
    ("16", {"$or": [{"n": {"$gt": 6}}, {"labels": "plan"}], "flag": True}, "r1"),
    ("17-all", {}, "r1 r2 r3 r4 r5 r6"),
    ("17-none", {"$or": []}, ""),
    ("18", {"x'; --": 1}, ""),
]


@pytest.mark.parametrize(("written", "names"), [pytest.param(*row[1:], id=row[0]) for row in MATCHED])
def test_a_filter_matches_the_records_of_its_row(written: dict[str, Any], names: str) -> None:
    asked = parse(written)
    assert [name for name, metadata in RECORDS.items() if matches(asked, metadata)] == names.split()


REFUSED = [
    {"n": {}},
    {"n": {"$foo": 1}},
    {"n": None},
    {"n": [5]},
    {"labels": {"$in": "q3"}},
    {"labels": {"$all": []}},
    {"$and": []},
    {"n": {"$gt": True}},
]


@pytest.mark.parametrize("written", [pytest.param(written, id=f"19-{written}") for written in REFUSED])
def test_a_dict_of_row_19_is_refused(written: dict[str, Any]) -> None:
    with pytest.raises(FilterError):
        parse(written)


def test_row_20_several_conditions_become_one_and_in_the_order_written() -> None:
    parsed = parse({"n": {"$gt": 4, "$ne": 7, "$lt": 9}, "s": "a"})
    assert parsed == And(Range("n", gt=4, lt=9), Ne("n", 7), Eq("s", "a"))


@pytest.mark.parametrize(("value", "answer"), [(None, False), (float("nan"), True)], ids=["21-none", "21-nan"])
def test_row_21_ne_takes_none_for_missing_and_nan_for_another_value(value: object, *, answer: bool) -> None:
    assert matches(Ne("n", 5), {"n": value}) is answer
