"""What a scope and its narrowings mean as one filter: the condition that every read hands to the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from stackroom import _keys as keys
from stackroom._errors import FilterError, ScopeError
from stackroom._filters import All, And, Eq, Exists, Filter, In, Or, Range, never
from stackroom._model import Narrowing, Scope
from stackroom._values import items_of

if TYPE_CHECKING:
    from collections.abc import Iterable

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_EMPTY_IS_NOT_GIVEN: Final = frozenset({"kinds", "tags", "tiers"})
NARROWING_NAMES: Final = tuple(field.name for field in fields(Narrowing))


def microseconds(moment: datetime) -> int:
    """Return an aware moment as microseconds since 1970, UTC."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def check_scope(scope: object) -> Scope:
    """Return `scope` when it is a Scope; nothing stands for one."""
    if not isinstance(scope, Scope):
        raise ScopeError(f"scope must be a Scope(tenant_id, acl_groups), not {type(scope).__name__}")
    return scope


def branches_of(own: Narrowing, any_of: object) -> list[Narrowing]:
    """Return the narrowings of which one must hold: the search's own, or any_of's branches laid over it."""
    if any_of is None:
        return [own]
    return [_over(own, _branch(item, place)) for place, item in enumerate(items_of(any_of, FilterError, "any_of"))]


def _branch(item: object, place: int) -> Narrowing:
    if isinstance(item, Narrowing):
        return item
    if not isinstance(item, Mapping):
        raise FilterError(f"any_of[{place}] must be a Narrowing or a mapping, not {type(item).__name__}")
    if not all(key in NARROWING_NAMES for key in item):
        raise FilterError(f"any_of[{place}] has a key that narrows nothing; it may have {', '.join(NARROWING_NAMES)}")
    return Narrowing(**item)


def _over(own: Narrowing, branch: Narrowing) -> Narrowing:
    """Lay a branch over the search's own narrowing: what it gives replaces what has the same name."""
    given: dict[str, Any] = {name: getattr(own, name) for name in NARROWING_NAMES}
    given.update({name: value for name in NARROWING_NAMES if is_given(name, value := getattr(branch, name))})
    return Narrowing(**given)


def is_given(name: str, value: object) -> bool:
    """Tell whether a field of a narrowing says something: empty kinds, tags, tiers and where do not."""
    if value is None or (name == "where" and value == And()):
        return False
    return bool(value) or name not in _EMPTY_IS_NOT_GIVEN


def condition(scope: Scope, branches: Sequence[Narrowing], now: datetime) -> Filter | None:
    """Return what a passage must fulfil to be in scope and kept by one branch, or None when nothing can be."""
    filters = [members for branch in branches if (members := _members(branch)) is not None]
    if not filters:
        return None
    narrowed = filters[0] if len(filters) == 1 else [Or(*(And(*members) for members in filters))]
    return And(*_scope_members(scope, now), *narrowed)


def _scope_members(scope: Scope, now: datetime) -> list[Filter]:
    return [
        Eq(keys.TENANT, scope.tenant_id),
        In(keys.GROUPS, scope.acl_groups),
        *alive(now),
    ]


def alive(now: datetime) -> list[Filter]:
    """Return what a passage must fulfil to be shown to anybody at all: it is active, and has not expired."""
    return [
        Eq(keys.STATUS, keys.ACTIVE),
        Or(Exists(keys.EXPIRES, exists=False), Range(keys.EXPIRES, gt=microseconds(now))),
    ]


def _members(narrowing: Narrowing) -> list[Filter] | None:
    """Return the filters of a narrowing that must all hold, or None when it finds nothing by itself."""
    if narrowing.folder_id is not None and narrowing.folder_id not in (narrowing.folder_ids or [narrowing.folder_id]):
        return None
    found = list(_given_members(narrowing))
    return None if any(never(member) for member in found) else found


def _given_members(narrowing: Narrowing) -> Iterable[Filter]:
    if narrowing.kinds:
        yield In(keys.KIND, narrowing.kinds)
    if narrowing.folder_id is not None:
        yield Eq(keys.FOLDER, narrowing.folder_id)
    if narrowing.folder_ids is not None:
        yield In(keys.FOLDER, narrowing.folder_ids)
    if narrowing.tags:
        yield All(keys.TAGS, narrowing.tags)
    if narrowing.source_ids is not None:
        yield In(keys.SOURCE, narrowing.source_ids)
    if narrowing.tiers:
        yield In(keys.TIER, narrowing.tiers)
    if narrowing.where is not None and narrowing.where != And():
        yield narrowing.where
