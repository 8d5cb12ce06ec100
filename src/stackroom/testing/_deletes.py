"""Delete: what matches goes, exactly counted, from every answer and every statistic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stackroom import FilterError
from stackroom.filters import And, Eq, Exists, Filter, In, Not, Or, Range
from stackroom.testing._differential import check_state
from stackroom.testing._records import EVERYTHING, ids, record, scores, source, tenant
from stackroom.testing._refusals import is_proven_refused, is_refused, refused_nodes

if TYPE_CHECKING:
    from stackroom.testing._shelf import Shelf

NO_CONDITIONS: list[Filter] = [
    And(),
    Not(Or()),
    Not(Eq("tenantId", "t")),
    Exists("k", exists=False),
    Or(And(), Eq("tenantId", "t")),
    Or(Exists("k", exists=False), Eq("tenantId", "t")),
    And(And(), And(And())),
    And(Exists("k", exists=False), Exists("m", exists=False)),
    Not(And(Eq("tenantId", "t"), Eq("k", 1))),
    Not(In("k", [])),
]

FINE: list[tuple[Filter, list[str]]] = [
    (And(tenant(), Not(Eq("k", 1))), ["a#0"]),
    (And(tenant(), Exists("k", exists=False)), ["a#0", "a#1"]),
    (And(tenant(), And()), []),
    (And(tenant(), Not(Or())), []),
    (Or(And(tenant(), Or(And(), Eq("k", 1))), Eq("k", 9)), []),
    (Exists("k"), ["b#0"]),
    (Or(), ["a#0", "a#1", "b#0"]),
    (Not(Not(Eq("k", 1))), ["a#1", "b#0"]),
]


class DeleteTests:
    """What holds of removal."""

    def test_delete_row_10_stays_within_its_tenant(self, shelf: Shelf) -> None:
        """Look at the statement that removes: the tenant stands in it, even where ids are equal."""
        shelf.put(record("a#0"), record("a#0", tenant="u"))
        before = shelf.state(tenant("u"))
        assert shelf.delete(tenant()) == 1
        assert shelf.state() == before
        assert shelf.delete(source("a")) == 0
        assert shelf.delete(source("a", "u")) == 1
        assert shelf.count() == 0

    @pytest.mark.parametrize("where", NO_CONDITIONS, ids=repr)
    def test_delete_row_11_refuses_to_stand_on_no_condition(self, shelf: Shelf, where: Filter) -> None:
        """Look at the guard: a `where` that matches a record without metadata is a FilterError; nothing changes."""
        shelf.put(record("a#0", tenant="u"), record("b#0"))
        before = shelf.state()
        with pytest.raises(FilterError):
            shelf.delete(where)
        assert shelf.state() == before

    @pytest.mark.parametrize(("where", "left"), FINE, ids=repr)
    def test_delete_stands_on_a_condition_beside_an_absence(self, shelf: Shelf, where: Filter, left: list[str]) -> None:
        """Look at the guard: put beside a condition that needs a key, an absence is fine."""
        shelf.put(record("a#0", k=1), record("a#1", k=2), record("b#0"))
        if is_proven_refused(shelf, where, lambda: shelf.delete(where)):
            return
        expected = {"a#0", "a#1", "b#0"} - {of.id for of in shelf.scan(where)}
        assert shelf.delete(where) == 3 - len(expected)
        assert shelf.ids() == sorted(expected)
        assert refused_nodes(shelf, where) or sorted(left) == shelf.ids()

    def test_delete_answers_the_exact_number_that_went(self, shelf: Shelf) -> None:
        """Look at the number answered: records, of parts of sources, of several tenants, and 0 for none."""
        shelf.put(*(record(f"{name}#{index}", k=index) for name in "abc" for index in range(4)))
        shelf.put(*(record(f"a#{index}", k=index, tenant="u") for index in range(4)))
        assert shelf.delete(source("a")) == 4
        assert shelf.delete(And(tenant(), Range("k", gte=2))) == 4
        assert shelf.delete(Eq("k", 0)) == 3
        assert shelf.delete(source("a")) == shelf.delete(tenant("nobody")) == 0
        check_state(
            shelf, [record("b#1", k=1), record("c#1", k=1), *(record(f"a#{n}", k=n, tenant="u") for n in (1, 2, 3))]
        )
        assert shelf.delete(EVERYTHING) == 5
        assert shelf.state() == []

    def test_delete_is_seen_by_every_method_after_it(self, shelf: Shelf) -> None:
        """Look at indexes that follow the truth: when delete returns, no method finds what went."""
        shelf.put(record("a#0", "red"), record("a#1", "red"), record("b#0", "blue"))
        assert shelf.delete(And(source("a"), Eq("index", 0))) == 1
        assert shelf.ids() == ids(shelf.dense([1, 0])) == ["a#1", "b#0"]
        assert shelf.count() == 2
        if not is_refused(shelf, "lexical"):
            assert ids(shelf.lexical("red")) == ["a#1"]
        assert shelf.delete(source("a")) == 1
        assert shelf.ids() == ids(shelf.dense([1, 0])) == ["b#0"]
        if not is_refused(shelf, "lexical"):
            assert shelf.lexical("red") == []

    def test_delete_takes_words_out_of_the_statistics(self, shelf: Shelf) -> None:
        """Look at N and n of BM25: after a removal they are those of what is left."""
        if is_refused(shelf, "lexical"):
            return
        shelf.put(record("a#0", "red fox"), record("b#0", "fox"))
        before = scores(shelf.lexical("red fox"))
        shelf.put(record("c#0", "red"), record("d#0", "red"), record("d#1", "red"))
        assert shelf.delete(And(source("d"), Eq("index", 0))) == 1
        assert shelf.delete(In("sourceId", ["c", "d"])) == 2
        assert scores(shelf.lexical("red fox")) == before

    def test_delete_leaves_the_rest_of_a_source_as_it_was(self, shelf: Shelf) -> None:
        """Look at a removal of part of a source: the other records keep text, vector and metadata."""
        kept = [record(f"a#{index}", f"t{index}", [index, 1], k=index, title="T") for index in (1, 3)]
        shelf.put(*kept, *(record(f"a#{index}", vector=[index, 2], k=index, title="T") for index in (0, 2, 4)))
        assert shelf.delete(And(source("a"), In("index", [0, 2, 4]))) == 3
        check_state(shelf, kept)
        assert ids(shelf.dense([3, 1], limit=1)) == ["a#3"]

    def test_delete_lets_the_same_be_written_again(self, shelf: Shelf) -> None:
        """Look at tombstones: what was removed can come back, as new."""
        for text in ("one", "two", "three"):
            shelf.put(record("a#0", text), record("a#1", text))
            check_state(shelf, [record("a#0", text), record("a#1", text)])
            assert shelf.delete(tenant() if text == "two" else source("a")) == 2
            assert shelf.count() == 0
