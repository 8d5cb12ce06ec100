"""Row-level security, the second lock: what a transaction may see is read off its filter, and the database keeps it.

A transaction says for which tenant and which groups it runs, by settings that end with it. Without them the policies
let no row through, whatever the statement says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from stackroom import _keys as keys
from stackroom._errors import StoreError
from stackroom._filters import Eq, Filter, In, conjuncts
from stackroom.stores.postgres._connections import Begin, Database, Rows, Session, Statement, setting
from stackroom.stores.postgres._names import Entry, tenant_key

if TYPE_CHECKING:
    from collections.abc import Iterator

TENANT: Final = "stackroom.tenant"
GROUPS: Final = "stackroom.groups"
ANY_GROUP: Final = "stackroom.any_group"

_POLICY: Final = "stackroom_scope"

_IS_TENANTS: Final = f"tenant = nullif(current_setting('{TENANT}', true), '')::uuid"
_IS_GROUPS: Final = (
    f"(current_setting('{ANY_GROUP}', true) = 'yes' "
    f"OR acl_groups && nullif(current_setting('{GROUPS}', true), '')::text[])"
)


_TENANTS_AS_STORED: Final = f"(tenant = (NULLIF(current_setting('{TENANT}'::text, true), ''::text))::uuid)"
_GROUPS_AS_STORED: Final = (
    f"((current_setting('{ANY_GROUP}'::text, true) = 'yes'::text) "
    f"OR (acl_groups && (NULLIF(current_setting('{GROUPS}'::text, true), ''::text))::text[]))"
)
"""What the database makes of the above and prints of it. One that printed it otherwise would not be served."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """Which rows of a table are seen; what is written must be the tenant's."""

    table: str
    seen: str
    seen_as_stored: str


def _rules(entry: Entry) -> tuple[_Rule, ...]:
    bare = entry.sources.rpartition(".")[2]
    of_sources = f"(SELECT number FROM {entry.sources})"
    of_sources_as_stored = f"( SELECT {bare}.number FROM {entry.names.schema}.{bare})"
    return (
        _Rule(entry.sources, f"{_IS_TENANTS} AND {_IS_GROUPS}", f"({_TENANTS_AS_STORED} AND {_GROUPS_AS_STORED})"),
        _Rule(
            entry.passages,
            f"{_IS_TENANTS} AND source IN {of_sources}",
            f"({_TENANTS_AS_STORED} AND (source IN {of_sources_as_stored}))",
        ),
        _Rule(entry.terms, _IS_TENANTS, _TENANTS_AS_STORED),
    )


def policy_statements(entry: Entry) -> Iterator[str]:
    """Yield the statements that lock a collection's tables, for their owner as well."""
    for rule in _rules(entry):
        yield f"ALTER TABLE {rule.table} ENABLE ROW LEVEL SECURITY"
        yield f"ALTER TABLE {rule.table} FORCE ROW LEVEL SECURITY"
        yield f"CREATE POLICY {_POLICY} ON {rule.table} USING ({rule.seen}) WITH CHECK ({_IS_TENANTS})"


ANY_GROUP_SEEN: Final = setting(ANY_GROUP, "yes")
"""Lets a transaction see all groups of its tenant: to find what is there, and to write other groups."""


def groups_seen(where: Filter) -> Statement:
    """Return the statement that lets a transaction see the groups that a filter asks for, and no more."""
    return setting(ANY_GROUP, "yes" if _groups(where) is None else "no")


def settings_of(tenant_id: str, where: Filter) -> dict[str, str]:
    """Return what a transaction for one tenant says of itself; a filter that names no groups is for all of them."""
    groups = _groups(where)
    return {
        TENANT: str(tenant_key(tenant_id)),
        GROUPS: "" if groups is None else _array(groups),
        ANY_GROUP: "yes" if groups is None else "no",
    }


def _groups(where: Filter) -> list[str] | None:
    """Return the groups that a filter asks for by conditions that must hold, or None when it asks for none.

    The first such condition is the scope's. One behind it, a caller's own, counts where it asks for fewer of the same
    groups; it never adds one. Nor is what two of them share the answer: a source may be in the groups of both.
    """
    found: set[str] | None = None
    for member in conjuncts(where):
        if isinstance(member, Eq | In) and member.key == keys.GROUPS:
            values = member.values if isinstance(member, In) else (member.value,)
            asked = {value for value in values if isinstance(value, str)}
            found = asked if found is None or asked < found else found
    return None if found is None else sorted(found)


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
    rules = _rules(entry)
    tables = {"tables": [rule.table for rule in rules]}
    _, ((is_superuser, bypasses),), locked, policies = session.ask(
        setting("search_path", "pg_catalog"),  # so that the policies' own tables are named in full
        Statement("SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user"),
        Statement(
            "SELECT pg_has_role(current_user, c.relowner, 'MEMBER'), c.relrowsecurity AND c.relforcerowsecurity "
            "FROM unnest(%(tables)s::text[]) AS t(name) JOIN pg_class c ON c.oid = t.name::regclass",
            tables,
        ),
        Statement(
            "SELECT t.name, p.polname, p.polcmd = '*' AND p.polroles = '{0}', pg_get_expr(p.polqual, p.polrelid), "
            "pg_get_expr(p.polwithcheck, p.polrelid) FROM unnest(%(tables)s::text[]) AS t(name) "
            "JOIN pg_policy p ON p.polrelid = t.name::regclass WHERE p.polpermissive",
            tables,
        ),
    )
    if is_superuser or bypasses:
        yield "the role is a superuser or has BYPASSRLS"
    for is_owner, is_enforced in locked:
        if is_owner:
            yield "the role owns a table, or is a member of its owner"
        if not is_enforced:
            yield "a table's row-level security is not enabled and forced"
    for rule in rules:
        yield from _problems_of_policies(rule, [row[1:] for row in policies if row[0] == rule.table])
    for rule in rules:
        ((sees,),) = session.ask(Statement(f"SELECT EXISTS (SELECT FROM {rule.table})"))[0]
        if sees:
            yield "a probe without a scope sees rows"


def _problems_of_policies(rule: _Rule, policies: Rows) -> Iterator[str]:
    ours = [rest for name, *rest in policies if name == _POLICY]
    if not ours:
        yield "a table has no policy"
    if len(policies) > len(ours):
        yield "a table has another permissive policy, which lets in more"
    for is_for_all, seen, written in ours:
        stored = [" ".join((text or "").replace('"', "").split()) for text in (seen, written)]
        if not is_for_all or stored != [rule.seen_as_stored, _TENANTS_AS_STORED]:
            yield "a policy is not the one that schema_sql() makes"
