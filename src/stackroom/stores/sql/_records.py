"""Records read whole, by their passages' numbers."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import sqlalchemy as sa

from stackroom import _keys as keys
from stackroom.stores._protocol import Record
from stackroom.stores.sql import _rows
from stackroom.stores.sql._places import pieces

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from stackroom._values import MetadataValue
    from stackroom.stores.sql._places import Tenant
    from stackroom.stores.sql._tables import Tables


def records(
    connection: Connection, tables: Tables, tenant: Tenant, numbers: Iterable[int], *, vectors: bool = False
) -> list[Record]:
    """Return the records of passages, in the order asked."""
    wanted = list(numbers)
    found: dict[int, Record] = {}
    for part in pieces(wanted):
        found |= _some(connection, tables, tenant, part, vectors=vectors)
    return [found[number] for number in wanted]


def _some(
    connection: Connection, tables: Tables, tenant: Tenant, numbers: list[int], *, vectors: bool
) -> dict[int, Record]:
    p, s = tables.passages.c, tables.sources.c
    asked = (
        sa.select(p.number, p.source, p.text, p.rests, p.metadata, s.source_id, s.version, s.metadata)
        .join(tables.sources, s.number == p.source)
        .where(p.number.in_(numbers))
    )
    rows = connection.execute(asked).all()
    rests = _rests(connection, tables, [row[0] for row in rows if row[3]])
    of_vectors = _vectors(connection, tables, {row[1] for row in rows}) if vectors else {}
    found = {}
    for number, source, text, _, own, source_id, version, shared in rows:
        metadata: dict[str, MetadataValue] = {
            keys.TENANT: tenant.tenant_id,
            keys.SOURCE: source_id.decode(),
            keys.INDEX: number - source,
            **_rows.read(shared),
            **_rows.read(own),
        }
        whole = b"".join([text, *rests.get(number, [])]).decode()
        found[number] = Record.stored(whole, of_vectors.get(number), metadata, version)
    return found


def _rests(connection: Connection, tables: Tables, numbers: list[int]) -> dict[int, list[bytes]]:
    """Return what of long texts lies in rows of its own, in order."""
    found = defaultdict(list)
    r = tables.rests.c
    for number in numbers:
        asked = sa.select(r.text).where(r.passage == number).order_by(r.part)
        found[number] = list(connection.execute(asked).scalars())
    return found


def _vectors(connection: Connection, tables: Tables, sources: Iterable[int]) -> dict[int, NDArray[np.float32]]:
    found: dict[int, NDArray[np.float32]] = {}
    b = tables.blocks.c
    for part in pieces(sources):
        for source, places, stored in connection.execute(
            sa.select(b.source, b.places, b.vectors).where(b.source.in_(part))
        ):
            indexes = np.frombuffer(places, dtype=_rows.INT)
            rows = np.frombuffer(stored, dtype=_rows.SINGLE).reshape(len(indexes), -1)
            found.update({source + index: row.copy() for index, row in zip(indexes.tolist(), rows, strict=True)})
    return found
