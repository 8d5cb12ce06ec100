"""The reference: small, slow, obviously right. It judges every record by `matches` and ranks by definition."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from stackroom import _keys as keys
from stackroom._errors import Conflict, StoreError, UnknownCollection
from stackroom._filters import Filter, matches
from stackroom.stores import _bm25, _door, _ranking
from stackroom.stores._protocol import (
    Capabilities,
    CollectionSpec,
    Cursor,
    LexicalQuery,
    Match,
    Page,
    Record,
    all_filters,
    check_name,
)
from stackroom.text import expanding_terms, index_terms, query_terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from numpy.typing import ArrayLike, NDArray

    from stackroom._values import MetadataValue

Identity: TypeAlias = tuple[str, str, int]


@dataclass(slots=True)
class _Collection:
    spec: CollectionSpec
    records: dict[Identity, Record] = field(default_factory=dict)
    terms: dict[Identity, Counter[str]] = field(default_factory=dict)

    def matching(self, where: Filter) -> list[Identity]:
        return [identity for identity, record in self.records.items() if matches(where, record.metadata)]

    def versions(self, identities: Iterable[Identity]) -> set[int]:
        return {version for identity in identities if (version := self.records[identity].version) is not None}

    def put(self, record: Record) -> None:
        identity = _identity(record)
        self.records[identity] = record
        self.terms[identity] = Counter(index_terms(record.text))

    def take(self, identity: Identity) -> None:
        del self.records[identity], self.terms[identity]


class MemoryStore:
    """Holds everything in this process's memory: for tests, for trying things out, and as the measure of other stores.

    Every call runs under one lock and looks at every record, so it reads and writes one state. Nothing outlives the
    process.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._collections: dict[str, _Collection] = {}
        self._versions = itertools.count(1)
        self._is_closed = False
        self.capabilities = Capabilities(
            lexical="native",
            prefix="native",
            update="native",
            transactions="native",
            swap="native",
            filters=all_filters(),
            exact=True,
            durable=False,
            shared=False,
        )

    def create_collection(self, name: str, spec: CollectionSpec) -> None:
        """Make a collection, or find that an equal one is there."""
        with self._open():
            there = self._collections.setdefault(check_name(name), _Collection(_door.check_spec(spec)))
            if there.spec != spec:
                raise Conflict(f"collection {name!r} exists with another dimension or fingerprint; choose another name")

    def collection(self, name: str) -> CollectionSpec | None:
        """Return a collection's spec, or None."""
        with self._open():
            there = self._collections.get(check_name(name))
            return there.spec if there else None

    def drop_collection(self, name: str) -> None:
        """Take a collection away with all it holds."""
        with self._open():
            self._collections.pop(check_name(name), None)

    def replace(
        self,
        name: str,
        records: Iterable[Record],
        *,
        where: Filter,
        expect: AbstractSet[int] | None = None,
        fingerprint: str | None = None,
    ) -> int:
        """Take away what `where` matches and put `records` in its place; see `VectorStore.replace`."""
        given, tenant_id = _door.batch_of(records, where)
        with self._open():
            held = self._held(name)
            _door.check_fingerprint(held.spec, fingerprint)
            batch = _door.check_batch(given, tenant_id, where, held.spec.dimension)
            going = held.matching(where)
            staying = {identity[:2] for identity in held.records.keys() - set(going)}
            if any((tenant_id, source_id) in staying for source_id in batch.sources):
                raise Conflict(_door.SPLIT)
            _door.check_expected(expect, held.versions(going))
            self._take(held, going)
            for of_source in batch.sources.values():
                version = next(self._versions)
                for record in of_source:
                    held.put(_copy(record, version, with_vector=True))
            return len(going)

    def update(self, name: str, patch: Mapping[str, MetadataValue | None], *, where: Filter) -> int:
        """Set the keys of `patch` on every record that `where` matches; see `VectorStore.update`."""
        with self._open():
            held = self._held(name)
            checked = _door.check_patch(patch, _door.check_condition(where))
            changing = held.matching(where)
            for identity in changing:
                old = held.records[identity]
                metadata = _door.patched(old.metadata, checked)
                held.records[identity] = Record.stored(old.text, old.vector, metadata, old.version or 0)
            self._touch(held, changing)
            return len(changing)

    def delete(self, name: str, *, where: Filter) -> int:
        """Take away what `where` matches and answer how many records went."""
        with self._open():
            held = self._held(name)
            going = held.matching(_door.check_condition(where))
            self._take(held, going)
            return len(going)

    def dense(
        self, name: str, vector: ArrayLike, *, where: Filter, limit: int, fingerprint: str | None = None
    ) -> list[Match]:
        """Rank every matching record by its cosine to `vector`."""
        with self._open():
            held = self._held(name)
            _door.check_fingerprint(held.spec, fingerprint)
            query = _ranking.unit(_door.query_vector(vector, held.spec.dimension))
            _door.check_where(where)
            _door.check_limit(limit)
            found = [held.records[identity] for identity in held.matching(where)]
            if not found:
                return []
            rows = _ranking.power_scaled(np.stack([_vector_of(record) for record in found]))
            scores = _ranking.cosines(rows, _ranking.row_norms(rows), query)
            return _matches(found, scores.tolist(), limit)

    def lexical(self, name: str, query: LexicalQuery, *, where: Filter, limit: int) -> list[Match]:
        """Rank the matching records that hold the query's words by BM25, with the statistics of each one's tenant."""
        with self._open():
            held = self._held(name)
            _door.check_query(query)
            _door.check_limit(limit)
            allowed = held.matching(_door.check_where(where))
            scored: list[tuple[Record, float]] = []
            for tenant_id in sorted({identity[0] for identity in allowed}):
                ranking = _Words(held, tenant_id, query)
                for identity in allowed:
                    score = ranking.score(held.terms[identity]) if identity[0] == tenant_id else None
                    if score is not None:
                        scored.append((held.records[identity], score))
            return _matches([record for record, _ in scored], [score for _, score in scored], limit)

    def scan(
        self, name: str, *, where: Filter, after: Cursor | None = None, limit: int, vectors: bool = False
    ) -> Page[Record]:
        """Return matching records behind `after` in the order of tenant id, source id, index."""
        with self._open():
            held = self._held(name)
            _door.check_where(where)
            _door.check_limit(limit)
            begin = _door.check_cursor(after)
            found = sorted(held.matching(where))
            if begin is not None:
                found = [identity for identity in found if Cursor(*identity) > begin]
            items = [held.records[identity] for identity in found[:limit]]
            following = Cursor(*found[limit - 1]) if len(found) > limit else None
            return Page(tuple(_copy(item, item.version or 0, with_vector=vectors) for item in items), following)

    def count(self, name: str, *, where: Filter) -> int:
        """Count the matching records."""
        with self._open():
            return len(self._held(name).matching(_door.check_where(where)))

    def swap(
        self,
        name: str,
        side: str,
        *,
        expect: AbstractSet[int] | None = None,
        expect_side: AbstractSet[int] | None = None,
    ) -> None:
        """Let the collection `side` take the name; what had the name is dropped."""
        with self._open():
            held, taking = self._held(name), self._held(side)
            _door.check_expected(expect, held.versions(held.records))
            _door.check_expected(expect_side, taking.versions(taking.records))
            if side != name:
                self._collections[name] = self._collections.pop(side)

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._collections.clear()
            self._is_closed = True

    def _open(self) -> threading.RLock:
        if self._is_closed:
            raise StoreError("this store is closed; make a new one")
        return self._lock

    def _held(self, name: str) -> _Collection:
        held = self._collections.get(check_name(name))
        if held is None:
            raise UnknownCollection(name)
        return held

    def _take(self, held: _Collection, going: Iterable[Identity]) -> None:
        touched = list(going)
        for identity in touched:
            held.take(identity)
        self._touch(held, touched)

    def _touch(self, held: _Collection, touched: Iterable[Identity]) -> None:
        """Give every source that a write touched, and what is left of it, another version."""
        versions = {source: next(self._versions) for source in sorted({identity[:2] for identity in touched})}
        for identity, record in held.records.items():
            version = versions.get(identity[:2])
            if version is not None:
                held.records[identity] = Record.stored(record.text, record.vector, record.metadata, version)


class _Words:
    """A query's words against one tenant: the statistics of all its records, and the score of one."""

    def __init__(self, held: _Collection, tenant_id: str, query: LexicalQuery) -> None:
        stored = [terms for identity, terms in held.terms.items() if identity[0] == tenant_id]
        self._passages = len(stored)
        self._holding = Counter(term for terms in stored for term in terms)
        self._needs_all = query.match == "all"
        self._expanding = expanding_terms(query.text) if query.prefix else frozenset[str]()
        self._terms = query_terms(query.text)

    def score(self, terms: Counter[str]) -> float | None:
        """Return a passage's BM25, or None when it does not match."""
        parts = [max(self._parts(word, terms), default=None) for word in self._terms]
        found = [part for part in parts if part is not None]
        if not found or (self._needs_all and len(found) < len(parts)):
            return None
        return sum(found)

    def _parts(self, word: str, terms: Counter[str]) -> Iterator[float]:
        length = terms.total()
        for term in self._stored(word, terms):
            yield _bm25.idf(self._passages, self._holding[term]) * float(_bm25.impacts(terms[term], length))

    def _stored(self, word: str, terms: Counter[str]) -> list[str]:
        if word in self._expanding:
            return [term for term in terms if term.startswith(word)]
        return [word] if word in terms else []


def _identity(record: Record) -> Identity:
    return record.tenant_id, record.source_id, record.index


def _vector_of(record: Record) -> NDArray[np.float32]:
    if record.vector is None:
        raise AssertionError("check_batch lets no record without a vector in")
    return record.vector


def _copy(record: Record, version: int, *, with_vector: bool) -> Record:
    """Copy all that could be changed, so that a record given or received and the stored one never meet."""
    metadata = {key: list(value) if isinstance(value, list) else value for key, value in record.metadata.items()}
    return Record.stored(record.text, _vector_of(record).copy() if with_vector else None, metadata, version)


def _matches(records: list[Record], scores: list[float], limit: int) -> list[Match]:
    ranked = sorted(
        zip(records, scores, strict=True), key=lambda pair: (-pair[1], pair[0].id, pair[0].metadata[keys.TENANT])
    )
    return [Match(_copy(record, record.version or 0, with_vector=False), score) for record, score in ranked[:limit]]
