"""Writers: what they hold against a swap, and what comes of the numbers that they take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from stackroom import Conflict, StoreUnavailable
from stackroom.filters import And, Eq
from stackroom.stores import CollectionSpec, LexicalQuery, Record, SqlStore
from stackroom.stores.sql import _numbers
from stackroom.stores.sql._rows import counted

TENANT = Eq("tenantId", "t")
SPEC = CollectionSpec(2, "m")


def record(source: str = "a", text: str = "red", index: int = 0) -> Record:
    return Record(text, [1.0, 0.5], {"tenantId": "t", "sourceId": source, "index": index})


@pytest.mark.parametrize("fingerprint", ["m", None])
def test_a_write_that_meets_a_swap_is_judged_anew(
    opened: Callable[..., SqlStore], monkeypatch: pytest.MonkeyPatch, fingerprint: str | None
) -> None:
    store = opened()
    store.create_collection("c", SPEC)
    store.create_collection("c.side", CollectionSpec(3, "other"))
    swaps = iter([store.swap])

    def counting(records: Any) -> Any:
        for swap in swaps:
            swap("c", "c.side")
        return counted(records)

    monkeypatch.setattr("stackroom.stores.sql._shelves.counted", counting)
    with pytest.raises((Conflict, ValueError), match=r"'other'|3"):
        store.replace("c", [record()], where=TENANT, fingerprint=fingerprint)
    assert store.count("c", where=And()) == 0


def test_a_side_that_is_not_as_expected_takes_no_name(opened: Callable[..., SqlStore]) -> None:
    store = opened()
    for name in ("c", "c.side"):
        store.create_collection(name, SPEC)
        store.replace(name, [record(text=name)], where=TENANT)
    versions = {of.version or 0 for of in store.scan("c.side", where=TENANT, limit=10)}
    others = {of.version or 0 for of in store.scan("c", where=TENANT, limit=10)}
    for wrong in (set[int](), others, versions | others):
        with pytest.raises(Conflict):
            store.swap("c", "c.side", expect_side=wrong)
    store.replace("c.side", [record(text="somebody else's")], where=TENANT)
    with pytest.raises(Conflict):
        store.swap("c", "c.side", expect=others, expect_side=versions)
    assert [of.text for of in store.scan("c", where=TENANT, limit=10)] == ["c"]
    versions = {of.version or 0 for of in store.scan("c.side", where=TENANT, limit=10)}
    store.swap("c", "c.side", expect=others, expect_side=versions)
    assert [of.text for of in store.scan("c", where=TENANT, limit=10)] == ["somebody else's"]
    assert store.collection("c.side") is None


@contextmanager
def held(url: str, lock: str) -> Iterator[None]:
    """Hold the row of every collection, as another process does."""
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"SELECT number FROM stackroom_collections {lock}").all()  # noqa: S608 - our own
        yield
    engine.dispose()


def test_writers_and_a_swap_wait_for_each_other(postgres_url: str) -> None:
    store = SqlStore(postgres_url, lock_timeout=0.2)
    store.create_collection("c", SPEC)
    store.create_collection("c.side", SPEC)
    with held(postgres_url, "FOR SHARE"):
        store.replace("c", [record()], where=TENANT)
        with pytest.raises(StoreUnavailable, match="lock"):
            store.swap("c", "c.side")
        with pytest.raises(StoreUnavailable, match="lock"):
            store.drop_collection("c")
    with held(postgres_url, "FOR UPDATE"):
        with pytest.raises(StoreUnavailable, match="lock"):
            store.replace("c", [record()], where=TENANT)
        with pytest.raises(StoreUnavailable, match="lock"):
            store.update("c", {"k": 1}, where=TENANT)
        with pytest.raises(StoreUnavailable, match="lock"):
            store.delete("c", where=TENANT)
        assert store.count("c", where=TENANT) == 1, "readers do not wait"
    store.swap("c", "c.side")
    assert store.count("c", where=TENANT) == 0
    store.close()


def test_numbers_that_run_out_within_a_write_are_taken_anew(
    opened: Callable[..., SqlStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_numbers, "_PIECE", 3)
    store = opened()
    store.create_collection("c", SPEC)
    for _ in range(2):
        store.replace("c", [record(f"s{at}", f"word{at}", 2**31 - 1) for at in range(5)], where=TENANT)
    versions = {of.version for of in store.scan("c", where=TENANT, limit=10)}
    assert len(versions) == 5
    assert [match.id for match in store.lexical("c", LexicalQuery("word3"), where=TENANT, limit=2)] == ["s3#2147483647"]
    assert len(store.dense("c", [1, 0], where=TENANT, limit=10)) == 5


def test_who_takes_numbers_never_waits_for_one_that_gets_more() -> None:
    """On SQLite the one may hold the file that the other waits for."""
    with ThreadPoolExecutor(1) as other:

        def take(size: int) -> int:
            with pytest.raises(_numbers.NumbersAreMissing):
                other.submit(numbers.some).result(timeout=30)
            return size

        numbers = _numbers.Numbers(take)
        numbers.refill(1)
    assert numbers.some() != numbers.some()


def test_counts_of_words_are_right_after_every_kind_of_write(opened: Callable[..., SqlStore], url: str) -> None:
    store = opened()
    store.create_collection("c", SPEC)
    store.replace("c", [record("a", f"red word{at}", at) for at in range(4)], where=And(TENANT, Eq("sourceId", "a")))
    store.replace("c", [record("b", "red fox")], where=And(TENANT, Eq("sourceId", "b")))
    assert held_words(url) == {"red": 5, "fox": 1, **{f"word{at}": 1 for at in range(4)}}
    assert store.delete("c", where=And(TENANT, Eq("index", 1))) == 1
    assert held_words(url) == {"red": 4, "fox": 1, "word0": 1, "word2": 1, "word3": 1}
    store.update("c", {"title": "T", "k": 1}, where=TENANT)
    store.replace("c", [record("b", "blue")], where=And(TENANT, Eq("sourceId", "b")))
    assert held_words(url) == {"red": 3, "blue": 1, "word0": 1, "word2": 1, "word3": 1}
    store.delete("c", where=And(TENANT, Eq("sourceId", "a")))
    assert held_words(url) == {"blue": 1}


def held_words(url: str) -> dict[str, int]:
    """Return what the database says of each word."""
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        found = connection.exec_driver_sql("SELECT term, holding FROM stackroom_terms").all()
    engine.dispose()
    return {bytes(term).decode(): holding for term, holding in found}
