"""One state of one tenant, as it is read: what is asked of the engine is only ever about rows that count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from stackroom import _keys as keys
from stackroom._filters import And, Eq, Filter, matches
from stackroom.stores._tokens import NEVER, Asked, Form, Holds, compiled, conjunction
from stackroom.stores.generations._rows import of_tenant, record_of, term_token

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stackroom.stores._protocol import Record
    from stackroom.stores.generations._engine import Engine, Found, Nearest, Place, Stored, Worded

_AT_ONCE: Final = 200
"""Rows that are fetched at a time: bounds memory."""


@dataclass(frozen=True, slots=True)
class View:
    """The rows of a tenant that count, on a shelf."""

    engine: Engine
    shelf: str
    tenant: str
    counts: Form

    def count(self, *forms: Form) -> int:
        """Return how many rows hold some conditions."""
        form = self._form(forms)
        return 0 if form == NEVER else self.engine.count(self.shelf, self.tenant, form)

    def holding(self, term: str) -> int:
        """Return how many of the tenant's passages hold a word."""
        return self.count(Holds(frozenset({term_token(term)})))

    def places(self, form: Form) -> list[Place]:
        """Return where the rows of a condition stand, in the order of a scan."""
        whole = self._form([form])
        found = [] if whole == NEVER else self.engine.places(self.shelf, self.tenant, whole)
        return sorted(found, key=lambda place: (place.source, place.place))

    def best(self, form: Form, asked: Nearest | Worded, limit: int, *, vectors: bool) -> Sequence[Found]:
        """Return the best rows of a condition, by the engine's own scores."""
        whole = self._form([form])
        if whole == NEVER:
            return []
        return self.engine.best(self.shelf, self.tenant, whole, asked, limit, vectors=vectors)

    def stored(self, places: Sequence[Place], *, vectors: bool = False) -> Iterator[Stored]:
        """Yield rows by their places, in their order; those that went meanwhile are left out."""
        for start in range(0, len(places), _AT_ONCE):
            wanted = [place.key for place in places[start : start + _AT_ONCE]]
            found = {row.place.key: row for row in self.engine.fetch(self.shelf, wanted, vectors=vectors)}
            yield from (found[key] for key in wanted if key in found)

    def matching(self, selected: Selected) -> list[Place]:
        """Return where the records that a filter matches stand."""
        places = self.places(selected.form)
        if selected.is_exact:
            return places
        return [row.place for row in self.stored(places) if selected.judges(record_of(row))]

    def _form(self, forms: Iterable[Form]) -> Form:
        return conjunction([of_tenant(self.tenant), *forms, self.counts])


@dataclass(frozen=True, slots=True)
class Selected:
    """What a filter selects within one tenant: what the engine is asked, and the filter that has the last word."""

    where: Filter
    asked: Asked

    @classmethod
    def by(cls, where: Filter, tenant_id: str) -> Selected:
        """Return what a filter selects of a tenant."""
        within = And(Eq(keys.TENANT, tenant_id), where)
        return cls(within, compiled(within))

    @property
    def form(self) -> Form:
        """What the engine is asked: never less than the filter."""
        return self.asked.form

    @property
    def is_exact(self) -> bool:
        """Whether that is all."""
        return self.asked.is_exact

    def judges(self, record: Record) -> bool:
        """Tell whether the filter matches a record."""
        return matches(self.where, record.metadata)
