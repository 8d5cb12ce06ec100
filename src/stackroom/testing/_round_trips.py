"""Round trips: what is read is what was written, its own copy, and carries a version that tells writes apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given

from stackroom.filters import And, Eq, Filter
from stackroom.stores import CollectionSpec, Record, VectorStore
from stackroom.testing import strategies
from stackroom.testing._differential import check_state, explained, filled
from stackroom.testing._records import content, place, record, source, tenant, typed
from stackroom.testing._refusals import is_refused
from stackroom.testing._shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Callable

NUMBERS = [5, 5.0, 0, 0.1, -1.5, 1e300, 5e-324, 2**53 + 1, float(2**53), 2**63 - 1, -(2**63), True, False]

VECTORS = [
    [1.0, 0.0],
    [3.0, -4.0],
    [1e30, 1e30],
    [1e-30, -1e-30],
    [1e-45, 0.0],
    [3.4e38, -3.4e38],
    [0.1, -0.0],
    [16777217.0, 1 / 3],
]

READS: dict[str, Callable[[Shelf], Record]] = {
    "scan": lambda shelf: shelf.scan()[0],
    "dense": lambda shelf: shelf.dense([1, 0])[0].record,
    "lexical": lambda shelf: shelf.lexical("red")[0].record,
}

SIZES: dict[str, Callable[[], Record]] = {
    "a text of 10 MB": lambda: record("a#0", "lorem ipsum " * 833_333 + "needle"),
    "a string of 1 MB": lambda: record("a#0", s="é" * 500_000),
    "1,000 keys": lambda: record("a#0", metadata={f"key {number}": number for number in range(1_000)}),
    "a list of 10,000 elements": lambda: record("a#0", many=[f"v{number}" for number in range(10_000)]),
}


class RoundTripTests:
    """What holds of each record on its way in and out."""

    def test_round_trips_row_21_values_come_back_equal_types_included(self, shelf: Shelf) -> None:
        """Look at how metadata is written (JSON, columns): an int, a float, a bool and a string stay what they are."""
        given_metadata = {"i": 5, "f": 5.0, "b": True, "l": [1, "1", True], "e": ""}
        shelf.put(record("a#0", metadata=given_metadata))
        assert typed(shelf.one("a#0").metadata) == typed(record("a#0", metadata=given_metadata).metadata)

    @pytest.mark.parametrize("number", NUMBERS)
    def test_round_trips_keep_numbers_exactly(self, shelf: Shelf, number: float) -> None:
        """Look at numbers on their way to the database: 64 bits of an int, every bit of a float, the type."""
        written = record("a#0", metadata={"n": number, "l": [number], "stackroom.n": number})
        shelf.put(written)
        assert content(shelf.one("a#0")) == content(written)

    def test_round_trips_keep_source_keys_and_lists_in_their_order(self, shelf: Shelf) -> None:
        """Look at what is kept once a source: groups, tags, folder, title, `stackroom.…`, and empty lists."""
        alike: dict[str, Any] = {
            "kind": "document",
            "status": "active",
            "folderId": "f",
            "title": "T",
            "aclGroups": ["z", "a", "z"],
            "tags": [],
            "stackroom.expiresAt": 2**53 + 1,
            "stackroom.keys": ["b", "a"],
            "stackroom.tier": "hot",
        }
        written = [record("a#0", n=0, metadata=alike), record("a#1", n=[], metadata=alike), record("b#0")]
        shelf.put(*written)
        check_state(shelf, written)

    @pytest.mark.parametrize("vector", VECTORS)
    def test_round_trips_keep_vectors_bit_for_bit(self, shelf: Shelf, vector: list[float]) -> None:
        """Look at what is done to vectors before storing: no scaling to length 1, no half precision, no text form."""
        shelf.put(record("a#0", vector=vector))
        found = shelf.one("a#0").vector
        assert found is not None
        assert found.dtype == np.float32
        assert found.tobytes() == np.asarray(vector, dtype=np.float32).tobytes()

    def test_round_trips_show_vectors_only_when_asked(self, shelf: Shelf) -> None:
        """Look at what a read fetches: scan with vectors=True alone fills `vector`."""
        shelf.put(record("a#0"))
        assert shelf.scan()[0].vector is None
        assert shelf.scan(vectors=True)[0].vector is not None
        assert shelf.dense([1, 0])[0].record.vector is None

    @pytest.mark.parametrize("read", READS)
    def test_round_trips_hand_out_copies(self, shelf: Shelf, read: str) -> None:
        """Look at caches and in-memory parts: no list, dict or array of theirs is handed to a caller."""
        written = record("a#0", "red", own=["x"], tags=["y"], n=1)
        shelf.put(written)
        if read == "lexical" and is_refused(shelf, "lexical"):
            return
        for name in ("own", "tags"):
            _grow(written, name)
        before = shelf.state()
        taken = READS[read](shelf)
        for name in ("own", "tags"):
            assert type(taken.metadata[name]) is list
            _grow(taken, name)
        taken.metadata["n"] = 2
        taken.metadata["new"] = True
        assert shelf.state() == before
        assert content(READS[read](shelf)) == content(record("a#0", "red", own=["x"], tags=["y"], n=1))

    def test_round_trips_hand_out_copies_of_vectors(self, shelf: Shelf) -> None:
        """Look at arrays taken as they are: neither the one given nor the one read is the store's own."""
        written = record("a#0", vector=[1, 0])
        shelf.put(written)
        assert written.vector is not None
        written.vector[:] = 7
        read = shelf.one("a#0").vector
        assert read is not None
        assert read.tolist() == [1, 0]
        read[:] = 9
        again = shelf.one("a#0").vector
        assert again is not None
        assert again.tolist() == [1, 0]

    def test_round_trips_give_matches_the_whole_record(self, shelf: Shelf) -> None:
        """Look at what dense and lexical fetch: text, metadata and version as in a scan, without the vector."""
        shelf.put(record("a#0", "red", n=[1, 1.0, True], title="T"))
        (scanned,) = shelf.scan()
        (match,) = shelf.dense([1, 0])
        assert match.record == scanned
        assert match.id == "a#0"
        if not is_refused(shelf, "lexical"):
            assert [found.record for found in shelf.lexical("red")] == [scanned]

    def test_round_trips_replaced_records_leave_no_key_behind(self, shelf: Shelf) -> None:
        """Look at upserts: a key that the new record does not have must not linger."""
        shelf.put(record("a#0", "old", old=1, title="old", tags=["old"]))
        shelf.put(record("a#0", "new"))
        check_state(shelf, [record("a#0", "new")])

    def test_round_trips_answer_a_version_of_the_stores_own(self, shelf: Shelf) -> None:
        """Look at where versions are made: an int of the store's, alike in all records of a source."""
        given_version = Record("", [1, 0], record("a#0").metadata, version=-12345)
        shelf.put(given_version, record("a#1"), record("a#2"))
        (version,) = shelf.versions(source("a"))
        assert type(version) is int
        assert version != -12345
        assert {match.record.version for match in shelf.dense([1, 0])} == {version}

    def test_round_trips_change_the_version_of_what_a_write_touches_and_no_other(self, shelf: Shelf) -> None:
        """Look at what bumps versions: a replace, an update and a delete of part of a source; not of its neighbours."""
        shelf.put(record("a#0", n=0), record("a#1", n=1), record("b#0"), record("a#0", tenant="u"))
        others = shelf.versions(source("b")), shelf.versions(source("a", "u"))
        writes: list[Callable[[], object]] = [
            lambda: shelf.put(record("a#0", n=0), record("a#1", n=1), record("a#2", n=2)),
            lambda: shelf.delete(_place("a", 2)),
            lambda: shelf.replace([], _place("a", 1)),
        ]
        if not is_refused(shelf, "update"):
            writes += [
                lambda: shelf.update({"k": 1}, _place("a", 0)),
                lambda: shelf.update({"title": "T"}, source("a")),
            ]
        for write in writes:
            before = shelf.versions(source("a"))
            write()
            after = shelf.versions(source("a"))
            assert len(after) == 1
            assert not after & before
            assert (shelf.versions(source("b")), shelf.versions(source("a", "u"))) == others

    def test_round_trips_never_use_a_version_again(self, shelf: Shelf) -> None:
        """Look at how versions are numbered: not from what is stored, which forgets what was removed."""
        seen: set[int] = set()
        removals: list[Callable[[], object]] = [
            lambda: shelf.delete(source("a")),
            lambda: shelf.delete(tenant()),
            lambda: shelf.replace([], tenant()),
        ]
        for remove in removals:
            for text in ("one", "two"):
                shelf.put(record("a#0", text))
                now = shelf.versions()
                assert len(now) == 1
                assert not now & seen, "a version came back"
                seen |= now
            remove()

    @pytest.mark.parametrize("size", SIZES)
    def test_round_trips_hold_large_records(self, shelf: Shelf, size: str) -> None:
        """Look at limits of columns, payloads and statements: these sizes are served."""
        written = SIZES[size]()
        shelf.put(written, record("b#0"))
        assert content(shelf.one("a#0")) == content(written)
        assert shelf.count() == 2

    def test_round_trips_hold_a_source_of_10000_records(self, shelf: Shelf) -> None:
        """Look at limits of one write and one answer: 10,000 records of one source go in and come back whole."""
        shelf.put(*(record(f"a#{index}", vector=[1, index], n=index) for index in range(10_000)))
        assert shelf.count() == 10_000
        assert [of.index for of in shelf.scan()] == list(range(10_000))
        assert shelf.delete(source("a")) == 10_000

    def test_round_trips_of_random_records_are_exact(self, store: VectorStore, unused: str) -> None:
        """Look at everything between a record and the database: any text, key, value and vector comes back."""
        store.create_collection(unused, CollectionSpec(3, "m@3"))
        shelf = Shelf(store, unused)

        @strategies.seeded(20)
        @given(sources=strategies.libraries())
        def come_back(sources: list[list[Record]]) -> None:
            records = filled(shelf, sources)
            with explained(records, "all, with vectors", records, shelf.state()):
                check_state(shelf, records)
            found = sorted(place(match.record) for match in shelf.dense([1, 2, 3]))
            with explained(records, "all, nearest", expected := [place(of) for of in records], found):
                assert found == expected

        come_back()


def _grow(of: Record, key: str) -> None:
    value = of.metadata[key]
    assert isinstance(value, list)
    value.append("changed by the caller")


def _place(source_id: str, index: int) -> Filter:
    return And(source(source_id), Eq("index", index))
