"""What stores ask about a filter without metadata."""

from __future__ import annotations

import pytest

from stackroom import FilterError, UnsupportedFilter
from stackroom._filters import check_supported, conjuncts, leaves, never, nodes
from stackroom.filters import All, And, Contains, Eq, Exists, Filter, In, Ne, Not, NotIn, Or, Range

A, B, C = Eq("a", 1), Ne("b", 1), Exists("c")
TREE = And(A, Or(B, Not(C)), And())


def test_nodes_are_all_nodes_from_the_root_on() -> None:
    assert list(nodes(TREE)) == [TREE, A, Or(B, Not(C)), B, Not(C), C, And()]


def test_leaves_are_the_nodes_that_are_no_and_or_not() -> None:
    assert list(leaves(TREE)) == [A, B, C]
    assert list(leaves(A)) == [A]


@pytest.mark.parametrize(
    ("asked", "members"),
    [
        (A, [A]),
        (Or(A, B), [Or(A, B)]),
        (Not(And(A, B)), [Not(And(A, B))]),
        (And(), []),
        (And(A, And(B, And(C), And())), [A, B, C]),
        (And(A, Or(And(B))), [A, Or(And(B))]),
    ],
    ids=repr,
)
def test_conjuncts_are_the_filters_that_must_all_hold(asked: Filter, members: list[Filter]) -> None:
    assert list(conjuncts(asked)) == members


@pytest.mark.parametrize(
    "asked",
    [In("k", []), Or(), And(A, In("k", [])), And(A, And(Or())), Or(In("k", []), Or()), Or(And(Or(), A))],
    ids=repr,
)
def test_what_can_be_seen_to_match_nothing_never_holds(asked: Filter) -> None:
    assert never(asked)


@pytest.mark.parametrize(
    "asked",
    [A, In("k", [1]), NotIn("k", []), And(), Or(In("k", []), A), Not(And()), Not(Or()), All("k", [1])],
    ids=repr,
)
def test_anything_else_may_match(asked: Filter) -> None:
    assert not never(asked)


def test_a_refused_node_is_found_in_whatever_part_it_sits() -> None:
    asked = And(In("k", []), Or(A, Not(Contains("text", "secret"))))
    with pytest.raises(UnsupportedFilter) as caught:
        check_supported(asked, {"Contains": "refused", "Not": "native"})
    assert (caught.value.operator, caught.value.key) == ("Contains", "text")
    assert "secret" not in str(caught.value)
    assert isinstance(caught.value, FilterError)


def test_a_refused_node_without_a_key_is_named_alone() -> None:
    with pytest.raises(UnsupportedFilter) as caught:
        check_supported(And(A, Not(A)), {"Not": "refused", "Eq": "native"})
    assert (caught.value.operator, caught.value.key) == ("Not", None)


def test_what_is_not_refused_is_supported() -> None:
    check_supported(And(TREE, Range("k", gt=1)), {"Contains": "refused", "Eq": "emulated"})
