"""What a writer does in its turn: work out what goes and what comes, stage it, and let it count at once.

Every source that a write touches is written whole, so that all its records have one version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stackroom._errors import Conflict
from stackroom.stores import _door
from stackroom.stores._protocol import Record
from stackroom.stores.generations._rows import of_sources, record_of, row_of, vector_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from stackroom._values import MetadataValue
    from stackroom.stores._door import Batch
    from stackroom.stores.generations._engine import Place, Row
    from stackroom.stores.generations._turns import Turn
    from stackroom.stores.generations._view import Selected, View


def replace(turn: Turn, view: View, selected: Selected, batch: Batch, expect: AbstractSet[int] | None) -> int:
    """Put a batch in the place of what is selected; answer how many records went."""
    gone = view.matching(selected)
    touched = {place.source for place in gone}
    staying = _others(view, touched | set(batch.sources), gone)
    if any(place.source in batch.sources for place in staying):
        raise Conflict(_door.SPLIT)
    _door.check_expected(expect, {place.written for place in gone})
    if gone or batch.sources:
        turn.stage(_new(batch, turn.number))
        turn.stage(_again(view, staying, turn.number))
        turn.commit(touched | set(batch.sources))
    return len(gone)


def delete(turn: Turn, view: View, selected: Selected) -> int:
    """Take away what is selected; answer how many records went."""
    gone = view.matching(selected)
    if gone:
        touched = {place.source for place in gone}
        turn.stage(_again(view, _others(view, touched, gone), turn.number))
        turn.commit(touched)
    return len(gone)


def update(turn: Turn, view: View, selected: Selected, patch: Mapping[str, MetadataValue | None]) -> int:
    """Lay a patch over what is selected; answer how many records matched."""
    changing = view.matching(selected)
    if changing:
        touched = {place.source for place in changing}
        patched = _again(view, changing, turn.number, lambda metadata: _door.patched(metadata, patch))
        turn.stage(patched)
        turn.stage(_again(view, _others(view, touched, changing), turn.number))
        turn.commit(touched)
    return len(changing)


def _others(view: View, sources: AbstractSet[str], selected: list[Place]) -> list[Place]:
    """Return the places of some sources' records that are not selected."""
    keys = {place.key for place in selected}
    return [place for place in view.places(of_sources(sources)) if place.key not in keys] if sources else []


def _new(batch: Batch, number: int) -> Iterator[Row]:
    for records in batch.sources.values():
        for record in records:
            if record.vector is None:
                raise AssertionError("check_batch lets no record without a vector in")
            yield row_of(record, record.vector, number)


def _again(
    view: View,
    places: list[Place],
    number: int,
    change: Callable[[Mapping[str, MetadataValue]], dict[str, MetadataValue]] = dict,
) -> Iterator[Row]:
    """Yield stored records as rows of another generation."""
    for stored in view.stored(places, vectors=True):
        record = record_of(stored)
        yield row_of(Record.stored(record.text, None, change(record.metadata), number), vector_of(stored), number)
