"""Answers put together of those of several tenants, each asked on its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stackroom._model import Page
from stackroom.stores._protocol import Cursor, Match, Matches, Record

if TYPE_CHECKING:
    from collections.abc import Iterable


def merged(found: Iterable[list[Match]], limit: int) -> list[Match]:
    """Return the best of several tenants' matches in the total order, with the notes of all."""
    lists = list(found)
    if len(lists) == 1:
        return lists[0]
    every = [match for of_tenant in lists for match in of_tenant]
    best = sorted(every, key=lambda match: (-match.score, match.id, match.record.tenant_id))[:limit]
    notes = {note.code: note for of_tenant in lists for note in getattr(of_tenant, "notes", ())}
    return Matches(best, notes.values()) if notes else best


def page_of(found: list[Record], limit: int) -> Page[Record]:
    """Return the first `limit` of records in order as a page, which has a next one when there are more."""
    items = found[:limit]
    if len(found) <= limit:
        return Page(tuple(items))
    last = items[-1]
    return Page(tuple(items), Cursor(last.tenant_id, last.source_id, last.index))
