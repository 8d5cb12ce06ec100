"""Two servers: writes go to one, searches to a replica that a write waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

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

QUICK = {"fsync": "off", "full_page_writes": "off", "hot_standby_feedback": "on", "synchronous_commit": "remote_apply"}


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
    data = primary.data.parent / "replica"
    primary.programs.run("pg_basebackup", "-d", primary.dsn, "-D", str(data), "-R", "-c", "fast")
    with started(primary.programs, data, {}) as replica:
        with psycopg.connect(primary.dsn, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
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
    "one of two is waited for, whichever": ("synchronous_standby_names", "ANY 1 (walreceiver, other)", "every replica"),
    "another one is waited for": ("synchronous_standby_names", "other, walreceiver", "every replica"),
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


def test_a_role_without_privileges_is_told_of_replicas_that_are_not_waited_for(deployment: Deployment) -> None:
    PostgresStore(deployment.primary.dsn).close()
    with psycopg.connect(deployment.primary.dsn, autocommit=True) as connection:
        connection.execute("CREATE ROLE poor LOGIN")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO poor")
        try:
            poor = deployment.primary.dsn_of("postgres", "poor")
            replica = deployment.replica.dsn_of("postgres", "poor")
            PostgresStore(poor, read_dsn=replica, manage_schema=False).close()
            with psycopg.connect(poor) as seen:
                assert seen.execute("SELECT count(*) FROM pg_stat_replication").fetchone() == (1,)
        finally:
            connection.execute("DROP OWNED BY poor")
            connection.execute("DROP ROLE poor")


STANDBYS = [
    ("*", 1, True),
    ("*", 2, False),
    ("a", 1, True),
    ("a, b", 2, False),
    ("a, b", 1, False),
    ("FIRST 2 (a, b)", 2, True),
    ("first 1 (a, b)", 1, False),
    ("ANY 2 (a, b)", 2, True),
    ("ANY 1 (a, b)", 1, False),
    ('2 ("a b", c)', 2, True),
    ("FIRST 2 (a, b)", 3, False),
    ("FIRST 2 (*)", 2, True),
    ("ANY 1 (*)", 2, False),
]


@pytest.mark.parametrize(("standbys", "connected", "expected"), STANDBYS)
def test_all_replicas_are_waited_for_when_as_many_are_named_as_are_waited_for(
    standbys: str, connected: int, expected: object
) -> None:
    assert waits_for_all(standbys, connected) is expected


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
