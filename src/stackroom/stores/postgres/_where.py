"""The compiler of filters: SQL that holds for exactly the records for which `matches` holds.

Most statements are about one tenant, so what a filter says of the tenant is known before it is compiled. A leaf
may come out as NULL where its key is missing; that counts as false in a WHERE, in AND and in OR, and `Not` reads it so.
Values are bound, keys included; nothing of a filter is spliced into a statement but the names of our own columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

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
    scalar_key,
)
from stackroom.stores.postgres import _json
from stackroom.stores.postgres._names import tenant_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stackroom._values import Scalar

    Leaf = Eq | Ne | In | NotIn | All | Contains | Range | Exists

_TEXTS: Final = {
    keys.TENANT: "s.tenant_id",
    keys.SOURCE: "s.source_id",
    keys.KIND: "s.kind",
    keys.STATUS: "s.status",
    keys.FOLDER: "s.folder_id",
    keys.TITLE: "s.title",
}
_LISTS: Final = {keys.GROUPS: "s.acl_groups", keys.TAGS: "s.tags"}
_DEEPEST_PLANNED: Final = 4
"""What a scope, narrowings and their branches are made of is less deep, and served by indexes."""

_BOUNDS: Final = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


@dataclass(frozen=True, slots=True)
class Condition:
    """A filter within one tenant, as SQL over `s`, a row of sources, and `p`, a row of passages.

    `of_source` names no column of `p`; `of_passage` is None when that is all there is. Both must hold. The values are
    named w0, w1 … and, within a tenant, `tenant` (its key) and `tenant_id`.
    """

    of_source: str
    of_passage: str | None
    values: dict[str, Any]

    @property
    def whole(self) -> str:
        """Both parts in one."""
        return self.of_source if self.of_passage is None else f"{self.of_source} AND {self.of_passage}"

    @property
    def needs_both(self) -> bool:
        """Whether the part that names `p` names columns of `s` as well."""
        return self.of_passage is not None and "s." in self.of_passage


def condition(where: Filter, tenant_id: str | None) -> Condition:
    """Compile a filter within one tenant, or over all of them."""
    compiler = _Compiler(tenant_id)
    of_source: list[str] = []
    of_passage: list[str] = []
    if tenant_id is not None:
        compiler.values |= {"tenant": tenant_key(tenant_id), "tenant_id": tenant_id}
        of_source.append("s.tenant = %(tenant)s AND s.tenant_id = %(tenant_id)s::text")
    for member in conjuncts(where):
        concerns_source = all(keys.is_source_key(_key_of(leaf)) for leaf in leaves(member))
        (of_source if concerns_source else of_passage).append(_planned(member, compiler.sql(member)))
    return Condition(
        " AND ".join(of_source or ["TRUE"]), " AND ".join(of_passage) if of_passage else None, compiler.values
    )


def _planned(member: Filter, sql: str) -> str:
    """Keep the planner from looking into a filter that is deep: the time that it takes doubles with every level."""
    return sql if member.depth <= _DEEPEST_PLANNED else f"(CASE WHEN {sql} THEN TRUE END)"


def _key_of(leaf: Filter) -> str:
    return str(getattr(leaf, "key", ""))


@dataclass(slots=True)
class _Compiler:
    tenant_id: str | None
    values: dict[str, Any] = field(default_factory=dict)

    def bound(self, value: Any) -> str:
        """Bind a value and return what stands for it."""
        name = f"w{len(self.values)}"
        self.values[name] = value
        return f"%({name})s"

    def sql(self, node: Filter) -> str:
        """Return a filter as SQL, in parentheses where it needs them."""
        match node:
            case And():
                return self._joined("AND", "TRUE", node.filters)
            case Or():
                return self._joined("OR", "FALSE", node.filters)
            case Not():
                return f"(({self.sql(node.filter)}) IS NOT TRUE)"
            case Eq() | Ne() | In() | NotIn() | All() | Contains() | Range() | Exists():
                return self._leaf(node)
        raise AssertionError(f"no filter is a {type(node).__name__}")

    def _joined(self, word: str, nothing: str, members: Iterable[Filter]) -> str:
        parts = [self.sql(member) for member in members]
        return f"({f' {word} '.join(parts)})" if parts else nothing

    def _leaf(self, leaf: Leaf) -> str:
        key = leaf.key
        if key == keys.TENANT and self.tenant_id is not None:
            return "TRUE" if matches(leaf, {keys.TENANT: self.tenant_id}) else "FALSE"
        field_of = _field(self, key)
        match leaf:
            case Exists():
                holds = field_of.exists() if leaf.exists else f"({field_of.exists()} IS NOT TRUE)"
            case Ne():
                holds = self._and_not(field_of, field_of.one_of([leaf.value]))
            case NotIn():
                holds = self._and_not(field_of, field_of.one_of(leaf.values) if leaf.values else "FALSE")
            case Eq():
                holds = field_of.one_of([leaf.value])
            case In():
                holds = field_of.one_of(leaf.values) if leaf.values else "FALSE"
            case All():
                holds = field_of.all_of(_distinct(leaf.values))
            case Contains():
                holds = field_of.contains(leaf.value)
            case Range():
                holds = field_of.between(leaf.bounds())
        return holds

    def _and_not(self, field_of: _Field, condition: str) -> str:
        return f"({field_of.exists()} AND ({condition}) IS NOT TRUE)"


def _distinct(values: Iterable[Scalar]) -> list[Scalar]:
    return list({scalar_key(value): value for value in values}.values())


def _field(compiler: _Compiler, key: str) -> _Field:
    if key == keys.INDEX:
        return _Index(compiler.bound)
    if key in _TEXTS:
        return _Text(compiler.bound, _TEXTS[key])
    if key in _LISTS:
        return _List(compiler.bound, _LISTS[key])
    if key == keys.EXPIRES:
        return _Expiry(compiler.bound, "s.metadata", compiler.bound(key))
    return _Json(compiler.bound, "s.metadata" if keys.is_source_key(key) else "p.metadata", compiler.bound(key))


def _strings(values: Iterable[Scalar]) -> list[str]:
    return [value for value in values if isinstance(value, str)]


@dataclass(frozen=True, slots=True)
class _Text:
    """A column of text, compared by code point as its collation says; NULL when the key is missing."""

    bound: Callable[[Any], str]
    column: str

    def exists(self) -> str:
        return f"{self.column} IS NOT NULL"

    def one_of(self, values: Iterable[Scalar]) -> str:
        texts = _strings(values)
        if len(texts) == 1:
            return f"{self.column} = {self.bound(texts[0])}::text"
        return f"{self.column} = ANY({self.bound(texts)}::text[])" if texts else "FALSE"

    def all_of(self, values: list[Scalar]) -> str:
        return self.one_of(values) if len(values) == 1 else "FALSE"

    def contains(self, value: Scalar) -> str:
        return f"strpos({self.column}, {self.bound(value)}::text) > 0" if isinstance(value, str) else "FALSE"

    def between(self, bounds: dict[str, Any]) -> str:
        if not all(isinstance(bound, str) for bound in bounds.values()):
            return "FALSE"
        parts = (f"{self.column} {_BOUNDS[side]} {self.bound(bound)}::text" for side, bound in bounds.items())
        return f"({' AND '.join(parts)})"


@dataclass(frozen=True, slots=True)
class _List:
    """A column of a list of strings; NULL when the key is missing."""

    bound: Callable[[Any], str]
    column: str

    def exists(self) -> str:
        return f"{self.column} IS NOT NULL"

    def one_of(self, values: Iterable[Scalar]) -> str:
        texts = _strings(values)
        return f"{self.column} && {self.bound(texts)}::text[]" if texts else "FALSE"

    def all_of(self, values: list[Scalar]) -> str:
        texts = _strings(values)
        return f"{self.column} @> {self.bound(texts)}::text[]" if len(texts) == len(values) else "FALSE"

    def contains(self, value: Scalar) -> str:
        return self.one_of([value])

    def between(self, bounds: dict[str, Any]) -> str:
        del bounds
        return "FALSE"


@dataclass(frozen=True, slots=True)
class _Index:
    """A passage's index: an int that is always there."""

    bound: Callable[[Any], str]

    def exists(self) -> str:
        return "TRUE"

    def one_of(self, values: Iterable[Scalar]) -> str:
        given = (value for value in values if isinstance(value, int | float) and not isinstance(value, bool))
        whole = sorted({int(value) for value in given if value == int(value) and 0 <= value <= keys.MAX_INDEX})
        return f"p.place = ANY({self.bound(whole)}::int[])" if whole else "FALSE"

    def all_of(self, values: list[Scalar]) -> str:
        return self.one_of(values) if len(values) == 1 else "FALSE"

    def contains(self, value: Scalar) -> str:
        del value
        return "FALSE"

    def between(self, bounds: dict[str, Any]) -> str:
        if any(isinstance(bound, str) for bound in bounds.values()):
            return "FALSE"
        return f"({_between_numbers('p.place', bounds, self.bound)})"


@dataclass(frozen=True, slots=True)
class _Json:
    """A key of a jsonb column. `@>` takes an array on its left to hold a scalar on its right, and keeps kinds apart."""

    bound: Callable[[Any], str]
    column: str
    key: str

    @property
    def value(self) -> str:
        return f"({self.column} -> {self.key}::text)"

    def exists(self) -> str:
        return f"{self.column} ? {self.key}::text"

    def one_of(self, values: Iterable[Scalar]) -> str:
        given = [_json.scalar(value) for value in values]
        if len(given) == 1:
            return f"{self.value} @> {self.bound(given[0])}::jsonb"
        several = f"{self.bound(given)}::text[]::jsonb[]"
        elements = f"jsonb_array_elements({self.value}) AS e(element)"
        return (
            f"({self.value} = ANY({several}) OR CASE WHEN jsonb_typeof({self.value}) = 'array' "
            f"THEN EXISTS (SELECT FROM {elements} WHERE e.element = ANY({several})) END)"
        )

    def all_of(self, values: list[Scalar]) -> str:
        if len(values) == 1:
            return self.one_of(values)
        return f"{self.value} @> {self.bound('[' + ','.join(map(_json.scalar, values)) + ']')}::jsonb"

    def contains(self, value: Scalar) -> str:
        element = f"(jsonb_typeof({self.value}) = 'array' AND {self.one_of([value])})"
        if not isinstance(value, str):
            return element
        part = f"strpos({self.column} ->> {self.key}::text, {self.bound(value)}::text) > 0"
        return f"(CASE WHEN jsonb_typeof({self.value}) = 'string' THEN {part} ELSE {element} END)"

    def between(self, bounds: dict[str, Any]) -> str:
        is_text = all(isinstance(bound, str) for bound in bounds.values())
        if is_text:
            kind, value = "string", f'(({self.column} ->> {self.key}::text) COLLATE "C")'
            within = " AND ".join(
                f"{value} {_BOUNDS[side]} {self.bound(bound)}::text" for side, bound in bounds.items()
            )
        else:
            kind, within = "number", _between_numbers(f"{self.value}::numeric", bounds, self.bound)
        return f"(CASE WHEN jsonb_typeof({self.value}) = '{kind}' THEN {within} END)"


@dataclass(frozen=True, slots=True)
class _Expiry:
    """The time of expiry: a key like others of its source, whose numbers have a column with an index beside it."""

    bound: Callable[[Any], str]
    column: str
    key: str

    @property
    def _as_json(self) -> _Json:
        return _Json(self.bound, self.column, self.key)

    def exists(self) -> str:
        return self._as_json.exists()

    def one_of(self, values: Iterable[Scalar]) -> str:
        return self._as_json.one_of(values)

    def all_of(self, values: list[Scalar]) -> str:
        return self._as_json.all_of(values)

    def contains(self, value: Scalar) -> str:
        return self._as_json.contains(value)

    def between(self, bounds: dict[str, Any]) -> str:
        if any(isinstance(bound, str) for bound in bounds.values()):
            return self._as_json.between(bounds)
        return f"({_between_numbers('s.expires_at', bounds, self.bound)})"


def _between_numbers(value: str, bounds: dict[str, Any], bound: Callable[[Any], str]) -> str:
    """Return a comparison with each bound, exact whatever its size."""
    return " AND ".join(
        f"{value} {_BOUNDS[side]} {bound(_json.number(limit))}::numeric" for side, limit in bounds.items()
    )


_Field = _Text | _List | _Index | _Json | _Expiry
