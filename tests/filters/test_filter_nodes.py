"""Nodes as values: frozen, hashable, equal when their operands are."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from stackroom._filters import scalar_key
from stackroom.filters import All, And, Contains, Eq, Exists, Filter, In, Ne, Not, NotIn, Or, Range

if TYPE_CHECKING:
    from collections.abc import Callable

ONE_OF_EACH: list[Filter] = [
    Eq("k", 1),
    Ne("k", "a"),
    Contains("k", "a"),
    In("k", [1, "1", True]),
    NotIn("k", []),
    All("k", ["a", 1.5]),
    Range("k", gt=1, lte=2.5),
    Range("k", gte="a", lt="b"),
    Exists("k"),
    Exists("k", False),
    And(),
    And(Eq("k", 1), Or(Eq("k", 2), Not(Exists("m")))),
    Or(Eq("k", 1)),
    Not(Eq("k", 1)),
]

NUMPY_ONE: Any = np.float32(1)
NUMPY_TRUE: Any = np.True_

EQUAL: list[tuple[Filter, Filter]] = [
    (Eq("n", 1), Eq("n", 1.0)),
    (Eq("n", 0), Eq("n", -0.0)),
    (Ne("n", 2**53), Ne("n", float(2**53))),
    (In("n", [1, "a"]), In("n", (1.0, "a"))),
    (All("n", [True]), All("n", [NUMPY_TRUE])),
    (Range("n", gt=1), Range("n", gt=1.0, lt=None)),
    (Exists("n"), Exists("n", True)),
    (And(Eq("n", 1)), And(Eq("n", 1.0))),
    (Not(Eq("n", 1)), Not(Eq("n", NUMPY_ONE))),
]
UNEQUAL: list[tuple[Filter, Filter]] = [
    (Eq("n", 1), Eq("n", True)),
    (Eq("n", 0), Eq("n", False)),
    (Eq("n", 1), Eq("n", "1")),
    (Eq("n", True), Eq("n", "True")),
    (Eq("n", 1), Eq("m", 1)),
    (Eq("n", 1), Ne("n", 1)),
    (Eq("n", 2**53 + 1), Eq("n", float(2**53))),
    (Eq("n", "é"), Eq("n", "e\u0301")),
    (In("k", [1, 2]), In("k", [2, 1])),
    (In("k", [1]), In("k", [1, 1])),
    (In("k", [1]), In("k", [True])),
    (In("k", [1]), All("k", [1])),
    (In("k", []), NotIn("k", [])),
    (Range("n", gt=1), Range("n", gte=1)),
    (Range("n", gt=1), Range("n", gt="1")),
    (Exists("n"), Exists("n", False)),
    (Exists("n"), Eq("n", True)),
    (And(), Or()),
    (And(Eq("n", 1)), Eq("n", 1)),
    (And(Eq("n", 1), Eq("m", 1)), And(Eq("m", 1), Eq("n", 1))),
    (Not(Eq("n", 1)), Not(Eq("n", True))),
]


@pytest.mark.parametrize(("left", "right"), EQUAL, ids=repr)
def test_nodes_with_equal_operands_are_equal_and_hash_alike(left: Filter, right: Filter) -> None:
    assert left == right
    assert hash(left) == hash(right)


@pytest.mark.parametrize(("left", "right"), UNEQUAL, ids=repr)
def test_nodes_of_other_classes_or_operands_are_unequal(left: Filter, right: Filter) -> None:
    assert left != right
    assert len({left, right}) == 2


def test_a_node_equals_nothing_that_is_no_node() -> None:
    assert Eq("n", 1) != {"n": 1}


@pytest.mark.parametrize("node", ONE_OF_EACH, ids=repr)
def test_a_node_is_shown_as_it_is_written(node: Filter) -> None:
    assert eval(repr(node)) == node  # noqa: S307 - the text is our own


def test_a_range_shows_only_the_bounds_that_are_given() -> None:
    assert repr(Range("n", gt=4, lt=9)) == "Range('n', gt=4, lt=9)"


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda node: pickle.loads(pickle.dumps(node))])  # noqa: S301 - our own
@pytest.mark.parametrize("node", ONE_OF_EACH, ids=repr)
def test_a_node_can_be_copied_and_pickled(node: Filter, again: Callable[[Filter], Filter]) -> None:
    assert again(node) == node
    assert hash(again(node)) == hash(node)


@pytest.mark.parametrize("node", ONE_OF_EACH, ids=repr)
def test_a_node_cannot_be_changed(node: Filter) -> None:
    with pytest.raises(FrozenInstanceError):
        node.depth = 2  # type: ignore[misc]  # what is refused
    with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
        node.other = 2  # type: ignore[attr-defined]  # what is refused


def test_attributes_are_named_as_the_arguments() -> None:
    assert (Eq("k", 1).key, Eq("k", 1).value) == ("k", 1)
    assert (In("k", [1, 2]).key, In("k", [1, 2]).values) == ("k", (1, 2))
    assert (Exists("k").key, Exists("k").exists) == ("k", True)
    assert Range("k", gt=1).gt == 1
    assert Range("k", gt=1).lte is None
    assert And(Eq("k", 1)).filters == (Eq("k", 1),)
    assert Or().filters == ()
    assert Not(Eq("k", 1)).filter == Eq("k", 1)


def test_arguments_can_be_named() -> None:
    assert Eq(key="k", value=1) == Eq("k", 1)
    assert In(key="k", values={1}) == In("k", [1])
    assert Exists(key="k", exists=False) == Exists("k", False)
    assert Not(filter=And()) == Not(And())


def test_nodes_can_be_taken_apart_by_a_match_statement() -> None:
    match Not(Eq("k", 1)):
        case Not(Eq(key, value)):
            assert (key, value) == ("k", 1)


@pytest.mark.parametrize("values", [[1, 2], (1, 2), iter([1, 2]), range(1, 3), {1: 0, 2: 0}.keys(), np.array([1, 2])])
def test_values_may_be_any_iterable(values: Any) -> None:
    assert In("k", values).values == (1, 2)


class Level(IntEnum):
    HIGH = 3


class Team(str, Enum):  # noqa: UP042 - a str with a foreign __str__ is what is tested
    LEGAL = "legal"


@pytest.mark.parametrize(
    ("operand", "held"),
    [
        (np.int8(5), 5),
        (np.float32(0.5), 0.5),
        (np.float64(0.5), 0.5),
        (np.bool_(1), True),
        (np.str_("a"), "a"),
        (Level.HIGH, 3),
        (Team.LEGAL, "legal"),
    ],
)
def test_an_operand_is_kept_as_the_python_value_it_holds(operand: Any, held: object) -> None:
    kept = Eq("k", operand).value
    assert kept == held
    assert type(kept) is type(held)


def test_a_key_is_kept_as_a_plain_string() -> None:
    assert type(Eq(np.str_("k"), 1).key) is str


def test_depth_is_one_for_leaves_and_one_more_than_the_deepest_member() -> None:
    assert Eq("k", 1).depth == 1
    assert And().depth == 1
    assert Or(Eq("k", 1), Not(Eq("k", 1))).depth == 3


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (5, 5.0, True),
        (0, -0.0, True),
        (2**53 + 1, float(2**53), False),
        (2**63 - 1, float(2**63), False),
        (1, True, False),
        (0.0, False, False),
        ("5", 5, False),
        ("True", True, False),
        ("é", "e\u0301", False),
        (True, np.True_, True),
        (np.int64(5), np.float16(5), True),
        ("legal", Team.LEGAL, True),
    ],
)
def test_scalars_have_one_key_exactly_when_they_are_equal(left: object, right: object, *, equal: bool) -> None:
    assert (scalar_key(left) == scalar_key(right)) is equal
    assert len({scalar_key(left), scalar_key(right)}) == (1 if equal else 2)


@pytest.mark.parametrize(
    "value", [None, [], (1,), float("nan"), float("-inf"), 2**63, b"a", 1j, object(), np.longdouble(1)]
)
def test_what_is_no_scalar_has_no_key(value: object) -> None:
    assert scalar_key(value) is None
