"""Writers: one of two wins whole; what was acknowledged survives the death of a client, a connection and a server."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from tests.postgres_room import Room
from tests.postgres_server import running

from stackroom import Conflict, StoreUnavailable
from stackroom.filters import And, Eq, Exists
from stackroom.stores import CollectionSpec, PostgresStore, Record
from stackroom.stores.postgres._names import Names

PARTS = 4
ALL = Exists("tenantId")


def parts(text: str, source_id: str = "a", tenant: str = "t") -> list[Record]:
    return [
        Record(text, [1.0, 0.5], {"tenantId": tenant, "sourceId": source_id, "index": index}) for index in range(PARTS)
    ]


def of(source_id: str = "a", tenant: str = "t") -> And:
    return And(Eq("tenantId", tenant), Eq("sourceId", source_id))


def texts(store: PostgresStore) -> list[str]:
    return [record.text for record in store.scan("c", where=ALL, limit=1_000)]


@pytest.fixture
def store(room: Room) -> PostgresStore:
    made = room.store()
    made.create_collection("c", CollectionSpec(2, "m"))
    return made


@contextmanager
def held(room: Room, *place: str) -> Iterator[None]:
    """Hold the lock that a writer elsewhere would hold; share it when it is a tenant's."""
    key = Names(room.schema, "stackroom_").key(*place)
    shared = "_shared" if place[0] == "tenant" else ""
    with psycopg.connect(room.dsn, autocommit=True) as connection:
        connection.execute(f"SELECT pg_advisory_lock{shared}(%s)".encode(), [key])
        yield
        connection.execute("SELECT pg_advisory_unlock_all()")


SOURCE_A = ("source", "c", "t", "a")


def wait_until_somebody_waits(room: Room) -> int:
    """Return the process id of the backend that waits for an advisory lock."""
    while True:
        found = room.ask("SELECT pid FROM pg_stat_activity WHERE wait_event = 'advisory'")
        if found:
            return int(found[0][0])


def table(room: Room, kind: str) -> str:
    """Return the name of the collection's table of a kind."""
    ((found,),) = room.ask(
        f"SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'stackroom_{kind}_%' "
        f"AND relnamespace = '{room.schema}'::regnamespace"
    )
    return str(found)


def in_thread(work: Callable[[], Any]) -> Future[Any]:
    executor = ThreadPoolExecutor(1)
    future = executor.submit(work)
    executor.shutdown(wait=False)
    return future


def test_a_writer_waits_for_another_one_of_its_source_and_counts_what_that_one_wrote(
    room: Room, store: PostgresStore
) -> None:
    with held(room, *SOURCE_A):
        later = in_thread(lambda: store.replace("c", parts("later"), where=of()))
        wait_until_somebody_waits(room)
        assert not later.done()
    assert later.result(30) == 0
    assert store.replace("c", parts("last"), where=of()) == PARTS


def test_a_writer_that_waits_too_long_says_so_and_changes_nothing(room: Room, store: PostgresStore) -> None:
    store.replace("c", parts("old"), where=of())
    impatient = room.store(lock_timeout=0.05)
    with held(room, *SOURCE_A), pytest.raises(StoreUnavailable, match="too long"):
        impatient.replace("c", parts("new"), where=of())
    assert texts(store) == ["old"] * PARTS


@pytest.mark.parametrize("write", ["replace", "update", "delete"])
def test_a_writer_that_does_not_wait_is_a_conflict_at_once(room: Room, store: PostgresStore, write: str) -> None:
    store.replace("c", parts("old"), where=of())
    hasty = room.store(lock_timeout=0)
    writes: dict[str, Callable[[], int]] = {
        "replace": lambda: hasty.replace("c", parts("new"), where=of()),
        "update": lambda: hasty.update("c", {"k": 1}, where=of()),
        "delete": lambda: hasty.delete("c", where=of()),
    }
    before = list(store.scan("c", where=ALL, limit=9))
    with held(room, *SOURCE_A), pytest.raises(Conflict):
        writes[write]()
    assert list(store.scan("c", where=ALL, limit=9)) == before
    assert writes[write]() == PARTS


def test_writers_of_other_sources_and_other_tenants_do_not_wait(room: Room, store: PostgresStore) -> None:
    hasty = room.store(lock_timeout=0)
    with held(room, *SOURCE_A):
        assert hasty.replace("c", parts("b", "b"), where=of("b")) == 0
        assert hasty.replace("c", parts("u", tenant="u"), where=Eq("tenantId", "u")) == 0
        assert texts(store) == ["b"] * PARTS + ["u"] * PARTS


def test_a_writer_of_a_whole_tenant_waits_for_the_writers_of_its_sources(room: Room, store: PostgresStore) -> None:
    store.replace("c", parts("old"), where=of())
    hasty = room.store(lock_timeout=0)
    with held(room, "tenant", "c", "t"):
        assert hasty.replace("c", parts("new"), where=of()) == PARTS
        with pytest.raises(Conflict):
            hasty.delete("c", where=Eq("tenantId", "t"))
        with pytest.raises(Conflict):
            hasty.update("c", {"k": 1}, where=Eq("tenantId", "t"))
    assert store.count("c", where=Exists("k")) == 0
    assert hasty.delete("c", where=Eq("tenantId", "t")) == PARTS


def test_a_read_goes_on_when_its_connections_were_closed_by_the_server(room: Room, store: PostgresStore) -> None:
    store.replace("c", parts("old"), where=of())
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(lambda _: store.count("c", where=ALL), range(24)))
    room.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query <> ''")
    assert store.count("c", where=ALL) == PARTS
    assert store.replace("c", parts("new"), where=of()) == PARTS


def test_a_write_whose_connection_is_lost_before_its_end_is_made_again(room: Room, store: PostgresStore) -> None:
    with held(room, *SOURCE_A):
        write = in_thread(lambda: store.replace("c", parts("new"), where=of()))
        room.ask(f"SELECT pg_terminate_backend({wait_until_somebody_waits(room)})")
        wait_until_somebody_waits(room)
    assert write.result(30) == 0
    assert texts(store) == ["new"] * PARTS


def test_a_write_whose_connection_is_lost_at_its_end_is_not_made_again(room: Room, store: PostgresStore) -> None:
    """The commit waits in a trigger; whether it happened cannot be known by then."""
    sources = table(room, "sources")
    room.ask(
        "CREATE FUNCTION waits() RETURNS trigger LANGUAGE plpgsql AS "
        f"'BEGIN PERFORM pg_advisory_lock({Names(room.schema, 'x').key('end')}); RETURN NULL; END'"
    )
    room.ask(
        f"CREATE CONSTRAINT TRIGGER waits AFTER INSERT ON {sources} DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION waits()"
    )
    key = Names(room.schema, "x").key("end")
    with psycopg.connect(room.dsn, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", [key])
        write = in_thread(lambda: store.replace("c", parts("new"), where=of(), expect=frozenset()))
        room.ask(f"SELECT pg_terminate_backend({wait_until_somebody_waits(room)})")
        with pytest.raises(StoreUnavailable, match="whole or not at all"):
            write.result(30)
    assert texts(store) == []


FAILS = (
    "CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF nextval(''tries'') <= {times} THEN "
    "RAISE EXCEPTION USING ERRCODE = ''{code}''; END IF; RETURN NEW; END' SET search_path = {schema}"
)


@pytest.mark.parametrize("code", ["40001", "40P01"])
@pytest.mark.parametrize("times", [2, 100])
def test_a_write_that_meets_another_transaction_is_made_again_and_not_for_ever(
    room: Room, store: PostgresStore, code: str, times: int
) -> None:
    sources = table(room, "sources")
    room.ask("CREATE SEQUENCE tries")
    room.ask(FAILS.format(times=times, code=code, schema=room.schema))
    room.ask(f"CREATE TRIGGER fails BEFORE INSERT ON {sources} FOR EACH ROW EXECUTE FUNCTION fails()")
    if times == 2:
        assert store.replace("c", parts("new"), where=of()) == 0
        assert texts(store) == ["new"] * PARTS
    else:
        with pytest.raises(StoreUnavailable, match="again and again"):
            store.replace("c", parts("new"), where=of())
        assert texts(store) == []


LOOP = """
import sys
from stackroom.filters import And, Eq
from stackroom.stores import PostgresStore, Record
dsn, schema = sys.argv[1:]
store = PostgresStore(dsn, schema=schema)
where = And(Eq("tenantId", "t"), Eq("sourceId", "a"))
for number in range(1, 100_000):
    records = [
        Record(f"w{number} word", [1.0, 0.5], {"tenantId": "t", "sourceId": "a", "index": index}) for index in range(4)
    ]
    store.replace("c", records, where=where)
    print(number, flush=True)
"""


def killed_after(room: Room, acknowledged: int) -> int:
    """Let another process replace a source over and over, kill it, and return the last write that it acknowledged."""
    with subprocess.Popen(
        [sys.executable, "-c", LOOP, room.dsn, room.schema], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = 0
        while said < acknowledged:
            said = int(process.stdout.readline())
        process.kill()
        return max([said, *(int(line) for line in process.stdout.read().splitlines())])


def test_a_client_that_is_killed_leaves_whole_what_it_acknowledged(room: Room, store: PostgresStore) -> None:
    for after in (1, 3, 8):
        said = killed_after(room, after)
        found = texts(store)
        assert len(found) == PARTS
        assert len(set(found)) == 1
        assert int(found[0].split()[0][1:]) in (said, said + 1)
        assert store.delete("c", where=of()) == PARTS


def test_counts_of_words_stay_right_when_writers_are_killed(room: Room, store: PostgresStore) -> None:
    killed_after(room, 5)
    terms, tenants = (table(room, kind) for kind in ("terms", "tenants"))
    assert room.ask(f"SELECT holding FROM {terms} WHERE term = 'word'") == [(PARTS,)]
    assert room.ask(f"SELECT passages FROM {tenants}") == [(PARTS,)]
    store.delete("c", where=of())
    assert room.ask(f"SELECT term FROM {terms} WHERE holding <> 0") == []
    assert room.ask(f"SELECT passages FROM {tenants}") == []


def test_what_was_acknowledged_survives_the_crash_of_the_server() -> None:
    with running(settings={}) as server:
        store = PostgresStore(server.dsn, connect_timeout=2)
        store.create_collection("c", CollectionSpec(2, "m"))
        for number in range(20):
            store.replace("c", parts(f"w{number}", f"s{number:02}"), where=of(f"s{number:02}"))
        server.stop("immediate")
        with pytest.raises(StoreUnavailable):
            store.count("c", where=ALL)
        server.start()
        assert texts(store) == [f"w{number}" for number in range(20) for _ in range(PARTS)]
        store.close()


def test_two_writers_of_one_tenant_that_share_words_both_succeed_at_once(room: Room, store: PostgresStore) -> None:
    """The counts of common words are what such writers share: neither deadlocks, and none is lost."""
    together = threading.Barrier(4)

    def write(name: str) -> None:
        together.wait(30)
        for number in range(10):
            store.replace("c", parts(f"red fox {number}", f"{name}{number}"), where=of(f"{name}{number}"))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, "abcd"))
    terms = table(room, "terms")
    assert room.ask(f"SELECT holding FROM {terms} WHERE term = 'fox'") == [(40 * PARTS,)]
