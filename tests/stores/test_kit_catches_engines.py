"""The kit turns red on what engines do: stale copies, caps, batches, swaps in steps, nothing on disk."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from tests.stores.test_kit_catches_legs import Legs

from stackroom import CapabilityError
from stackroom.filters import And, Filter
from stackroom.stores import Match, MemoryStore, Page, Record, _door
from stackroom.stores._legs import Choose, LegsQuery

A_MOMENT = 0.0005
LARGE = 1_000


class Stale(Legs):
    """Keeps a copy of the metadata for some questions, and leaves it as it was when they are updated."""

    stale: frozenset[str] = frozenset()

    def __init__(self) -> None:
        super().__init__()
        self.copies: dict[tuple[str, Any], Record] = {}

    def update(self, name: str, patch: Any, *, where: Filter) -> int:
        with self._open():
            before = dict(self._held(name).records) if name in self._collections else {}
            changed = super().update(name, patch, where=where)
            for identity, record in before.items():
                if self._held(name).records[identity].metadata != record.metadata:
                    self.copies.setdefault((name, identity), record)
            return changed

    def replace(self, name: str, records: Iterable[Record], **options: Any) -> int:
        went = super().replace(name, records, **options)
        self.copies.clear()
        return went

    def _as_copied(self, question: str, name: str, ask: Callable[[], Any]) -> Any:
        if question not in self.stale or name not in self._collections:
            return ask()
        with self._lock:
            held = self._held(name)
            now = dict(held.records)
            held.records.update({at: of for (of_name, at), of in self.copies.items() if of_name == name and at in now})
            try:
                return ask()
            finally:
                held.records.clear()
                held.records.update(now)

    def dense(self, name: str, *given: Any, **options: Any) -> list[Match]:
        ask = super().dense
        found: list[Match] = self._as_copied("dense", name, lambda: ask(name, *given, **options))
        return found

    def lexical(self, name: str, *given: Any, **options: Any) -> list[Match]:
        ask = super().lexical
        found: list[Match] = self._as_copied("lexical", name, lambda: ask(name, *given, **options))
        return found

    def legs(self, name: str, asked: LegsQuery, choose: Choose, *, fingerprint: str) -> list[Record]:
        ask = super().legs
        found: list[Record] = self._as_copied("legs", name, lambda: ask(name, asked, choose, fingerprint=fingerprint))
        return found


class StaleDense(Stale):
    stale = frozenset({"dense"})


class StaleLexical(Stale):
    stale = frozenset({"lexical"})


class StaleLegs(Stale):
    stale = frozenset({"legs"})


def widened_when_large(*methods: str) -> type[MemoryStore]:
    """Return a store whose methods lose the groups once a collection is large."""

    def broken(method: str) -> Callable[..., Any]:
        right = getattr(MemoryStore, method)

        def call(self: MemoryStore, name: str, *given: Any, where: Filter, **options: Any) -> Any:
            held = self._collections.get(name)
            if isinstance(where, And) and held is not None and len(held.records) > LARGE:
                where = And(*(member for member in where.filters if getattr(member, "key", "") != "aclGroups"))
            return right(self, name, *given, where=where, **options)

        return call

    return type("Widened", (MemoryStore,), {method: broken(method) for method in methods})


class CountsTo10000(MemoryStore):
    def count(self, *given: Any, **options: Any) -> int:
        return min(10_000, super().count(*given, **options))


class PagesTo10000(MemoryStore):
    def scan(self, *given: Any, **options: Any) -> Page[Record]:
        page = super().scan(*given, **options)
        return page if len(page) <= 10_000 else Page(page.items[:10_000])


class DenseTo1000(MemoryStore):
    def dense(self, *given: Any, **options: Any) -> list[Match]:
        return super().dense(*given, **options)[:1_000]


class UpdatesTheFirst(MemoryStore):
    """Changes the first hundred of what matches, and answers how many matched."""

    def update(self, name: str, patch: Any, *, where: Filter) -> int:
        with self._open():
            before = dict(self._held(name).records)
            changed = super().update(name, patch, where=where)
            held = self._held(name)
            matched = [identity for identity, record in before.items() if held.records[identity] is not record]
            for identity in matched[100:]:
                of = held.records[identity]
                held.records[identity] = Record.stored(of.text, of.vector, before[identity].metadata, of.version or 0)
            return changed


class UpdatesOneByOne(MemoryStore):
    def update(self, name: str, patch: Any, *, where: Filter) -> int:
        with self._open():
            held = self._held(name)
            checked = _door.check_patch(patch, _door.check_condition(where))
            changing = held.matching(where)
        for identity in changing:
            with self._lock:
                of = held.records[identity]
                held.records[identity] = Record.stored(
                    of.text, of.vector, _door.patched(of.metadata, checked), of.version or 0
                )
            time.sleep(A_MOMENT)
        with self._lock:
            self._touch(held, changing)
        return len(changing)


class DeletesOneByOne(MemoryStore):
    def delete(self, name: str, *, where: Filter) -> int:
        with self._open():
            going = self._held(name).matching(_door.check_condition(where))
        for identity in going:
            with self._lock:
                self._take(self._held(name), [identity])
            time.sleep(A_MOMENT)
        return len(going)


class ReplacesInBatches(MemoryStore):
    def replace(self, name: str, records: Iterable[Record], *, where: Filter, **options: Any) -> int:
        given = list(records)
        went = super().replace(name, given[:100], where=where, **options)
        for first in range(100, len(given), 100):
            time.sleep(A_MOMENT)
            with self._lock:
                held = self._held(name)
                for of in given[first : first + 100]:
                    held.put(Record.stored(of.text, of.vector, of.metadata, next(self._versions)))
        if len(given) > 100:
            with self._lock:
                self._touch(held, [(of.tenant_id, of.source_id, of.index) for of in given])
        return went


class LegsOfTwoStates(Legs):
    def legs(self, name: str, asked: LegsQuery, choose: Choose, *, fingerprint: str) -> list[Record]:
        found = super().legs(name, asked, choose, fingerprint=fingerprint)
        time.sleep(2 * A_MOMENT)
        with self._lock:
            now = self._held(name).records
            return [
                Record.stored(there.text, None, there.metadata, there.version or 0)
                for of in found
                for there in [now.get((of.tenant_id, of.source_id, of.index), of)]
            ]


class SwapForgetsVectors(MemoryStore):
    def swap(self, name: str, side: str, **options: Any) -> None:
        super().swap(name, side, **options)
        records = self._collections[name].records
        for identity, of in records.items():
            assert of.vector is not None
            unit = (of.vector / np.linalg.norm(of.vector.astype(np.float64))).astype(np.float32)
            records[identity] = Record.stored(of.text, unit, of.metadata, of.version or 0)


class SwapForgetsWords(MemoryStore):
    def swap(self, name: str, side: str, **options: Any) -> None:
        old = dict(self._collections[name].terms) if name in self._collections else {}
        super().swap(name, side, **options)
        if name != side:
            terms = self._collections[name].terms
            terms.update({identity: old.get(identity, Counter()) for identity in terms})


class NumbersVersionsByName(MemoryStore):
    """Numbers the versions of each name from 1, so that a swap brings some back."""

    def __init__(self) -> None:
        super().__init__()
        self.by_name: dict[str, itertools.count[int]] = {}

    def replace(self, name: str, records: Iterable[Record], **options: Any) -> int:
        given = list(records)
        with self._open():
            self._versions = self.by_name.setdefault(name, itertools.count(1))
            return super().replace(name, given, **options)


class SwapInTwoSteps(MemoryStore):
    def swap(self, name: str, side: str, *, expect: Any = None, expect_side: Any = None) -> None:
        with self._open():
            held, taking = self._held(name), self._held(side)
            _door.check_expected(expect, held.versions(held.records))
            _door.check_expected(expect_side, taking.versions(taking.records))
        if name != side:
            self.drop_collection(name)
            time.sleep(10 * A_MOMENT)
            with self._lock:
                self._collections[name] = self._collections.pop(side)


class SwapComparesTooEarly(MemoryStore):
    def swap(self, name: str, side: str, *, expect: Any = None, expect_side: Any = None) -> None:
        with self._open():
            held, taking = self._held(name), self._held(side)
            _door.check_expected(expect, held.versions(held.records))
            _door.check_expected(expect_side, taking.versions(taking.records))
        time.sleep(10 * A_MOMENT)
        super().swap(name, side)


class NothingOnDisk(MemoryStore):
    """Says that it is durable and shared, and holds all in what the handles of one process share."""

    def __init__(self, first: MemoryStore | None = None) -> None:
        super().__init__()
        if first is not None:
            vars(self).update({name: vars(first)[name] for name in ("_collections", "_lock", "_versions")})
        self.capabilities = dataclasses.replace(self.capabilities, durable=True, shared=True)

    def close(self) -> None:
        self._is_closed = True


def sharing() -> Callable[[], MemoryStore]:
    first = NothingOnDisk()
    return lambda: NothingOnDisk(first)


class LegsWithoutPrefix(Legs):
    """Is sound: declares that it refuses prefixes, and refuses them on each road."""

    def __init__(self) -> None:
        super().__init__()
        self.capabilities = dataclasses.replace(self.capabilities, prefix="refused")

    def lexical(self, name: str, query: Any, **options: Any) -> list[Match]:
        if getattr(query, "prefix", False):
            raise CapabilityError("no prefix")
        return super().lexical(name, query, **options)

    def legs(self, name: str, asked: LegsQuery, choose: Choose, *, fingerprint: str) -> list[Record]:
        if asked.words is not None and asked.words.prefix:
            raise CapabilityError("no prefix")
        return super().legs(name, asked, choose, fingerprint=fingerprint)


BROKEN: dict[str, tuple[Callable[[], MemoryStore], str]] = {
    "StaleDense": (StaleDense, "update"),
    "StaleLexical": (StaleLexical, "update"),
    "StaleLegs": (StaleLegs, "legs"),
    "ListingsWidened": (widened_when_large("scan"), "scale"),
    "CountsWidened": (widened_when_large("count"), "scale"),
    "DenseWidened": (widened_when_large("dense"), "scale"),
    "LexicalWidened": (widened_when_large("lexical"), "scale"),
    "CountsTo10000": (CountsTo10000, "scale"),
    "PagesTo10000": (PagesTo10000, "scale"),
    "DenseTo1000": (DenseTo1000, "scale"),
    "UpdatesTheFirst": (UpdatesTheFirst, "scale"),
    "UpdatesOneByOne": (UpdatesOneByOne, "threads"),
    "DeletesOneByOne": (DeletesOneByOne, "threads"),
    "ReplacesInBatches": (ReplacesInBatches, "threads"),
    "LegsOfTwoStates": (LegsOfTwoStates, "legs"),
    "SwapForgetsVectors": (SwapForgetsVectors, "collections"),
    "SwapForgetsWords": (SwapForgetsWords, "collections"),
    "NumbersVersionsByName": (NumbersVersionsByName, "collections"),
    "SwapInTwoSteps": (SwapInTwoSteps, "threads"),
    "SwapComparesTooEarly": (SwapComparesTooEarly, "threads"),
    "NothingOnDisk": (sharing(), "durability"),
    "NothingShared": (sharing(), "processes"),
}


@pytest.fixture(scope="module")
def outcomes(run_kits: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    broken = {name: (make, (group,)) for name, (make, group) in BROKEN.items()}
    return run_kits({**broken, "LegsWithoutPrefix": (LegsWithoutPrefix, ("legs",))})


@pytest.mark.parametrize("name", BROKEN)
def test_the_kit_turns_red_on_what_an_engine_may_do(outcomes: dict[str, Any], name: str) -> None:
    _, failed = outcomes[name]
    assert len(failed) == 1


def test_the_kit_is_green_on_legs_that_refuse_what_they_say(outcomes: dict[str, Any]) -> None:
    ran, failed = outcomes["LegsWithoutPrefix"]
    assert not failed
    assert len(ran) > 8
