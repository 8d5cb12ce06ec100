"""What stores and the library ask about a filter without any metadata at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stackroom._errors import UnsupportedFilter
from stackroom._filters.nodes import And, Eq, Filter, In, Not, Or

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def nodes(filter: Filter) -> Iterator[Filter]:
    """Yield every node, the root first, members in the order written."""
    yield filter
    if isinstance(filter, And | Or):
        for member in filter.filters:
            yield from nodes(member)
    elif isinstance(filter, Not):
        yield from nodes(filter.filter)


def leaves(filter: Filter) -> Iterator[Filter]:
    """Yield every node that is no And, Or or Not, in the order written."""
    return (node for node in nodes(filter) if not isinstance(node, And | Or | Not))


def conjuncts(filter: Filter) -> Iterator[Filter]:
    """Yield the filters that must all hold: the members of an And, at any depth of Ands; else the filter itself.

    ``And()`` yields none, for it asks nothing.
    """
    if isinstance(filter, And):
        for member in filter.filters:
            yield from conjuncts(member)
    else:
        yield filter


def named_values(filter: Filter, key: str) -> set[str] | None:
    """Return the only strings that a key of one string can hold in what matches, or None when it may be any."""
    named: set[str] | None = None
    for member in conjuncts(filter):
        if isinstance(member, Eq | In) and member.key == key:
            values = (member.value,) if isinstance(member, Eq) else member.values
            found = {value for value in values if isinstance(value, str)}
            named = found if named is None else named & found
    return named


def never(filter: Filter) -> bool:
    """Say whether it can be seen without metadata that nothing can match; False when not sure."""
    if isinstance(filter, In):
        return not filter.values
    if isinstance(filter, And):
        return any(map(never, filter.filters))
    return isinstance(filter, Or) and all(map(never, filter.filters))


def check_supported(filter: Filter, supports: Mapping[str, str]) -> None:
    """Raise `UnsupportedFilter` for the first node whose class name `supports` maps to "refused"."""
    for node in nodes(filter):
        operator = type(node).__name__
        if supports.get(operator) == "refused":
            raise UnsupportedFilter(operator, getattr(node, "key", None))
