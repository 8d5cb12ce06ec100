"""Replace: what `where` matches goes, the records come, all or nothing, and only over the versions expected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from stackroom import Conflict, FilterError, StoreError
from stackroom.filters import And, Eq, Exists, Filter, In, Or, Range
from stackroom.stores import Record
from stackroom.testing._differential import check_state
from stackroom.testing._records import content, ids, record, source, tenant
from stackroom.testing._refusals import is_refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stackroom.testing._shelf import Shelf

NO_TENANT: list[Filter] = [
    Eq("sourceId", "a"),
    And(),
    Or(Eq("tenantId", "t")),
    In("tenantId", ["t"]),
    And(In("tenantId", ["t"]), Eq("sourceId", "a")),
    Exists("tenantId"),
    Or(source("a"), source("b")),
    Eq("tenantId", 1),
    And(Eq("sourceId", "a"), Or(Eq("tenantId", "t"))),
]


def _no_vector() -> Record:
    of = record("b#0")
    return Record(of.text, None, of.metadata)


BAD_BATCHES: dict[str, Callable[[], list[Any]]] = {
    "one identity twice": lambda: [record("a#0"), record("a#0", "other")],
    "one identity twice, apart": lambda: [record("a#0"), record("b#0"), record("a#0")],
    "a vector too long": lambda: [record("a#0"), record("b#0", vector=[1, 0, 0])],
    "a vector too short": lambda: [record("a#0"), record("b#0", vector=[1])],
    "no vector": lambda: [record("a#0"), _no_vector()],
    "several tenants": lambda: [record("a#0"), record("a#0", tenant="u")],
    "another tenant": lambda: [record("a#0", tenant="u")],
    "a dict": lambda: [record("a#0"), {"text": ""}],
    "None": lambda: [record("a#0"), None],
    "another title": lambda: [record("a#0", title="x"), record("a#1", title="y")],
    "a title and none": lambda: [record("a#0", title="x"), record("a#1")],
    "other groups": lambda: [record("a#0", aclGroups=["g"]), record("a#1", aclGroups=["g", "h"])],
    "another type": lambda: [record("a#0", metadata={"stackroom.n": 1}), record("a#1", metadata={"stackroom.n": True})],
}


class _BrokenOffError(Exception):
    """What a caller's generator raises."""


class ReplaceTests:
    """What holds of the one way in."""

    def test_replace_row_5_answers_how_many_records_went(self, shelf: Shelf) -> None:
        """Look at the number answered: records that went, not those that came."""
        assert shelf.replace([record("a#0"), record("a#1")], source("a")) == 0
        assert shelf.replace([record("a#0")], source("a")) == 2
        assert shelf.ids() == ["a#0"]

    def test_replace_row_6_passes_on_what_its_records_raise(self, shelf: Shelf) -> None:
        """Look at when the iterable is read: wholly, before anything changes; its exception is not wrapped."""
        shelf.put(record("a#0", "old"), record("a#1", "old"))
        before = shelf.state()

        def broken_off() -> Iterator[Record]:
            yield record("a#0", "new")
            raise _BrokenOffError

        with pytest.raises(_BrokenOffError):
            shelf.replace(broken_off(), source("a"))
        assert shelf.state() == before

    def test_replace_reads_its_records_before_it_locks(self, shelf: Shelf) -> None:
        """Look at locks and transactions: while records are drawn, they may come from this very store."""
        shelf.put(record("a#0", "one"), record("a#1", "two"), record("b#0", "red"))

        def moved() -> Iterator[Record]:
            for of in shelf.state(source("a")):
                shelf.replace([record("log#0", of.text)], source("log"))
                assert of.vector is not None
                yield record(f"a#{of.index + 5}", of.text, of.vector)
            assert shelf.count(source("a")) == 2

        assert shelf.replace(moved(), source("a")) == 2
        assert shelf.ids() == ["a#5", "a#6", "b#0", "log#0"]
        assert shelf.one("log#0").text == "two"

    def test_replace_without_records_takes_away_what_matches(self, shelf: Shelf) -> None:
        """Look at empty batches: what matches goes, parts of sources too; and nothing else."""
        shelf.put(*(record(f"a#{index}", k=index) for index in range(3)), record("b#0"), record("a#0", tenant="u"))
        assert shelf.replace(iter(()), And(source("a"), Range("index", gte=1))) == 2
        assert shelf.ids() == ["a#0", "b#0", "a#0"]
        assert shelf.replace([], tenant()) == 2
        assert [of.tenant_id for of in shelf.scan()] == ["u"]
        assert shelf.replace([], tenant("nobody")) == 0

    def test_replace_of_other_sources_than_come(self, shelf: Shelf) -> None:
        """Look at what goes and what comes: they need not be the same sources."""
        shelf.put(record("a#0"), record("b#0"), record("c#0"))
        assert shelf.replace([record("d#0"), record("a#7")], And(tenant(), In("sourceId", ["a", "b"]))) == 2
        assert shelf.ids() == ["a#7", "c#0", "d#0"]

    @pytest.mark.parametrize("batch", BAD_BATCHES)
    def test_replace_row_7_refuses_bad_batches_and_changes_nothing(self, shelf: Shelf, batch: str) -> None:
        """Look at the checks: all of them come before the first removal."""
        shelf.put(record("a#0", "old", title="old"), record("a#1", "old", title="old"), record("b#0", "old"))
        before = shelf.state()
        with pytest.raises(ValueError, match=r".") as raised:
            shelf.replace(BAD_BATCHES[batch](), tenant())
        assert not isinstance(raised.value, StoreError | FilterError)
        assert shelf.state() == before

    def test_replace_row_7_names_both_lengths(self, shelf: Shelf) -> None:
        """Look at the message: the vector's length and the collection's."""
        with pytest.raises(ValueError, match=r"\b3\b") as raised:
            shelf.replace([record("a#0", vector=[1, 0, 0])], tenant())
        assert "2" in str(raised.value)

    @pytest.mark.parametrize("where", NO_TENANT, ids=repr)
    def test_replace_row_7_needs_a_tenant(self, shelf: Shelf, where: Filter) -> None:
        """Look at how the tenant is found: Eq("tenantId", …), alone or in Ands; no In, no Or, no Exists."""
        shelf.put(record("a#0", "old"))
        before = shelf.state()
        for records in ([record("a#0", "new")], []):
            with pytest.raises(FilterError):
                shelf.replace(records, where)
        assert shelf.state() == before

    def test_replace_finds_its_tenant_at_any_depth_of_ands(self, shelf: Shelf) -> None:
        """Look at how the tenant is found: And in And is fine."""
        shelf.put(record("a#0"), record("a#0", tenant="u"))
        where = And(Eq("sourceId", "a"), And(And(Eq("tenantId", "t")), Or(Exists("k"), Exists("index"))))
        assert shelf.replace([record("a#0", "new")], where) == 1
        assert [of.text for of in shelf.scan()] == ["new", ""]

    def test_replace_row_8_never_splits_a_source(self, shelf: Shelf) -> None:
        """Look at stored records of the sources that come: `where` must match them all, else Conflict."""
        shelf.put(record("a#0", k=1), record("a#1", k=2), record("a#0", tenant="u"))
        before = shelf.state()
        for where in (source("b"), And(source("a"), Eq("index", 0)), And(tenant(), Eq("k", 2))):
            with pytest.raises(Conflict):
                shelf.replace([record("b#0"), record("a#1", "new")], where)
            assert shelf.state() == before
        assert shelf.replace([record("b#0")], And(source("a"), Eq("index", 0))) == 1

    def test_replace_row_9_writes_over_the_versions_expected_only(self, shelf: Shelf) -> None:
        """Look at `expect`: compared with the versions of what goes, in the write's own transaction."""
        shelf.put(record("a#0"), record("b#0"))
        (version,) = shelf.versions(source("a"))
        assert shelf.replace([record("a#0", "second")], source("a"), expect={version}) == 1
        before = shelf.state()
        both = {version, *shelf.versions(source("a"))}
        for expect in ({version}, set[int](), shelf.versions(), both):
            with pytest.raises(Conflict):
                shelf.replace([record("a#0", "third")], source("a"), expect=expect)
            with pytest.raises(Conflict):
                shelf.replace([], source("a"), expect=expect)
        assert shelf.state() == before
        assert shelf.replace([record("a#0", "third")], tenant(), expect=shelf.versions()) == 2

    def test_replace_row_9_expecting_nothing_writes_once(self, shelf: Shelf) -> None:
        """Look at `expect=frozenset()`: nothing may match; a version where nothing is stored is a Conflict, too."""
        assert shelf.replace([record("a#0")], source("a"), expect=frozenset()) == 0
        with pytest.raises(Conflict):
            shelf.replace([record("a#0", "again")], source("a"), expect=frozenset())
        with pytest.raises(Conflict):
            shelf.replace([record("b#0")], source("b"), expect=shelf.versions())
        with pytest.raises(Conflict):
            shelf.replace([record("a#0", tenant="u")], tenant("u"), expect={1})
        assert shelf.replace([], source("none"), expect=frozenset()) == 0
        assert [(of.id, of.text) for of in shelf.scan()] == [("a#0", "")]

    def test_replace_refuses_another_fingerprint(self, shelf: Shelf) -> None:
        """Look at `fingerprint`: another than the collection's is a Conflict that changes nothing."""
        shelf.put(record("a#0"))
        before = shelf.state()
        for records in ([record("a#0", "new")], []):
            with pytest.raises(Conflict):
                shelf.replace(records, source("a"), fingerprint="n@2")
        assert shelf.state() == before
        assert shelf.replace([record("a#0", "new")], source("a"), fingerprint="m@2") == 1

    def test_replace_is_seen_by_every_call_after_it(self, shelf: Shelf) -> None:
        """Look at indexes that follow the truth: when replace returns, all of them have followed."""
        shelf.put(record("a#0", "red", [1, 0], k=1))
        shelf.put(record("a#0", "blue", [0, 1], k=2), record("a#1", "blue", [0, 1], k=2))
        assert ids(shelf.dense([1, 0], Eq("k", 1))) == []
        assert ids(shelf.dense([0, 1], Eq("k", 2))) == ["a#0", "a#1"]
        assert (shelf.count(Eq("k", 1)), shelf.count(Eq("k", 2))) == (0, 2)
        if not is_refused(shelf, "lexical"):
            assert ids(shelf.lexical("red")) == []
            assert ids(shelf.lexical("blue")) == ["a#0", "a#1"]

    def test_replace_touches_no_other_tenant(self, shelf: Shelf) -> None:
        """Look at the statements that remove: the tenant stands in each."""
        shelf.put(record("a#0", "theirs", tenant="u"), record("a#0", "ours"))
        before = shelf.state(tenant("u"))
        assert shelf.replace([record("a#0", "new")], tenant()) == 1
        assert shelf.replace([], tenant()) == 1
        assert shelf.state(tenant("u")) == before

    def test_replace_takes_records_that_its_where_does_not_match(self, shelf: Shelf) -> None:
        """Look at `where`: it names what goes; what comes need not match it, but must be of the tenant."""
        assert shelf.replace([record("a#0", k=1)], And(tenant(), Eq("k", 2))) == 0
        check_state(shelf, [record("a#0", k=1)])

    def test_replace_takes_a_record_as_it_was_read(self, shelf: Shelf) -> None:
        """Look at records that come from a scan: their version is ignored, everything else is written as it is."""
        shelf.put(record("a#0", "red", [0.6, 0.8], n=[1, 1.0], title="T"))
        read = shelf.one("a#0")
        assert shelf.replace([read], source("a")) == 1
        again = shelf.one("a#0")
        assert content(again) == content(read)
        assert again.version != read.version
