"""What one shard takes: replace, update and delete, each in one transaction that the journal tells of."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stackroom import _keys as keys
from stackroom._errors import Conflict
from stackroom.stores import _door
from stackroom.stores.embedded import _derived
from stackroom.stores.embedded._schema import state_of
from stackroom.stores.embedded._segments import stored_terms
from stackroom.stores.embedded._vectors import stored_vectors, vectors_of
from stackroom.text import index_terms

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

    from stackroom._filters import Filter
    from stackroom._values import MetadataValue
    from stackroom.stores._protocol import Record
    from stackroom.stores.embedded._shard import Followers, Shard

JOURNAL_LENGTH: Final = 10_000
"""So many changes are kept for readers to catch up from; who is further behind reads everything anew."""

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

_AT_A_TIME: Final = 900
"""Words asked for by one statement: SQLite takes 999 parameters everywhere."""


@dataclass(frozen=True, slots=True)
class Touched:
    """A source that a write touches: its number, version and rows, and which of them are meant."""

    number: int
    version: int
    rows: range
    meant: list[int]

    @property
    def is_whole(self) -> bool:
        """Whether all of its rows are meant."""
        return len(self.meant) == len(self.rows)


@dataclass(frozen=True, slots=True)
class _Meant:
    """What a write's `where` matches, by source id, as of the transaction's begin."""

    touched: dict[str, Touched]
    split: frozenset[str]

    @property
    def records(self) -> int:
        return sum(len(source.meant) for source in self.touched.values())

    @property
    def versions(self) -> set[int]:
        return {source.version for source in self.touched.values()}


def _meant(followers: Followers, reader: sqlite3.Connection, where: Filter, sources: Iterable[str] = ()) -> _Meant:
    """Look up what `where` matches, and which of `sources` it would split."""
    catalogue = followers.catalogue
    touched = {
        catalogue.ids[slot]: Touched(
            int(catalogue.numbers[slot]), catalogue.version(slot), catalogue.rows_of(slot), rows.tolist()
        )
        for slot, rows in catalogue.by_source(catalogue.allowed(where, reader))
    }
    split = {
        source_id
        for source_id in sources
        if source_id in catalogue.slots and not (source_id in touched and touched[source_id].is_whole)
    }
    return _Meant(touched, frozenset(split))


def replace(shard: Shard, batch: _door.Batch, expect: AbstractSet[int] | None) -> int:
    """Take away what the batch's `where` matches and write its sources; answer how many records went."""
    counted = {
        source_id: [Counter(index_terms(record.text)) for record in records]
        for source_id, records in batch.sources.items()
    }

    def look(reader: sqlite3.Connection, followers: Followers) -> _Meant:
        return _meant(followers, reader, batch.where, batch.sources)

    shard.expect_removals()
    with shard.changing(look) as (writer, meant):
        if meant.split:
            raise Conflict(_door.SPLIT)
        _door.check_expected(expect, meant.versions)
        writing = _Writing(writer, shard)
        writing.take(meant.touched.values())
        writing.learn(set().union(*(counter for counters in counted.values() for counter in counters)))
        for source_id, records in batch.sources.items():
            pairs = sorted(zip(records, counted[source_id], strict=True), key=lambda pair: pair[0].index)
            writing.put(source_id, [record for record, _ in pairs], [counter for _, counter in pairs])
        writing.finish()
    return meant.records


def delete(shard: Shard, where: Filter) -> int:
    """Take away what `where` matches; answer how many records went."""
    shard.expect_removals()
    with shard.changing(lambda reader, followers: _meant(followers, reader, where)) as (writer, meant):
        writing = _Writing(writer, shard)
        writing.take(meant.touched.values())
        writing.finish()
    return meant.records


def end(shard: Shard) -> int:
    """Mark a tenant's shard as gone, for every reader and writer at once; answer how many records it had."""
    shard.expect_removals()
    with shard.changing(_live_rows) as (writer, went):
        writer.execute("UPDATE state SET is_gone = 1")
    return went


def end_if_empty(shard: Shard) -> bool:
    """Mark a shard that holds nothing as gone, so that not even its tenant's name is left; tell whether it was."""
    with shard.writing(_live_rows) as (writer, held):
        if not held:
            writer.execute("UPDATE state SET is_gone = 1")
    return not held


def _live_rows(_reader: sqlite3.Connection, followers: Followers) -> int:
    return followers.catalogue.live_rows


def update(shard: Shard, patch: Mapping[str, MetadataValue | None], where: Filter) -> int:
    """Lay a patch over what `where` matches; answer how many records matched."""
    of_source = {key: value for key, value in patch.items() if keys.is_source_key(key)}
    own = {key: value for key, value in patch.items() if key not in of_source}
    with shard.changing(lambda reader, followers: _meant(followers, reader, where)) as (writer, meant):
        writing = _Writing(writer, shard)
        for source in meant.touched.values():
            writing.change(source, of_source, own)
        writing.finish()
    return meant.records


class _Writing:
    """One transaction's changes to a shard's tables and vectors, and what the journal is told of them."""

    def __init__(self, writer: sqlite3.Connection, shard: Shard) -> None:
        self._writer = writer
        self._shard = shard
        state = state_of(writer)
        self._position = state.position
        self._begin = self._rows = state.rows
        self._state = state
        self._journal: list[tuple[int, int, bool]] = []
        self._passages: list[tuple[int, str, str, bytes]] = []
        self._vectors: list[NDArray[np.float32]] = []
        self._has_removed = False
        self._live = state.live

    def take(self, touched: Iterable[Touched]) -> None:
        """Take passages away; what is left of a source is written anew, so that a number's rows never change."""
        for source in touched:
            self._has_removed = True
            self._live -= len(source.rows)
            if not source.is_whole:
                self._keep_rest(source)
            else:
                self._execute("DELETE FROM source WHERE number = ?", source.number)
            self._execute("DELETE FROM passage WHERE row >= ? AND row < ?", source.rows.start, source.rows.stop)
            self._execute("DELETE FROM vectors WHERE source = ?", source.number)
            self._next_version(source.number)

    def learn(self, terms: set[str]) -> None:
        """See that every term has a number."""
        vocabulary = self._shard.vocabulary
        for attempt in (1, 2):
            unknown = sorted(terms.difference(vocabulary))
            if attempt == 2:  # noqa: PLR2004 - the second time, they are made
                self._writer.executemany("INSERT INTO term (term) VALUES (?)", [(term,) for term in unknown])
            for start in range(0, len(unknown), _AT_A_TIME):
                part = unknown[start : start + _AT_A_TIME]
                marks = ",".join("?" * len(part))
                query = f"SELECT term, number FROM term WHERE term IN ({marks})"  # noqa: S608 - only question marks
                vocabulary.update(self._writer.execute(query, part))

    def put(self, source_id: str, records: Sequence[Record], counted: Sequence[Counter[str]]) -> None:
        """Write a source, its records in the order of their indexes. Its words must have been learned."""
        vectors = np.stack([record.vector for record in records if record.vector is not None])
        metadata = _json(_door.source_part(records[0].metadata))
        self._new_source(source_id, metadata, [record.index for record in records], vectors)
        first = self._rows - len(records)
        for row, (record, counter) in enumerate(zip(records, counted, strict=True), start=first):
            own = _json(_door.own_part(record.metadata))
            self._passages.append((row, record.text, own, stored_terms(counter, self._shard.vocabulary)))

    def change(
        self, source: Touched, of_source: Mapping[str, MetadataValue | None], own: Mapping[str, MetadataValue | None]
    ) -> None:
        """Lay a patch over a source's keys and over those of the passages meant."""
        (stored,) = self._execute("SELECT metadata FROM source WHERE number = ?", source.number).fetchone()
        self._execute(
            "UPDATE source SET metadata = ?, version = ? WHERE number = ?",
            _json(_door.patched(json.loads(stored), of_source)),
            self._next_version(source.number, changes_passages=bool(own)),
            source.number,
        )
        for row in source.meant if own else ():
            (stored,) = self._execute("SELECT metadata FROM passage WHERE row = ?", row).fetchone()
            patched = _json(_door.patched(json.loads(stored), own))
            self._execute("UPDATE passage SET metadata = ? WHERE row = ?", patched, row)

    def finish(self) -> None:
        """Write what was put, the journal, and what is derived; cut the journal's tail."""
        if not self._journal:
            return
        self._writer.executemany("INSERT INTO passage (row, text, metadata, terms) VALUES (?, ?, ?, ?)", self._passages)
        self._writer.executemany("INSERT INTO journal VALUES (?, ?, ?)", self._journal)
        self._execute("DELETE FROM journal WHERE position <= ?", self._position - JOURNAL_LENGTH)
        self._execute(
            "UPDATE state SET position = ?, rows = ?, live = ?, removals = removals + ?",
            self._position,
            self._rows,
            self._live,
            int(self._has_removed),
        )
        if self._vectors:
            _derived.whole_rows(self._writer, self._shard, self._state)
            file = self._shard.rows_file(self._state.layout)
            file.write(self._begin, np.concatenate(self._vectors))
            file.sync()
            _derived.derive(self._writer, self._shard)
        self._shard.needs_care = _derived.needs_care(self._writer)

    def _execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        return self._writer.execute(statement, values)

    def _next_version(self, number: int | None = None, *, changes_passages: bool = False) -> int:
        """Return a version that no source of the library ever had; tell the journal of the source that it is for."""
        self._position += 1
        if number is not None:
            self._journal.append((self._position, number, changes_passages))
        version: int = (self._shard.number << 32) | self._position
        return version

    def _new_source(self, source_id: str, metadata: str, places: Sequence[int], vectors: NDArray[np.float32]) -> None:
        """Write a source's own row and its vectors, and give its passages the next rows."""
        odd = None if list(places) == list(range(len(places))) else np.asarray(places, dtype="<u4").tobytes()
        version = self._next_version()
        written = self._execute(
            "INSERT INTO source (source_id, version, metadata, first_row, passages, places) VALUES (?, ?, ?, ?, ?, ?)",
            source_id,
            version,
            metadata,
            self._rows,
            len(places),
            odd,
        )
        number = int(written.lastrowid or 0)
        self._journal.append((self._position, number, False))
        self._execute("INSERT INTO vectors (source, rows) VALUES (?, ?)", number, stored_vectors(vectors))
        self._vectors.append(vectors)
        self._rows += len(places)
        self._live += len(places)

    def _keep_rest(self, source: Touched) -> None:
        """Move the passages that stay to new rows of a new number of the same source."""
        source_id, metadata, odd = self._execute(
            "SELECT source_id, metadata, places FROM source WHERE number = ?", source.number
        ).fetchone()
        (stored,) = self._execute("SELECT rows FROM vectors WHERE source = ?", source.number).fetchone()
        self._execute("DELETE FROM source WHERE number = ?", source.number)
        places = range(len(source.rows)) if odd is None else np.frombuffer(odd, dtype="<u4").tolist()
        going = set(source.meant)
        stays = [offset for offset, row in enumerate(source.rows) if row not in going]
        first = self._rows
        vectors = vectors_of(stored, self._shard.dimension)[stays]
        self._new_source(source_id, metadata, [places[offset] for offset in stays], vectors)
        for row, offset in enumerate(stays, start=first):
            self._execute("UPDATE passage SET row = ? WHERE row = ?", row, source.rows.start + offset)


def _json(metadata: Mapping[str, MetadataValue]) -> str:
    return _ENCODER.encode(metadata) if metadata else "{}"
