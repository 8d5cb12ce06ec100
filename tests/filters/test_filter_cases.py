"""The table of cases, row by row: which of six records each filter matches."""

from __future__ import annotations

from typing import Any

import pytest

from stackroom import FilterError
from stackroom.filters import And, Eq, Ne, Range, matches, parse
from stackroom.testing._filters import ROWS, SIX


@pytest.mark.parametrize(("written", "names"), [pytest.param(*row[1:], id=row[0]) for row in ROWS])
def test_a_filter_matches_the_records_of_its_row(written: dict[str, Any], names: str) -> None:
    asked = parse(written)
    assert [name for name, metadata in SIX.items() if matches(asked, metadata)] == names.split()


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
