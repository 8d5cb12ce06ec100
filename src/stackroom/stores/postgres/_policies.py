"""Row-level security, the second lock: what a transaction may see is read off its filter, and the database keeps it.

A transaction says for which tenant and which groups it runs, by settings that end with it. Without them the policies
let no row through, whatever the statement says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stackroom import _keys as keys
from stackroom._errors import StoreError
from stackroom._filters import Eq, Filter, In, conjuncts
from stackroom.stores.postgres._connections import Begin, Database, Session, Statement
from stackroom.stores.postgres._names import Entry, tenant_key

if TYPE_CHECKING:
    from collections.abc import Iterator

TENANT: Final = "stackroom.tenant"
GROUPS: Final = "stackroom.groups"
ANY_GROUP: Final = "stackroom.any_group"

_IS_TENANTS: Final = f"tenant = nullif(current_setting('{TENANT}', true), '')::uuid"
_IS_GROUPS: Final = (
    f"(current_setting('{ANY_GROUP}', true) = 'yes' "
    f"OR acl_groups && nullif(current_setting('{GROUPS}', true), '')::text[])"
)


def policy_statements(entry: Entry) -> Iterator[str]:
    """Yield the statements that lock a collection's tables, for their owner as well."""
    rules = {
        entry.sources: (f"{_IS_TENANTS} AND {_IS_GROUPS}", _IS_TENANTS),
        entry.passages: (f"{_IS_TENANTS} AND source IN (SELECT number FROM {entry.sources})", _IS_TENANTS),
        entry.terms: (_IS_TENANTS, _IS_TENANTS),
    }
    for table, (seen, written) in rules.items():
        yield f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY"
        yield f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY"
        yield f"CREATE POLICY stackroom_scope ON {table} USING ({seen}) WITH CHECK ({written})"


def settings_of(tenant_id: str, where: Filter) -> dict[str, str]:
    """Return what a transaction for one tenant says of itself; a filter that names no groups is for all of them."""
    groups = _groups(where)
    return {
        TENANT: str(tenant_key(tenant_id)),
        GROUPS: "" if groups is None else _array(groups),
        ANY_GROUP: "yes" if groups is None else "no",
    }


def _groups(where: Filter) -> list[str] | None:
    """Return the groups that a filter asks for by conditions that must hold, or None when it asks for none."""
    asked = [member for member in conjuncts(where) if isinstance(member, Eq | In) and member.key == keys.GROUPS]
    values = [value for member in asked for value in (member.values if isinstance(member, In) else [member.value])]
    return sorted({value for value in values if isinstance(value, str)}) if asked else None


def _array(groups: list[str]) -> str:
    """Return an array of strings as PostgreSQL writes it."""
    quoted = (group.replace("\\", "\\\\").replace('"', '\\"') for group in groups)
    return "{" + ",".join(f'"{group}"' for group in quoted) + "}"


def check_locked(database: Database, entry: Entry) -> None:
    """Raise a StoreError unless the lock works for the role we are: none of its owners, and nothing seen unasked."""
    problems = database.run(Begin.READING, lambda session: list(_problems(session, entry)))
    if problems:
        raise StoreError(f"row-level security does not hold for collection {entry.name!r}: {'; '.join(problems)}")


def check_open(database: Database, entry: Entry) -> None:
    """Raise a StoreError where row-level security would hide rows from a store that says nothing of itself."""
    asked = Statement(
        "SELECT bool_or(row_security_active(name)) FROM unnest(%(tables)s::regclass[]) AS t(name)",
        {"tables": list(entry.tables)},
    )
    (((hides,),),) = database.run(Begin.READING, lambda session: session.ask(asked, last=True))
    if hides:
        raise StoreError(
            f"collection {entry.name!r} is under row-level security for this role; open the store with "
            "row_level_security=True, or searches would find nothing"
        )


def _problems(session: Session, entry: Entry) -> Iterator[str]:
    tables = [entry.sources, entry.passages, entry.terms]
    role, locked = session.ask(
        Statement(
            "SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user",
        ),
        Statement(
            "SELECT t.name, pg_has_role(current_user, c.relowner, 'MEMBER'), c.relrowsecurity, c.relforcerowsecurity, "
            "EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid), "
            "EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname <> 'stackroom_scope' "
            "AND p.polpermissive) "
            "FROM unnest(%(tables)s::text[]) AS t(name) JOIN pg_class c ON c.oid = t.name::regclass",
            {"tables": tables},
        ),
    )
    is_superuser, bypasses = role[0]
    if is_superuser or bypasses:
        yield "the role is a superuser or has BYPASSRLS"
    for _, is_owner, is_enabled, is_forced, has_policy, has_others in locked:
        if is_owner:
            yield "the role owns a table, or is a member of its owner"
        if not (is_enabled and is_forced and has_policy):
            yield "a table has no policy, or row-level security is not enabled and forced"
        if has_others:
            yield "a table has another permissive policy, which lets in more"
    for table in tables:
        ((sees,),) = session.ask(Statement(f"SELECT EXISTS (SELECT FROM {table})"))[0]
        if sees:
            yield "a probe without a scope sees rows"
