"""The plans by which PostgreSQL answers PostgresStore's scope filters, re-scopes and removals.

`python benchmarks/postgres.py --plans` calls this once its corpus is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg

from stackroom.filters import And, Eq, Exists, In, Or, Range
from stackroom.stores.postgres._connections import Session, Statement

if TYPE_CHECKING:
    from collections.abc import Callable

    from stackroom.stores import PostgresStore

_OF_TABLES = ("_sources_", "_passages_", "_terms_")
_LONGEST = 120


def print_plans(store: PostgresStore, dsn: str, collection: str) -> None:
    """Print the plans of what a scope, a re-scope and removals ask; what is changed is the last tenant's."""
    tenant, last = Eq("tenantId", "tenant0"), Eq("tenantId", "tenant49")
    lives = Or(Exists("stackroom.expiresAt", exists=False), Range("stackroom.expiresAt", gt=10))
    scope = And(tenant, In("aclGroups", ["group150"]), Eq("status", "active"), lives)
    source = And(last, Eq("sourceId", "source1"))
    calls: dict[str, Callable[[], object]] = {
        "a narrow scope": lambda: store.count(collection, where=scope),
        "a folder in it": lambda: store.count(collection, where=And(scope, Eq("folderId", "folder3"))),
        "a re-scope": lambda: store.update(collection, {"aclGroups": ["h"]}, where=source),
        "a removal": lambda: store.delete(collection, where=source),
        "a sweep": lambda: store.delete(collection, where=Range("stackroom.expiresAt", lte=5)),
        "the removal of a tenant": lambda: store.delete(collection, where=last),
    }
    with psycopg.connect(dsn, autocommit=True) as connection:
        for name, call in calls.items():
            print(f"\n### {name}\n\n```text")
            for statement in _asked(call):
                _print_plan(connection, statement)
            print("```", flush=True)


def _asked(call: Callable[[], object]) -> list[Statement]:
    """Do something and return the statements that it asked of a collection's tables."""
    asked: list[Statement] = []
    ask = Session.ask

    def keep(session: Session, *statements: Statement, last: bool = False) -> Any:
        asked.extend(statements)
        return ask(session, *statements, last=last)

    Session.ask = keep  # type: ignore[assignment, method-assign] # as long as the call takes
    try:
        call()
    finally:
        Session.ask = ask  # type: ignore[method-assign]
    return [statement for statement in asked if any(table in statement.sql for table in _OF_TABLES)]


def _print_plan(connection: psycopg.Connection[Any], statement: Statement) -> None:
    found = connection.execute(f"EXPLAIN (COSTS OFF) {statement.sql}".encode(), statement.values).fetchall()
    for (line,) in found:
        print(line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…")
