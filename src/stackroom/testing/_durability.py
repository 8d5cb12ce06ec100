"""Durability: what was acknowledged is there when the store is opened again. Each test closes and reopens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stackroom import Conflict
from stackroom.filters import And, Eq
from stackroom.stores import CollectionSpec, LexicalQuery, VectorStore
from stackroom.testing._children import in_a_child
from stackroom.testing._differential import check_state
from stackroom.testing._records import SPEC, record, scores, source, tenant
from stackroom.testing._refusals import is_refused
from stackroom.testing._shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stackroom.stores import Record

HOSTILE_TENANTS = ["t", "T", "é", "e\u0301", "../t", "CON", "t ", "\U0001f600" * 100]


class DurabilityTests:
    """What holds from one opening to the next."""

    @pytest.fixture
    def reopened(self, shelf: Shelf, reopen: Callable[[], VectorStore]) -> Iterator[Callable[[], Shelf]]:
        """Yield a function that closes the newest handle on the shelf's data and opens another."""
        handles = [shelf.store]

        def close_and_open() -> Shelf:
            if not shelf.store.capabilities.durable:
                pytest.skip("not applicable: this store says that it is not durable")
            handles[-1].close()
            handles.append(reopen())
            return Shelf(handles[-1], shelf.name)

        yield close_and_open
        for name in (shelf.name, f"{shelf.name}.side"):
            if len(handles) > 1:
                handles[-1].drop_collection(name)
        for handle in handles[1:]:
            handle.close()

    def test_durability_of_collections_and_their_specs(self, shelf: Shelf, reopened: Callable[[], Shelf]) -> None:
        """Look at where specs are kept: fingerprint and dimension outlive the handle."""
        again = reopened()
        assert again.store.collection(shelf.name) == SPEC
        assert again.count() == 0
        with pytest.raises(Conflict):
            again.store.create_collection(shelf.name, CollectionSpec(2, "n@2"))
        again.store.drop_collection(shelf.name)
        assert reopened().store.collection(shelf.name) is None

    def test_durability_of_records_to_the_bit(self, shelf: Shelf, reopened: Callable[[], Shelf]) -> None:
        """Look at what is kept in memory alone: texts, vectors, metadata, versions and tenants all come back."""
        written = [
            record("a#0", "\r\n é e\u0301", [1e-30, 3e38], n=[1, 1.0, True, "1"], tenant=owner, title="T", i=2**63 - 1)
            for owner in HOSTILE_TENANTS
        ]
        shelf.put(*written)
        before = shelf.state()
        again = reopened()
        check_state(again, written)
        assert again.state() == before
        assert reopened().state() == before

    def test_durability_of_what_a_killed_process_wrote(
        self, shelf: Shelf, reopen: Callable[[], VectorStore], reopened: Callable[[], Shelf]
    ) -> None:
        """Look at what is written at close, or kept in the process: what was acknowledged outlives a kill."""
        if not shelf.store.capabilities.durable:
            pytest.skip("not applicable: this store says that it is not durable")
        shelf.put(record("old#0", "old"))
        shelf.store.close()
        written = [record("a#0", "acknowledged", [3, 4], k=1), record("b#0", "too", aclGroups=["g"])]

        def work(store: VectorStore) -> None:
            own = Shelf(store, shelf.name)
            own.put(*written)
            assert own.delete(source("old")) == 1

        in_a_child(reopen, work)
        again = reopened()
        check_state(again, written)
        if not is_refused(again, "lexical"):
            assert [match.id for match in again.lexical("acknowledged")] == ["a#0"]

    def test_durability_of_scores(self, shelf: Shelf, reopened: Callable[[], Shelf]) -> None:
        """Look at indexes and statistics that are built anew: they answer as before."""
        shelf.put(record("a#0", "red fox", [1, 0.5]), record("b#0", "red red", [0, 1]), record("c#0", "fox"))
        shelf.delete(source("c"))
        dense = scores(shelf.dense([1, 0]))
        words = None if is_refused(shelf, "lexical") else scores(shelf.lexical(LexicalQuery("red fox")))
        again = reopened()
        assert scores(again.dense([1, 0])) == dense
        assert words is None or scores(again.lexical(LexicalQuery("red fox"))) == words

    def test_durability_of_every_kind_of_write(self, shelf: Shelf, reopened: Callable[[], Shelf]) -> None:
        """Look at writes that reach the disk later: replace, update and delete have when they return."""
        shelf.put(record("a#0", k=1), record("a#1", k=2), record("b#0"), record("gone#0", tenant="u"))
        shelf.put(record("b#0", "new"))
        shelf.delete(And(source("a"), Eq("index", 1)))
        shelf.delete(tenant("u"))
        expected = [record("a#0", k=1), record("b#0", "new")]
        if not is_refused(shelf, "update"):
            shelf.update({"title": "T", "k": [3]}, source("a"))
            expected[0] = record("a#0", title="T", k=[3])
        again = reopened()
        check_state(again, expected)
        assert again.count(tenant("u")) == 0

    def test_durability_of_nothing_that_failed(self, shelf: Shelf, reopened: Callable[[], Shelf]) -> None:
        """Look at writes that were refused: nothing of them is there after reopening."""
        shelf.put(record("a#0", "old"))
        before = shelf.state()

        def broken_off() -> Iterator[Record]:
            yield record("a#0", "new")
            raise KeyError

        with pytest.raises(KeyError):
            shelf.replace(broken_off(), source("a"))
        with pytest.raises(Conflict):
            shelf.replace([record("a#0", "new")], source("a"), expect=frozenset())
        assert reopened().state() == before

    def test_durability_of_versions(self, shelf: Shelf, reopened: Callable[[], Shelf]) -> None:
        """Look at where versions are numbered: reopening and removal bring none back."""
        seen: set[int] = set()
        handle = shelf
        for remove in (False, True, True, False):
            handle.put(record("a#0"))
            now = handle.versions()
            assert len(now) == 1
            assert not now & seen, "a version came back"
            seen |= now
            if remove:
                handle.delete(tenant() if len(seen) == 2 else source("a"))
            handle = reopened()
            assert handle.versions() == (set() if remove else now)

    def test_durability_of_expected_versions(self, shelf: Shelf, reopened: Callable[[], Shelf]) -> None:
        """Look at versions after reopening: the one read before still stands for what is stored."""
        shelf.put(record("a#0"))
        expect = shelf.versions()
        again = reopened()
        assert again.replace([record("a#0", "new")], source("a"), expect=expect) == 1
        with pytest.raises(Conflict):
            again.replace([record("a#0")], source("a"), expect=expect)

    def test_durability_of_a_swap(self, shelf: Shelf, side: Shelf, reopened: Callable[[], Shelf]) -> None:
        """Look at swap: after reopening the name is the side's, and the side is gone."""
        if is_refused(shelf, "swap"):
            return
        shelf.put(record("a#0", "old"))
        side.put(record("a#0", "new"))
        shelf.store.swap(shelf.name, side.name)
        again = reopened()
        check_state(again, [record("a#0", "new")])
        assert again.store.collection(side.name) is None
