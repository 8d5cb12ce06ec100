"""The meaning of a filter: every store must answer as `matches` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stackroom._errors import FilterError
from stackroom._filters.nodes import Filter
from stackroom._values import ReadOnly, plain

if TYPE_CHECKING:
    from collections.abc import Mapping


def matches(filter: Filter, metadata: Mapping[str, object]) -> bool:
    """Say whether the filter holds for the metadata: the reference evaluator, pure and total.

    It never raises and changes nothing, whatever the metadata holds: None counts as missing, tuples as lists, NumPy
    scalars and subclasses as the values they hold; keys that are no strings are passed over; anything else (NaN,
    infinities, ints beyond 64 bits, dicts, objects …) is there and equal to nothing, in no order, and its own ``==``
    is never asked. The cost for a record does not grow with the number of values of In, NotIn and All.
    """
    if not isinstance(filter, Filter):
        raise FilterError(f"a filter is of type {type(filter).__name__}; expected a filter node (parse a dict first)")
    safe = metadata if _has_plain_keys(metadata) else _with_plain_keys(metadata)
    return filter._holds(safe)


def _has_plain_keys(metadata: Mapping[str, object]) -> bool:
    """Say whether looking up a key is safe: in a plain dict, a key of another class could be asked for its ``==``."""
    if type(metadata) is not dict and type(metadata) is not ReadOnly:
        return False
    for key in metadata:
        if type(key) is not str:
            return False
    return True


def _with_plain_keys(metadata: Mapping[str, object]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in metadata.items():
        name = plain(key)
        if type(name) is str and (name is key or name not in found):
            found[name] = value
    return found
