"""The laws of the language, for all filters and all metadata, and an independent evaluator to agree with."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

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

STRINGS = ["", "a", "A", "ab", "b", "5", "1", "true", "50%", "a_b", "é", "e\u0301", "Z", "\ufffd", "\U0001f600"]
NUMBERS = [0, -0.0, 1, 1.0, 5, 5.0, -1, 0.5, 2**53, 2**53 + 1, float(2**53), 2**63 - 1, -(2**63), float(2**63), 1e308]

strings = st.sampled_from(STRINGS) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=3
)
numbers = st.sampled_from(NUMBERS) | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
scalars = strings | numbers | st.booleans()
keys = st.sampled_from(["k", "m", "a.b", "'; --"])
several = st.lists(scalars, max_size=4)
metadata_values = scalars | several
metadatas = st.dictionaries(keys, metadata_values, max_size=4)


def range_of(bounds: st.SearchStrategy[Any]) -> st.SearchStrategy[Filter]:
    sides = st.dictionaries(st.sampled_from(["gt", "gte", "lt", "lte"]), bounds, min_size=1)
    return st.builds(lambda key, given_bounds: Range(key, **given_bounds), keys, sides)


ranges = range_of(strings) | range_of(numbers)
leaves = (
    st.builds(Eq, keys, scalars)
    | st.builds(Ne, keys, scalars)
    | st.builds(In, keys, several)
    | st.builds(NotIn, keys, several)
    | st.builds(All, keys, st.lists(scalars, min_size=1, max_size=3))
    | st.builds(Contains, keys, scalars.filter(lambda value: value != ""))
    | ranges
    | st.builds(Exists, keys, st.booleans())
)


def combined(members: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    several_members = st.lists(members, max_size=3)
    return (
        several_members.map(lambda filters: And(*filters))
        | several_members.map(lambda filters: Or(*filters))
        | st.builds(Not, members)
    )


filters = st.recursive(leaves, combined, max_leaves=8)


def kind(scalar: object) -> str:
    if isinstance(scalar, bool):
        return "boolean"
    return "string" if isinstance(scalar, str) else "number"


def code_points(text: str) -> list[int]:
    return [ord(character) for character in text]


def comparable(scalar: Any) -> Any:
    return code_points(scalar) if isinstance(scalar, str) else Fraction(scalar)


def same(left: object, right: object) -> bool:
    return kind(left) == kind(right) and bool(comparable(left) == comparable(right))


def ordered(value: object, bound: object, holds: Callable[[Any, Any], bool]) -> bool:
    if bound is None:
        return True
    if isinstance(value, list) or kind(value) == "boolean" or kind(value) != kind(bound):
        return False
    return holds(comparable(value), comparable(bound))


def within(value: object, asked: Range) -> bool:
    return (
        ordered(value, asked.gt, lambda left, right: left > right)
        and ordered(value, asked.gte, lambda left, right: left >= right)
        and ordered(value, asked.lt, lambda left, right: left < right)
        and ordered(value, asked.lte, lambda left, right: left <= right)
    )


def has_part(value: object, part: object) -> bool:
    if isinstance(value, list):
        return any(same(item, part) for item in value)
    return isinstance(value, str) and isinstance(part, str) and value.find(part) >= 0


def naive_leaf(asked: Filter, value: object) -> bool:
    """Answer for a value that is there."""
    match asked:
        case Range():
            return within(value, asked)
        case Contains():
            return has_part(value, asked.value)
        case Eq() | Ne():
            operands = [asked.value]
        case In() | NotIn() | All():
            operands = list(asked.values)
    items = value if isinstance(value, list) else [value]
    found = [any(same(item, operand) for item in items) for operand in operands]
    if isinstance(asked, All):
        return all(found)
    return not any(found) if isinstance(asked, Ne | NotIn) else any(found)


def naive(asked: Filter, metadata: dict[str, Any]) -> bool:
    match asked:
        case And():
            return all(naive(member, metadata) for member in asked.filters)
        case Or():
            return any(naive(member, metadata) for member in asked.filters)
        case Not():
            return not naive(asked.filter, metadata)
        case Exists():
            return (asked.key in metadata) == asked.exists
    key: str = asked.key  # type: ignore[attr-defined]  # every leaf has one
    return key in metadata and naive_leaf(asked, metadata[key])


@settings(max_examples=400)
@given(filters, metadatas)
def test_matches_agrees_with_a_naive_evaluator(asked: Filter, metadata: dict[str, Any]) -> None:
    assert matches(asked, metadata) is naive(asked, metadata)


@settings(max_examples=200)
@given(leaves, metadata_values)
def test_every_leaf_agrees_with_a_naive_evaluator_where_its_key_is_there(asked: Any, value: Any) -> None:
    assert matches(asked, {asked.key: value}) is naive(asked, {asked.key: value})


def mean_the_same(left: Filter, right: Filter, metadata: dict[str, Any]) -> bool:
    return matches(left, metadata) is matches(right, metadata)


@given(keys, scalars, metadatas)
def test_ne_is_exists_and_not_eq(key: str, value: Any, metadata: dict[str, Any]) -> None:
    assert mean_the_same(Ne(key, value), And(Exists(key), Not(Eq(key, value))), metadata)


@given(keys, several, metadatas)
def test_not_in_is_exists_and_not_in(key: str, values: list[Any], metadata: dict[str, Any]) -> None:
    assert mean_the_same(NotIn(key, values), And(Exists(key), Not(In(key, values))), metadata)


@given(keys, metadatas)
def test_exists_false_is_not_exists(key: str, metadata: dict[str, Any]) -> None:
    assert mean_the_same(Exists(key, False), Not(Exists(key)), metadata)


@given(keys, several, metadatas)
def test_in_is_an_or_of_eq(key: str, values: list[Any], metadata: dict[str, Any]) -> None:
    assert mean_the_same(In(key, values), Or(*(Eq(key, value) for value in values)), metadata)


@given(keys, st.lists(scalars, min_size=1, max_size=3), metadatas)
def test_all_is_an_and_of_eq(key: str, values: list[Any], metadata: dict[str, Any]) -> None:
    assert mean_the_same(All(key, values), And(*(Eq(key, value) for value in values)), metadata)


@given(ranges, metadatas)
def test_a_range_is_an_and_of_ranges_with_one_bound_each(asked: Any, metadata: dict[str, Any]) -> None:
    single = [Range(asked.key, **{side: bound}) for side, bound in asked.bounds().items()]
    assert mean_the_same(asked, And(*single), metadata)


@given(st.lists(filters, max_size=3), metadatas)
def test_de_morgan(members: list[Filter], metadata: dict[str, Any]) -> None:
    assert mean_the_same(Not(And(*members)), Or(*map(Not, members)), metadata)
    assert mean_the_same(Not(Or(*members)), And(*map(Not, members)), metadata)


@given(filters, metadatas)
def test_double_negation_changes_nothing(asked: Filter, metadata: dict[str, Any]) -> None:
    assert mean_the_same(Not(Not(asked)), asked, metadata)


@given(st.lists(filters, max_size=3), metadatas)
def test_order_and_repetition_of_members_change_nothing(members: list[Filter], metadata: dict[str, Any]) -> None:
    turned = [*reversed(members), *members]
    assert mean_the_same(And(*members), And(*turned), metadata)
    assert mean_the_same(Or(*members), Or(*turned), metadata)


@given(keys, st.lists(scalars, min_size=1, max_size=3), metadatas)
def test_order_and_repetition_of_values_change_nothing(key: str, values: list[Any], metadata: dict[str, Any]) -> None:
    turned = [*reversed(values), *values]
    for node in (In, NotIn, All):
        assert mean_the_same(node(key, values), node(key, turned), metadata)


@given(filters)
def test_the_dict_form_is_json_and_parses_to_an_equal_filter(asked: Filter) -> None:
    again = parse(json.loads(json.dumps(as_dict(asked))))
    assert again == asked
    assert hash(again) == hash(asked)


@given(scalars, scalars)
def test_filters_are_equal_exactly_when_their_scalars_are(left: Any, right: Any) -> None:
    assert (Eq("k", left) == Eq("k", right)) is same(left, right)
    if same(left, right):
        assert hash(Eq("k", left)) == hash(Eq("k", right))


anything = st.recursive(
    st.none()
    | scalars
    | st.floats()
    | st.integers()
    | st.binary(max_size=2)
    | st.complex_numbers()
    | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=1), inner),
    max_leaves=5,
)


@given(filters, st.dictionaries(keys | st.integers() | st.none(), anything, max_size=4))
def test_matches_is_total(asked: Filter, metadata: dict[Any, Any]) -> None:
    before = repr(metadata)
    assert matches(asked, metadata) is not matches(Not(asked), metadata)
    assert repr(metadata) == before
