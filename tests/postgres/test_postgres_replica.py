"""Two servers: writes go to one, searches to a replica that a write waits for."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from tests.conftest import missing
from tests.postgres_server import PACKAGE, NoServer, Server, running, started

from stackroom import Library, Scope, Source, StoreError
from stackroom.auditing import certify
from stackroom.embedders import HashingEmbedder
from stackroom.filters import And, Eq, In
from stackroom.stores import LexicalQuery, PostgresStore
from stackroom.stores.postgres._replica import waits_for_all

QUICK = {"fsync": "off", "full_page_writes": "off", "hot_standby_feedback": "on"}
PAGE = Path(__file__).parents[2] / "docs" / "stores" / "postgres.md"


def recipe() -> tuple[list[str], list[str]]:
    """Return the arguments of the page's pg_basebackup, and the statements that the page runs on the primary."""
    blocks = re.findall(r"```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (copy,) = [block for block in blocks if block.startswith("pg_basebackup")]
    (settings,) = [block for block in blocks if block.startswith("ALTER SYSTEM SET synchronous")]
    return shlex.split(copy)[1:], settings.strip().splitlines()


def copied(primary: Server, folder: str) -> Path:
    """Make a copy as the page does; the primary and the folder are the test's."""
    arguments, _ = recipe()
    data = primary.data.parent / folder
    address = next(argument for argument in arguments if argument.startswith("postgresql://"))
    ours = {address: f"{primary.dsn}&{address.partition('?')[2]}", "data": str(data)}
    primary.programs.run("pg_basebackup", *(ours.get(argument, argument) for argument in arguments))
    return data


def until(server: Server, sql: str, expected: object) -> None:
    """Wait until a server answers what is expected: a reload, a reconnection, is seen a moment later."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        end = time.monotonic() + 30
        while (found := connection.execute(sql.encode()).fetchone()) != (expected,):
            assert time.monotonic() < end, f"{sql}: {found}"


WAITED_FOR = "SELECT count(*) FROM pg_stat_replication WHERE application_name = 'reader' AND sync_state = '{}'"


@dataclass
class Deployment:
    """A primary and its replica."""

    primary: Server
    replica: Server

    def asked_of(self, server: Server) -> int:
        """Return how many transactions a server has begun for its clients."""
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            found = connection.execute(
                "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'postgres'"
            ).fetchone()
            assert found is not None
            return int(found[0])


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    try:
        server = running(PACKAGE, QUICK)
        primary = server.__enter__()
    except NoServer as error:
        missing(f"no PostgreSQL for the tests ({error})")
    with started(primary.programs, copied(primary, "replica"), {}) as replica:
        with psycopg.connect(primary.dsn, autocommit=True) as connection:
            connection.execute("CREATE ROLE app LOGIN")
            for statement in recipe()[1]:
                connection.execute(statement.encode())
        until(primary, WAITED_FOR.format("sync"), 1)
        yield Deployment(primary, replica)
    server.__exit__(None, None, None)


@pytest.fixture
def store(deployment: Deployment) -> Iterator[PostgresStore]:
    made = PostgresStore(deployment.primary.dsn, read_dsn=deployment.replica.dsn)
    yield made
    made.drop_collection("library")
    made.close()


@pytest.fixture
def library(store: PostgresStore) -> Library:
    made = Library(store, "library", HashingEmbedder(8))
    for tenant in ("t", "u"):
        for group in ("g", "h"):
            made.index_source(Source(f"of-{group}", "doc", tenant, [group], [f"red {tenant} {group}"]))
    return made


READS: dict[str, Callable[[PostgresStore, And], list[str]]] = {
    "dense": lambda store, where: [m.record.text for m in store.dense("library", [1.0] * 8, where=where, limit=9)],
    "lexical": lambda store, where: [
        m.record.text for m in store.lexical("library", LexicalQuery("red"), where=where, limit=9)
    ],
    "scan": lambda store, where: [record.text for record in store.scan("library", where=where, limit=9)],
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("tenant", ["t", "u"])
@pytest.mark.parametrize("group", ["g", "h"])
def test_a_scope_holds_on_the_replica(
    store: PostgresStore, library: Library, read: str, tenant: str, group: str
) -> None:
    where = And(Eq("tenantId", tenant), In("aclGroups", [group]))
    assert READS[read](store, where) == [f"red {tenant} {group}"]
    assert library.count(scope=Scope(tenant, [group])) == 1
    assert READS[read](store, And(Eq("tenantId", tenant), In("aclGroups", ["nobody"]))) == []


def test_a_search_sees_every_write_that_has_returned(library: Library) -> None:
    scope = Scope("t", ["g", "h"])
    for number in range(30):
        library.index_source(Source("s", "doc", "t", ["g"], [f"word{number}"]))
        assert [hit.text for hit in library.search(f"word{number}", scope=scope, mode="lexical")] == [f"word{number}"]
        library.set_source_scope("s", tenant_id="t", acl_groups=["nobody"])
        assert library.source("s", scope=scope) is None


def test_another_process_on_the_replica_sees_it_too(deployment: Deployment, library: Library) -> None:
    other = PostgresStore(deployment.primary.dsn, read_dsn=deployment.replica.dsn)
    where = And(Eq("tenantId", "t"), Eq("sourceId", "s"))
    for number in range(10):
        library.index_source(Source("s", "doc", "t", ["g"], [f"w{number}"]))
        assert [record.text for record in other.scan("library", where=where, limit=2)] == [f"w{number}"]
    other.close()


def test_searches_ask_the_replica_and_leave_the_primary_alone(deployment: Deployment, library: Library) -> None:
    before = deployment.asked_of(deployment.primary)
    for _ in range(200):
        library.search("red", scope=Scope("t", ["g"]))
    assert deployment.asked_of(deployment.primary) - before < 100


def test_a_collection_dropped_and_made_anew_is_seen_at_once(library: Library, store: PostgresStore) -> None:
    scope = Scope("t", ["g"])
    assert library.count(scope=scope) == 1
    store.drop_collection("library")
    anew = Library(store, "library", HashingEmbedder(4))
    assert anew.count(scope=scope) == 0
    anew.index_source(Source("s", "doc", "t", ["g"], ["new"]))
    assert [hit.text for hit in anew.search("new", scope=scope)] == ["new"]


def test_what_is_no_replica_is_refused(deployment: Deployment) -> None:
    with pytest.raises(StoreError, match="no replica"):
        PostgresStore(deployment.primary.dsn, read_dsn=deployment.primary.dsn)
    with pytest.raises(ValueError, match="read_dsn"):
        PostgresStore(deployment.primary.dsn, read_dsn=5)  # type: ignore[arg-type] # that is what is refused


UNSAFE = {
    "none is waited for": ("synchronous_standby_names", "", "no replica is synchronous"),
    "one of two is waited for, whichever": ("synchronous_standby_names", "ANY 1 (reader, other)", "every replica"),
    "another one is waited for first": ("synchronous_standby_names", "other, reader", "every replica"),
    "whoever connects is waited for": ("synchronous_standby_names", "*", "every replica"),
    "another one is waited for": ("synchronous_standby_names", "FIRST 1 (other)", "that is read"),
    "commits of others return too soon": ("synchronous_commit", "on", "remote_apply"),
}


@pytest.mark.parametrize("unsafe", UNSAFE)
def test_a_replica_that_may_lag_behind_a_write_is_refused(deployment: Deployment, unsafe: str) -> None:
    name, value, problem = UNSAFE[unsafe]
    with psycopg.connect(deployment.primary.dsn, autocommit=True) as connection:
        (before,) = connection.execute(f"SHOW {name}".encode()).fetchone() or ("",)

        def put(value: str) -> None:
            connection.execute(f"ALTER SYSTEM SET {name} = '{value}'".encode())
            connection.execute("SELECT pg_reload_conf()")
            while connection.execute(f"SHOW {name}".encode()).fetchone() != (value,):
                pass  # a reload is seen a moment later

        put(value)
        try:
            with pytest.raises(StoreError, match=problem):
                PostgresStore(deployment.primary.dsn, read_dsn=deployment.replica.dsn)
        finally:
            put(before)
            until(deployment.primary, WAITED_FOR.format("sync"), 1)


def receives(server: Server, conninfo: str, number: int) -> None:
    """Let a replica follow another address, or none, and wait until it does."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f"ALTER SYSTEM SET primary_conninfo = '{conninfo}'".encode())
        connection.execute("SELECT pg_reload_conf()")
    until(server, "SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming'", number)


def test_a_replica_that_is_cut_off_is_refused_whoever_else_is_waited_for(deployment: Deployment) -> None:
    primary, replica = deployment.primary, deployment.replica
    with psycopg.connect(replica.dsn) as connection:
        (conninfo,) = connection.execute("SHOW primary_conninfo").fetchone() or ("",)
    with started(primary.programs, copied(primary, "other"), {}):  # also known as the reader
        until(primary, "SELECT count(*) FROM pg_stat_replication", 2)
        with pytest.raises(StoreError, match="of its own"):
            PostgresStore(primary.dsn, read_dsn=replica.dsn)
        receives(replica, "", 0)
        try:
            until(primary, WAITED_FOR.format("sync"), 1)
            with pytest.raises(StoreError, match="receives nothing"):
                PostgresStore(primary.dsn, read_dsn=replica.dsn)
        finally:
            receives(replica, conninfo.replace("'", "''"), 1)
    until(primary, WAITED_FOR.format("sync"), 1)


def test_other_receivers_of_the_log_do_not_matter(deployment: Deployment) -> None:
    primary = deployment.primary
    other = copied(primary, "third")
    with (other / "postgresql.auto.conf").open("a") as file:
        file.write(f"primary_conninfo = 'host={primary.sockets} user=postgres application_name=third'\n")
    with started(primary.programs, other, {}):
        until(primary, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'", 2)
        until(primary, "SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')", 1)
        PostgresStore(primary.dsn, read_dsn=deployment.replica.dsn).close()
    until(primary, "SELECT count(*) FROM pg_stat_replication", 1)


def test_a_role_that_is_not_shown_who_is_waited_for_is_refused_and_told_what_it_needs(deployment: Deployment) -> None:
    PostgresStore(deployment.primary.dsn).close()
    with psycopg.connect(deployment.primary.dsn, autocommit=True) as connection:
        connection.execute("CREATE ROLE poor LOGIN")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO poor")
        try:
            poor = deployment.primary.dsn_of("postgres", "poor")
            replica = deployment.replica.dsn_of("postgres", "poor")
            with pytest.raises(StoreError, match="GRANT pg_read_all_stats"):
                PostgresStore(poor, read_dsn=replica, manage_schema=False)
            connection.execute("GRANT pg_read_all_stats TO poor")
            until(deployment.replica, "SELECT pg_has_role('poor', 'pg_read_all_stats', 'MEMBER')", expected=True)
            PostgresStore(poor, read_dsn=replica, manage_schema=False).close()
        finally:
            connection.execute("DROP OWNED BY poor")
            connection.execute("DROP ROLE poor")


STANDBYS = [
    ("*", False),
    ("", False),
    ("a", True),
    ("a, b", False),
    ("FIRST 2 (a, b)", True),
    ("first 1 (a, b)", False),
    ("ANY 2 (a, b)", True),
    ("ANY 1 (a, b)", False),
    ('2 ("a b", c)', True),
    ('1 ("a, ""b")', True),
    ("1 (a b)", False),
    ("FIRST 2 (*)", False),
    ("FIRST 2 (a, *)", False),
    ('1 ("*")', False),
]


@pytest.mark.parametrize(("standbys", "expected"), STANDBYS)
def test_all_replicas_are_waited_for_when_each_is_named_and_as_many_are_waited_for(
    standbys: str, expected: object
) -> None:
    assert waits_for_all(standbys) is expected


def test_a_write_of_a_store_that_does_not_read_there_is_seen_there_at_once(
    deployment: Deployment, library: Library, store: PostgresStore
) -> None:
    plain = PostgresStore(deployment.primary.dsn)
    other = Library(plain, "library", HashingEmbedder(8))
    for number in range(20):
        other.index_source(Source("s", "doc", "t", ["g"], [f"w{number}"]))
        where = And(Eq("tenantId", "t"), Eq("sourceId", "s"))
        assert [record.text for record in store.scan("library", where=where, limit=2)] == [f"w{number}"]
    assert library.count(scope=Scope("t", ["g"])) == 2
    plain.close()


@pytest.mark.parametrize(
    "part",
    ["test_filters_of_", "test_filters_rows", "test_hostile_tenants", "test_hostile_values_cannot", "tenants_own"],
)
def test_the_kits_part_on_isolation_passes_over_both_servers(deployment: Deployment, part: str) -> None:
    def open_store() -> PostgresStore:
        return PostgresStore(deployment.primary.dsn, read_dsn=deployment.replica.dsn)

    certificate = certify(open_store, only=part)
    wrong = [problem for check in certificate.capabilities for problem in check.wrong]
    assert certificate.is_right, wrong
