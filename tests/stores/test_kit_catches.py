"""The kit is itself tested: each deliberately broken store turns it red.

All broken stores run in one pytest session of their own: of each, the groups named beside it, until the first failure.
"""

from __future__ import annotations

import itertools
import math
import unicodedata
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from stackroom import FilterError
from stackroom.filters import And, Contains, Eq, Exists, Filter, In, Ne, Not, NotIn, Or, Range, matches
from stackroom.stores import Cursor, LexicalQuery, Match, MemoryStore, Page, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

METHODS = ("replace", "update", "delete", "dense", "lexical", "scan", "count")
READS = ("dense", "lexical", "scan", "count")
ALL = Exists("tenantId")


# Ways to break a store


def reading(read_as: Callable[[Filter], Filter], *methods: str) -> type[MemoryStore]:
    """Return a store that takes the filters of some methods for others."""

    def broken(method: str) -> Callable[..., Any]:
        right = getattr(MemoryStore, method)
        return lambda self, *given, where, **options: right(self, *given, where=read_as(where), **options)

    return type("Reading", (MemoryStore,), {method: broken(method) for method in methods or METHODS})


def answering(change: Callable[[Any], Any], *methods: str) -> type[MemoryStore]:
    """Return a store that answers other than it found."""

    def broken(method: str) -> Callable[..., Any]:
        right = getattr(MemoryStore, method)
        return lambda self, *given, **options: change(right(self, *given, **options))

    return type("Answering", (MemoryStore,), {method: broken(method) for method in methods})


def keeping(change: Callable[[Record], Record]) -> type[MemoryStore]:
    """Return a store that keeps other records than it is given."""

    class Keeping(MemoryStore):
        def replace(self, name: str, records: Iterable[Record], **options: Any) -> int:
            return super().replace(name, [change(of) if isinstance(of, Record) else of for of in records], **options)

    return Keeping


def ignoring(method: str, **instead: Any) -> type[MemoryStore]:
    """Return a store that takes an argument of a method for another."""
    right = getattr(MemoryStore, method)
    call = lambda self, *given, **options: right(self, *given, **{**options, **instead})  # noqa: E731 - a method
    return type("Ignoring", (MemoryStore,), {method: call})


def each_leaf(change: Callable[[Any], Filter]) -> Callable[[Filter], Filter]:
    """Return a function that changes the leaves of a filter, and leaves what is no filter alone."""

    def changed(where: Filter) -> Filter:
        if isinstance(where, And):
            return And(*map(changed, where.filters))
        if isinstance(where, Or):
            return Or(*map(changed, where.filters))
        if isinstance(where, Not):
            return Not(changed(where.filter))
        return change(where) if isinstance(where, Filter) else where

    return changed


def dropping(key: str) -> Callable[[Filter], Filter]:
    """Return a function that takes the conditions on a key out of a filter, as far as the guards allow."""
    return each_leaf(lambda leaf: ALL if leaf.key == key else leaf)


def folded(form: Callable[[str], str]) -> Callable[[Record], Record]:
    """Return a function that brings the strings of a record's metadata into one form."""

    def change(of: Record) -> Record:
        metadata = {key: form(value) if isinstance(value, str) else value for key, value in of.metadata.items()}
        return Record(of.text, of.vector, {**metadata, "tenantId": of.tenant_id})

    return change


def other_values(change: Callable[[Any], Any]) -> Callable[[Record], Record]:
    """Return a function that changes each value of a record that is no string or list."""

    def changed(of: Record) -> Record:
        metadata = {
            key: value if isinstance(value, str | list) or key == "index" else change(value)
            for key, value in of.metadata.items()
        }
        return Record(of.text, of.vector, metadata)

    return changed


# Broken stores


class TiesReversed(MemoryStore):
    def dense(self, *given: Any, limit: int, **options: Any) -> list[Match]:
        super().dense(*given, limit=limit, **options)
        found = super().dense(*given, limit=10**6, **options)
        return sorted(sorted(found, key=lambda match: match.id, reverse=True), key=lambda match: -match.score)[:limit]


class TiesCutWrongly(TiesReversed):
    def dense(self, *given: Any, **options: Any) -> list[Match]:
        return sorted(super().dense(*given, **options), key=lambda match: (-match.score, match.id))


class TiesOfWordsReversed(MemoryStore):
    def lexical(self, *given: Any, limit: int, **options: Any) -> list[Match]:
        super().lexical(*given, limit=limit, **options)
        found = super().lexical(*given, limit=10**6, **options)
        return sorted(sorted(found, key=lambda match: match.id, reverse=True), key=lambda match: -match.score)[:limit]


class DeletesFirst(MemoryStore):
    def replace(self, name: str, records: Iterable[Record], *, where: Filter, **options: Any) -> int:
        given = list(records)
        went = super().replace(name, [], where=where, **options)
        super().replace(name, given, where=where)
        return went


class DeletesBeforeItReads(MemoryStore):
    def replace(self, name: str, records: Iterable[Record], *, where: Filter, **options: Any) -> int:
        went = super().replace(name, [], where=where, **options)
        super().replace(name, records, where=where)
        return went


class WritesHalf(MemoryStore):
    def replace(self, name: str, records: Iterable[Record], **options: Any) -> int:
        given = list(records)
        return super().replace(name, given[:1] if len(given) > 2 else given, **options)


class FiltersAfterTheCut(MemoryStore):
    def dense(self, *given: Any, where: Filter, limit: int, **options: Any) -> list[Match]:
        super().dense(*given, where=where, limit=limit, **options)
        found = super().dense(*given, where=ALL, limit=4 * limit, **options)
        return [match for match in found if matches(where, match.record.metadata)][:limit]


class WordsFilteredAfterTheCut(MemoryStore):
    def lexical(self, *given: Any, where: Filter, limit: int) -> list[Match]:
        super().lexical(*given, where=where, limit=limit)
        found = super().lexical(*given, where=ALL, limit=4 * limit)
        return [match for match in found if matches(where, match.record.metadata)][:limit]


class StatisticsOfAllTenants(MemoryStore):
    def lexical(self, name: str, query: LexicalQuery, *, where: Filter, limit: int) -> list[Match]:
        found = super().lexical(name, query, where=where, limit=limit)
        tenants = {of.tenant_id for of in self.scan(name, where=ALL, limit=10**6)}
        return [Match(match.record, match.score * (1 + 0.001 * (len(tenants) - 1))) for match in found]


class StatisticsOfTheFilter(MemoryStore):
    def lexical(self, name: str, query: LexicalQuery, *, where: Filter, limit: int) -> list[Match]:
        spec = self.collection(name)
        found = super().lexical(name, query, where=where, limit=limit)
        assert spec is not None
        other = MemoryStore()
        other.create_collection(name, spec)
        for of in self.scan(name, where=where, limit=10**6, vectors=True):
            other.replace(name, [of], where=And(Eq("tenantId", of.tenant_id), Eq("sourceId", "none")))
        return found and other.lexical(name, query, where=ALL, limit=limit)


class StatisticsOfTheRemoved(MemoryStore):
    removed = 0

    def delete(self, *given: Any, **options: Any) -> int:
        went = super().delete(*given, **options)
        self.removed += went
        return went

    def lexical(self, *given: Any, **options: Any) -> list[Match]:
        found = super().lexical(*given, **options)
        return [Match(match.record, match.score * (1 + 0.001 * self.removed)) for match in found]


class VersionsStartAnew(MemoryStore):
    def delete(self, *given: Any, **options: Any) -> int:
        went = super().delete(*given, **options)
        self._versions = itertools.count(1)
        return went


class SplitsSources(MemoryStore):
    def update(self, name: str, patch: Any, *, where: Filter) -> int:
        try:
            return super().update(name, patch, where=where)
        except FilterError:
            if not patch or matches(where, {}):
                raise
        held = self._held(name)
        changing = held.matching(where)
        for identity in changing:
            held.records[identity].metadata.update(patch)
        return len(changing)


class HandsOutItsOwn(MemoryStore):
    def scan(self, name: str, **options: Any) -> Page[Record]:
        page = super().scan(name, **options)
        held = self._held(name).records
        own = [held[of.tenant_id, of.source_id, of.index].metadata for of in page]
        return Page(
            tuple(
                Record.stored(of.text, of.vector, of_held, of.version or 0)
                for of, of_held in zip(page, own, strict=True)
            ),
            page.next,
        )


class KeepsWhatItIsGiven(MemoryStore):
    def replace(self, name: str, records: Iterable[Record], **options: Any) -> int:
        given = list(records)
        went = super().replace(name, given, **options)
        held = self._held(name).records
        for of in given:
            there = held[of.tenant_id, of.source_id, of.index]
            held[of.tenant_id, of.source_id, of.index] = Record.stored(
                there.text, there.vector, of.metadata, there.version or 0
            )
        return went


class ExpandsSingleUnits(MemoryStore):
    def lexical(self, name: str, query: LexicalQuery, **options: Any) -> list[Match]:
        found = super().lexical(name, query, **options)
        if found or not isinstance(query, LexicalQuery) or not query.prefix or query.match == "all":
            return found
        alone = [LexicalQuery(word, prefix=True) for word in query.text.replace("'", " ").split()]
        return next(filter(None, (super(ExpandsSingleUnits, self).lexical(name, one, **options) for one in alone)), [])


class NeverExpands(MemoryStore):
    def lexical(self, name: str, query: LexicalQuery, **options: Any) -> list[Match]:
        return super().lexical(name, LexicalQuery(query.text, query.match) if query.prefix else query, **options)


class DeletesWithoutCondition(MemoryStore):
    def delete(self, name: str, *, where: Filter) -> int:
        return super().delete(name, where=And(ALL, where) if isinstance(where, Filter) else where)


class UpdatesWithoutCondition(MemoryStore):
    def update(self, name: str, patch: Any, *, where: Filter) -> int:
        return super().update(name, patch, where=And(ALL, where) if isinstance(where, Filter) else where)


class CountsChangesAlone(MemoryStore):
    def update(self, name: str, patch: Any, *, where: Filter) -> int:
        before = [of.metadata for of in self.scan(name, where=ALL, limit=10**6)]
        super().update(name, patch, where=where)
        after = [of.metadata for of in self.scan(name, where=ALL, limit=10**6)]
        return sum(old != new for old, new in zip(before, after, strict=True))


class BeginsAtTheCursor(MemoryStore):
    def scan(self, name: str, *, after: Cursor | None = None, **options: Any) -> Page[Record]:
        before = after and Cursor(after.tenant_id, after.source_id, after.index - 1)
        return super().scan(name, after=before, **options)


class NeverEnds(MemoryStore):
    def scan(self, name: str, *, limit: int, **options: Any) -> Page[Record]:
        page = super().scan(name, limit=limit, **options)
        last = page[-1] if len(page) == limit else None
        return Page(page.items, last and Cursor(last.tenant_id, last.source_id, last.index))


class DropsTheNameAlone(MemoryStore):
    def drop_collection(self, name: str) -> None:
        there = self._collections.get(name)
        super().drop_collection(name)
        if there is not None:
            self._collections[f"dropped {name}"] = there

    def create_collection(self, name: str, spec: Any) -> None:
        super().create_collection(name, spec)
        dropped = self._collections.pop(f"dropped {name}", None)
        if dropped is not None:
            self._collections[name].records.update(dropped.records)
            self._collections[name].terms.update(dropped.terms)


class TakesAnySpec(MemoryStore):
    def create_collection(self, name: str, spec: Any) -> None:
        super().create_collection(name, self.collection(name) or spec)


class WorksOnWhenClosed(MemoryStore):
    def close(self) -> None:
        """Do nothing."""


def unit(of: Record) -> Record:
    """Return a record with its vector at length 1."""
    assert of.vector is not None
    return Record(of.text, of.vector / np.sqrt(np.sum(of.vector.astype(np.float64) ** 2)), of.metadata)


def one_kind(leaf: Any) -> Filter:
    """Take True for 1 and False for 0."""
    same = {True: [True, 1], False: [False, 0]}
    return In(leaf.key, same[bool(leaf.value)]) if isinstance(leaf, Eq) and leaf.value in (0, 1) else leaf


def by_like(leaf: Any) -> Filter:
    """Take % for a wildcard."""
    if isinstance(leaf, Contains) and isinstance(leaf.value, str) and "%" in leaf.value.strip("%"):
        return And(*(Contains(leaf.key, part) for part in leaf.value.split("%") if part))
    return leaf  # type: ignore[no-any-return] # a filter


def by_float(leaf: Any) -> Filter:
    """Compare numbers as floats."""
    if isinstance(leaf, Range) and isinstance(leaf.gt, int):
        return Range(leaf.key, gt=math.nextafter(float(leaf.gt), math.inf))
    return leaf  # type: ignore[no-any-return] # a filter


def nfc(text: str) -> str:
    """Compose."""
    return unicodedata.normalize("NFC", text)


def short(page: Page[Record]) -> Page[Record]:
    """End a page one record early."""
    if page.next is None or len(page) < 2:
        return page
    last = page[-2]
    return Page(page.items[:-1], Cursor(last.tenant_id, last.source_id, last.index))


BROKEN: dict[str, tuple[Callable[[], MemoryStore], str]] = {
    "CountIsOff": (answering(lambda number: number + bool(number), "count"), "scan"),
    "DeleteAnswersZero": (answering(lambda _went: 0, "delete"), "delete"),
    "ReplaceAnswersWhatCame": (answering(lambda went: went + 1, "replace"), "replace"),
    "TiesReversed": (TiesReversed, "dense"),
    "TiesCutWrongly": (TiesCutWrongly, "dense"),
    "TiesOfWordsReversed": (TiesOfWordsReversed, "lexical"),
    "DeletesFirst": (DeletesFirst, "replace"),
    "DeletesBeforeItReads": (DeletesBeforeItReads, "replace"),
    "WritesHalf": (WritesHalf, "replace"),
    "NeFindsTheMissing": (
        reading(each_leaf(lambda of: Not(Eq(of.key, of.value)) if isinstance(of, Ne) else of)),
        "filters",
    ),
    "NotInFindsTheMissing": (
        reading(each_leaf(lambda of: Not(In(of.key, of.values)) if isinstance(of, NotIn) else of)),
        "filters",
    ),
    "TrueIsOne": (reading(each_leaf(one_kind)), "filters"),
    "PartsByLike": (reading(each_leaf(by_like)), "filters"),
    "NumbersByFloat": (reading(each_leaf(by_float)), "filters"),
    "FormsFolded": (keeping(folded(nfc)), "hostile"),
    "CaseFolded": (keeping(folded(str.lower)), "hostile"),
    "SpacesTrimmed": (keeping(folded(lambda text: text.strip() or text)), "hostile"),
    "TextTrimmed": (keeping(lambda of: Record(of.text.strip(), of.vector, of.metadata)), "hostile"),
    "IntsAreFloats": (
        keeping(other_values(lambda value: float(value) if type(value) is int else value)),
        "round_trips",
    ),
    "FloatsAreInts": (
        keeping(other_values(lambda value: int(value) if isinstance(value, float) and value == 5 else value)),
        "round_trips",
    ),
    "BoolsAreInts": (keeping(other_values(lambda value: int(value) if value is True else value)), "round_trips"),
    "VectorsRescaled": (keeping(unit), "round_trips"),
    "VersionsStartAnew": (VersionsStartAnew, "round_trips"),
    "HandsOutItsOwn": (HandsOutItsOwn, "round_trips"),
    "KeepsWhatItIsGiven": (KeepsWhatItIsGiven, "round_trips"),
    "PagesEndEarly": (answering(short, "scan"), "scan"),
    "PagesAreTheLast": (answering(lambda page: Page(page.items), "scan"), "scan"),
    "NeverEnds": (NeverEnds, "scan"),
    "BeginsAtTheCursor": (BeginsAtTheCursor, "scan"),
    "FiltersAfterTheCut": (FiltersAfterTheCut, "dense"),
    "WordsFilteredAfterTheCut": (WordsFilteredAfterTheCut, "lexical"),
    "StatisticsOfAllTenants": (StatisticsOfAllTenants, "lexical"),
    "StatisticsOfTheFilter": (StatisticsOfTheFilter, "lexical"),
    "StatisticsOfTheRemoved": (StatisticsOfTheRemoved, "lexical"),
    "ExpandsSingleUnits": (ExpandsSingleUnits, "prefix"),
    "NeverExpands": (NeverExpands, "prefix"),
    "SplitsSources": (SplitsSources, "update"),
    "UpdatesWithoutCondition": (UpdatesWithoutCondition, "update"),
    "CountsChangesAlone": (CountsChangesAlone, "update"),
    "DeletesWithoutCondition": (DeletesWithoutCondition, "delete"),
    "ExpectIgnored": (ignoring("replace", expect=None), "replace"),
    "ExpectIgnoredBySwap": (ignoring("swap", expect=None), "collections"),
    "FingerprintIgnored": (ignoring("replace", fingerprint=None), "replace"),
    "FingerprintIgnoredByDense": (ignoring("dense", fingerprint=None), "dense"),
    "DropsTheNameAlone": (DropsTheNameAlone, "collections"),
    "TakesAnySpec": (TakesAnySpec, "collections"),
    "WorksOnWhenClosed": (WorksOnWhenClosed, "threads"),
    **{
        f"EmptyInReachesAllIn{method.title()}": (
            reading(each_leaf(lambda of: And() if isinstance(of, In) and not of.values else of), method),
            "filters",
        )
        for method in METHODS
    },
    **{
        f"{key.replace('.', '').title()}DroppedIn{method.title()}": (reading(dropping(key), method), group)
        for key, groups in {
            "tenantId": ("update", "delete", "dense", "lexical", "scan", "filters"),
            "aclGroups": ("update", "filters", "dense", "lexical", "scan", "filters"),
            "stackroom.expiresAt": ("filters",) * 6,
        }.items()
        for method, group in zip(METHODS[1:], groups, strict=True)
    },
}


@pytest.fixture(scope="module")
def outcomes(run_kits: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    return run_kits({name: (make, (group,)) for name, (make, group) in BROKEN.items()})


@pytest.mark.parametrize("name", BROKEN)
def test_the_kit_turns_red_on_a_broken_store(outcomes: dict[str, Any], name: str) -> None:
    _, failed = outcomes[name]
    assert len(failed) == 1
