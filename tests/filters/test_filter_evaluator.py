"""What `matches` answers at the edges of the language and on metadata that no record can hold."""

from __future__ import annotations

from collections import ChainMap, OrderedDict, defaultdict, namedtuple
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pytest

from stackroom.filters import All, And, Contains, Eq, Exists, Filter, In, Ne, Not, NotIn, Or, Range, matches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

INFINITY, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("asked", "value", "answer"),
    [
        (Eq("k", 5), 5.0, True),
        (Eq("k", 0), -0.0, True),
        (Eq("k", 2**53 + 1), float(2**53), False),
        (Eq("k", 2**63 - 1), float(2**63), False),
        (Eq("k", "a"), "A", False),
        (Eq("k", "a"), " a", False),
        (Eq("k", "é"), "e\u0301", False),
        (Eq("k", True), "true", False),
        (Eq("k", False), 0, False),
        (Eq("k", ""), "", True),
        (Eq("k", 1), [True, "1"], False),
        (Eq("k", True), [1, True], True),
        (Ne("k", 1), [True], True),
        (Ne("k", 1), [], True),
        (In("k", [True]), 1, False),
        (In("k", [1]), [True, 1.0], True),
        (NotIn("k", ["a"]), ["a", "b"], False),
        (All("k", [1, 1.0]), 1, True),
        (All("k", [1, 2]), 1, False),
        (All("k", ["a"]), [], False),
        (All("k", [1, True]), [1, 1], False),
        (Contains("k", "b%"), "ab%c", True),
        (Contains("k", "_"), "abc", False),
        (Contains("k", "\\"), "a\\b", True),
        (Contains("k", "*"), "abc", False),
        (Contains("k", "B"), "abc", False),
        (Contains("k", "b"), ["abc"], False),
        (Contains("k", 5), [5.0], True),
        (Contains("k", 5), 5, False),
        (Contains("k", 5), "5", False),
        (Contains("k", True), True, False),
        (Contains("k", "5"), 5, False),
        (Range("k", gt="Z", lt="é"), "a", True),
        (Range("k", lt="\U0001f600"), "\ufffd", True),
        (Range("k", gt=float(2**53)), 2**53 + 1, True),
        (Range("k", gte=1, lte=1), 1.0, True),
        (Range("k", gt=1), 1, False),
        (Range("k", lt=1), 1, False),
        (Range("k", gt=0), True, False),
        (Range("k", gt=0), "1", False),
        (Range("k", gt="0"), 1, False),
        (Range("k", gt=0), [1], False),
        (Range("k", gt=9, lt=1), 5, False),
        (Range("k", gte="2024-05-01"), "2024-05-01T09:00:00Z", True),
        (Exists("k"), [], True),
        (Exists("k"), "", True),
        (Exists("k"), 0, True),
        (Exists("k"), False, True),
        (Exists("k", False), [], False),
    ],
    ids=repr,
)
def test_a_field_is_compared_by_kind_and_exact_value(asked: Filter, value: object, *, answer: bool) -> None:
    assert matches(asked, {"k": value}) is answer


@pytest.mark.parametrize("metadata", [{}, {"K": 1}, {"k ": 1}, {"k": None}], ids=repr)
def test_only_negations_hold_for_a_missing_key(metadata: Mapping[str, object]) -> None:
    leaves = [
        Eq("k", 1),
        Ne("k", 1),
        In("k", [1]),
        NotIn("k", [1]),
        All("k", [1]),
        Contains("k", "a"),
        Range("k", gt=1),
    ]
    assert not any(matches(leaf, metadata) for leaf in leaves)
    assert all(matches(Not(leaf), metadata) for leaf in leaves)
    assert not matches(Exists("k"), metadata)
    assert matches(Exists("k", False), metadata)


def test_a_dot_in_a_key_is_no_path() -> None:
    assert matches(Eq("a.b", 1), {"a.b": 1})
    assert not matches(Eq("a.b", 1), {"a": {"b": 1}})


def test_none_among_elements_is_equal_to_nothing() -> None:
    assert matches(Ne("k", 1), {"k": [None]})
    assert not matches(In("k", [1, "None"]), {"k": [None]})


class Word(str):
    """A string that says of itself that it equals nothing, and hides what it holds."""

    __slots__ = ()

    def __eq__(self, other: object) -> NoReturn:
        raise AssertionError

    def __hash__(self) -> int:
        return 1

    __str__ = __contains__ = __gt__ = __lt__ = __eq__  # type: ignore[assignment]


class Number(int):
    """An int that lies about its value."""

    def __eq__(self, other: object) -> NoReturn:
        raise AssertionError

    def __hash__(self) -> int:
        return 1

    __int__ = __index__ = __float__ = __gt__ = __lt__ = __eq__  # type: ignore[assignment]


class Elements(list[object]):
    """A list that hides what it holds."""

    def __iter__(self) -> Iterator[object]:
        raise AssertionError

    __len__ = __contains__ = __iter__  # type: ignore[assignment]


Pair = namedtuple("Pair", "left right")  # noqa: PYI024 - the untyped kind is a tuple all the same


@pytest.mark.parametrize(
    ("asked", "value"),
    [
        (Eq("k", "abc"), Word("abc")),
        (Contains("k", "b"), Word("abc")),
        (Range("k", gt="abb"), Word("abc")),
        (Eq("k", 5), Number(5)),
        (Range("k", gt=4, lt=6), Number(5)),
        (Eq("k", 5), np.int16(5)),
        (Range("k", gt=0.25), np.float32(0.5)),
        (Eq("k", True), np.True_),
        (Ne("k", 1), np.True_),
        (Contains("k", "b"), np.str_("abc")),
        (All("k", ["a", 5]), ("a", 5)),
        (All("k", ["a", 5]), Elements(["a", Number(5)])),
        (Contains("k", "a"), ("a",)),
        (In("k", [5]), [np.float64(5)]),
        (Eq("k", "b"), Pair("a", "b")),
    ],
)
def test_subclasses_tuples_and_numpy_scalars_count_as_what_they_hold(asked: Filter, value: object) -> None:
    assert matches(asked, {"k": value})


class Hostile:
    """An object that nobody may ask anything."""

    def __eq__(self, other: object) -> NoReturn:
        raise AssertionError

    def __hash__(self) -> int:
        return hash("k")

    def __bool__(self) -> NoReturn:
        raise AssertionError

    def __getattribute__(self, name: str) -> NoReturn:
        raise AssertionError

    __lt__ = __gt__ = __le__ = __ge__ = __iter__ = __len__ = __contains__ = __str__ = __repr__ = __eq__  # type: ignore[assignment]


CYCLE: list[Any] = ["z"]
CYCLE.append(CYCLE)
STRANGE: dict[str, object] = {
    "nan": NAN,
    "infinity": INFINITY,
    "big int": 2**70,
    "numpy nan": np.float64("nan"),
    "unsigned": np.uint64(2**64 - 1),
    "longdouble": np.longdouble(5),
    "complex": 5 + 0j,
    "dict": {"a": 5},
    "set": {5, "a"},
    "bytes": b"a",
    "datetime": datetime(2024, 5, 1, tzinfo=UTC),
    "numpy date": np.datetime64(5, "ns"),
    "numpy duration": np.timedelta64(5, "ns"),
    "array": np.array([5, 5]),
    "array of one": np.array("a"),
    "class": str,
    "hostile": Hostile(),
    "lists in lists": [["a"], [5], ("a",)],
    "strange elements": [NAN, 2**70, {"a": 5}, Hostile(), np.array([5, 5]), b"a"],
    "cycle": CYCLE,
}


@pytest.mark.parametrize("name", STRANGE)
def test_anything_else_is_there_and_equal_to_nothing_in_no_order(name: str) -> None:
    metadata = {"k": STRANGE[name]}
    positive = [
        *(Eq("k", operand) for operand in (5, "a", True)),
        In("k", [5, "a", True, ""]),
        All("k", [5]),
        Contains("k", "a"),
        Contains("k", 5),
        *(Range("k", gte=bound) for bound in (-(2**63), -1e308, "")),
        *(Range("k", lte=bound) for bound in (2**63 - 1, 1e308, "\U0010ffff")),
    ]
    assert not any(matches(asked, metadata) for asked in positive)
    assert all(matches(asked, metadata) for asked in (Exists("k"), Ne("k", 5), NotIn("k", ["a", 5])))


@pytest.mark.parametrize("key", [5, None, ("k",), b"k", Hostile], ids=repr)
def test_keys_that_are_no_strings_are_passed_over(key: Any) -> None:
    assert not matches(Exists("k"), {key: 5})
    assert matches(Eq("k", 5), {key: 4, "k": 5})


def test_a_key_that_hashes_like_the_one_asked_for_is_never_asked_whether_it_equals_it() -> None:
    metadata: dict[Any, object] = {Hostile(): 5}
    assert not matches(Exists("k"), metadata)


def test_a_key_of_a_subclass_of_str_counts_as_what_it_holds() -> None:
    assert matches(Eq("k", 5), {Word("k"): 5})
    assert matches(Eq("k", 5), {"k": 5, Word("m"): 6})


@pytest.mark.parametrize(
    "metadata",
    [
        MappingProxyType({"k": 5}),
        ChainMap({}, {"k": 5}),
        OrderedDict(k=5),
        defaultdict(int, {"k": 5}),
    ],
)
def test_any_mapping_is_read_and_left_as_it_is(metadata: Mapping[str, Any]) -> None:
    assert matches(And(Eq("k", 5), Not(Exists("m"))), metadata)
    assert dict(metadata) == {"k": 5}


def test_and_or_answer_for_no_members() -> None:
    assert matches(And(), {})
    assert not matches(Or(), {})


def test_the_cost_of_a_record_does_not_grow_with_the_values() -> None:
    class Counted(int):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Counted.compared += 1
            return int(self) == other

        __hash__ = int.__hash__

    many = [In("k", map(Counted, range(10_000))), All("k", map(Counted, range(10_000)))]
    Counted.compared = 0
    assert [matches(asked, {"k": 9_999}) for asked in many] == [True, False]
    assert Counted.compared == 0
