"""What a value may be: the metadata values that filters compare and records hold, and strings that can be stored.

This is the lowest module: filters, values at the door and records all judge by it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn, TypeAlias

import numpy as np

Scalar: TypeAlias = str | int | float | bool
MetadataValue: TypeAlias = Scalar | list[Scalar]

INT_MIN, INT_MAX = -(2**63), 2**63 - 1

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def unstorable_at(text: str) -> int | None:
    """Return the position of the first character that no record can hold: U+0000 or a lone surrogate."""
    found = _UNSTORABLE.search(text)
    return found.start() if found else None


def plain(value: object) -> object:
    """Return exactly the str, bool, int or float that `value` holds, anything else as it is.

    Subclasses and NumPy scalars give the value they hold; NumPy dates and durations hold none. Nothing that the
    value's own class overrides is called.
    """
    kind = type(value)
    known: Any = value  # from here on known by its type, which cannot lie as __class__ can
    if issubclass(kind, str):
        return str.__str__(known)
    if issubclass(kind, int):
        return known if kind is bool else int.__int__(known)
    if issubclass(kind, float):
        return float.__float__(known)
    if issubclass(kind, (np.bool_, np.number)) and not issubclass(kind, np.timedelta64):
        held = np.generic.item(known)
        return held if type(held) in {bool, int, float} else value
    return value


def scalar_problem(value: object) -> str | None:
    """Say why a plain Python value is no scalar of the metadata language, or None when it is one."""
    kind = type(value)
    known: Any = value  # as in plain
    if issubclass(kind, str):
        at = unstorable_at(known)
        return None if at is None else f"has NUL or a lone surrogate at position {at}"
    if issubclass(kind, int):
        return None if INT_MIN <= known <= INT_MAX else "is an int beyond 64 bits"
    if issubclass(kind, float):
        return None if math.isfinite(known) else "is NaN or infinite"
    return f"is of type {kind.__name__}, not a string, number or boolean"


def metadata_problem(value: object) -> str | None:
    """Say why a plain Python value (scalar, list or tuple) is no metadata value, or None when it is one."""
    if not isinstance(value, list | tuple):
        return scalar_problem(value)
    for position, item in enumerate(value):
        problem = scalar_problem(plain(item))
        if problem is not None:
            return f"holds an element (number {position}) that {problem}"
    return None


def metadata_copy(metadata: Mapping[str, object], error: type[Exception], what: str) -> dict[str, MetadataValue]:
    """Return a checked copy of `metadata` with plain Python keys and values; raise `error` naming the first bad key.

    Tuples become lists, NumPy scalars the Python values they hold. The message names the key and the kind of its
    value, never the value.
    """
    if not isinstance(metadata, Mapping):
        raise error(f"{what} must be a mapping of strings to values, not {type(metadata).__name__}")
    return dict(_metadata_item(key, value, error, what) for key, value in metadata.items())


def _metadata_item(raw_key: object, raw: object, error: type[Exception], what: str) -> tuple[str, MetadataValue]:
    key = raw_key if type(raw_key) is str else plain(raw_key)
    if not isinstance(key, str):
        raise error(f"{what} has a key that is no string but a {type(key).__name__}")
    if not key:
        raise error(f"{what} has an empty key; give it a name")
    if (at := unstorable_at(key)) is not None:
        raise error(f"{what} has a key with NUL or a lone surrogate at position {at}")
    if type(raw) is str and _UNSTORABLE.search(raw) is None:
        return key, raw
    value: Any = plain(raw)
    problem = metadata_problem(value)
    if problem is not None:
        raise error(f"{what}: the value of {key!r} {problem}; store a string, number, boolean or a list of those")
    return key, _all_plain(value) if isinstance(value, list | tuple) else value


def _all_plain(values: Iterable[Any]) -> list[Any]:
    return [plain(value) for value in values]


def items_of(values: object, error: type[Exception], what: str) -> list[Any]:
    """Return the items of any iterable but a bare str, bytes or mapping, which would be read letter by letter."""
    items = _iterator(values)
    if items is None:
        raise error(f"{what} must be a list of items, not {type(values).__name__}; put a single one in a list")
    return list(items)


def _iterator(values: object) -> Iterator[Any] | None:
    if isinstance(values, str | bytes | bytearray | Mapping) or not isinstance(values, Iterable):
        return None
    try:
        return iter(values)
    except TypeError:  # an array without dimensions has __iter__ and yet no items
        return None


class ReadOnly(dict[str, MetadataValue]):
    """A dict that cannot be changed: what a frozen value shows of its metadata. Lists in it are copies of its own."""

    __slots__ = ()

    def _refuse(self, *_args: object, **_kwargs: object) -> NoReturn:
        raise TypeError("this metadata is read-only; copy it with dict(…) to change the copy")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[ReadOnly], tuple[dict[str, MetadataValue]]]:
        return ReadOnly, (dict(self),)
