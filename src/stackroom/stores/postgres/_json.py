"""Metadata as JSON whose numbers PostgreSQL keeps exactly, kinds and all: it compares there what `matches` sees.

`jsonb` holds numbers as decimals of any length. An int is written as its digits. A float keeps a point, which tells it
from an int when it is read; beyond 2**53, where the shortest decimal of a float may be another number than the float,
all digits are written. −0.0 becomes 0.0.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stackroom._values import MetadataValue, Scalar

_EXACT_INTS: Final = 2.0**53
"""Up to here every whole float is written exactly by its shortest decimal."""


def written(metadata: Mapping[str, MetadataValue]) -> str:
    """Return metadata as a JSON object."""
    return "{" + ",".join(f"{_text(key)}:{_value(value)}" for key, value in metadata.items()) + "}"


def scalar(value: Scalar) -> str:
    """Return a scalar as JSON."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return number(value)


def number(value: float) -> str:
    """Return an int or float as a decimal of exactly its value, or one that stands for it among all floats."""
    if isinstance(value, int):
        return str(value)
    if abs(value) >= _EXACT_INTS:
        return f"{int(value)}.0"
    shortest = repr(value + 0.0)
    return shortest if "." in shortest else shortest.replace("e", ".0e")


def read(text: str) -> dict[str, Any]:
    """Return what `written` wrote, or the database made of it."""
    metadata: dict[str, Any] = json.loads(text)
    return metadata


def _value(value: MetadataValue) -> str:
    return "[" + ",".join(map(scalar, value)) + "]" if isinstance(value, list) else scalar(value)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
