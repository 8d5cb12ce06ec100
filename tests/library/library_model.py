"""A library by brute force: a dict of sources, read by the words of the specification and nothing else."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stackroom import Indexed, Passage, Scope, Source
from stackroom.text import index_terms, query_terms

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

Key = tuple[str, str]


@dataclass
class Model:
    """What a library holds, by tenant and source id."""

    vectors: Mapping[str, tuple[float, float]]
    held: dict[Key, Source] = field(default_factory=dict)
    created: dict[Key, datetime] = field(default_factory=dict)

    def index_source(self, source: Source, now: datetime) -> Indexed:
        key = source.tenant_id, source.source_id
        old = self.held.pop(key, None)
        before = [passage.text for passage in old.passages] if old else []
        if not source.passages:
            self.created.pop(key, None)
            return Indexed(0, len(before), 0, 0)
        self.held[key] = source
        self.created.setdefault(key, now)
        reused = sum(passage.text in before for passage in source.passages)
        return Indexed(len(source.passages), len(before), len(source.passages) - reused, reused)

    def set_source_scope(self, source_id: str, tenant_id: str, changes: dict[str, Any]) -> int:
        old = self.held.get((tenant_id, source_id))
        if old is None or not changes:
            return 0
        given = {item.name: getattr(old, item.name) for item in dataclasses.fields(old)} | changes
        self.held[tenant_id, source_id] = Source(**given)
        return len(old.passages)

    def remove(self, keys: list[Key]) -> int:
        for key in keys:
            del self.created[key]
        return sum(len(self.held.pop(key).passages) for key in keys)

    def remove_source(self, source_id: str, tenant_id: str) -> int:
        return self.remove([key for key in self.held if key == (tenant_id, source_id)])

    def remove_tenant(self, tenant_id: str) -> int:
        return self.remove([key for key in self.held if key[0] == tenant_id])

    def sweep(self, now: datetime) -> int:
        return self.remove([key for key, source in self.held.items() if is_expired(source, now)])

    def seen(
        self,
        scope: Scope,
        now: datetime,
        narrowing: Mapping[str, Any],
        any_of: Sequence[Mapping[str, Any]] | None = None,
    ) -> dict[str, Passage]:
        """Return the passages in scope that a narrowing keeps, or one of the branches laid over it, by id."""
        kept = [narrowing] if any_of is None else [{**narrowing, **given(branch)} for branch in any_of]
        return {
            f"{source.source_id}#{index}": passage
            for one in kept
            for source in self.sources(scope, now, one)
            for index, passage in enumerate(source.passages)
            if matches_where(source, index, one.get("where"))
        }

    def sources(self, scope: Scope, now: datetime, narrowing: Mapping[str, Any]) -> Iterator[Source]:
        for (tenant_id, _), source in sorted(self.held.items(), key=lambda item: item[0]):
            is_visible = tenant_id == scope.tenant_id and set(source.acl_groups) & set(scope.acl_groups)
            if is_visible and not is_expired(source, now) and keeps(source, narrowing):
                yield source

    def cosines(self, text: str, passages: Mapping[str, Passage]) -> dict[str, float]:
        query = self.vectors[text]
        return {
            name: sum(a * b for a, b in zip(query, vector, strict=True)) / math.hypot(*query) / math.hypot(*vector)
            for name, passage in passages.items()
            for vector in [self.vectors[passage.text]]
        }

    def bm25(
        self, text: str, passages: Mapping[str, Passage], tenant_id: str, *, needs_all: bool, prefix: bool
    ) -> dict[str, float]:
        stored = [
            Counter(index_terms(passage.text))
            for (tenant, _), source in self.held.items()
            if tenant == tenant_id
            for passage in source.passages
        ]
        wanted = query_terms(text)
        scores = {}
        for name, passage in passages.items():
            terms = Counter(index_terms(passage.text))
            best = [
                max(
                    (_bm25_of(term, terms, stored) for term in terms if _is_asked(term, asked, prefix=prefix)),
                    default=0.0,
                )
                for asked in wanted
            ]
            if any(best) and (all(best) or not needs_all):
                scores[name] = sum(best)
        return scores


def _bm25_of(term: str, terms: Counter[str], stored: list[Counter[str]]) -> float:
    holding = sum(term in of_passage for of_passage in stored)
    idf = math.log(1 + (len(stored) - holding + 0.5) / (holding + 0.5))
    return idf * terms[term] * 2.2 / (terms[term] + 1.2 * (0.25 + 0.75 * terms.total() / 128))


def _is_asked(term: str, asked: str, *, prefix: bool) -> bool:
    """Tell whether a term is what was asked for; all that the machine asks has more than one letter, so it expands."""
    return term.startswith(asked) if prefix else term == asked


def given(branch: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a branch of any_of gives: no empty kinds, tags, tiers or where."""
    return {name: value for name, value in branch.items() if value or name in {"folder_ids", "source_ids"}}


def is_expired(source: Source, now: datetime) -> bool:
    return source.expires_at is not None and source.expires_at <= now


def keeps(source: Source, narrowing: Mapping[str, Any]) -> bool:
    """Tell whether a narrowing keeps a source, `where` aside."""
    folder_ids, source_ids = narrowing.get("folder_ids"), narrowing.get("source_ids")
    return (
        (not narrowing.get("kinds") or source.kind in narrowing["kinds"])
        and (narrowing.get("folder_id") is None or source.folder_id == narrowing["folder_id"])
        and (folder_ids is None or source.folder_id in folder_ids)
        and set(narrowing.get("tags") or ()) <= set(source.tags)
        and (source_ids is None or source.source_id in source_ids)
        and (not narrowing.get("tiers") or source.tier in narrowing["tiers"])
    )


def matches_where(source: Source, index: int, where: Mapping[str, Any] | None) -> bool:
    """Judge the only form of `where` that scripts use: one key that equals a value."""
    metadata = {**source.passages[index].metadata, **source.metadata, "index": index, "kind": source.kind}
    return all(metadata.get(key) == value for key, value in (where or {}).items())
