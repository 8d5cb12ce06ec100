"""Collections: made, found, dropped, swapped; apart from each other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from stackroom import CapabilityError, Conflict, StoreError
from stackroom.stores import Capabilities, CollectionSpec, LexicalQuery, VectorStore
from stackroom.testing._differential import check_state
from stackroom.testing._records import EVERYTHING, SPEC, ids, record, scores, source, tenant
from stackroom.testing._refusals import MANDATORY_NODES, REFUSABLE_NODES, is_refused, unless_refused
from stackroom.testing._shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Callable

CALLS: dict[str, Callable[[VectorStore, str], Any]] = {
    "replace": lambda store, name: store.replace(name, [record("a#0")], where=tenant()),
    "replace with nothing": lambda store, name: store.replace(name, [], where=tenant()),
    "update": lambda store, name: store.update(name, {"k": 1}, where=tenant()),
    "delete": lambda store, name: store.delete(name, where=tenant()),
    "dense": lambda store, name: store.dense(name, [1.0, 0.0], where=tenant(), limit=1),
    "lexical": lambda store, name: store.lexical(name, LexicalQuery("red"), where=tenant(), limit=1),
    "scan": lambda store, name: store.scan(name, where=tenant(), limit=1),
    "count": lambda store, name: store.count(name, where=tenant()),
    "swap": lambda store, name: store.swap(name, f"{name}.side"),
}

NO_NAMES = [
    "../up",
    "",
    "a b",
    "x" * 64,
    ".a",
    "-a",
    "_a",
    "a/b",
    "a\\b",
    "a\n",
    "é",
    "a\x00",
    "x" * 64 + ".side",
    "a:b",
]

FINGERPRINTS = ["m@2", " m @ 2 ", "É", "e\u0301", "'; DROP TABLE t; --", '"m"\n', "\U0001f600", "x" * 512]

BAD_SPECS: list[tuple[Any, ...]] = [
    (0, "m"),
    (65_537, "m"),
    (True, "m"),
    (2.0, "m"),
    ("2", "m"),
    (2, ""),
    (2, " \n"),
    (2, "m", "euclid"),
]


class CollectionTests:
    """What holds of collections as a whole."""

    def test_collections_capabilities_claim_nothing_that_may_not_be_refused(self, store: VectorStore) -> None:
        """Look at the adapter's `capabilities`: one object for the store's life, naming every node of the filters."""
        declared = store.capabilities
        assert isinstance(declared, Capabilities)
        assert store.capabilities == declared
        assert set(declared.filters) == {*MANDATORY_NODES, *REFUSABLE_NODES}
        assert not [node for node in MANDATORY_NODES if declared.filters[node] == "refused"]
        assert declared.transactions != "refused"

    def test_collections_row_1_made_twice_with_an_equal_spec_stay_as_they_are(self, shelf: Shelf) -> None:
        """Look at create_collection: an equal spec does nothing, another is a Conflict that changes nothing."""
        shelf.put(record("a#0"))
        shelf.store.create_collection(shelf.name, SPEC)
        for other in (CollectionSpec(2, "n@2"), CollectionSpec(3, "m@3"), CollectionSpec(3, "m@2")):
            with pytest.raises(Conflict):
                shelf.store.create_collection(shelf.name, other)
        assert shelf.store.collection(shelf.name) == SPEC
        assert shelf.ids() == ["a#0"]

    def test_collections_made_equally_by_many_at_once_are_one(self, store: VectorStore, unused: str) -> None:
        """Look at create_collection when two make the same at once: "if not exists" needs a lock or a constraint."""
        with ThreadPoolExecutor(8) as threads:
            made = [threads.submit(store.create_collection, unused, SPEC) for _ in range(8)]
            assert [each.result() for each in made] == [None] * 8
        assert store.collection(unused) == SPEC

    def test_collections_made_differently_by_many_at_once_are_one_of_them(
        self, store: VectorStore, unused: str
    ) -> None:
        """Look at create_collection when two make different ones at once: one wins, the other gets a Conflict."""
        specs = [CollectionSpec(2, f"m{number}@2") for number in range(6)]
        with ThreadPoolExecutor(6) as threads:
            made = [threads.submit(store.create_collection, unused, spec) for spec in specs]
            failures = [each.exception() for each in made]
        assert [type(failure) for failure in failures if failure is not None] == [Conflict] * 5
        assert store.collection(unused) == specs[failures.index(None)]

    def test_collections_row_2_that_are_unknown_are_none_and_dropped_in_peace(
        self, store: VectorStore, unused: str
    ) -> None:
        """Look at collection and drop_collection: an unknown name is no error."""
        assert store.collection(unused) is None
        store.drop_collection(unused)
        with pytest.raises(StoreError) as raised:
            store.count(unused, where=EVERYTHING)
        assert isinstance(raised.value, LookupError)

    @pytest.mark.parametrize("call", CALLS)
    def test_collections_that_are_unknown_cannot_be_used(self, store: VectorStore, unused: str, call: str) -> None:
        """Look at how each method finds its collection: an unknown one is a StoreError and LookupError, never empty."""
        with pytest.raises(StoreError) as raised:
            CALLS[call](store, unused)
        assert isinstance(raised.value, LookupError | CapabilityError)
        assert isinstance(raised.value, LookupError) or is_refused(Shelf(store, unused), _refusable(call))
        assert store.collection(unused) is None

    @pytest.mark.parametrize("name", NO_NAMES)
    def test_collections_row_3_have_names_that_no_path_or_query_can_be(self, store: VectorStore, name: str) -> None:
        """Look at the check of names: it stands before every method, and matches the whole string."""
        with pytest.raises(ValueError, match=r".") as raised:
            store.create_collection(name, SPEC)
        assert not isinstance(raised.value, StoreError)
        for call in (store.collection, store.drop_collection, lambda bad: store.count(bad, where=EVERYTHING)):
            with pytest.raises(ValueError, match=r"."):
                call(name)

    def test_collections_names_of_63_characters_may_hold_dots_and_dashes(self, store: VectorStore, unused: str) -> None:
        """Look at the check of names, and at what the database cuts: 63 characters are held, `.side` not counted."""
        name = f"{unused}-_.9".ljust(63, "x")
        store.create_collection(name, SPEC)
        store.create_collection(f"{name}.side", CollectionSpec(2, "n@2"))
        assert store.collection(name) == SPEC
        store.drop_collection(f"{name}.side")
        assert store.collection(name) == SPEC
        store.drop_collection(name)
        assert store.collection(name) is None

    def test_collections_names_keep_case_apart(self, store: VectorStore, unused: str) -> None:
        """Look at how names become tables, files or keys: `A` and `a` are two, on any file system."""
        store.create_collection(unused, SPEC)
        assert store.collection(unused.upper()) is None
        store.create_collection(unused.upper(), CollectionSpec(2, "n@2"))
        store.drop_collection(unused.upper())
        assert store.collection(unused) == SPEC

    @pytest.mark.parametrize("arguments", BAD_SPECS)
    def test_collections_specs_are_checked_when_made(self, arguments: tuple[Any, ...]) -> None:
        """Nothing of the adapter: the core refuses such a spec before a store sees it."""
        with pytest.raises(ValueError, match=r"dimension|fingerprint|metric"):
            CollectionSpec(*arguments)

    @pytest.mark.parametrize("fingerprint", FINGERPRINTS)
    def test_collections_keep_the_fingerprint_as_given(self, store: VectorStore, unused: str, fingerprint: str) -> None:
        """Look at how the spec is stored: the fingerprint comes back code point for code point."""
        store.create_collection(unused, CollectionSpec(2, fingerprint))
        assert store.collection(unused) == CollectionSpec(2, fingerprint)

    def test_collections_hold_vectors_of_any_dimension_up_to_the_largest(self, store: VectorStore, unused: str) -> None:
        """Look at `max_dimension`: all below are served, above is a CapabilityError that makes nothing."""
        largest = store.capabilities.max_dimension or 65_536
        if largest < 65_536:
            with pytest.raises(CapabilityError):
                store.create_collection(unused, CollectionSpec(largest + 1, "m"))
            assert store.collection(unused) is None
        for dimension in (1, largest):
            store.create_collection(unused, CollectionSpec(dimension, "m"))
            shelf = Shelf(store, unused)
            shelf.put(record("a#0", vector=[0.5] * dimension))
            assert scores(shelf.dense([1.0] * dimension)) == {"a#0": pytest.approx(1.0, abs=1e-5)}
            store.drop_collection(unused)

    def test_collections_dropped_leave_nothing_behind(self, shelf: Shelf) -> None:
        """Look at drop_collection: records, words, statistics and the spec go; made again it is empty."""
        shelf.put(record("a#0", "red"), record("b#0", "red", tenant="u"))
        shelf.store.drop_collection(shelf.name)
        assert shelf.store.collection(shelf.name) is None
        with pytest.raises(LookupError):
            shelf.count()
        shelf.store.create_collection(shelf.name, CollectionSpec(3, "n@3"))
        assert shelf.count() == 0
        assert shelf.ids() == []
        assert shelf.dense([1, 0, 0]) == []
        assert shelf.store.collection(shelf.name) == CollectionSpec(3, "n@3")

    def test_collections_share_no_records(self, shelf: Shelf, side: Shelf) -> None:
        """Look at where the collection's name stands in each statement: one without it reaches the others."""
        for of in (shelf, side):
            of.put(record("a#0", "red", of="shelf"), record("b#0", "red"))
        before = side.state()
        assert shelf.replace([record("a#0", "blue")], source("a")) == 1
        assert shelf.delete(source("b")) == 1
        if not is_refused(shelf, "update"):
            assert shelf.update({"k": 1}, tenant()) == 1
        assert side.state() == before
        assert shelf.count() == 1
        assert ids(shelf.dense([1, 0])) == ["a#0"]
        shelf.store.drop_collection(shelf.name)
        assert side.state() == before

    @unless_refused("lexical")
    def test_collections_share_no_statistics(self, shelf: Shelf, side: Shelf) -> None:
        """Look at the statistics of words: they are counted per collection and tenant."""
        shelf.put(record("a#0", "red fox runs"), record("b#0", "blue"))
        before = scores(shelf.lexical("red"))
        side.put(*(record(f"s{number}#0", "red") for number in range(5)))
        assert scores(shelf.lexical("red")) == before

    @unless_refused("swap")
    def test_collections_swapped_take_the_name_spec_and_all(self, shelf: Shelf, side: Shelf) -> None:
        """Look at swap: the side's records and spec under the name, nothing under the side's name."""
        shelf.put(record("a#0", "old"), record("gone#0", "old", tenant="u"))
        other = CollectionSpec(3, "n@3")
        side.store.drop_collection(side.name)
        side.store.create_collection(side.name, other)
        side.put(record("a#0", "new", [0, 0, 1]), record("b#0", "new", [0, 1, 0], tenant="v"))
        before = side.state()
        shelf.store.swap(shelf.name, side.name, expect=shelf.versions())
        assert shelf.store.collection(shelf.name) == other
        assert shelf.store.collection(side.name) is None
        assert [(of.id, of.text, of.metadata) for of in shelf.state()] == [
            (of.id, of.text, of.metadata) for of in before
        ]
        assert ids(shelf.dense([0, 0, 1], limit=1)) == ["a#0"]
        with pytest.raises(LookupError):
            side.count()

    @unless_refused("swap")
    def test_collections_swapped_refuse_writes_meant_for_the_old_embedder(self, shelf: Shelf, side: Shelf) -> None:
        """Look at `fingerprint` of replace and dense: judged against the spec of now, in the write itself."""
        side.store.drop_collection(side.name)
        side.store.create_collection(side.name, CollectionSpec(2, "n@2"))
        shelf.store.swap(shelf.name, side.name)
        with pytest.raises(Conflict):
            shelf.replace([record("a#0")], tenant(), fingerprint="m@2")
        with pytest.raises(Conflict):
            shelf.dense([1, 0], fingerprint="m@2")
        assert shelf.replace([record("a#0")], tenant(), fingerprint="n@2") == 0

    @unless_refused("swap")
    def test_collections_swap_only_when_no_write_came_between(self, shelf: Shelf, side: Shelf) -> None:
        """Look at `expect` of swap: the versions of all records, of all tenants, under the writers' locks."""
        shelf.put(record("a#0"), record("b#0", tenant="u"))
        expect = shelf.versions()
        shelf.put(record("b#0", "acknowledged", tenant="u"))
        before = shelf.state()
        for wrong in (expect, shelf.versions(tenant()), shelf.versions() | {max(expect) + 10**6}, frozenset[int]()):
            with pytest.raises(Conflict):
                shelf.store.swap(shelf.name, side.name, expect=wrong)
        assert shelf.state() == before
        assert side.store.collection(side.name) == SPEC
        shelf.store.swap(shelf.name, side.name, expect=shelf.versions())
        assert shelf.count() == 0

    @unless_refused("swap")
    def test_collections_swapped_bring_vectors_and_words(self, shelf: Shelf, side: Shelf) -> None:
        """Look at the indexes of a side that takes the name: vectors to the bit, and its words in place of the old."""
        shelf.put(record("a#0", "old words"))
        written = [record("a#0", "new words", [3, 4]), record("b#0", "new", [1e-30, 1e-30])]
        side.put(*written)
        shelf.store.swap(shelf.name, side.name)
        check_state(shelf, written)
        assert ids(shelf.dense([3, 4])) == ["a#0", "b#0"]
        if not is_refused(shelf, "lexical"):
            assert ids(shelf.lexical("new")) == ["b#0", "a#0"]
            assert shelf.lexical("old") == []

    @unless_refused("swap")
    def test_collections_swapped_never_use_a_version_again(self, shelf: Shelf, side: Shelf) -> None:
        """Look at what makes versions: what was read under the name before a swap is expected in vain after it."""
        seen: set[int] = set()
        for number in range(3):
            shelf.put(record("a#0", f"old {number}"))
            seen |= shelf.versions()
        side.put(record("a#0", "new"))
        shelf.store.swap(shelf.name, side.name, expect=shelf.versions())
        for old in seen:
            with pytest.raises(Conflict):
                shelf.replace([record("a#0", "late")], source("a"), expect={old})
        assert not shelf.versions() & seen
        for number in range(4):
            shelf.put(record("a#0", f"newer {number}"))
            assert not shelf.versions() & seen

    @unless_refused("swap")
    def test_collections_swap_only_with_a_side_that_is_there(self, shelf: Shelf) -> None:
        """Look at swap: an unknown side is a StoreError, and nothing is dropped."""
        shelf.put(record("a#0"))
        with pytest.raises(StoreError):
            shelf.store.swap(shelf.name, f"{shelf.name}.side")
        assert shelf.ids() == ["a#0"]


def _refusable(call: str) -> Any:
    return call if call in {"lexical", "update", "swap"} else "lexical"
