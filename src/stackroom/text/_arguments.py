"""What public functions refuse: texts that are no str, sizes that are no sizes, bare strings as lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeGuard


def is_whole_number(value: object) -> TypeGuard[int]:
    """Tell whether a value is an int and no bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def require_text(name: str, value: object) -> None:
    """Raise a TypeError when the argument `name` is no str."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")


def require_items(name: str, value: object) -> None:
    """Raise a TypeError when the argument `name` is no list of items; a bare str would be read letter by letter."""
    if isinstance(value, str | bytes | bytearray | Mapping) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a list of items, not {type(value).__name__}; put a single one in a list")


def require_size(name: str, value: object, *, least: int) -> int:
    """Return a size; raise a ValueError when the argument `name` is no int (a bool is none) of at least `least`."""
    if not is_whole_number(value) or value < least:
        raise ValueError(f"{name} must be an int of at least {least}")
    return value
