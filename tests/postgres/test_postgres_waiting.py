"""Writers that wait leave readers their connections, wait no longer than they were told, and hold words briefly."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg_pool import ConnectionPool
from tests.postgres_room import Room

from stackroom import StoreUnavailable
from stackroom.filters import And, Eq, In
from stackroom.stores import CollectionSpec, LexicalQuery, PostgresStore, Record
from stackroom.stores.postgres import _counts
from stackroom.stores.postgres._names import Names, tenant_key
from stackroom.stores.postgres._schema import WORDS

TENANT = Eq("tenantId", "t")


def of(source_id: str) -> And:
    return And(TENANT, Eq("sourceId", source_id))


def record(source_id: str, text: str) -> Record:
    return Record(text, [1.0, 0.5], {"tenantId": "t", "sourceId": source_id, "index": 0})


@pytest.fixture
def store(room: Room) -> PostgresStore:
    made = room.store()
    made.create_collection("c", CollectionSpec(2, "m"))
    made.replace("c", [record("a", "common"), record("b", "common")], where=TENANT)
    return made


@contextmanager
def held(room: Room, *sources: str) -> Iterator[psycopg.Connection[Any]]:
    """Hold sources as a writer elsewhere would."""
    with psycopg.connect(room.dsn, autocommit=True) as connection:
        for source in sources:
            key = Names(room.schema, "stackroom_").key("source", "c", "t", source)
            connection.execute("SELECT pg_advisory_lock(%s)", [key])
        yield connection
        connection.execute("SELECT pg_advisory_unlock_all()")


def wait_for(room: Room, waiting: int) -> None:
    """Return once so many connections wait for advisory locks."""
    while room.ask("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory'")[0][0] < waiting:
        pass


def started(threads: ThreadPoolExecutor, work: Callable[[int], Any], number: int) -> list[Future[Any]]:
    """Begin work in threads; return when all of them are at it."""
    at_it = threading.Barrier(number + 1)

    def begin(at: int) -> Any:
        at_it.wait(30)
        return work(at)

    futures = [threads.submit(begin, at) for at in range(number)]
    at_it.wait(30)
    return futures


@pytest.mark.parametrize("pool_of", ["the store", "the caller"])
@pytest.mark.parametrize(("size", "waiting"), [(4, 1), (6, 2)])
def test_reads_and_other_writes_go_on_while_more_writers_wait_than_there_are_connections(
    room: Room, store: PostgresStore, size: int, waiting: int, pool_of: str
) -> None:
    del store
    with ConnectionPool(room.dsn, min_size=1, max_size=size) as pool, ThreadPoolExecutor(12) as threads:
        busy = room.store(pool if pool_of == "the caller" else None, pool_size=size, connect_timeout=2)
        with held(room, "a"):
            writes = started(threads, lambda _: busy.replace("c", [record("a", "new")], where=of("a")), 12)
            wait_for(room, waiting)
            for _ in range(20):
                assert busy.count("c", where=TENANT) == 2
                assert busy.replace("c", [record("b", "common")], where=of("b")) == 1
            assert not any(write.done() for write in writes)
        assert [write.result(60) for write in writes] == [1] * 12
        busy.close()


def test_the_only_connection_is_given_to_readers_between_tries(room: Room, store: PostgresStore) -> None:
    del store
    with ThreadPoolExecutor(3) as threads:
        busy = room.store(pool_size=1, connect_timeout=2)
        with held(room, "a"):
            writes = started(threads, lambda _: busy.replace("c", [record("a", "new")], where=of("a")), 3)
            for _ in range(20):
                assert busy.count("c", where=TENANT) == 2
            assert not any(write.done() for write in writes)
        assert [write.result(60) for write in writes] == [1] * 3


def test_the_only_connection_is_tried_no_longer_than_is_told(room: Room, store: PostgresStore) -> None:
    del store
    with held(room, "a"), pytest.raises(StoreUnavailable, match="too long"):
        room.store(pool_size=1, lock_timeout=0.2).replace("c", [record("a", "new")], where=of("a"))


def test_several_locks_are_waited_for_no_longer_than_one(room: Room, store: PostgresStore) -> None:
    """Each is let go when the wait for it is nearly over; the last never is."""
    sources = [f"s{number}" for number in range(8)]
    locks = sorted(Names(room.schema, "stackroom_").key("source", "c", "t", source) for source in sources)
    del store
    patient = room.store(lock_timeout=1.0)
    records = [record(source, "x") for source in sources]
    with held(room, *sources) as other, ThreadPoolExecutor(1) as threads:
        begin = time.monotonic()
        write = threads.submit(lambda: patient.replace("c", records, where=And(TENANT, In("sourceId", sources))))
        for key in locks[:-1]:
            while write.running() and not room.ask(
                "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted "
                "AND (classid::bigint << 32 | objid::bigint) = %(key)s AND now() - waitstart > '600ms'",
                key=key,
            ):
                pass
            other.execute("SELECT pg_advisory_unlock(%s)", [key])
        with pytest.raises(StoreUnavailable, match="too long"):
            write.result(60)
        assert time.monotonic() - begin < 3.0


def test_those_who_wait_without_a_connection_give_up_in_time_as_well(room: Room, store: PostgresStore) -> None:
    del store
    impatient = room.store(pool_size=2, lock_timeout=0.5)
    with held(room, "a"), ThreadPoolExecutor(6) as threads:
        writes = started(threads, lambda _: impatient.replace("c", [record("a", "new")], where=of("a")), 6)
        for write in writes:
            with pytest.raises(StoreUnavailable, match="too long"):
                write.result(60)


def table(room: Room, kind: str) -> str:
    ((found,),) = room.ask(
        f"SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'stackroom_{kind}_%' "
        f"AND relnamespace = '{room.schema}'::regnamespace"
    )
    return str(found)


def test_a_writer_of_many_words_holds_the_common_ones_last(room: Room, store: PostgresStore) -> None:
    """It is stopped at a word of its own; meanwhile others of its tenant write common words."""
    words = " ".join(f"w{number}" for number in range(25_000))
    store.replace("c", [record("long", f"{words} common")], where=of("long"))
    terms = table(room, "terms")
    with psycopg.connect(room.dsn) as other, ThreadPoolExecutor(1) as threads:
        name = f"{room.schema}.{terms}"
        other.execute(f"SELECT FROM {name} WHERE term = 'w24999' FOR UPDATE".encode())
        write = threads.submit(lambda: store.replace("c", [record("long", "common")], where=of("long")))
        while not write.done() and not room.ask("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'transactionid'"):
            pass
        assert room.store(lock_timeout=2).replace("c", [record("b", "common fox")], where=of("b")) == 1
        assert not write.done()
        other.rollback()
        assert write.result(60) == 1
    assert room.ask(f"SELECT holding FROM {terms} WHERE term = 'common'") == [(3,)]
    assert room.ask(f"SELECT count(*) FROM {terms}") == [(2,)], "words that nothing holds are forgotten"


def test_words_are_counted_right_however_many_change_at_once(
    room: Room, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_counts, "_FEW", 3)
    store.replace("c", [record("b", "common one two three four five six seven")], where=of("b"))
    store.replace("c", [record("b", "common one two eight")], where=of("b"))
    found = room.ask(f"SELECT term, holding FROM {table(room, 'terms')} ORDER BY term")
    assert found == [("common", 2), ("eight", 1), ("one", 1), ("two", 1)]
    assert [match.id for match in store.lexical("c", LexicalQuery("eight"), where=TENANT, limit=2)] == ["b#0"]


def test_words_that_are_there_use_up_no_numbers(room: Room, store: PostgresStore) -> None:
    del store
    entry: Any = room.store()._register.entry("c")  # noqa: SLF001 - to ask as a writer would that was overtaken
    place: Any = type("Place", (), {"entry": entry, "tenant_id": "t"})
    sequence = "SELECT last_value FROM stackroom_term_numbers"
    before = room.ask(sequence)
    with psycopg.connect(room.dsn, autocommit=True) as connection:
        for statement in _counts.learned(place, ["common"] * 3):
            connection.execute(statement.sql.encode(), statement.values)
    assert room.ask(sequence) == before


def test_numbers_of_words_are_given_out_anew_once_all_have_been(room: Room, store: PostgresStore) -> None:
    """The first of them are still in use then."""
    room.ask(f"SELECT setval('stackroom_term_numbers', {WORDS})")
    assert store.replace("c", [record("new", "red fox runs")], where=of("new")) == 0
    for word in ("red", "fox", "runs", "common"):
        assert len(store.lexical("c", LexicalQuery(word), where=TENANT, limit=9)) == (2 if word == "common" else 1)
    tenant = tenant_key("t")
    found = room.ask(f"SELECT count(DISTINCT number) FROM {table(room, 'terms')} WHERE tenant = '{tenant}'")
    assert found == [(4,)]


LARGE = [2**63 - 1, 2**63, 2**64, 10**30]


@pytest.mark.parametrize("limit", LARGE)
def test_a_limit_of_any_size_is_served(store: PostgresStore, limit: int) -> None:
    assert len(store.dense("c", [1, 0], where=TENANT, limit=limit)) == 2
    assert len(store.lexical("c", LexicalQuery("common"), where=TENANT, limit=limit)) == 2
    page = store.scan("c", where=TENANT, limit=limit)
    assert len(page) == 2
    assert page.next is None
