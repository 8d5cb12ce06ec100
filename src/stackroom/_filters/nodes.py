"""The nodes of the filter language: frozen, hashable, checked when made, each able to answer for itself.

What each node means is said once, in its `_holds`; `matches` is the door to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from stackroom._errors import FilterError
from stackroom._filters.scalars import (
    ScalarKey,
    checked_key,
    checked_scalar,
    checked_scalars,
    scalar_key,
    shown,
    text_or_number,
)
from stackroom._values import Scalar, plain

MAX_DEPTH = 64
"""How deep a filter may be: twice what `parse` accepts, to put a caller's filter under scope and narrowings."""

Metadata: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Filter:
    """What every node is. Equal are nodes of one class with equal operands, where ``5 == 5.0`` and ``1 != True``.

    ``depth`` is 1 for a leaf, and one more than their deepest member for And, Or and Not.
    """

    depth: int = field(init=False, repr=False)
    _operands: tuple[object, ...] = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)

    def __init__(self) -> None:
        raise TypeError("Filter is what all nodes are, and none itself; make Eq, In, Range, And …")

    def _arguments(self) -> tuple[object, ...]:
        """Return the positional arguments that make this node again."""
        names: tuple[str, ...] = self.__match_args__
        return tuple(getattr(self, name) for name in names)

    def _holds(self, metadata: Metadata) -> bool:
        """Answer for metadata whose keys are all of exactly the type str; every node has its own."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Filter):
            return NotImplemented
        return type(self) is type(other) and self._hash == other._hash and self._operands == other._operands

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._arguments()))})"

    def __reduce__(self) -> tuple[Callable[..., Filter], tuple[object, ...]]:
        return type(self), self._arguments()


def _fill(node: Filter, operands: tuple[object, ...], slots: dict[str, object], depth: int = 1) -> None:
    own: dict[str, object] = {"depth": depth, "_operands": operands, "_hash": hash((type(node).__name__, operands))}
    for name, value in (slots | own).items():
        object.__setattr__(node, name, value)


def _holds_one_of(value: object, keys: frozenset[ScalarKey]) -> bool:
    """Say whether a scalar is, or a list holds, one of the scalars with these keys."""
    kind = type(value)
    if kind is str:
        return value in keys
    if issubclass(kind, (list, tuple)):
        return not keys.isdisjoint(map(scalar_key, _elements(value)))
    return scalar_key(value) in keys


def _elements(value: Any) -> Iterable[object]:
    """Return the elements of a list or tuple, whatever its class has made of iteration."""
    kind = type(value)
    if kind is list or kind is tuple:
        elements: Iterable[object] = value
        return elements
    return list.__iter__(value) if issubclass(kind, list) else tuple.__iter__(value)


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Eq(Filter):
    """The field is equal to the value, or is a list that holds an element equal to it. Missing: no."""

    key: str
    value: Scalar
    _keys: frozenset[ScalarKey] = field(init=False, repr=False)

    def __init__(self, key: str, value: Scalar) -> None:
        _fill_with_value(self, key, value)

    def _holds(self, metadata: Metadata) -> bool:
        return _holds_one_of(metadata.get(self.key), self._keys)


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Ne(Filter):
    """The key is there and `Eq` does not hold: of another value, another kind, or a list without it."""

    key: str
    value: Scalar
    _keys: frozenset[ScalarKey] = field(init=False, repr=False)

    def __init__(self, key: str, value: Scalar) -> None:
        _fill_with_value(self, key, value)

    def _holds(self, metadata: Metadata) -> bool:
        value = metadata.get(self.key)
        return value is not None and not _holds_one_of(value, self._keys)


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Contains(Filter):
    """The value, a string, is literally a part of the string field; or an element of the list field equals it."""

    key: str
    value: Scalar
    _keys: frozenset[ScalarKey] = field(init=False, repr=False)

    def __init__(self, key: str, value: Scalar) -> None:
        _fill_with_value(self, key, value)
        if self.value == "":
            raise FilterError(f"{shown(self.key)}: the value of Contains is empty; expected the part to look for")

    def _holds(self, metadata: Metadata) -> bool:
        value = metadata.get(self.key)
        if issubclass(type(value), (list, tuple)):
            return _holds_one_of(value, self._keys)
        text, part = plain(value), self.value
        return type(text) is str and type(part) is str and part in text


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class In(Filter):
    """The field is equal to one of the values, or is a list that holds one of them. Missing: no. No values: never."""

    key: str
    values: tuple[Scalar, ...]
    _keys: frozenset[ScalarKey] = field(init=False, repr=False)

    def __init__(self, key: str, values: Iterable[Scalar]) -> None:
        _fill_with_values(self, key, values)

    def _holds(self, metadata: Metadata) -> bool:
        return _holds_one_of(metadata.get(self.key), self._keys)


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class NotIn(Filter):
    """The key is there and `In` does not hold. No values: whatever has the key."""

    key: str
    values: tuple[Scalar, ...]
    _keys: frozenset[ScalarKey] = field(init=False, repr=False)

    def __init__(self, key: str, values: Iterable[Scalar]) -> None:
        _fill_with_values(self, key, values)

    def _holds(self, metadata: Metadata) -> bool:
        value = metadata.get(self.key)
        return value is not None and not _holds_one_of(value, self._keys)


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class All(Filter):
    """The list field holds every one of the values; a scalar field counts as a list of one. Missing: no."""

    key: str
    values: tuple[Scalar, ...]
    _keys: frozenset[ScalarKey] = field(init=False, repr=False)

    def __init__(self, key: str, values: Iterable[Scalar]) -> None:
        _fill_with_values(self, key, values)
        if not self.values:
            raise FilterError(
                f"{shown(self.key)}: All has no values; expected at least one, for none would ask nothing"
            )

    def _holds(self, metadata: Metadata) -> bool:
        value = metadata.get(self.key)
        keys = self._keys
        if not issubclass(type(value), (list, tuple)):
            return len(keys) == 1 and scalar_key(value) in keys
        return keys.issubset(map(scalar_key, _elements(value)))


def _fill_with_value(leaf: Eq | Ne | Contains, key: object, value: object) -> None:
    name = checked_key(key)
    scalar = checked_scalar(value, f"{shown(name)}: the value of {type(leaf).__name__}")
    operand = scalar_key(scalar)
    _fill(leaf, (name, operand), {"key": name, "value": scalar, "_keys": frozenset((operand,))})


def _fill_with_values(leaf: In | NotIn | All, key: object, values: Iterable[object]) -> None:
    name = checked_key(key)
    scalars = checked_scalars(values, shown(name), type(leaf).__name__)
    operands = tuple(map(scalar_key, scalars))
    _fill(leaf, (name, operands), {"key": name, "values": scalars, "_keys": frozenset(operands)})


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Range(Filter):
    """Every bound given holds for the scalar field. Lists, booleans and fields of another kind than the bounds: no.

    Strings are ordered by code point, numbers by exact value. A bound of None is not given.
    """

    key: str
    gt: str | float | None = field(kw_only=True)
    gte: str | float | None = field(kw_only=True)
    lt: str | float | None = field(kw_only=True)
    lte: str | float | None = field(kw_only=True)
    _orders_strings: bool = field(init=False, repr=False)

    def __init__(
        self,
        key: str,
        *,
        gt: str | float | None = None,
        gte: str | float | None = None,
        lt: str | float | None = None,
        lte: str | float | None = None,
    ) -> None:
        name = checked_key(key)
        given = {"gt": gt, "gte": gte, "lt": lt, "lte": lte}
        bounds = {side: text_or_number(bound, f"{shown(name)}: {side} of Range") for side, bound in given.items()}
        kinds = {isinstance(bound, str) for bound in bounds.values() if bound is not None}
        if not kinds:
            raise FilterError(f"{shown(name)}: Range has no bound; expected at least one of gt, gte, lt, lte")
        if len(kinds) > 1:
            raise FilterError(f"{shown(name)}: Range has bounds of two kinds; expected all strings or all numbers")
        _fill(self, (name, *bounds.values()), {"key": name, "_orders_strings": kinds.pop(), **bounds})

    def _holds(self, metadata: Metadata) -> bool:
        value: Any = scalar_key(metadata.get(self.key))
        kind = type(value)
        if kind is not str if self._orders_strings else kind is not int and kind is not float:
            return False
        return (
            (self.gt is None or value > self.gt)
            and (self.gte is None or value >= self.gte)
            and (self.lt is None or value < self.lt)
            and (self.lte is None or value <= self.lte)
        )

    def bounds(self) -> dict[str, Any]:
        """Return the bounds that are given, by their names."""
        named = {"gt": self.gt, "gte": self.gte, "lt": self.lt, "lte": self.lte}
        return {side: bound for side, bound in named.items() if bound is not None}

    def __repr__(self) -> str:
        return f"Range({self.key!r}, {', '.join(f'{side}={bound!r}' for side, bound in self.bounds().items())})"

    def __reduce__(self) -> tuple[Callable[..., Filter], tuple[object, ...]]:
        return partial(Range, **self.bounds()), (self.key,)


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Exists(Filter):
    """The key is there, whatever it holds; or, with False, it is not there."""

    key: str
    exists: bool

    def __init__(self, key: str, exists: bool = True) -> None:
        name = checked_key(key)
        wanted = plain(exists)
        if not isinstance(wanted, bool):
            raise FilterError(
                f"{shown(name)}: Exists has an operand of type {type(exists).__name__}; expected a boolean"
            )
        _fill(self, (name, wanted), {"key": name, "exists": wanted})

    def _holds(self, metadata: Metadata) -> bool:
        return (metadata.get(self.key) is not None) is self.exists


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class And(Filter):
    """All members hold; without members it holds always."""

    filters: tuple[Filter, ...]
    _tests: tuple[Callable[[Metadata], bool], ...] = field(init=False, repr=False)

    def __init__(self, *filters: Filter) -> None:
        _fill_with_members(self, filters)

    def _holds(self, metadata: Metadata) -> bool:
        for holds in self._tests:
            if not holds(metadata):
                return False
        return True

    def _arguments(self) -> tuple[object, ...]:
        return self.filters


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Or(Filter):
    """At least one member holds; without members it never holds."""

    filters: tuple[Filter, ...]
    _tests: tuple[Callable[[Metadata], bool], ...] = field(init=False, repr=False)

    def __init__(self, *filters: Filter) -> None:
        _fill_with_members(self, filters)

    def _holds(self, metadata: Metadata) -> bool:
        for holds in self._tests:
            if holds(metadata):
                return True
        return False

    def _arguments(self) -> tuple[object, ...]:
        return self.filters


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Not(Filter):
    """The member does not hold; so it also holds for records that lack the member's key."""

    filter: Filter
    _test: Callable[[Metadata], bool] = field(init=False, repr=False)

    def __init__(self, filter: Filter) -> None:
        members = _checked_members((filter,), "Not")
        holds = filter._holds
        _fill(self, members, {"filter": filter, "_test": holds}, _depth_over(members, "Not"))

    def _holds(self, metadata: Metadata) -> bool:
        return not self._test(metadata)


def _fill_with_members(parent: And | Or, filters: tuple[object, ...]) -> None:
    name = type(parent).__name__
    members = _checked_members(filters, name)
    tests = tuple(member._holds for member in members)
    _fill(parent, members, {"filters": members, "_tests": tests}, _depth_over(members, name))


def _checked_members(filters: tuple[object, ...], name: str) -> tuple[Filter, ...]:
    members: list[Filter] = []
    for position, member in enumerate(filters):
        if not isinstance(member, Filter):
            raise FilterError(
                f"member number {position} of {name} is of type {type(member).__name__}; expected a filter node "
                f"(parse a dict first, unpack a list)"
            )
        members.append(member)
    return tuple(members)


def _depth_over(members: tuple[Filter, ...], name: str) -> int:
    depth = 1 + max((member.depth for member in members), default=0)
    if depth > MAX_DEPTH:
        raise FilterError(f"{name} would be {depth} deep; expected at most {MAX_DEPTH}")
    return depth
