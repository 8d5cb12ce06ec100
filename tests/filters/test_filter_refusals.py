"""What is refused when a node is made or a dict parsed, and what the error tells."""

from __future__ import annotations

import datetime as dt
import traceback
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from stackroom import FilterError
from stackroom.filters import (
    All,
    And,
    Contains,
    Eq,
    Exists,
    Filter,
    In,
    Ne,
    Not,
    NotIn,
    Or,
    Range,
    as_dict,
    matches,
    parse,
)

if TYPE_CHECKING:
    from collections.abc import Callable

NO_SCALARS: dict[str, Any] = {
    "none": None,
    "list": ["a"],
    "tuple": ("a",),
    "set": {"a"},
    "dict": {"a": 1},
    "nan": float("nan"),
    "infinity": float("inf"),
    "numpy nan": np.float32("nan"),
    "int beyond 64 bits": 2**63,
    "negative int beyond 64 bits": -(2**63) - 1,
    "unsigned beyond 64 bits": np.uint64(2**63),
    "date": dt.date(2024, 5, 1),
    "datetime": dt.datetime(2024, 5, 1, tzinfo=dt.UTC),
    "numpy date": np.datetime64("2024-05-01", "ns"),
    "numpy duration": np.timedelta64(1, "ns"),
    "complex": 1j,
    "bytes": b"a",
    "object": object(),
    "array": np.array(5),
    "nul": "a\0b",
    "lone surrogate": "a\ud800",
    "node": Eq("a", 1),
}
ONE_SCALAR: list[Callable[[str, Any], Filter]] = [Eq, Ne, Contains]
SEVERAL_SCALARS: list[Callable[[str, Any], Filter]] = [In, NotIn, All]
ANY_LEAF: list[Callable[[Any], Filter]] = [
    lambda key: Eq(key, 1),
    lambda key: Ne(key, 1),
    lambda key: Contains(key, 1),
    lambda key: In(key, [1]),
    lambda key: NotIn(key, [1]),
    lambda key: All(key, [1]),
    lambda key: Range(key, gt=1),
    Exists,
    lambda key: parse({key: 1}),
    lambda key: parse({key: {"$exists": True}}),
]


@pytest.mark.parametrize("make", ONE_SCALAR)
@pytest.mark.parametrize("operand", NO_SCALARS.values(), ids=NO_SCALARS)
def test_an_operand_that_is_no_scalar_is_refused(make: Callable[[str, Any], Filter], operand: object) -> None:
    with pytest.raises(FilterError):
        make("k", operand)


@pytest.mark.parametrize("make", SEVERAL_SCALARS)
@pytest.mark.parametrize("operand", NO_SCALARS.values(), ids=NO_SCALARS)
def test_a_value_among_several_that_is_no_scalar_is_refused(
    make: Callable[[str, Any], Filter], operand: object
) -> None:
    with pytest.raises(FilterError, match="number 1"):
        make("k", ["a", operand])


@pytest.mark.parametrize("make", SEVERAL_SCALARS)
@pytest.mark.parametrize("values", ["abc", b"abc", bytearray(b"abc"), {"a": 1}, 5, None, np.array(5), np.str_("ab")])
def test_values_that_are_no_list_of_items_are_refused(make: Callable[[str, Any], Filter], values: object) -> None:
    with pytest.raises(FilterError, match="list of items"):
        make("k", values)


@pytest.mark.parametrize("side", ["gt", "gte", "lt", "lte"])
@pytest.mark.parametrize("bound", [True, np.False_, *[NO_SCALARS[name] for name in NO_SCALARS if name != "none"]])
def test_a_bound_that_is_no_string_or_number_is_refused(side: str, bound: object) -> None:
    with pytest.raises(FilterError, match=side):
        Range("k", **{side: bound})  # type: ignore[arg-type]  # what is refused


def test_a_range_without_bounds_is_refused() -> None:
    with pytest.raises(FilterError, match="at least one"):
        Range("k", gt=None)


def test_a_range_with_bounds_of_two_kinds_is_refused() -> None:
    with pytest.raises(FilterError, match="all strings or all numbers"):
        Range("k", gt=1, lt="2")


def test_all_without_values_is_refused() -> None:
    with pytest.raises(FilterError, match="at least one"):
        All("k", [])


@pytest.mark.parametrize("part", ["", np.str_("")])
def test_contains_with_an_empty_string_is_refused(part: str) -> None:
    with pytest.raises(FilterError, match="empty"):
        Contains("k", part)


@pytest.mark.parametrize("exists", [1, 0, "true", None, [], 1.0])
def test_exists_takes_true_or_false_only(exists: Any) -> None:
    with pytest.raises(FilterError, match="boolean"):
        Exists("k", exists)


@pytest.mark.parametrize("make", ANY_LEAF)
@pytest.mark.parametrize("key", ["", "$", "$eq", "$where", "a\0", "\udfff", 5, None, b"k", ("k",), True])
def test_a_key_that_cannot_be_asked_about_is_refused(make: Callable[[Any], Filter], key: object) -> None:
    with pytest.raises(FilterError):
        make(key)


@pytest.mark.parametrize("make", ANY_LEAF)
@pytest.mark.parametrize(
    "key", [" ", "a.b", "a b", "a$", "'; DROP TABLE x; --", '"', "%", "ключ", "鍵", "\n", "a" * 5000]
)
def test_any_other_key_is_data(make: Callable[[Any], Any], key: str) -> None:
    assert make(key).key == key


@pytest.mark.parametrize("member", [{"a": 1}, "a", [Eq("a", 1)], None, 1, Eq])
@pytest.mark.parametrize("make", [And, Or, Not, lambda member: And(Eq("a", 1), member)])
def test_a_member_that_is_no_node_is_refused(make: Callable[[Any], Filter], member: object) -> None:
    with pytest.raises(FilterError, match="node"):
        make(member)


@pytest.mark.parametrize("written", ["", "n", b"n", [], [{"n": 1}], None, 1, {"n"}, Eq, object()])
def test_what_is_no_mapping_is_no_filter(written: Any) -> None:
    with pytest.raises(FilterError, match="mapping"):
        parse(written)


@pytest.mark.parametrize("operator", ["$and", "$or"])
@pytest.mark.parametrize("members", [None, "ab", {}, {"n": 1}, 1, iter([{}]), [None], ["n"], [Eq("n", 1)], [[{}]]])
def test_and_and_or_stand_over_lists_of_mappings(operator: str, members: object) -> None:
    with pytest.raises(FilterError, match="mapping"):
        parse({operator: members})


@pytest.mark.parametrize("member", [None, "ab", [{"n": 1}], [], 1, Eq("n", 1)])
def test_not_stands_over_one_mapping(member: object) -> None:
    with pytest.raises(FilterError, match=r"\$not .* mapping"):
        parse({"$not": member})


@pytest.mark.parametrize("bound", ["$gt", "$gte", "$lt", "$lte"])
def test_a_bound_of_none_is_refused_even_beside_another(bound: str) -> None:
    with pytest.raises(FilterError, match="None"):
        parse({"n": {bound: None, "$gte" if bound == "$gt" else "$gt": 1}})


@pytest.mark.parametrize(
    "written",
    [
        {"$foo": 1},
        {"$eq": 1},
        {"$gt": 1, "n": 1},
        {"$AND": [{}]},
        {"$nor": [{}]},
        {"$": {}},
        {"n": {"$eq": 1, "$regex": "a"}},
        {"n": {"$and": [{}]}},
        {"n": {"$not": {"$eq": 1}}},
        {"n": {"$EQ": 1}},
        {"$or": [{}, {"$not": {"n": {"$like": "a"}}}]},
        {"$not": {"$nothing": 1}},
    ],
    ids=str,
)
def test_an_unknown_operator_is_refused_wherever_it_stands(written: dict[str, Any]) -> None:
    with pytest.raises(FilterError, match="no operator"):
        parse(written)


@pytest.mark.parametrize("condition", [{"m": 1}, {"$eq": 1, "m": 1}, {"": 1}, {5: 1}, {None: 1}], ids=str)
def test_a_key_inside_a_condition_is_refused(condition: dict[Any, Any]) -> None:
    with pytest.raises(FilterError, match="not keys"):
        parse({"n": condition})


class Twin(str):
    """A string that a dict holds beside its equal."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return 7


def test_an_operator_written_twice_is_refused() -> None:
    with pytest.raises(FilterError, match="twice"):
        parse({"n": {"$gt": 1, Twin("$gt"): 2}})


def test_a_dict_is_no_filter_to_match_or_write_by() -> None:
    with pytest.raises(FilterError):
        matches({"n": 1}, {"n": 1})  # type: ignore[arg-type]  # what is refused
    with pytest.raises(FilterError):
        as_dict({"n": 1})  # type: ignore[arg-type]  # what is refused


def test_the_base_class_is_no_node() -> None:
    with pytest.raises(TypeError, match="make Eq"):
        Filter()


PLACES: list[tuple[dict[str, Any], str]] = [
    ({"year": None}, "year: "),
    ({"$or": [{}, {"year": None}]}, "$or[1].year: "),
    ({"$or": [{}, {"year": {"$in": [1, None]}}]}, "$or[1].year: a value of In, number 1,"),
    ({"$and": [{"$not": {"a": 1, "b": {"$lt": True}}}]}, "$and[0].$not.b: lt"),
    ({"$not": {"year": {"$foo": 1}}}, "$not.year.$foo "),
    ({"$not": {"$foo": 1}}, "$not.$foo "),
    ({"$not": {"": 1}}, "$not: a key"),
    ({"$or": [{"$and": []}]}, "$or[0].$and "),
    ({"$or": [{"a": {}}]}, "$or[0].a "),
    ({"$or": [{"a": {"$gt": None}}]}, "$or[0].a "),
    ({"$or": [{}, {}, 5]}, "$or[2] "),
    ({"a\nb": None}, "'a\\nb': "),
    ({"k" * 500: None}, "k" * 80 + "…: "),
]


@pytest.mark.parametrize(("written", "start"), PLACES, ids=[start for _, start in PLACES])
def test_the_error_begins_with_the_place(written: dict[str, Any], start: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse(written)
    assert str(caught.value).startswith(start)


@pytest.mark.parametrize(
    ("operand", "advice"),
    [(None, "Exists"), (["a"], "In or All"), (dt.date(2024, 5, 1), ".isoformat()")],
    ids=["none", "list", "date"],
)
def test_the_error_says_what_to_write_instead(operand: object, advice: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse({"k": operand})
    assert advice in str(caught.value)


class Secret:
    """An operand that would show its secret if it were shown."""

    def __repr__(self) -> str:
        return "hunter2"


SECRET: Any = Secret()
SECRETIVE: list[Callable[[], object]] = [
    lambda: Eq("k", "hunter2\0"),
    lambda: Eq("k", ["hunter2"]),  # type: ignore[arg-type]  # what is refused
    lambda: Ne("k", SECRET),
    lambda: Contains("k", b"hunter2"),  # type: ignore[arg-type]  # what is refused
    lambda: In("k", "hunter2"),
    lambda: In("k", ["a", SECRET]),
    lambda: All("k", {"hunter2": 1}),
    lambda: Range("k", gt="hunter2", lt=1),
    lambda: Range("k", gt=SECRET),
    lambda: Exists("k", "hunter2"),  # type: ignore[arg-type]  # what is refused
    lambda: And(SECRET),
    lambda: Not("hunter2"),  # type: ignore[arg-type]  # what is refused
    lambda: parse("hunter2"),  # type: ignore[arg-type]  # what is refused
    lambda: parse({"$or": [{"k": {"$in": ["hunter2", SECRET]}}]}),
    lambda: parse({"k": {"$gt": "hunter2", "$lt": None}}),
    lambda: parse({"k": {"$gt": "hunter2", "$lt": 5}}),
    lambda: parse({"k": {"hunter2": 1}}),
    lambda: parse({"k": ["hunter2"]}),
    lambda: parse({"$and": "hunter2"}),
    lambda: parse({"$not": {"k": {"$contains": SECRET}}}),
    lambda: parse({"k": {"$exists": "hunter2"}}),
]


@pytest.mark.parametrize("refused", SECRETIVE)
def test_an_error_never_repeats_an_operand_nor_keeps_a_cause(refused: Callable[[], object]) -> None:
    with pytest.raises(FilterError) as caught:
        refused()
    error = caught.value
    assert "hunter2" not in "".join(traceback.format_exception_only(error))
    assert error.__cause__ is None
    assert error.__context__ is None


def nested_dict(depth: int) -> dict[str, Any]:
    written: dict[str, Any] = {"n": 1}
    for _ in range(depth - 1):
        written = {"$not": written}
    return written


def nested_node(depth: int) -> Filter:
    nested: Filter = Eq("n", 1)
    for _ in range(depth - 1):
        nested = And(nested)
    return nested


def test_parse_takes_filters_of_32_levels() -> None:
    assert parse(nested_dict(32)).depth == 32
    assert parse(nested_node(32)).depth == 32


@pytest.mark.parametrize(
    "written", [nested_dict(33), nested_node(33), nested_dict(100_000)], ids=["33", "node", "huge"]
)
def test_parse_refuses_more_than_32_levels(written: Any) -> None:
    with pytest.raises(FilterError, match="at most 32"):
        parse(written)


def test_levels_that_several_entries_add_count_too() -> None:
    written: dict[str, Any] = {"n": 1, "m": 1}
    for _ in range(15):
        written = {"$not": written, "m": 1}
    assert parse(written).depth == 32
    with pytest.raises(FilterError, match="at most 32"):
        parse({"$not": written})


def test_parse_refuses_a_dict_that_holds_itself() -> None:
    cyclic: dict[str, Any] = {}
    cyclic["$or"] = [cyclic, cyclic]
    with pytest.raises(FilterError, match="at most 32"):
        parse(cyclic)


@pytest.mark.parametrize("make", [And, Or, Not])
def test_constructors_take_64_levels_and_refuse_more(make: Callable[[Filter], Filter]) -> None:
    assert make(nested_node(63)).depth == 64
    with pytest.raises(FilterError, match="at most 64"):
        make(nested_node(64))
