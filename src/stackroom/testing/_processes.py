"""Processes: two handles on the same data, as two processes hold them, see and count each other's writes at once."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest

from stackroom import Conflict, StoreError, StoreUnavailable
from stackroom.filters import And, Eq
from stackroom.stores import CollectionSpec, Cursor, VectorStore
from stackroom.testing._children import in_a_child
from stackroom.testing._differential import check_state
from stackroom.testing._records import SPEC, ids, record, scores, source, tenant
from stackroom.testing._refusals import is_refused
from stackroom.testing._shelf import Shelf
from stackroom.testing._threads import PARTS, again, side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class ProcessTests:
    """What holds between two handles that are open at the same time."""

    @pytest.fixture
    def other(self, shelf: Shelf, reopen: Callable[[], VectorStore]) -> Iterator[Shelf]:
        """Yield the same collection in a second handle, opened while the first is open."""
        declared = shelf.store.capabilities
        if not declared.shared and not declared.durable:
            pytest.skip("not applicable: this store says that it is neither durable nor shared")
        if not declared.shared:
            with pytest.raises(StoreUnavailable):
                reopen()
            pytest.skip("not applicable: this store is not shared, and has refused the second handle")
        handle = reopen()
        yield Shelf(handle, shelf.name)
        handle.close()

    def test_processes_see_each_others_writes_at_once(self, shelf: Shelf, other: Shelf) -> None:
        """Look at caches of a handle: each call asks whether another process has written."""
        other.put(record("a#0", "red", [1, 0]), record("a#1", "red", [0, 1]))
        assert shelf.state() == other.state()
        assert ids(shelf.dense([1, 0])) == ["a#0", "a#1"]
        shelf.put(record("a#0", "blue", [0, 1], k=1))
        assert other.state() == shelf.state()
        assert (other.count(), ids(other.dense([1, 0]))) == (1, ["a#0"])
        assert scores(other.dense([0, 1])) == scores(shelf.dense([0, 1]))
        if not is_refused(shelf, "update"):
            assert other.update({"k": 2, "title": "T"}, source("a")) == 1
            assert shelf.ids(And(Eq("k", 2), Eq("title", "T"))) == ["a#0"]
        assert other.delete(tenant()) == 1
        assert shelf.state() == []
        assert shelf.dense([1, 0]) == []

    def test_processes_are_processes(self, shelf: Shelf, other: Shelf, reopen: Callable[[], VectorStore]) -> None:
        """Look at what is kept in memory that threads share: another process sees our writes, and we see its own."""
        del other
        shelf.put(record("a#0", "ours"))

        def work(store: VectorStore) -> None:
            own = Shelf(store, shelf.name)
            assert own.ids() == ["a#0"], "a process does not see what another one wrote"
            own.put(record("a#0", "theirs"), record("b#0", "theirs"))

        in_a_child(reopen, work)
        check_state(shelf, [record("a#0", "theirs"), record("b#0", "theirs")])

    def test_processes_share_statistics(self, shelf: Shelf, other: Shelf) -> None:
        """Look at statistics kept in memory: they follow the writes of others."""
        if is_refused(shelf, "lexical"):
            return
        shelf.put(record("a#0", "red fox"), record("b#0", "blue"))
        before = scores(shelf.lexical("red"))
        other.put(record("c#0", "red"))
        assert scores(shelf.lexical("red")) == scores(other.lexical("red")) != before
        other.delete(source("c"))
        assert scores(shelf.lexical("red")) == before

    def test_processes_share_versions(self, shelf: Shelf, other: Shelf) -> None:
        """Look at where versions are compared: in the database, in the write's own transaction."""
        shelf.put(record("a#0"))
        expect = shelf.versions()
        assert other.versions() == expect
        other.put(record("a#0", "theirs"))
        with pytest.raises(Conflict):
            shelf.replace([record("a#0", "ours")], source("a"), expect=expect)
        assert shelf.replace([record("a#0", "ours")], source("a"), expect=other.versions()) == 1
        seen = expect | shelf.versions()
        for handle in (other, shelf, other):
            handle.delete(tenant())
            handle.put(record("a#0"))
            assert not handle.versions() & seen, "a version came back"
            seen |= handle.versions()

    def test_processes_share_collections(self, shelf: Shelf, other: Shelf) -> None:
        """Look at specs kept in memory: made, dropped and made otherwise, the other handle knows at once."""
        assert other.store.collection(shelf.name) == SPEC
        shelf.put(record("a#0"))
        assert other.count() == 1
        shelf.store.drop_collection(shelf.name)
        assert other.store.collection(shelf.name) is None
        with pytest.raises(LookupError):
            other.count()
        other.store.create_collection(shelf.name, CollectionSpec(3, "n@3"))
        assert shelf.store.collection(shelf.name) == CollectionSpec(3, "n@3")
        assert shelf.count() == 0
        shelf.put(record("a#0", vector=[1, 0, 0]))
        assert ids(other.dense([1, 0, 0])) == ["a#0"]

    def test_processes_see_a_swap_in_one_step(self, shelf: Shelf, side: Shelf, other: Shelf) -> None:
        """Look at swap: the other handle reads and writes the new collection, and cannot write for the old embedder."""
        if is_refused(shelf, "swap"):
            return
        shelf.put(record("a#0", "old"))
        assert other.count() == 1
        side.store.drop_collection(side.name)
        side.store.create_collection(side.name, CollectionSpec(2, "n@2"))
        side.put(record("a#0", "new"), record("b#0", "new"))
        shelf.store.swap(shelf.name, side.name, expect=other.versions())
        check_state(other, [record("a#0", "new"), record("b#0", "new")])
        assert other.store.collection(shelf.name) == CollectionSpec(2, "n@2")
        with pytest.raises(Conflict):
            other.replace([record("a#0")], source("a"), fingerprint="m@2")
        assert other.replace([record("a#0", "newer")], source("a"), fingerprint="n@2") == 1
        check_state(shelf, [record("a#0", "newer"), record("b#0", "new")])

    def test_processes_page_on_with_each_others_cursors(self, shelf: Shelf, other: Shelf) -> None:
        """Look at cursors: they are places, and belong to no handle."""
        shelf.put(*(record(f"s{number}#0") for number in range(5)))
        first = shelf.scan(limit=2)
        assert first.next == Cursor("t", "s1", 0)
        assert [of.id for of in other.scan(limit=2, after=first.next)] == ["s2#0", "s3#0"]

    def test_processes_that_write_at_once_lose_nothing(self, shelf: Shelf, other: Shelf) -> None:
        """Look at the writers' lock: a write that meets another process's waits, or is a Conflict; none is lost."""

        def writer(handle: Shelf, name: str) -> Callable[[], None]:
            def write() -> None:
                for number in range(8):
                    again(partial(handle.put, record(f"{name}{number}#0")))
                    again(partial(handle.put, record(f"{name}{number}#0", tenant=f"new{number}")))

            return write

        side_by_side(writer(shelf, "a"), writer(other, "b"))
        assert shelf.count(tenant()) == other.count(tenant()) == 16
        assert len(shelf.dense([1, 0])) == len(other.dense([1, 0])) == 32
        assert shelf.state() == other.state()

    def test_processes_that_replace_one_source_leave_one_of_them_whole(self, shelf: Shelf, other: Shelf) -> None:
        """Look at what two writers of one source share: the later wins whole and counts the earlier's records."""

        def writer(handle: Shelf, text: str) -> Callable[[], int]:
            parts = [record(f"a#{index}", text) for index in range(PARTS)]
            return lambda: sum(again(lambda: handle.replace(parts, source("a"))) for _ in range(10))

        went = side_by_side(writer(shelf, "ours"), writer(other, "theirs"))
        assert sum(went) == PARTS * 19
        assert len({of.text for of in shelf.scan()}) == 1
        assert shelf.state() == other.state()

    def test_processes_close_for_themselves_alone(self, shelf: Shelf, other: Shelf) -> None:
        """Look at close: it gives back the handle's own, and the other handle goes on."""
        shelf.put(record("a#0"))
        assert other.count() == 1
        shelf.store.close()
        other.put(record("b#0"))
        assert other.ids() == ["a#0", "b#0"]
        with suppress(StoreError):
            other.store.drop_collection(shelf.name)
