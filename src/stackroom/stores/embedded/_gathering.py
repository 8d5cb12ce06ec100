"""What several tenants' answers become together, and which tenants a filter may concern."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stackroom import _keys as keys
from stackroom._filters import Eq, Filter, In, conjuncts
from stackroom._model import Page
from stackroom.stores._protocol import Cursor, Match, Record

if TYPE_CHECKING:
    from collections.abc import Iterable


def named_tenants(where: Filter) -> set[str] | None:
    """Return the only tenants that can match, or None when any may."""
    named: set[str] | None = None
    for member in conjuncts(where):
        if isinstance(member, Eq | In) and member.key == keys.TENANT:
            values = (member.value,) if isinstance(member, Eq) else member.values
            tenants = {value for value in values if isinstance(value, str)}
            named = tenants if named is None else named & tenants
    return named


def merged(found: Iterable[list[Match]], limit: int) -> list[Match]:
    """Return the best of several tenants' matches in the total order."""
    lists = list(found)
    if len(lists) == 1:
        return lists[0]
    every = [match for of_tenant in lists for match in of_tenant]
    return sorted(every, key=lambda match: (-match.score, match.id, match.record.tenant_id))[:limit]


def page(found: list[Record], limit: int) -> Page[Record]:
    items = found[:limit]
    if len(found) <= limit:
        return Page(tuple(items))
    last = items[-1]
    return Page(tuple(items), Cursor(last.tenant_id, last.source_id, last.index))
