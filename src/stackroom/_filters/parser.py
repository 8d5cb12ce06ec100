"""The dict form of filters: `parse` reads it, `as_dict` writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias, TypeVar

from stackroom._errors import FilterError
from stackroom._filters.nodes import All, And, Contains, Eq, Exists, Filter, In, Ne, Not, NotIn, Or, Range
from stackroom._filters.scalars import checked_key, shown
from stackroom._values import plain

MAX_PARSED_DEPTH = 32

_BOUNDS: dict[str, str] = {"$gt": "gt", "$gte": "gte", "$lt": "lt", "$lte": "lte"}
_LEAVES: dict[str, type[Eq | Ne | In | NotIn | All | Contains | Exists]] = {
    "$eq": Eq,
    "$ne": Ne,
    "$in": In,
    "$nin": NotIn,
    "$all": All,
    "$contains": Contains,
    "$exists": Exists,
}
_MEMBERED: dict[str, Callable[..., Filter]] = {"$and": And, "$or": Or}
_WRITTEN: dict[type[Filter], str] = {leaf: operator for operator, leaf in _LEAVES.items()}

Made = TypeVar("Made")
Written: TypeAlias = Mapping[Any, object]


def parse(filter: Written | Filter) -> Filter:
    """Return the filter that a dict means; a node is answered as it is.

    Raises FilterError for whatever the language does not know, naming the place (``$or[1].year``) and what was
    expected, never an operand; also for more than 32 levels. Nothing is ever skipped.
    """
    parsed = filter if isinstance(filter, Filter) else _mapping(filter, "", 1)
    if parsed.depth > MAX_PARSED_DEPTH:
        raise FilterError(f"the filter is {parsed.depth} deep; expected at most {MAX_PARSED_DEPTH}")
    return parsed


def _mapping(written: object, place: str, depth: int) -> Filter:
    """Read one mapping at `place`; `depth` is the least that its nodes are deep, counted from the root."""
    if not isinstance(written, Mapping):
        raise FilterError(
            f"{place or 'the filter'} is of type {type(written).__name__}; expected a mapping such as "
            '{"year": {"$gte": 2024}}'
        )
    if depth > MAX_PARSED_DEPTH:
        raise FilterError(f"{place} is more than {MAX_PARSED_DEPTH} deep; expected at most {MAX_PARSED_DEPTH}")
    conditions = [condition for key, entry in written.items() for condition in _entry(key, entry, place, depth)]
    return conditions[0] if len(conditions) == 1 else _placed(_before(place, ": "), And, *conditions)


def _entry(raw_key: object, entry: object, place: str, depth: int) -> list[Filter]:
    key = plain(raw_key)
    if isinstance(key, str) and key.startswith("$"):
        return [_logical(key, entry, _before(place, ".") + shown(key), depth)]
    name = _placed(_before(place, ": "), checked_key, key)
    if isinstance(entry, Mapping):
        return _conditions(name, entry, _before(place, "."))
    return [_placed(_before(place, "."), Eq, name, entry)]


def _logical(operator: str, operand: object, place: str, depth: int) -> Filter:
    if operator == "$not":
        return _placed(_before(place, ": "), Not, _mapping(operand, place, depth + 1))
    if operator not in _MEMBERED:
        raise FilterError(f"{place} is no operator over whole filters; expected $and, $or, $not or a metadata key")
    if not isinstance(operand, list | tuple):
        raise FilterError(f"{place} is of type {type(operand).__name__}; expected a list of mappings")
    if operator == "$and" and not operand:
        raise FilterError(f"{place} is empty; expected at least one mapping ({{}} is how to ask nothing)")
    members = [_mapping(member, f"{place}[{position}]", depth + 1) for position, member in enumerate(operand)]
    return _placed(_before(place, ": "), _MEMBERED[operator], *members)


def _conditions(name: str, written: Written, before: str) -> list[Filter]:
    """Read the conditions on one key; its bounds become one Range at the place of the first."""
    place = before + shown(name)
    if not written:
        raise FilterError(f"{place} has no condition; expected at least one operator such as $eq")
    operands = {_operator(key, place): operand for key, operand in written.items()}
    if len(operands) < len(written):
        raise FilterError(f"{place} names one operator twice, by keys of two classes; expected it once")
    bounds: dict[str, Any] = {
        _BOUNDS[operator]: operand for operator, operand in operands.items() if operator in _BOUNDS
    }
    if any(bound is None for bound in bounds.values()):
        raise FilterError(f"{place} has a bound of None; expected a string or a number")
    conditions: dict[object, Filter] = {}
    for operator, operand in operands.items():
        if operator not in _BOUNDS:
            conditions[operator] = _placed(before, _LEAVES[operator], name, operand)
        elif Range not in conditions:
            conditions[Range] = _placed(before, partial(Range, **bounds), name)
    return list(conditions.values())


def _operator(raw_key: object, place: str) -> str:
    key = plain(raw_key)
    if not isinstance(key, str) or not key.startswith("$"):
        raise FilterError(f"{place} holds something that is no operator; expected operators such as $eq, not keys")
    if key not in _LEAVES and key not in _BOUNDS:
        raise FilterError(f"{place}.{shown(key)} is no operator on a key; expected one of {_known_operators()}")
    return key


def _known_operators() -> str:
    return ", ".join(sorted({*_LEAVES, *_BOUNDS}))


def _before(place: str, joint: str) -> str:
    """Return what stands before a part of the dict at `place`; nothing when that is the root."""
    return place + joint if place else ""


def _placed(before: str, make: Callable[..., Made], *arguments: Any) -> Made:
    """Return what `make` makes; when it refuses, the error says where in the dict that was."""
    try:
        return make(*arguments)
    except FilterError as error:
        problem = str(error)
    raise FilterError(before + problem)  # out here, so that it has no context


def as_dict(filter: Filter) -> dict[str, Any]:
    """Return the dict form, which JSON can hold; ``parse(as_dict(f)) == f`` as deep as `parse` goes."""
    if isinstance(filter, And | Or):
        members = [as_dict(member) for member in filter.filters]
        if isinstance(filter, Or):
            return {"$or": members}
        return {"$and": members} if members else {}
    if isinstance(filter, Not):
        return {"$not": as_dict(filter.filter)}
    return _leaf_as_dict(filter)


def _leaf_as_dict(leaf: Filter) -> dict[str, Any]:
    match leaf:
        case Range(key):
            return {key: {f"${side}": bound for side, bound in leaf.bounds().items()}}
        case Eq(key, operand) | Ne(key, operand) | Contains(key, operand) | Exists(key, operand):
            return {key: {_WRITTEN[type(leaf)]: operand}}
        case In(key, values) | NotIn(key, values) | All(key, values):
            return {key: {_WRITTEN[type(leaf)]: list(values)}}
    raise FilterError(f"a filter is of type {type(leaf).__name__}; expected a filter node")
