"""The keys and scalars of a filter: which are accepted, and when two are equal.

Every message begins with the place (the key that is asked about), names kinds and positions, and never an operand.
"""

from __future__ import annotations

import datetime as dt
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeAlias

from stackroom._errors import FilterError
from stackroom._values import INT_MAX, INT_MIN, Scalar, items_of, plain, scalar_problem, unstorable_at

if TYPE_CHECKING:
    from collections.abc import Iterable

ScalarKey: TypeAlias = str | int | float | tuple[bool]

_TRUE, _FALSE = (True,), (False,)
_LONGEST_SHOWN = 80


def scalar_key(value: object) -> ScalarKey | None:
    """Return what is equal (and hashes alike) exactly when two scalars are equal; None for what equals nothing.

    Strings and numbers are their own keys, since Python compares ints with floats by exact value. Booleans get keys
    of their own, since to Python True is 1. Subclasses and NumPy scalars count as the value they hold; lists, None,
    NaN, infinities, ints beyond 64 bits and all other objects have no key.
    """
    kind = type(value)
    known: Any = value
    if kind is str:
        text: str = known
        return text
    if kind is bool:
        return _TRUE if known else _FALSE
    if kind is int:
        return known if INT_MIN <= known <= INT_MAX else None
    if kind is float:
        return known if isfinite(known) else None
    held = plain(value)
    return None if held is value else scalar_key(held)


def shown(key: str) -> str:
    """Return a key as messages show it: as it is when it can be read, else escaped; long ones are cut."""
    if len(key) > _LONGEST_SHOWN:
        return shown(key[:_LONGEST_SHOWN]) + "…"
    return key if key.isprintable() else ascii(key)


def checked_key(key: object) -> str:
    """Return a key that can be asked about, as exactly a str."""
    text = plain(key)
    if not isinstance(text, str):
        raise FilterError(f"a key is of type {type(key).__name__}; expected a string")
    if not text:
        raise FilterError("a key is empty; expected the name of a metadata key")
    if text.startswith("$"):
        raise FilterError("a key begins with $, which is kept for operators; such metadata cannot be filtered on")
    at = unstorable_at(text)
    if at is not None:
        raise FilterError(f"a key has NUL or a lone surrogate at position {at}; no record can hold it, so take it out")
    return text


def checked_scalar(value: object, what: str) -> Scalar:
    """Return an operand as exactly a str, bool, int or float; `what` names it in the error."""
    return _checked_plain(plain(value), what)


def _checked_plain(scalar: Any, what: str, position: int | None = None) -> Scalar:
    problem = scalar_problem(scalar)
    if problem is not None:
        named = what if position is None else f"{what}, number {position},"
        raise FilterError(f"{named} {problem}; expected a string, a finite 64-bit number or a boolean{_advice(scalar)}")
    checked: Scalar = scalar
    return checked


def _advice(value: object) -> str:
    kind = type(value)
    if value is None:
        return ": to ask whether a key is there, say Exists ($exists)"
    if issubclass(kind, (dt.date, dt.time)):
        return ": write .isoformat()"
    if issubclass(kind, (list, tuple, set, frozenset)):
        return ": for several values say In or All ($in, $all)"
    return ""


def checked_scalars(values: Iterable[object], place: str, operator: str) -> tuple[Scalar, ...]:
    """Return the operands that an iterable holds, in its order; the error names the place, operator and position."""
    items = items_of(values, FilterError, f"{place}: the operand of {operator}")
    what = f"{place}: a value of {operator}"
    return tuple(_checked_plain(plain(item), what, position) for position, item in enumerate(items))


def text_or_number(value: object, what: str) -> str | int | float | None:
    """Return a bound as exactly a str, int or float, or None when it is not given."""
    if value is None:
        return None
    scalar = checked_scalar(value, what)
    if isinstance(scalar, bool):
        raise FilterError(f"{what} is a boolean; expected a string or a number, for booleans have no order")
    return scalar
