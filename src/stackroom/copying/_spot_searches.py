"""Searches at the end of a copy: some scopes are asked the same on both ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stackroom import _keys as keys
from stackroom._errors import StoreError
from stackroom._filters import matches
from stackroom._model import Narrowing, Scope, utc_now
from stackroom._scoping import condition
from stackroom.copying._places import InStore
from stackroom.stores import LexicalQuery
from stackroom.text import lexical_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stackroom._filters import Filter
    from stackroom.copying._places import Place
    from stackroom.stores import Match, Record

_BEST: Final = 10
_WORDS: Final = 5
_NEAR: Final = 1e-4
"""How much the scores of two stores may differ; the promise is 1e-5."""

_MAY_DIFFER: Final = 2
"""Of ten nearest, so many may be others: approximate search has a recall below 1."""


def check_searches(origin: Place, target: Place, spots: Sequence[Record]) -> int:
    """Ask the target in the scopes of some records, and the origin the same where it is a store; return how many.

    StoreError when a record is not found in its own scope, when what is found lies outside it, or when both answer
    otherwise. A target that is a file, and a record that nobody sees (not active, expired), are passed over.
    """
    if not isinstance(target, InStore):
        return 0
    searched = 0
    for record in spots:
        where = _scope_of(record)
        if where is not None and matches(where, record.metadata):
            _check(origin, target, record, where)
            searched += 1
    return searched


def _scope_of(record: Record) -> Filter | None:
    groups = record.metadata.get(keys.GROUPS)
    if not isinstance(groups, list) or not groups:
        return None
    return condition(Scope(record.tenant_id, [str(groups[0])]), [Narrowing()], utc_now())


def _check(origin: Place, target: InStore, record: Record, where: Filter) -> None:
    found = list(_answers(target, record, where))
    if any(not matches(where, match.record.metadata) for matches_of in found for match in matches_of):
        raise StoreError("the copy answers what a scope may not see; prove the store with `stackroom check-store`")
    if not found[0] or found[0][0].score < 1 - _NEAR:
        raise StoreError(
            "the copy does not find a passage by its own vector; prove the store with `stackroom check-store`"
        )
    if isinstance(origin, InStore):
        for one, other in zip(_answers(origin, record, where), found, strict=False):
            if _differing(one, other) > _MAY_DIFFER:
                raise StoreError(
                    "a search in the copy answers otherwise than at the origin; `stackroom check-store` both"
                )


def _answers(place: InStore, record: Record, where: Filter) -> Iterator[Sequence[Match]]:
    """Yield the nearest to a record, then the best worded for its first words, where the store has words."""
    store, name = place.store, place.collection
    yield store.dense(name, record.vector, where=where, limit=_BEST)  # type: ignore[arg-type] # it was read with it
    words = " ".join(lexical_tokens(record.text)[:_WORDS])
    if words and store.capabilities.lexical != "refused":
        yield store.lexical(name, LexicalQuery(words), where=where, limit=_BEST)


def _differing(one: Iterable[Match], other: Iterable[Match]) -> int:
    """Return how many scores of one ranking the other has not; equal scores may belong to any of several."""
    left = [match.score for match in other]
    missing = 0
    for match in one:
        near = next((score for score in left if abs(score - match.score) <= _NEAR * max(1.0, abs(match.score))), None)
        if near is None:
            missing += 1
        else:
            left.remove(near)
    return missing + len(left)
