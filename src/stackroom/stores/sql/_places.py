"""Where a question is asked: a collection, and a tenant of it, as the register has them in this very transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from stackroom import _keys as keys
from stackroom._errors import UnknownCollection
from stackroom._filters import Filter, leaves, matches, named_values
from stackroom.stores._protocol import CollectionSpec
from stackroom.stores.sql._where import condition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import Connection

    from stackroom.stores.sql._tables import Tables

SOME = 500
"""Values in one list of a statement: any database takes so many."""


@dataclass(frozen=True, slots=True)
class Held:
    """A collection as the register has it."""

    number: int
    name: str
    spec: CollectionSpec


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant of a collection. `has_odd`: the times of expiry of some of its sources are no ints."""

    number: int
    tenant_id: str
    passages: int
    has_odd: bool


def look(connection: Connection, tables: Tables, name: str, *, lock: str = "") -> Held | None:
    """Return a collection, or None; `lock` is "" for none, "share" for a write within it, "alone" for one over it."""
    of = tables.collections.c
    asked = sa.select(of.number, of.dimension, of.fingerprint).where(of.name == name.encode())
    if lock:
        asked = asked.with_for_update(read=lock == "share")
    row = connection.execute(asked).one_or_none()
    return None if row is None else Held(row[0], name, CollectionSpec(row[1], row[2].decode()))


def known(connection: Connection, tables: Tables, name: str, *, lock: str = "") -> Held:
    """Return a collection; UnknownCollection when there is none.

    Whoever waited for a lock while another collection took the name sees that one in the next statement only.
    """
    for _ in range(3 if lock else 1):
        held = look(connection, tables, name, lock=lock)
        if held is not None:
            return held
    raise UnknownCollection(name)


def tenant(connection: Connection, tables: Tables, held: Held, tenant_id: str, *, locks: bool = False) -> Tenant | None:
    """Return a tenant that has passages, or None; with `locks` it is held until the transaction ends."""
    if locks:
        of = tables.tenants.c
        row = sa.select(of.number).where(of.collection == held.number, of.tenant_id == tenant_id.encode())
        connection.execute(row.with_for_update()).all()
    return next(iter(_tenants(connection, tables, held, [tenant_id])), None)


def tenants(connection: Connection, tables: Tables, held: Held, where: Filter) -> list[Tenant]:
    """Return the tenants, in order, that a filter may concern."""
    named = named_values(where, keys.TENANT)
    if named is not None:
        return sorted(_tenants(connection, tables, held, sorted(named)), key=lambda one: one.tenant_id)
    if all(getattr(leaf, "key", "") == keys.TENANT for leaf in leaves(where)):
        found = [one for one in _tenants(connection, tables, held) if matches(where, {keys.TENANT: one.tenant_id})]
    else:
        found = list(_tenants(connection, tables, held, concerned=where))
    return sorted(found, key=lambda one: one.tenant_id)


def _tenants(
    connection: Connection,
    tables: Tables,
    held: Held,
    named: Sequence[str] | None = None,
    concerned: Filter | None = None,
) -> Iterator[Tenant]:
    of = tables.tenants.c
    has_odd = sa.exists().where(tables.sources.c.odd == of.number)
    asked = sa.select(of.number, of.tenant_id, of.passages, has_odd).where(of.collection == held.number)
    if concerned is not None:
        within = condition(concerned, tables, None).of_source
        sources = sa.select(tables.sources.c.tenant).join(tables.tenants, of.number == tables.sources.c.tenant)
        asked = asked.where(of.number.in_(sources.where(of.collection == held.number, *within).correlate(None)))
    for part in [None] if named is None else pieces(named):
        narrowed = asked if part is None else asked.where(of.tenant_id.in_([one.encode() for one in part]))
        for number, tenant_id, passages, is_odd in connection.execute(narrowed):
            yield Tenant(number, tenant_id.decode(), passages, bool(is_odd))


def pieces(values: Iterable[Any], size: int = SOME) -> Iterator[list[Any]]:
    """Yield values in lists short enough for one statement."""
    every = list(values)
    for at in range(0, len(every), size):
        yield every[at : at + size]
