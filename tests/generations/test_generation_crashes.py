"""A writer may stop at any step: readers see the old or the new, whole, and the next writer sweeps what was left."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.generations.engine import Killed, MemoryEngine, a_store

from stackroom import Conflict, StoreUnavailable
from stackroom.filters import And, Eq, Filter, In
from stackroom.stores import CollectionSpec, LexicalQuery, Record
from stackroom.stores.generations import GenerationStore, _holding, _turns

T = Eq("tenantId", "t")


def record(source: str, index: int, text: str, **metadata: str) -> Record:
    return Record(text, [1, index], {"tenantId": "t", "sourceId": source, "index": index, "kind": "k", **metadata})


def of(*sources: str) -> And:
    return And(T, In("sourceId", sources))


def put(store: GenerationStore, text: str, *sources: str, length: int = 3) -> int:
    given = [record(source, index, text) for source in sources for index in range(length)]
    return store.replace("c", given, where=of(*sources))


@pytest.fixture
def engine() -> MemoryEngine:
    made = MemoryEngine()
    store = a_store(made)
    store.create_collection("c", CollectionSpec(2, "m"))
    put(store, "old", "a", "b", "kept")
    return made


@pytest.fixture
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_turns, "LEASE_SECONDS", 0.0)


def seen(store: GenerationStore, where: And) -> tuple[list[tuple[str, str]], ...]:
    """Return what each way of reading sees; all must see the same."""
    ways = (
        [(item.id, item.text) for item in store.scan("c", where=where, limit=99)],
        [(match.id, match.record.text) for match in store.dense("c", [1, 0], where=where, limit=99)],
        [(m.id, m.record.text) for m in store.lexical("c", LexicalQuery("old new"), where=where, limit=99)],
    )
    assert store.count("c", where=where) == len(ways[0])
    return tuple(sorted(way) for way in ways)


def whole(*texts: str) -> list[tuple[str, str]]:
    return sorted((f"{source}#{index}", text) for source, text in zip("ab", texts, strict=False) for index in range(3))


WRITES: dict[str, tuple[Callable[[GenerationStore], object], list[tuple[str, str]]]] = {
    "replace": (lambda store: put(store, "new", "a", "b"), whole("new", "new")),
    "replace one by less": (
        lambda store: put(store, "new", "a", length=1),
        sorted([("a#0", "new"), *((f"b#{i}", "old") for i in range(3))]),
    ),
    "delete": (lambda store: store.delete("c", where=of("a")), sorted((f"b#{i}", "old") for i in range(3))),
    "delete a part": (
        lambda store: store.delete("c", where=And(of("a", "b"), Eq("index", 1))),
        sorted((f"{source}#{i}", "old") for source in "ab" for i in (0, 2)),
    ),
}


@pytest.mark.usefixtures("short_leases")
@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("kind", [Killed, StoreUnavailable])
def test_a_writer_that_stops_at_any_step_leaves_the_old_or_the_new(name: str, kind: type[BaseException]) -> None:
    write, new = WRITES[name]
    for step in itertools.count():
        engine = MemoryEngine()
        store = a_store(engine)
        store.create_collection("c", CollectionSpec(2, "m"))
        put(store, "old", "a", "b", "kept")
        steps = iter(range(10**6))

        def stop(
            _step: str, at: int = step, steps: Callable[[], int] = steps.__next__, engine: MemoryEngine = engine
        ) -> None:
            if steps() == at:
                engine.before = dead if kind is Killed else (lambda _step: None)
                raise kind("stopped")

        def dead(_step: str) -> None:
            raise kind("stopped")

        engine.before = stop
        stopped = False
        try:
            write(store)
        except kind:
            stopped = True
        engine.before = lambda _step: None
        others = a_store(engine)
        ways = seen(others, of("a", "b"))
        assert ways[0] in (whole("old", "old"), new)
        assert all(way == ways[0] for way in ways)
        assert stopped or ways[0] == new
        put(others, "last", "kept")
        assert len(engine.shelves[next(iter(engine.shelves))]) == len(ways[0]) + 3
        assert all(way == ways[0] for way in seen(others, of("a", "b")))
        if not stopped and next(steps) <= step:
            assert step > 5
            return


@pytest.mark.usefixtures("short_leases")
def test_what_was_left_is_swept_when_asked(engine: MemoryEngine) -> None:
    store = a_store(engine)

    def stop(step: str) -> None:
        if step == "put 2":
            engine.before = stop_all
            raise Killed

    def stop_all(_step: str) -> None:
        raise Killed

    engine.before = stop
    with pytest.raises(Killed):
        put(store, "new", "a")
    engine.before = lambda _step: None
    (rows,) = engine.shelves.values()
    assert len(rows) == 9 + 2
    assert a_store(engine).sweep_abandoned("c") == 1
    assert len(rows) == 9
    assert a_store(engine).sweep_abandoned("c") == 0


def test_a_reader_that_polls_while_a_writer_replaces_never_sees_a_gap_or_a_mixture(engine: MemoryEngine) -> None:
    store, reader, done = a_store(engine), a_store(engine), threading.Event()
    engine.before = lambda step: time.sleep(0.0005) if step != "best" else None

    def write() -> None:
        for number in range(25):
            put(store, ("new", "old")[number % 2], "a", "b", length=4)
            store.update("c", {"title": f"{number}"}, where=of("a"))
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    looks = 0
    while not done.is_set():
        texts = {match.record.text for match in reader.dense("c", [1, 0], where=of("a", "b"), limit=99)}
        found = reader.scan("c", where=of("a", "b"), limit=99)
        assert len(texts) == 1
        assert len(found) in (6, 8)
        assert len({(item.source_id, item.version) for item in found}) == 2
        assert len({item.metadata.get("title") for item in found if item.source_id == "a"}) == 1
        words = reader.lexical("c", LexicalQuery("old new"), where=of("a", "b"), limit=99)
        assert len(words) in (6, 8)
        assert len({round(match.score, 9) for match in words}) == 1
        assert reader.count("c", where=of("a", "b")) in (6, 8)
        assert reader.count("c", where=In("sourceId", ["a", "b"])) in (6, 8)
        of_any_tenant = reader.dense("c", [1, 0], where=In("sourceId", ["a", "b"]), limit=99)
        assert len({match.record.text for match in of_any_tenant}) == 1
        looks += 1
    writer.join()
    assert looks > 3


@pytest.mark.parametrize("where", [of("a", "b"), In("sourceId", ["a", "b"])], ids=["one tenant", "any tenant"])
def test_what_is_asked_while_a_head_moves_is_asked_again(engine: MemoryEngine, where: Filter) -> None:
    store, reader, steps = a_store(engine), a_store(engine), []

    def meanwhile(step: str) -> None:
        steps.append(step)
        if steps.count("count") == 2:  # how many passages there are was counted, how many hold the word is not yet
            engine.before = lambda _step: None
            put(store, "new", "a", "b", length=9)

    engine.before = meanwhile
    found = reader.lexical("c", LexicalQuery("new"), where=where, limit=99)
    expected = a_store(engine).lexical("c", LexicalQuery("new"), where=where, limit=99)
    assert len(steps) == 2
    assert [(match.id, match.score) for match in found] == [(match.id, match.score) for match in expected]
    assert len(found) == 18


@pytest.mark.usefixtures("short_leases")
@pytest.mark.parametrize(("moment", "message"), [("put 1", "did not keep"), ("note", "another writer")])
def test_a_writer_whose_lease_is_over_does_not_commit(engine: MemoryEngine, moment: str, message: str) -> None:
    slow, quick = a_store(engine), a_store(engine)
    steps: list[str] = []

    def overtaken(step: str) -> None:
        steps.append(step)
        if step == moment and (moment != "note" or "count" in steps):
            engine.before = lambda _step: None
            put(quick, "quick", "a")

    engine.before = overtaken
    with pytest.raises(StoreUnavailable, match=message):
        put(slow, "slow", "a")
    assert {item.text for item in quick.scan("c", where=of("a"), limit=9)} == {"quick"}
    assert len(next(iter(engine.shelves.values()))) == 9


def test_a_writer_waits_for_the_lease_of_another_process_and_then_gives_up(engine: MemoryEngine) -> None:
    holding, waiting = a_store(engine), a_store(engine, lock_timeout=0.1)

    def meanwhile(step: str) -> None:
        if step == "put 0":
            engine.before = lambda _step: None
            with pytest.raises(StoreUnavailable, match="another process"):
                put(waiting, "other", "b")

    engine.before = meanwhile
    put(holding, "new", "a")
    assert {item.text for item in holding.scan("c", where=of("b"), limit=9)} == {"old"}


def test_rows_that_an_engine_lost_are_missed_before_anything_counts(engine: MemoryEngine) -> None:
    store = a_store(engine)

    def lose(step: str) -> None:
        if step == "count":
            rows = next(iter(engine.shelves.values()))
            newest = max(rows.values(), key=lambda row: row.written)
            rows.pop(newest.key)
            engine.before = lambda _step: None

    engine.before = lose
    with pytest.raises(StoreUnavailable, match="did not keep"):
        put(store, "new", "a")
    assert {item.text for item in store.scan("c", where=of("a"), limit=9)} == {"old"}
    assert len(next(iter(engine.shelves.values()))) == 9


def test_a_replace_of_several_sources_is_one_step(engine: MemoryEngine) -> None:
    store, reader = a_store(engine), a_store(engine)
    looks: list[set[str]] = []

    def look(_step: str) -> None:
        before, engine.before = engine.before, lambda _step: None
        looks.append({item.text for item in reader.scan("c", where=of("a", "b"), limit=99)})
        engine.before = before

    engine.before = look
    put(store, "new", "a", "b")
    assert {frozenset(look) for look in looks} == {frozenset({"old"}), frozenset({"new"})}
    assert len(looks) > 8


def test_a_swap_that_takes_longer_than_its_lease_loses_no_write(
    engine: MemoryEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, writer = a_store(engine), a_store(engine)
    store.create_collection("side", CollectionSpec(2, "n"))
    versions = {record.version or 0 for record in store.scan("c", where=T, limit=99)}
    places = engine.places
    now = time.time()

    def slowly(*arguments: Any) -> Any:
        found = list(places(*arguments))
        monkeypatch.setattr(engine, "places", places)
        monkeypatch.setattr(time, "time", lambda: now + 2 * _holding.LEASE_SECONDS)
        put(writer, "acknowledged", "a")
        return iter(found)

    monkeypatch.setattr(engine, "places", slowly)
    with pytest.raises(StoreUnavailable, match="took too long"):
        store.swap("c", "side", expect=versions)
    assert {item.text for item in store.scan("c", where=of("a"), limit=9)} == {"acknowledged"}
    assert store.collection("c") == CollectionSpec(2, "m")


def test_a_swap_waits_for_whoever_writes_and_holds_off_the_next(engine: MemoryEngine) -> None:
    store, writer = a_store(engine), a_store(engine, lock_timeout=0.1)
    store.create_collection("side", CollectionSpec(2, "n"))
    tried: list[str] = []

    def meanwhile(step: str) -> None:
        if step == "note" and len(engine.notes_of("swap.")) == 2:
            engine.before = lambda _step: None
            with pytest.raises(StoreUnavailable, match="being swapped"):
                put(writer, "late", "a")
            tried.append(step)

    engine.before = meanwhile
    store.swap("c", "side")
    assert tried
    assert store.collection("c") == CollectionSpec(2, "n")
    assert not any(name.startswith("swap.") for name in engine.notes)


@pytest.mark.parametrize("asked", ["scan", "count", "delete", "update", "dense"])
def test_a_collection_swapped_just_now_is_read_and_written_as_it_is(engine: MemoryEngine, asked: str) -> None:
    store, other = a_store(engine), a_store(engine)
    other.create_collection("side", CollectionSpec(2, "n"))
    other.replace("side", [record("a", 0, "new")], where=of("a"))
    note = engine.note
    kind = In("kind", ["k"])

    def swapped(name: str) -> bytes | None:
        found = note(name)
        engine.note = note  # type: ignore[method-assign]
        other.swap("c", "side")
        return found

    engine.note = swapped  # type: ignore[method-assign]
    number: Any = {
        "scan": lambda: len(store.scan("c", where=kind, limit=99)),
        "count": lambda: store.count("c", where=kind),
        "delete": lambda: store.delete("c", where=kind),
        "update": lambda: store.update("c", {"title": "x"}, where=kind),
        "dense": lambda: len(store.dense("c", [1, 0], where=kind, limit=9)),
    }[asked]()
    assert number == 1


def test_a_source_split_is_refused_and_nothing_staged(engine: MemoryEngine) -> None:
    store = a_store(engine)
    with pytest.raises(Conflict):
        store.replace("c", [record("a", 9, "new")], where=And(T, Eq("sourceId", "b")))
    assert len(next(iter(engine.shelves.values()))) == 9
