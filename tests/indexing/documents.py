"""Documents that tests index."""

from __future__ import annotations

from typing import Any

from stackroom import (
    Library,
    Scope,
)


def numbered(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"id": f"d{number:03}", "text": f"text {number}", **fields} for number in range(count)]


def ids(library: Library, scope: Scope) -> list[str]:
    return [info.source_id for info in library.sources(scope=scope, limit=1000)]
