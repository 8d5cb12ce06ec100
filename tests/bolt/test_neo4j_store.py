"""What the kit cannot know of the store in Neo4j: DSNs, scales of cosines, errors without values, a killed writer."""

from __future__ import annotations

import multiprocessing
import os
import time
from typing import Any

import neo4j
import numpy as np
import pytest
from neo4j import exceptions
from tests.arcade_server import Running

from stackroom import Library, Scope, Source, StoreError, StoreUnavailable
from stackroom.embedders import HashingEmbedder
from stackroom.filters import And, Eq
from stackroom.stores import CollectionSpec, Neo4jStore, Record
from stackroom.stores._dsn import open_store
from stackroom.stores._tokens import ALWAYS
from stackroom.stores.generations import Nearest, _turns
from stackroom.stores.generations._rows import direction
from stackroom.stores.neo4j._engine import _COSINE, Neo4jEngine

T = Eq("tenantId", "t")


@pytest.fixture
def store(driver: neo4j.Driver) -> Neo4jStore:
    driver.execute_query("MATCH (n) DETACH DELETE n", database_="stackroom")
    made = Neo4jStore(driver, database="stackroom")
    made.create_collection("c", CollectionSpec(2, "m"))
    return made


def records(text: str) -> list[Record]:
    return [Record(text, [1, index], {"tenantId": "t", "sourceId": "a", "index": index}) for index in range(4)]


def test_a_library_is_opened_by_its_dsn(store: Neo4jStore, bolt: Running) -> None:
    assert store.collection("c") is not None
    opened = open_store(bolt.dsn)
    with Library(opened, "library", HashingEmbedder(32)) as library:
        library.index_source(Source("plan", "doc", "acme", ["board"], ["the second bakery"]))
        assert [hit.id for hit in library.search("bakery", scope=Scope("acme", ["board"]))] == ["plan#0"]
    opened.close()
    with pytest.raises(StoreUnavailable, match="password"):
        open_store(bolt.dsn.replace(bolt.password, "s3cretpassword"))


def test_cosines_that_begin_at_zero_are_read_as_such(store: Neo4jStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neo4j says (1 + cosine) / 2: a double of its answers, made of those of a server that says the cosine."""
    store.replace("c", records("red"), where=T)
    expected = store.dense("c", [1, 2], where=T, limit=2)
    engine: Any = store._engine  # noqa: SLF001 - what it says to the server is what is looked at
    ask = engine._ask  # noqa: SLF001

    def halved(statement: str, **values: Any) -> Any:
        return ask(statement.replace(_COSINE, f"(1.0 + {_COSINE}) / 2"), **values)

    monkeypatch.setattr(engine, "_ask", halved)
    engine._from_zero = True  # noqa: SLF001
    assert store.dense("c", [1, 2], where=T, limit=2) == expected
    shelf = store._catalogue.entry("c").shelf  # noqa: SLF001 - as above
    asked = Nearest(direction(np.array([1.0, -3.0])))
    found = engine.best(shelf, "t", ALWAYS, asked, 9, vectors=False)
    assert all(-1.0 <= item.score <= 1.0001 for item in found)
    assert min(item.score for item in found) < 0.5


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (exceptions.ServiceUnavailable("s3cret"), StoreUnavailable),
        (exceptions.SessionExpired("s3cret"), StoreUnavailable),
        (exceptions.ClientError("s3cret"), StoreError),
        (OSError("s3cret"), StoreUnavailable),
    ],
)
def test_errors_say_no_values(
    store: Neo4jStore, driver: neo4j.Driver, monkeypatch: pytest.MonkeyPatch, raised: Exception, kind: type[StoreError]
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise raised

    monkeypatch.setattr(driver, "execute_query", fail)
    with pytest.raises(StoreError) as caught:
        store.count("c", where=T)
    assert type(caught.value) is kind
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_two_writers_of_a_note_cannot_both_have_their_way(store: Neo4jStore) -> None:
    engine: Any = store._engine  # noqa: SLF001 - notes are no business of a store's users
    assert engine.write_note("n", b"1", None)
    assert not engine.write_note("n", b"2", None)
    assert engine.write_note("n", b"3", b"1")
    assert not engine.write_note("n", b"4", b"1")
    assert engine.note("n") == b"3"
    assert engine.write_note("n", None, b"3")
    assert engine.note("n") is None


def test_what_is_no_driver_is_refused() -> None:
    with pytest.raises(TypeError, match=r"neo4j\.Driver"):
        Neo4jStore("neo4j://localhost")  # type: ignore[arg-type]


def _killed(dsn: str) -> None:
    put = Neo4jEngine.put

    def stop(*arguments: Any) -> None:
        put(*arguments)
        os._exit(9)

    Neo4jEngine.put = stop  # type: ignore[assignment,method-assign]
    open_store(dsn).replace("c", records("new"), where=And(T, Eq("sourceId", "a")))


def test_a_killed_writer_leaves_the_old_whole_and_is_swept(
    store: Neo4jStore, bolt: Running, driver: neo4j.Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.replace("c", records("old"), where=T)
    killed = multiprocessing.get_context("spawn").Process(target=_killed, args=(bolt.dsn,))
    killed.start()
    killed.join(60)
    assert killed.exitcode == 9
    assert {item.text for item in store.scan("c", where=T, limit=9)} == {"old"}
    assert _rows(driver) == 8
    later = time.time() + 2 * _turns.LEASE_SECONDS
    monkeypatch.setattr(time, "time", lambda: later)
    assert store.sweep_abandoned("c") == 1
    assert _rows(driver) == 4


def _rows(driver: neo4j.Driver) -> int:
    found = driver.execute_query("MATCH (r:StackroomRow) RETURN count(r) AS number", database_="stackroom")
    return int(found.records[0]["number"])
