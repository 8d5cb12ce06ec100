"""What a filter allows within a tenant: which sources, and where that is not all it says, which passages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import sqlalchemy as sa

from stackroom import _keys as keys
from stackroom._filters import And, Filter, leaves, matches
from stackroom.stores.sql import _rows
from stackroom.stores.sql._places import pieces
from stackroom.stores.sql._where import everything

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection, Select

    from stackroom.stores.sql._places import Tenant
    from stackroom.stores.sql._tables import Tables
    from stackroom.stores.sql._where import Condition

_AT_ONCE: Final = 2_000
"""Rows that are taken from the database at a time: bounds memory."""


def streamed(connection: Connection, asked: Select[Any], size: int = _AT_ONCE) -> Iterator[Sequence[Any]]:
    """Yield a statement's rows in lists, without ever holding all of them."""
    with connection.execute(asked.execution_options(stream_results=True, yield_per=size)) as rows:
        yield from rows.partitions()


@dataclass(frozen=True, slots=True)
class Place:
    """A tenant's part of a collection, and a filter compiled for it."""

    tables: Tables
    tenant: Tenant
    condition: Condition

    @property
    def in_sources(self) -> Any:
        """What the database says of a source."""
        return everything(self.condition.of_source)


def judged_sources(connection: Connection, place: Place) -> NDArray[np.int64] | None:
    """Return the numbers of the sources that `matches` leaves, sorted; None where it is not asked."""
    judged = place.condition.judged_of_source
    if not judged:
        return None
    wanted, s = And(*judged), place.tables.sources.c
    found: list[int] = []
    for rows in streamed(connection, sa.select(s.number, s.source_id, s.metadata).where(place.in_sources)):
        for number, source_id, shared in rows:
            metadata = {keys.TENANT: place.tenant.tenant_id, keys.SOURCE: source_id.decode(), **_rows.read(shared)}
            if matches(wanted, metadata):
                found.append(number)
    return np.sort(np.array(found, dtype=np.int64))


def narrowed(connection: Connection, place: Place, sources: NDArray[np.int64] | None = None) -> Iterator[Any]:
    """Yield conditions that together hold for the allowed sources, among `sources` where they are given."""
    judged = judged_sources(connection, place)
    if judged is not None and sources is not None:
        judged = np.intersect1d(judged, sources)
    only = sources if judged is None else judged
    s = place.tables.sources.c
    if only is None:
        yield place.in_sources
    else:
        for part in pieces(only.tolist()):
            yield sa.and_(place.in_sources, s.number.in_(part))


def count(connection: Connection, place: Place) -> int:
    """Return how many passages are allowed."""
    s = place.tables.sources.c
    if not place.condition.is_of_sources:
        return len(passages(connection, place))
    total = sa.select(sa.func.coalesce(sa.func.sum(s.passages), 0))
    return sum(int(connection.execute(total.where(within)).scalar_one()) for within in narrowed(connection, place))


def to_be_read(connection: Connection, place: Place) -> int:
    """Return how many passages the database alone would allow: those whose vectors a search has to read."""
    s = place.tables.sources.c
    total = sa.select(sa.func.coalesce(sa.func.sum(s.passages), 0)).where(place.in_sources)
    return int(connection.execute(total).scalar_one())


def passages(connection: Connection, place: Place, sources: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """Return the numbers of the allowed passages, sorted; of certain sources only, where they are given."""
    p, s = place.tables.passages.c, place.tables.sources.c
    judge = Judge.of(place)
    columns = [p.number, *((p.source, p.metadata, s.source_id, s.metadata) if judge else ())]
    found: list[int] = []
    for within in narrowed(connection, place, sources):
        asked = (
            sa.select(*columns)
            .join(place.tables.sources, s.number == p.source)
            .where(within, *place.condition.of_passage)
        )
        for rows in streamed(connection, asked):
            found.extend(row[0] for row in rows if judge is None or judge.allows(*row))
    return np.sort(np.array(found, dtype=np.int64))


@dataclass(slots=True)
class Judge:
    """Judges passages by `matches`. Of one source, it judges equal metadata once."""

    wanted: Filter
    tenant_id: str
    asks_of_place: bool
    _source: int = -1
    _shared: dict[str, Any] = field(default_factory=dict)
    _verdicts: dict[bytes, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, place: Place) -> Judge | None:
        """Return the judge of what the database did not judge; None where it judged everything."""
        if not place.condition.judged:
            return None
        wanted = And(*place.condition.judged)
        asks_of_place = any(getattr(leaf, "key", "") == keys.INDEX for leaf in leaves(wanted))
        return cls(wanted, place.tenant.tenant_id, asks_of_place)

    def allows(self, number: int, source: int, own: bytes, source_id: bytes, shared: bytes) -> bool:
        """Tell whether a passage matches."""
        if source != self._source:
            self._source, self._verdicts = source, {}
            self._shared = {keys.SOURCE: source_id.decode(), **_rows.read(shared)}
        verdict = None if self.asks_of_place else self._verdicts.get(own)
        if verdict is None:
            metadata = {keys.TENANT: self.tenant_id, keys.INDEX: number - source, **self._shared, **_rows.read(own)}
            verdict = self._verdicts[own] = matches(self.wanted, metadata)
        return verdict
