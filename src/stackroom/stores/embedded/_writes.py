"""What one shard takes: replace, update and delete, each in one transaction that the journal tells of."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from stackroom import _keys as keys
from stackroom._errors import Conflict
from stackroom.stores import _door
from stackroom.stores.embedded._postings import stored_terms
from stackroom.stores.embedded._vectors import stored_vectors, vectors_of
from stackroom.text import index_terms

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

    from stackroom._filters import Filter
    from stackroom._values import MetadataValue
    from stackroom.stores._protocol import Record
    from stackroom.stores.embedded._shard import Followers, Shard

JOURNAL_LENGTH: Final = 10_000
"""So many changes are kept for readers to catch up from; who is further behind reads everything anew."""

_AT_A_TIME: Final = 500


@dataclass(frozen=True, slots=True)
class Touched:
    """A source that a write touches: its number, version, and which of its passages are meant."""

    number: int
    version: int
    places: list[int]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class _Meant:
    """What a write's `where` matches, by source id, as of the transaction's begin."""

    touched: dict[str, Touched]
    split: frozenset[str]

    @property
    def records(self) -> int:
        return sum(len(source.places) for source in self.touched.values())

    @property
    def versions(self) -> set[int]:
        return {source.version for source in self.touched.values()}


def _meant(followers: Followers, reader: sqlite3.Connection, where: Filter, sources: Iterable[str] = ()) -> _Meant:
    """Look up what `where` matches, and which of `sources` it would split."""
    catalogue = followers.catalogue
    allowed = catalogue.allowed(where, reader)
    slots, first = np.unique(catalogue.row_slots[allowed], return_index=True)
    bounds = [*first.tolist(), len(allowed)]
    touched = {}
    for place, slot in enumerate(slots.tolist()):
        places = catalogue.row_places[allowed[bounds[place] : bounds[place + 1]]].tolist()
        is_whole = len(places) == len(catalogue.rows_of(slot))
        touched[catalogue.ids[slot]] = Touched(int(catalogue.numbers[slot]), catalogue.version(slot), places, is_whole)
    split = {
        source_id
        for source_id in sources
        if source_id in catalogue.slots and not (source_id in touched and touched[source_id].is_whole)
    }
    return _Meant(touched, frozenset(split))


def replace(shard: Shard, batch: _door.Batch, expect: AbstractSet[int] | None) -> int:
    """Take away what the batch's `where` matches and write its sources; answer how many records went."""
    terms = {
        source_id: [Counter(index_terms(record.text)) for record in records]
        for source_id, records in batch.sources.items()
    }

    def look(reader: sqlite3.Connection, followers: Followers) -> _Meant:
        return _meant(followers, reader, batch.where, batch.sources)

    with shard.writing(look) as (writer, meant):
        if meant.split:
            raise Conflict(_door.SPLIT)
        _door.check_expected(expect, meant.versions)
        writing = _Writing(writer, shard)
        writing.take(meant.touched.values())
        for source_id, records in batch.sources.items():
            writing.put(source_id, sorted(zip(records, terms[source_id], strict=True), key=lambda pair: pair[0].index))
        writing.finish()
        return meant.records


def delete(shard: Shard, where: Filter) -> int:
    """Take away what `where` matches; answer how many records went."""
    with shard.writing(lambda reader, followers: _meant(followers, reader, where)) as (writer, meant):
        writing = _Writing(writer, shard)
        writing.take(meant.touched.values())
        writing.finish()
        return meant.records


def end(shard: Shard) -> int:
    """Mark a tenant's shard as gone, for every reader and writer at once; answer how many records it had."""

    def look(_reader: sqlite3.Connection, followers: Followers) -> int:
        return followers.catalogue.live_rows

    with shard.writing(look) as (writer, went):
        writer.execute("UPDATE state SET is_gone = 1")
    return went


def update(shard: Shard, patch: Mapping[str, MetadataValue | None], where: Filter) -> int:
    """Lay a patch over what `where` matches; answer how many records matched."""
    of_source = {key: value for key, value in patch.items() if keys.is_source_key(key)}
    own = {key: value for key, value in patch.items() if key not in of_source}
    with shard.writing(lambda reader, followers: _meant(followers, reader, where)) as (writer, meant):
        writing = _Writing(writer, shard)
        for source in meant.touched.values():
            writing.change(source, of_source, own)
        writing.finish()
        return meant.records


class _Writing:
    """One transaction's changes to a shard's tables, and what the journal is told of them."""

    def __init__(self, writer: sqlite3.Connection, shard: Shard) -> None:
        self._writer = writer
        self._shard = shard
        self._position = int(writer.execute("SELECT position FROM state").fetchone()[0])
        self._journal: list[tuple[int, int]] = []
        self._has_removed = False

    def take(self, touched: Iterable[Touched]) -> None:
        """Take passages away; what is left of a source is written anew, so that a number's rows never change."""
        for source in touched:
            self._has_removed = True
            if not source.is_whole:
                self._keep_rest(source)
            self._forget(source.number)

    def put(self, source_id: str, records: list[tuple[Record, Counter[str]]]) -> None:
        """Write a source, its records in the order of their indexes."""
        number = self._new_source(source_id, _json(_door.source_part(records[0][0].metadata)))
        numbers = self._term_numbers({term for _, counted in records for term in counted})
        self._writer.executemany(
            "INSERT INTO passage (source, place, text, metadata, terms) VALUES (?, ?, ?, ?, ?)",
            [
                (
                    number,
                    record.index,
                    record.text,
                    _json(_door.own_part(record.metadata)),
                    stored_terms([(numbers[term], frequency) for term, frequency in counted.items()]),
                )
                for record, counted in records
            ],
        )
        vectors = [record.vector for record, _ in records if record.vector is not None]
        self._writer.execute("INSERT INTO vectors (source, rows) VALUES (?, ?)", (number, stored_vectors(vectors)))

    def change(
        self, source: Touched, of_source: Mapping[str, MetadataValue | None], own: Mapping[str, MetadataValue | None]
    ) -> None:
        """Lay a patch over a source's keys and over those of the passages meant."""
        (stored,) = self._writer.execute("SELECT metadata FROM source WHERE number = ?", (source.number,)).fetchone()
        metadata = _json(_door.patched(json.loads(stored), of_source))
        self._writer.execute(
            "UPDATE source SET metadata = ?, version = ? WHERE number = ?",
            (metadata, self._next_version(source.number), source.number),
        )
        if not own:
            return
        for place in source.places:
            key = (source.number, place)
            (stored,) = self._writer.execute(
                "SELECT metadata FROM passage WHERE source = ? AND place = ?", key
            ).fetchone()
            self._writer.execute(
                "UPDATE passage SET metadata = ? WHERE source = ? AND place = ?",
                (_json(_door.patched(json.loads(stored), own)), *key),
            )

    def finish(self) -> None:
        """Write the journal and cut its tail."""
        if not self._journal:
            return
        self._writer.executemany("INSERT INTO journal (position, source) VALUES (?, ?)", self._journal)
        self._writer.execute("DELETE FROM journal WHERE position <= ?", (self._position - JOURNAL_LENGTH,))
        self._writer.execute(
            "UPDATE state SET position = ?, removals = removals + ?", (self._position, int(self._has_removed))
        )

    def _next_version(self, number: int) -> int:
        """Note in the journal that a source has changed; return a version that no source of the library ever had."""
        self._position += 1
        self._journal.append((self._position, number))
        version: int = (self._shard.number << 32) | self._position
        return version

    def _new_source(self, source_id: str, metadata: str) -> int:
        written = self._writer.execute(
            "INSERT INTO source (source_id, version, metadata) VALUES (?, 0, ?)", (source_id, metadata)
        )
        number = int(written.lastrowid or 0)
        self._writer.execute("UPDATE source SET version = ? WHERE number = ?", (self._next_version(number), number))
        return number

    def _forget(self, number: int) -> None:
        for statement in (
            "DELETE FROM passage WHERE source = ?",
            "DELETE FROM vectors WHERE source = ?",
            "DELETE FROM source WHERE number = ?",
        ):
            self._writer.execute(statement, (number,))
        self._next_version(number)

    def _keep_rest(self, source: Touched) -> None:
        """Move the passages that stay to a new number of the same source."""
        source_id, metadata = self._writer.execute(
            "SELECT source_id, metadata FROM source WHERE number = ?", (source.number,)
        ).fetchone()
        self._writer.execute("DELETE FROM source WHERE number = ?", (source.number,))
        number = self._new_source(source_id, metadata)
        (stored,) = self._writer.execute("SELECT rows FROM vectors WHERE source = ?", (source.number,)).fetchone()
        places = self._writer.execute("SELECT place FROM passage WHERE source = ? ORDER BY place", (source.number,))
        going = set(source.places)
        stays = np.asarray([place not in going for (place,) in places], dtype=np.bool_)
        kept: NDArray[np.float32] = vectors_of(stored, self._shard.dimension)[stays]
        self._writer.execute("INSERT INTO vectors (source, rows) VALUES (?, ?)", (number, stored_vectors(list(kept))))
        self._writer.executemany(
            "DELETE FROM passage WHERE source = ? AND place = ?", [(source.number, place) for place in source.places]
        )
        self._writer.execute("UPDATE passage SET source = ? WHERE source = ?", (number, source.number))

    def _term_numbers(self, terms: set[str]) -> Mapping[str, int]:
        """Return the number of each term, new ones made."""
        self._writer.executemany("INSERT OR IGNORE INTO term (term) VALUES (?)", [(term,) for term in sorted(terms)])
        wanted = sorted(terms)
        numbers: dict[str, int] = defaultdict(int)
        for start in range(0, len(wanted), _AT_A_TIME):
            part = wanted[start : start + _AT_A_TIME]
            marks = ", ".join("?" * len(part))
            query = f"SELECT term, number FROM term WHERE term IN ({marks})"  # noqa: S608 - only question marks
            numbers.update(self._writer.execute(query, part))
        return numbers


def _json(metadata: Mapping[str, MetadataValue]) -> str:
    return json.dumps(metadata, ensure_ascii=False, separators=(",", ":"))
