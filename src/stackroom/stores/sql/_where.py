"""The compiler of filters: what of a filter the database judges, and what `matches` must judge beside it.

Scopes and narrowings are compared in the database: tenant, source, kind, status, folder, groups, tags, expiry, index.
What else a filter asks about lies in JSON, which databases compare in ways of their own; there the database narrows as
far as it can, and each record left is judged by `matches`. No condition is ever dropped.

Every expression is true or false, never NULL, so that Not means what it says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from stackroom import _keys as keys
from stackroom._filters import (
    All,
    And,
    Contains,
    Eq,
    Exists,
    Filter,
    In,
    Ne,
    Not,
    NotIn,
    Or,
    Range,
    conjuncts,
    leaves,
    matches,
)
from stackroom.stores.sql._tables import GROUPS, TAGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import ColumnElement

    from stackroom._values import Scalar
    from stackroom.stores.sql._places import Tenant
    from stackroom.stores.sql._tables import Tables

    Sql = ColumnElement[bool]
    Leaf = Eq | Ne | In | NotIn | All | Contains | Range | Exists

_TEXTS: Final = {keys.SOURCE: "source_id", keys.KIND: "kind", keys.STATUS: "status", keys.FOLDER: "folder_id"}
_LABELS: Final = {keys.GROUPS: (GROUPS, "groups_held"), keys.TAGS: (TAGS, "tags_held")}

_MOST_VALUES: Final = 20_000
"""Values bound in a statement; SQLite takes 32,766, PostgreSQL 65,535."""
_MOST_LEAVES: Final = 300
"""SQLite takes expressions of a depth of 1,000, and a chain of conditions is as deep as it is long."""

_BIGGEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Condition:
    """A filter as conditions that must all hold: two kinds for the database, two for `matches`.

    `of_source` names columns of sources (and, over all tenants, of tenants) only, `of_passage` those of passages, too.
    `judged_of_source` asks about nothing but source keys, `judged` about anything.
    """

    of_source: list[Sql]
    of_passage: list[Sql]
    judged_of_source: list[Filter]
    judged: list[Filter]

    @property
    def is_of_sources(self) -> bool:
        """Whether sources are in or out whole."""
        return not self.of_passage and not self.judged

    @property
    def is_in_the_database(self) -> bool:
        """Whether the database judges all of it."""
        return not self.judged_of_source and not self.judged


def condition(where: Filter, tables: Tables, tenant: Tenant | None) -> Condition:
    """Compile a filter within one tenant, or over all of them, where sources are joined with tenants."""
    compiler = _Compiler(tables, tenant)
    made = Condition([], [], [], [])
    if tenant is not None:
        made.of_source.append(tables.sources.c.tenant == tenant.number)
    for member in conjuncts(where):
        concerned = {_key_of(leaf) for leaf in leaves(member)}
        is_of_source = all(map(keys.is_source_key, concerned))
        exact = compiler.exact(member)
        if exact is not None:
            (made.of_source if keys.INDEX not in concerned else made.of_passage).append(exact)
            continue
        (made.judged_of_source if is_of_source else made.judged).append(member)
        wider = compiler.wider(member)
        if wider is not None:
            made.of_source.append(wider)
    return made


def _key_of(leaf: Filter) -> str:
    return str(getattr(leaf, "key", ""))


@dataclass(slots=True)
class _Compiler:
    tables: Tables
    tenant: Tenant | None
    values: int = 0
    leaves: int = 0

    def exact(self, node: Filter) -> Sql | None:
        """Return what holds exactly where the filter does, or None."""
        before = self.values, self.leaves
        made = self._node(node)
        if made is None:
            self.values, self.leaves = before
        return made

    def wider(self, node: Filter) -> Sql | None:
        """Return a condition of sources alone that holds wherever the filter does, or None when all may match."""
        if not any(_key_of(leaf) == keys.INDEX for leaf in leaves(node)):
            made = self.exact(node)
            if made is not None:
                return made
        if isinstance(node, And):
            parts = [part for member in node.filters if (part := self.wider(member)) is not None]
            return sa.and_(sa.true(), *parts) if parts else None
        if isinstance(node, Or):
            every = [self.wider(member) for member in node.filters]
            known = [part for part in every if part is not None]
            return sa.or_(sa.false(), *known) if len(known) == len(every) else None
        if isinstance(node, Range) and node.key == keys.EXPIRES:
            s = self.tables.sources.c
            return sa.or_(_Whole(s.expires_at).between(node.bounds()), s.odd.is_not(None))
        return None

    def _node(self, node: Filter) -> Sql | None:
        if isinstance(node, And | Or):
            parts = []
            for member in node.filters:
                part = self._node(member)
                if part is None:
                    return None
                parts.append(part)
            return sa.and_(sa.true(), *parts) if isinstance(node, And) else sa.or_(sa.false(), *parts)
        if isinstance(node, Not):
            part = self._node(node.filter)
            return None if part is None else sa.not_(part)
        self.leaves += 1
        self.values += len(getattr(node, "values", "."))
        if self.values > _MOST_VALUES or self.leaves > _MOST_LEAVES:
            return None
        return self._leaf(node)

    def _leaf(self, leaf: Any) -> Sql | None:
        known = self._field(leaf.key)
        if isinstance(known, _Known):
            return known.verdict(leaf)
        if known is None or isinstance(leaf, Contains):
            return None
        if isinstance(leaf, Exists):
            made = known.exists() if leaf.exists else sa.not_(known.exists())
        elif isinstance(leaf, Eq):
            made = known.one_of([leaf.value])
        elif isinstance(leaf, In):
            made = known.one_of(leaf.values)
        elif isinstance(leaf, Ne):
            made = sa.and_(known.exists(), sa.not_(known.one_of([leaf.value])))
        elif isinstance(leaf, NotIn):
            made = sa.and_(known.exists(), sa.not_(known.one_of(leaf.values)))
        elif isinstance(leaf, All):
            made = sa.and_(*(known.one_of([value]) for value in leaf.values))
        else:
            made = known.between(leaf.bounds())
        return made

    def _field(self, key: str) -> _Field | None:
        of_source = self.tables.sources.c
        if key == keys.TENANT:
            return _Text(self.tables.tenants.c.tenant_id) if self.tenant is None else _Known(self.tenant.tenant_id)
        if key in _TEXTS:
            return _Text(of_source[_TEXTS[key]])
        if key in _LABELS:
            what, held = _LABELS[key]
            return _Labels(self.tables, None if self.tenant is None else self.tenant.number, what, of_source[held])
        if key == keys.INDEX:
            return _Whole(self.tables.passages.c.number - of_source.number)
        if key == keys.EXPIRES and self.tenant is not None and not self.tenant.has_odd:
            return _Whole(of_source.expires_at)
        return None


def _bytes(values: Iterable[Scalar]) -> list[bytes]:
    return [value.encode() for value in values if isinstance(value, str)]


@dataclass(frozen=True, slots=True)
class _Known:
    """A key whose value is known before anything is asked: the tenant."""

    tenant_id: str

    def verdict(self, leaf: Filter) -> Sql:
        return sa.true() if matches(leaf, {keys.TENANT: self.tenant_id}) else sa.false()


@dataclass(frozen=True, slots=True)
class _Text:
    """A column of a string's bytes; NULL when the key is missing."""

    column: ColumnElement[Any]

    def exists(self) -> Sql:
        return self.column.is_not(None)

    def one_of(self, values: Iterable[Scalar]) -> Sql:
        texts = _bytes(values)
        if not texts:
            return sa.false()
        return sa.and_(self.exists(), self.column == texts[0] if len(texts) == 1 else self.column.in_(texts))

    def between(self, bounds: dict[str, Any]) -> Sql:
        if not all(isinstance(bound, str) for bound in bounds.values()):
            return sa.false()
        return sa.and_(self.exists(), *(_compared(self.column, side, bound.encode()) for side, bound in bounds.items()))


@dataclass(frozen=True, slots=True)
class _Labels:
    """A list of strings, a row each; `held` says how many there are, NULL when the key is missing."""

    tables: Tables
    tenant: int | None
    what: int
    held: ColumnElement[Any]

    def exists(self) -> Sql:
        return self.held.is_not(None)

    def one_of(self, values: Iterable[Scalar]) -> Sql:
        texts = _bytes(values)
        if not texts:
            return sa.false()
        labels = self.tables.labels
        of_tenant = [labels.c.tenant == self.tenant] if self.tenant is not None else []
        named = sa.select(labels.c.source).where(*of_tenant, labels.c.what == self.what, labels.c.value.in_(texts))
        return self.tables.sources.c.number.in_(named)

    def between(self, bounds: dict[str, Any]) -> Sql:
        del bounds
        return sa.false()


@dataclass(frozen=True, slots=True)
class _Whole:
    """A whole number of 64 bits; NULL when the key is missing."""

    column: ColumnElement[Any]

    def exists(self) -> Sql:
        return self.column.is_not(None)

    def one_of(self, values: Iterable[Scalar]) -> Sql:
        given = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
        whole = sorted({int(value) for value in given if value == int(value) and -_BIGGEST - 1 <= value <= _BIGGEST})
        fitting = [value for value in whole if value <= _BIGGEST]  # the float 2**63 is no more than that
        return sa.and_(self.exists(), self.column.in_(fitting)) if fitting else sa.false()

    def between(self, bounds: dict[str, Any]) -> Sql:
        if any(isinstance(bound, str) for bound in bounds.values()):
            return sa.false()
        return sa.and_(self.exists(), *(self._beside(side, bound) for side, bound in bounds.items()))

    def _beside(self, side: str, bound: float) -> Sql:
        """Compare with a whole number that has the same whole numbers on either side as the bound."""
        whole = math.floor(bound) if side in ("gt", "lte") else math.ceil(bound)
        if -_BIGGEST - 1 <= whole <= _BIGGEST:
            return _compared(self.column, side, whole)
        return sa.true() if (whole < 0) is (side in ("gt", "gte")) else sa.false()


_Field = _Known | _Text | _Labels | _Whole


def _compared(column: ColumnElement[Any], side: str, bound: object) -> Sql:
    if side == "gt":
        return column > bound
    if side == "gte":
        return column >= bound
    return column < bound if side == "lt" else column <= bound


def everything(parts: Sequence[Sql]) -> Sql:
    """Return conditions in one."""
    return sa.and_(sa.true(), *parts)
