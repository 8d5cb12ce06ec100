"""A row as named values, for engines that keep such: what each is called, and how rows are read back."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

from stackroom.stores.generations._engine import Place, Row, Stored

if TYPE_CHECKING:
    from collections.abc import Mapping

PLACE: Final = ("tenant", "source", "place", "written", "key")
"""The names of what a `Place` holds."""


def fields(*, vectors: bool) -> list[str]:
    """Return the names of what a `Stored` holds."""
    return [*PLACE, "text", "metadata", *(["vector"] if vectors else [])]


def values_of(row: Row) -> dict[str, Any]:
    """Return a row's values by name, but for those that are searched by; the vector's bytes in base64."""
    return {
        "key": row.key,
        "tenant": row.tenant,
        "source": row.source,
        "place": row.place,
        "written": row.written,
        "text": row.text,
        "metadata": row.metadata,
        "vector": base64.b64encode(row.vector).decode(),
        "tokens": list(row.tokens),
    }


def place_of(values: Mapping[str, Any]) -> Place:
    """Return where a row stands."""
    return Place(values["tenant"], values["source"], values["place"], values["written"], values["key"])


def stored_of(values: Mapping[str, Any]) -> Stored:
    """Return a row as it is read; its vector as the engine keeps it, in base64 or as bytes, if it was read."""
    vector = values.get("vector")
    return Stored(
        place_of(values),
        values["text"],
        values["metadata"],
        base64.b64decode(vector) if isinstance(vector, str) else vector,
    )
