"""The guards of the store in PostgreSQL that the kit does not see: its second lock, its walks, who waits for whom."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_PACKAGE: Final = "stackroom.stores.postgres"


def _tests(file: str, name: str) -> tuple[str, ...]:
    return f"tests/postgres/test_postgres_{file}.py", "-k", name


POSTGRES: Final = (
    Guard(
        "what a walk must bring",
        f"{_PACKAGE}._reads",
        "if question is not None and len(near) < question.needed and wanted.query is not None:",
        "if question is not None and wanted.query is None:",
        _tests("topics", "does_not_hold"),
    ),
    Guard(
        "all is compared unless the index was asked for",
        f"{_PACKAGE}._store",
        "_reads.Dense(exact_limit if walks_index else None,",
        "_reads.Dense(exact_limit or 10_000,",
        _tests("graph", "by_default"),
    ),
    Guard(
        "an answer of the index says so",
        f"{_PACKAGE}._reads",
        "(WALKED,) if is_walked else ()",
        "()",
        _tests("graph", "says_that_it_may"),
    ),
    Guard(
        "how far a walk may go",
        f"{_PACKAGE}._dense",
        '"query": vector_text(query), "depth": walk.depth, "needed"',
        '"query": vector_text(query), "depth": 1_000_000, "needed"',
        _tests("topics", "does_not_hold"),
    ),
    Guard(
        "what a policy says",
        f"{_PACKAGE}._policies",
        "if not is_for_all or stored != [rule.seen_as_stored, _TENANTS_AS_STORED]:",
        "if not is_for_all:",
        _tests("security", "says_something_else"),
    ),
    Guard(
        "what is there in groups that a write does not name",
        f"{_PACKAGE}._writes",
        "look = [ANY_GROUP_SEEN, *look, groups_seen(self.batch.where)]",
        "look = [groups_seen(self.batch.where), *look, groups_seen(self.batch.where)]",
        _tests("security", "in_other_groups"),
    ),
    Guard(
        "a write that looked at all groups sees its own again",
        f"{_PACKAGE}._policies",
        'return setting(ANY_GROUP, "yes" if _groups(where) is None else "no")',
        "return ANY_GROUP_SEEN",
        _tests("security", "sees_them_no_more"),
    ),
    Guard(
        "a DSN of characters that none can hold is shown to nobody",
        f"{_PACKAGE}._connections",
        "except (psycopg.ProgrammingError, UnicodeError):",
        "except psycopg.ProgrammingError:",
        _tests("connections", "shows_nothing_of_where"),
    ),
    Guard(
        "no filter widens the lock of a scope",
        f"{_PACKAGE}._policies",
        "found = asked if found is None or asked < found else found",
        "found = asked | (found or set())",
        _tests("security", "never_widens"),
    ),
    Guard(
        "no rights to partitions under the lock",
        f"{_PACKAGE}._schema",
        "if not is_locked:  # a policy",
        "if entry:  # a policy",
        _tests("security", "asked_by_its_name"),
    ),
    Guard(
        "commits wait for every replica",
        f"{_PACKAGE}._replica",
        "if not waits_for_all(standbys):",
        "if not standbys:",
        _tests("replica", "may_lag"),
    ),
    Guard(
        "commits wait for the replica that is read",
        f"{_PACKAGE}._replica",
        "_check_is_waited_for(standbys, receivers, senders)\n    if commits",
        "if commits",
        _tests("replica", "cut_off"),
    ),
    Guard(
        "commits of others wait until the replica shows them",
        f"{_PACKAGE}._replica",
        'if commits != "remote_apply":',
        "if not commits:",
        _tests("replica", "may_lag"),
    ),
    Guard(
        "how many connections wait",
        f"{_PACKAGE}._writing",
        "threading.BoundedSemaphore(max(1, (self.database.connections - 1) // 2))",
        "threading.BoundedSemaphore(1_000)",
        _tests("waiting", "more_writers_wait"),
    ),
)
