"""Removing canaries and nothing else: rehearsed where nothing can be lost, and watched where something could be."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from stackroom import Conflict, Library, Source
from stackroom import _keys as keys
from stackroom.auditing._canaries import KIND, SHARED_WORDS, letters
from stackroom.auditing._inside import reading_of
from stackroom.embedders import HashingEmbedder
from stackroom.filters import Eq, Exists
from stackroom.stores import Cursor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stackroom import Scope
    from stackroom.auditing._canaries import Names, Planting

_MOST_TENANTS: Final = 20
_RECORDS_AT_A_TIME: Final = 1000


_MIXED: Final = "a throw-away tenant was not removed: asked for it, the store shows others', and might remove those"

_REHEARSAL: Final = (
    "a removal takes more than it is asked to: seen in a throw-away collection, so that nothing of the library's was "
    "removed and nothing was planted; prove the store with `stackroom check-store`"
)

_REHEARSED_TENANTS: Final = (
    "without its last letter",
    "with underscores",
    "with a space behind",
    "in upper case",
    "in full width",
    "decomposed",
    "as it is",
)
"""In this order a removal that blurs names reaches one that is still there."""


class ReachesTooFarError(Exception):
    """Something went with canaries that is none: nothing more is to be removed."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the first page of a tenant shows: the passages that are its own, and the place where the page ends."""

    own: frozenset[Cursor]
    end: Cursor | None

    def lost_in(self, later: _Seen) -> int:
        """Tell how many passages a later look does not show and would."""
        gone = self.own - later.own
        return len(gone) if later.end is None else sum(place <= later.end for place in gone)


@dataclass(slots=True)
class Witnesses:
    """Tenants of the library's own, whose passages are counted whenever canaries are removed: they must not go, too."""

    library: Library
    tenant_ids: tuple[str, ...]
    have_lost: bool = False

    @classmethod
    def called(cls, library: Library, scopes: Iterable[Scope]) -> Witnesses:
        """Return up to 20 tenants: those of the scopes, then the first that the store holds."""
        every = dict.fromkeys(
            [*(scope.tenant_id for scope in scopes), *islice(reading_of(library).tenants(), _MOST_TENANTS)]
        )
        return cls(library, tuple(every)[:_MOST_TENANTS])

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Raise ReachesTooFarError when one of the first 1,000 passages of a tenant goes meanwhile."""
        before = [self._seen(tenant_id) for tenant_id in self.tenant_ids]
        try:
            yield
        except Exception:
            self._compare(before)
            raise
        self._compare(before)

    def _seen(self, tenant_id: str) -> _Seen:
        """Look beyond any scope, at what has expired, too; what the store mixes in is another's."""
        inside = reading_of(self.library)
        page = inside.store.scan(inside.collection, where=Eq(keys.TENANT, tenant_id), limit=_RECORDS_AT_A_TIME)
        places = [Cursor(record.tenant_id, record.source_id, record.index) for record in page]
        own = frozenset(place for place in places if place.tenant_id == tenant_id)
        return _Seen(own, places[-1] if page.next is not None else None)

    def _compare(self, before: list[_Seen]) -> None:
        after = [self._seen(tenant_id) for tenant_id in self.tenant_ids]
        lost = sum(one.lost_in(other) for one, other in zip(before, after, strict=True))
        if lost:
            self.have_lost = True
            raise ReachesTooFarError(
                f"{lost} passages of the library's own went while canaries were written or removed, and nothing was "
                "removed from then on: the store reaches further than it is asked to, unless somebody else removed "
                "those at that moment"
            )


def rehearse(library: Library, names: Names, witnesses: Witnesses) -> None:
    """Remove sources and whole tenants in a throw-away collection of the library's store, and drop it.

    ReachesTooFarError when one takes what it was not asked for: the library's own must not be the first to meet that.
    """
    store, collection = reading_of(library).store, f"leak-test-{letters(14)}"
    try:
        stage = Library(store, collection, HashingEmbedder(8))
        _set_up(stage, names)
        for removals in _removals_of(names):
            with witnesses.watching():
                for tenant_id, source_id in removals:
                    _try_removal(stage, tenant_id, source_id)
    finally:
        store.drop_collection(collection)


def _set_up(stage: Library, names: Names) -> None:
    places = [(tenant_id, names.source_ids["as it is"]) for tenant_id in names.tenants.values()]
    places += [(names.tenant, source_id) for source_id in names.source_ids.values()]
    for tenant_id, source_id in dict.fromkeys(places):
        with suppress(Conflict):  # the library's own canaries will meet it, and say it
            stage.index_source(Source(source_id, KIND, tenant_id, [names.group], [SHARED_WORDS]))


def _removals_of(names: Names) -> Iterator[list[tuple[str, str | None]]]:
    """Yield what to remove between two looks at the library's own: one source first, one tenant, then the others."""
    first, *others = (names.tenants[how] for how in _REHEARSED_TENANTS)
    yield [(names.tenants["in upper case"], names.source_ids["as it is"])]
    yield [(first, None)]
    yield [(names.tenant, names.source_ids["without its last letter"]), *((tenant_id, None) for tenant_id in others)]


def _try_removal(stage: Library, tenant_id: str, source_id: str | None) -> None:
    reading = reading_of(stage)

    def held() -> set[tuple[str, str]]:
        return {(record.tenant_id, record.source_id) for record in reading.records(Exists(keys.TENANT))}

    before = held()
    if source_id is None:
        stage.remove_tenant(tenant_id)
    else:
        stage.remove_source(source_id, tenant_id=tenant_id)
    if any(tenant != tenant_id or source_id not in {None, source} for tenant, source in before - held()):
        raise ReachesTooFarError(_REHEARSAL)


def clean_up(planting: Planting, witnesses: Witnesses) -> list[str]:
    """Remove all that was planted, count what is left, and return what went wrong, in words.

    Each source is removed by its id before its tenant is. Nothing stops it half-way, no interrupt either (what did is
    raised at the end), but that something else goes, too: then nothing more is removed.
    """
    removal = _Removal(planting, witnesses)
    for tenant_id in planting.names.tenants.values():
        for is_last in (False, True):
            if removal.is_over(tenant_id, is_last=is_last):
                break
    problems = [*removal.problems, *left_over(planting)]
    if removal.interrupt is not None:
        for problem in problems:
            removal.interrupt.add_note(problem)
        raise removal.interrupt
    return problems


@dataclass(slots=True)
class _Removal:
    """Removes one tenant of canaries after the other, and goes on behind whatever happens, but one thing."""

    planting: Planting
    witnesses: Witnesses
    problems: dict[str, None] = field(default_factory=dict)
    interrupt: BaseException | None = None

    def is_over(self, tenant_id: str, *, is_last: bool) -> bool:
        """Try to remove a tenant; tell whether there is nothing to try again."""
        try:
            if not self.witnesses.have_lost:
                self._remove(tenant_id)
        except ReachesTooFarError as reached:
            self.problems[str(reached)] = None
        except Exception as error:  # noqa: BLE001 - whatever it is, the other tenants are still to be removed
            if is_last:
                self.problems[f"a throw-away tenant could not be removed ({type(error).__name__})"] = None
            return is_last
        except BaseException as error:  # noqa: BLE001 - raised when all is removed
            self.interrupt = error
            return is_last
        return True

    def _remove(self, tenant_id: str) -> None:
        """Remove a tenant's sources, then the tenant, unless the store shows that it would not stop there."""
        library = self.planting.library
        inside = reading_of(library)
        with self.witnesses.watching():
            for source_id in self.planting.places.get(tenant_id, ()):
                library.remove_source(source_id, tenant_id=tenant_id)
        page = inside.store.scan(inside.collection, where=Eq(keys.TENANT, tenant_id), limit=_RECORDS_AT_A_TIME)
        if any(record.tenant_id != tenant_id for record in page):
            self.problems[_MIXED] = None
            return
        with self.witnesses.watching():
            library.remove_tenant(tenant_id)


def left_over(planting: Planting) -> list[str]:
    """Count the canaries that are there, expired ones too; say so when there are any."""
    inside = reading_of(planting.library)
    tenant_ids = planting.names.tenants.values()
    try:
        left = sum(inside.store.count(inside.collection, where=Eq(keys.TENANT, tenant_id)) for tenant_id in tenant_ids)
    except Exception as error:  # noqa: BLE001 - reported: what is left cannot be told
        return [f"it could not be counted what is left of the canaries ({type(error).__name__})"]
    return [f"{left} canaries are left; they expire within an hour, and sweep() deletes them then"] if left else []
