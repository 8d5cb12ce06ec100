"""Threads: any method from any thread at any time; readers see whole writes; writers of one source take turns."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from stackroom import Conflict, StoreError
from stackroom.filters import And, Eq, In
from stackroom.testing._collections import CALLS
from stackroom.testing._records import EVERYTHING, SPEC, ids, record, source, tenant
from stackroom.testing._refusals import is_refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from stackroom.stores import Record, VectorStore
    from stackroom.testing._shelf import Shelf

PATIENCE = 60.0
"""Seconds after which a thread that has not ended counts as stuck."""

PARTS = 5
"""Records of each source here."""

MANY = 300
"""Records of a source that a store may be tempted to write in batches."""


class ThreadTests:
    """What holds when many call at once, and after close."""

    def test_threads_that_replace_one_source_leave_one_of_them_whole(self, shelf: Shelf) -> None:
        """Look at what two writers of one source share: they take turns, or one gets a Conflict and changes nothing."""
        went = side_by_side(*(_replacer(shelf, f"w{number}", 10) for number in range(4)))
        assert len({of.text for of in shelf.scan()}) == 1
        assert [of.index for of in shelf.scan()] == list(range(PARTS))
        assert sum(map(sum, went)) == PARTS * 39, "each replace counts what it takes away, once"

    def test_threads_that_read_see_one_write_and_no_mixture(self, shelf: Shelf) -> None:
        """Look at the state that a call reads: the whole old source or the whole new one, with one version."""
        shelf.put(*_parts("w0"))
        done = threading.Event()
        readers: list[Callable[[Shelf], list[Record]]] = [
            lambda of: list(of.scan(source("a"))),
            lambda of: [match.record for match in of.dense([1, 0], source("a"))],
        ]
        if not is_refused(shelf, "lexical"):
            readers.append(lambda of: [match.record for match in of.lexical("word", source("a"))])

        def write() -> None:
            try:
                for number in range(40):
                    again(partial(shelf.put, *_parts(f"w{number}")))
            finally:
                done.set()

        def reading(read: Callable[[Shelf], list[Record]]) -> Callable[[], None]:
            def until_done() -> None:
                while not done.is_set():
                    _check_whole(read(shelf))
                    assert shelf.count(source("a")) == PARTS

            return until_done

        side_by_side(write, *map(reading, readers))

    @pytest.mark.parametrize("write", ["replace", "update", "delete"])
    def test_threads_that_read_see_a_large_write_whole(self, shelf: Shelf, write: str) -> None:
        """Look at writes in batches or record by record: a reader sees all of a source changed, or none of it."""
        if write == "update" and is_refused(shelf, "update"):
            return
        shelf.put(*_many("w0"))
        done = threading.Event()

        def once(number: int) -> None:
            if write == "update":
                shelf.update({"aclGroups": [f"g{number}"]}, source("a"))
            elif write == "delete" and number % 2:
                shelf.delete(source("a"))
            else:
                shelf.put(*_many(f"w{number}"))

        def writing() -> None:
            try:
                for number in range(12):
                    again(partial(once, number))
            finally:
                done.set()

        def reading() -> None:
            while not done.is_set():
                for read in (list(shelf.scan(source("a"))), [of.record for of in shelf.dense([1, 0], source("a"))]):
                    assert len(read) in ({0, MANY} if write == "delete" else {MANY}), "a source was read in parts"
                    assert len({(of.text, *_groups(of)) for of in read}) <= 1, "half of a write was read"

        side_by_side(writing, reading)

    def test_threads_that_read_beside_a_swap_see_one_collection_or_the_other(self, shelf: Shelf, side: Shelf) -> None:
        """Look at swap: one step to every reader; the name is there throughout, over one collection's records."""
        if is_refused(shelf, "swap"):
            return
        shelf.put(*_parts("w0"))
        done = threading.Event()

        def swapping() -> None:
            try:
                for number in range(1, 8):
                    shelf.store.create_collection(side.name, SPEC)
                    side.put(*_parts(f"w{number}"))
                    again(lambda: shelf.store.swap(shelf.name, side.name, expect=shelf.versions()))
            finally:
                done.set()

        def reading() -> None:
            while not done.is_set():
                _check_whole(list(shelf.scan(source("a"))))
                assert shelf.count() == PARTS

        side_by_side(swapping, reading)

    def test_threads_that_write_beside_a_swap_lose_nothing_acknowledged(self, shelf: Shelf, side: Shelf) -> None:
        """Look at `expect` of swap: compared under the writers' locks, so that no write falls in between."""
        if is_refused(shelf, "swap"):
            return
        written = [record(f"s{number:02}#0", "word") for number in range(12)]
        for number, of in enumerate(written):
            shelf.store.create_collection(side.name, SPEC)
            state = shelf.state()
            side.delete(EVERYTHING)
            side.put(*state)
            expect = {there.version for there in state if there.version is not None}

            def swapping(expect: set[int] = expect) -> None:
                with suppress(Conflict):
                    shelf.store.swap(shelf.name, side.name, expect=expect)

            racing: list[Callable[[], Any]] = [swapping, partial(again, partial(shelf.put, of))]
            side_by_side(*racing[:: 1 if number % 2 else -1])  # who comes to the start last leaves it first
        assert shelf.ids() == [of.id for of in written], "an acknowledged write was lost"

    def test_threads_that_read_see_several_sources_change_at_once(self, shelf: Shelf) -> None:
        """Look at a replace of several sources: one step for all of them, where transactions are native."""
        if shelf.store.capabilities.transactions != "native":
            return
        names = ["a", "b", "c"]
        shelf.replace([record(f"{name}#0", "w0") for name in names], tenant())
        done = threading.Event()

        def write() -> None:
            try:
                for number in range(40):
                    again(partial(shelf.replace, [record(f"{name}#0", f"w{number}") for name in names], tenant()))
            finally:
                done.set()

        def read() -> None:
            while not done.is_set():
                assert len({of.text for of in shelf.scan(tenant())}) == 1
                assert shelf.count(And(tenant(), In("sourceId", names))) == 3

        side_by_side(write, read, read)

    def test_threads_that_expect_one_version_win_once(self, shelf: Shelf) -> None:
        """Look at `expect`: compared and written in one step; of many with the same version one wins."""
        shelf.put(record("a#0", "first"))
        for _ in range(5):
            racing = partial(_race, shelf, "t", expect=shelf.versions())
            outcomes = side_by_side(*(partial(racing, text) for text in ("one", "two", "three", "four")))
            assert sorted(map(str, outcomes)) == ["1", "Conflict", "Conflict", "Conflict"]

    def test_threads_that_expect_nothing_create_once(self, shelf: Shelf) -> None:
        """Look at `expect=frozenset()`: of many that create the same source one wins, in new tenants as well."""
        for owner in ("t", "u", "v"):
            racing = partial(_race, shelf, owner, expect=set())
            outcomes = side_by_side(*(partial(racing, text) for text in ("one", "two", "three", "four")))
            assert sorted(map(str, outcomes)) == ["0", "Conflict", "Conflict", "Conflict"]
            assert shelf.count(tenant(owner)) == 1

    def test_threads_of_several_tenants_lose_nothing(self, shelf: Shelf) -> None:
        """Look at what writers of different tenants share: nothing that loses or delays a write."""
        owners = [f"t{number}" for number in range(6)]

        def write(owner: str) -> Callable[[], None]:
            def all_of_them() -> None:
                for number in range(8):
                    again(partial(shelf.put, record(f"s{number}#0", owner, tenant=owner)))

            return all_of_them

        side_by_side(*map(write, owners))
        for owner in owners:
            assert shelf.ids(tenant(owner)) == [f"s{number}#0" for number in range(8)]
        assert len(shelf.dense([1, 0])) == shelf.count() == 48

    def test_threads_that_delete_count_each_record_once(self, shelf: Shelf) -> None:
        """Look at the number a delete answers when several take away the same: each record counts for one of them."""
        shelf.put(*(record(f"s{number}#0") for number in range(20)))
        went = side_by_side(*[partial(again, partial(shelf.delete, tenant()))] * 4)
        assert sum(went) == 20
        assert shelf.count() == 0

    def test_threads_that_update_all_count(self, shelf: Shelf) -> None:
        """Look at read, change, write: no update of one thread undoes that of another."""
        if is_refused(shelf, "update"):
            return
        shelf.put(record("a#0"), record("a#1"), record("b#0"))
        keys = [f"k{number}" for number in range(8)]
        went = side_by_side(*(partial(again, partial(shelf.update, {key: 1}, tenant())) for key in keys))
        assert went == [3] * 8
        assert all(of.metadata.keys() >= set(keys) for of in shelf.scan())

    def test_threads_may_write_while_another_draws_its_records(self, shelf: Shelf) -> None:
        """Look at locks held while the caller's iterable runs: there are none."""

        def drawn() -> Any:
            yield record("a#0")
            side_by_side(lambda: shelf.put(record("b#0")), lambda: shelf.put(record("a#0", tenant="u")))
            yield record("a#1")

        assert shelf.replace(drawn(), source("a")) == 0
        assert shelf.ids() == ["a#0", "a#1", "b#0", "a#0"]

    @pytest.mark.parametrize("call", ["create_collection", "collection", "drop_collection", *CALLS])
    def test_threads_closed_store_refuses_everything(self, store: VectorStore, unused: str, call: str) -> None:
        """Look at close: twice is fine; after it every other method is a StoreError, at once."""
        store.create_collection(unused, SPEC)
        calls: dict[str, Callable[[VectorStore, str], Any]] = {
            "create_collection": lambda closed, name: closed.create_collection(name, SPEC),
            "collection": lambda closed, name: closed.collection(name),
            "drop_collection": lambda closed, name: closed.drop_collection(name),
            **CALLS,
        }
        store.drop_collection(unused)
        store.close()
        store.close()
        with pytest.raises(StoreError):
            calls[call](store, unused)

    def test_threads_that_mix_all_methods_end_well(self, shelf: Shelf) -> None:
        """Look at shared connections, cursors and caches: any method beside any other, without errors or wrong sums."""

        def mixed(owner: str) -> Callable[[], None]:
            def calls() -> None:
                for number in range(6):
                    again(partial(shelf.put, *_parts(f"word{number}", owner)))
                    assert len(shelf.dense([1, 0], tenant(owner), 3)) == 3
                    if not is_refused(shelf, "lexical"):
                        assert len(ids(shelf.lexical(f"word{number}", tenant(owner)))) == PARTS
                    if not is_refused(shelf, "update"):
                        assert again(lambda: shelf.update({"k": 1}, tenant(owner))) == PARTS
                    assert again(lambda: shelf.delete(And(tenant(owner), Eq("index", 0)))) == 1
                    assert shelf.count(tenant(owner)) == len(shelf.scan(tenant(owner))) == PARTS - 1

            return calls

        side_by_side(*(mixed(f"t{number}") for number in range(4)))
        assert shelf.count(EVERYTHING) == 4 * (PARTS - 1)


def side_by_side(*calls: Callable[[], Any]) -> list[Any]:
    """Run calls in threads that begin together; return their answers, or raise the first of their errors."""
    begin = threading.Barrier(len(calls))

    def together(call: Callable[[], Any]) -> Any:
        begin.wait(PATIENCE)
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        try:
            running = [threads.submit(together, call) for call in calls]
            return [each.result(PATIENCE) for each in running]
        except BaseException:
            begin.abort()  # an interrupt must not leave those waiting who have come to the start
            raise


def again(write: Callable[[], Any]) -> Any:
    """Return what a write answers, tried anew as often as the store refuses it with a Conflict."""
    for _ in range(1_000):
        try:
            return write()
        except Conflict:
            continue
    raise AssertionError("a write met nothing but conflicts, a thousand times")


def _replacer(shelf: Shelf, text: str, times: int) -> Callable[[], list[int]]:
    return lambda: [again(lambda: shelf.replace(_parts(text), source("a"))) for _ in range(times)]


def _parts(text: str, tenant_id: str = "t") -> list[Record]:
    return [record(f"a#{index}", f"{text} word", tenant=tenant_id) for index in range(PARTS)]


def _many(text: str) -> list[Record]:
    return [record(f"a#{index}", f"{text} word", aclGroups=["g"]) for index in range(MANY)]


def _groups(of: Record) -> list[str]:
    groups = of.metadata.get("aclGroups")
    return [str(group) for group in groups] if isinstance(groups, list) else []


def _check_whole(records: list[Record]) -> None:
    assert sorted(of.index for of in records) == list(range(PARTS)), "a source was read in parts"
    assert len({of.text for of in records}) == 1, "two states of a source were mixed"
    assert len({of.version for of in records}) == 1, "a source was read with two versions"


def _race(shelf: Shelf, owner: str, text: str, expect: set[int]) -> int | str:
    try:
        return shelf.replace([record("a#0", text, tenant=owner)], source("a", owner), expect=expect)
    except Conflict:
        return "Conflict"
