"""The library's own passages: what its scopes may see, by an operator's reading, and what they are shown."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from stackroom import Narrowing
from stackroom import _keys as keys
from stackroom._scoping import condition
from stackroom.auditing._canaries import SHARED_WORDS
from stackroom.auditing._doors import MODES, Audit, Caller, Question, everything, is_own
from stackroom.auditing._inside import reading_of, time_of
from stackroom.filters import Eq, matches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from stackroom import Hit, Library, Scope, SourceInfo
    from stackroom._model import Mode
    from stackroom.stores import Record

_MOST_PASSAGES: Final = 10_000
_ATTEMPTS: Final = 3
_PAGE: Final = 100
_TOP_K: Final = 100
_QUERY_CHARS: Final = 200

Place: TypeAlias = tuple[str, "Mode | None"]


@dataclass(frozen=True, slots=True)
class Own:
    """The passages of a tenant at a moment, read beyond any scope; of a large tenant the first 10,000."""

    records: tuple[Record, ...]
    is_whole: bool
    now: datetime

    @classmethod
    def read(cls, library: Library, tenant_id: str) -> Own:
        """Read them; what a store mixes in is another's."""
        now = time_of(library)
        every = reading_of(library).records(Eq(keys.TENANT, tenant_id))
        found = list(islice(every, _MOST_PASSAGES + 1))
        own = tuple(record for record in found if record.tenant_id == tenant_id)
        return cls(own, len(found) <= _MOST_PASSAGES, now)

    def visible(self, scope: Scope, narrowing: Narrowing) -> list[Record]:
        """Return what a scope may see of them, by the reference evaluator."""
        within = condition(scope, [narrowing], self.now)
        return [] if within is None else [one for one in self.records if matches(within, one.metadata)]

    def is_as(self, other: Own, scope: Scope) -> bool:
        """Tell whether nothing was written or expired in between that the scope could notice."""
        states = [[(one.id, one.text, one.metadata) for one in own.records] for own in (self, other)]
        live = [[one.id for one in own.visible(scope, Narrowing())] for own in (self, other)]
        return states[0] == states[1] and live[0] == live[1]


@dataclass(frozen=True, slots=True)
class Shown:
    """What came through a door for a narrowing: hits, sources, or a number."""

    place: Place
    narrowing: Narrowing
    hits: Sequence[Hit] | None = None
    sources: Sequence[SourceInfo] | None = None
    number: int | None = None


def try_own(audit: Audit, caller: Caller) -> None:
    """Try the doors with a scope of the library's own, by narrowings to what it may not see.

    Judged by what an operator sees at the same time; by groups and tenants alone when that is much, or is being
    written to again and again.
    """
    for _ in range(_ATTEMPTS):
        own = Own.read(audit.library, caller.scope.tenant_id)
        shown = list(_asked(audit, caller, own))
        is_known = own.is_whole and own.is_as(Own.read(audit.library, caller.scope.tenant_id), caller.scope)
        if is_known or not own.is_whole:
            break
    for one in shown:
        _judge(audit, caller, one, own.visible(caller.scope, one.narrowing) if is_known else None)


def _asked(audit: Audit, caller: Caller, own: Own) -> Iterator[Shown]:
    for question in _questions(caller, own):
        narrowing = Narrowing(**question.narrowing)
        yield Shown((question.through("sources"), None), narrowing, sources=_listed(audit, caller, question, own))
        number = audit.library.count(scope=caller.scope, **question.narrowing)
        yield Shown((question.through("count"), None), narrowing, number=number)
        for mode in MODES:
            answer = audit.answer(caller, question, mode, top_k=_TOP_K)
            if answer is not None:
                yield Shown((question.through("search"), mode), narrowing, hits=answer)
    for source_id in _single_sources(caller, own):
        narrowing = Narrowing(source_ids=[source_id])
        info = audit.library.source(source_id, scope=caller.scope)
        yield Shown(("source", None), narrowing, sources=[] if info is None else [info])
        yield Shown(("passages", None), narrowing, hits=audit.library.passages(source_id, scope=caller.scope))


def _listed(audit: Audit, caller: Caller, question: Question, own: Own) -> Sequence[SourceInfo]:
    """List all sources of a tenant that is known as a whole, else the first page of them."""
    if own.is_whole:
        return audit.listed(caller, question, page=_PAGE, most=len(own.records) + 1)
    return audit.library.sources(scope=caller.scope, limit=_PAGE, **question.narrowing)


def _divided(caller: Caller, own: Own) -> tuple[list[Record], list[Record]]:
    """Return what a caller may see, and what it may not."""
    seen = own.visible(caller.scope, Narrowing())
    ids = {one.id for one in seen}
    return seen, [one for one in own.records if one.id not in ids]


def _single_sources(caller: Caller, own: Own) -> list[str]:
    return [records[0].source_id for records in _divided(caller, own) if records]


def _questions(caller: Caller, own: Own) -> Iterator[Question]:
    """Yield a question about everything, and narrowings to what the caller may not see (or may, if that is all)."""
    seen, unseen = _divided(caller, own)
    first = next(iter(unseen or seen), None)
    text = SHARED_WORDS if first is None else first.text[:_QUERY_CHARS]
    yield Question("", everything, text=text)
    for name, key, narrowing in (
        ("source_ids", keys.SOURCE, "source_ids"),
        ("folder_id", keys.FOLDER, "folder_id"),
        ("tags", keys.TAGS, "tags"),
        ("kinds and tiers", keys.KIND, "kinds"),
        ("kinds and tiers", keys.TIER, "tiers"),
    ):
        held = next((value for one in [*unseen, *seen] if (value := one.metadata.get(key))), None)
        if held is not None:
            yield Question(name, everything, {narrowing: _asked_as(narrowing, held)}, text)


def _asked_as(narrowing: str, held: Any) -> Any:
    if narrowing == "folder_id":
        return held
    return held[:1] if isinstance(held, list) else [held]


def _judge(audit: Audit, caller: Caller, shown: Shown, visible: Sequence[Record] | None) -> None:
    """Compare what was shown with what is visible, or, if that is not known, with the caller's tenant and groups."""
    if shown.number is not None:
        number, expected = shown.number, shown.number if visible is None else len(visible)
        came, wrong, what = min(number, expected), max(0, number - expected), "a number that is too high"
    elif shown.sources is not None:
        number, what = len(shown.sources), "a source that was not planted"
        expected, came, wrong = _of_sources(caller, shown.sources, visible)
    else:
        hits = shown.hits or ()
        allowed = None if visible is None else {(one.source_id, one.index, one.text) for one in visible}
        number, what = len(hits), "a passage that was not planted"
        expected, came, wrong = 0, 0, sum(not _is_allowed(caller, hit, allowed) for hit in hits)
    audit.enter(shown.place, expected=expected, found=came, shown=number, leaked=wrong)
    if wrong:
        audit.tell(*shown.place, caller, what)


def _is_allowed(caller: Caller, hit: Hit, allowed: set[tuple[str, int, str]] | None) -> bool:
    return is_own(caller, hit) and (allowed is None or (hit.source_id, hit.index, hit.text) in allowed)


def _of_sources(
    caller: Caller, sources: Sequence[SourceInfo], visible: Sequence[Record] | None
) -> tuple[int, int, int]:
    """Return how many sources were expected, came, and came without a right to."""
    own = {
        info.source_id
        for info in sources
        if info.tenant_id == caller.scope.tenant_id and not set(info.acl_groups).isdisjoint(caller.scope.acl_groups)
    }
    rightful = own if visible is None else {record.source_id for record in visible if record.index == 0}
    return len(rightful), len(own & rightful), sum(info.source_id not in own & rightful for info in sources)
