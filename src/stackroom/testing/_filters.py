"""Filters: every method keeps what `matches` says, or refuses a declared node before anything is read or written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackroom import FilterError
from stackroom.filters import All, And, Contains, Eq, Exists, Filter, In, Ne, Not, NotIn, Or, Range, matches, parse
from stackroom.stores import CollectionSpec, Match, Record, VectorStore
from stackroom.testing import strategies
from stackroom.testing._differential import explained, filled
from stackroom.testing._oracle import matching
from stackroom.testing._records import Place, ids, place, record, source, tenant
from stackroom.testing._refusals import REFUSABLE_NODES, is_proven_refused, is_refused
from stackroom.testing._shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Callable

SIX: dict[str, dict[str, Any]] = {
    "r1": {"n": 5, "s": "alpha", "labels": ["q3", "plan"], "flag": True},
    "r2": {"n": 10, "s": "Beta 50%", "labels": ["q3"], "flag": False},
    "r3": {"s": "gamma_x", "labels": []},
    "r4": {"n": "5", "labels": "q3", "s": "50 beta"},
    "r5": {},
    "r6": {"n": 2, "labels": [5, "5"]},
}

ROWS: list[tuple[str, dict[str, Any], str]] = [
    ("1", {"n": 5}, "r1"),
    ("2-short", {"labels": "q3"}, "r1 r2 r4"),
    ("2-eq", {"labels": {"$eq": "q3"}}, "r1 r2 r4"),
    ("3-true", {"flag": True}, "r1"),
    ("3-one", {"flag": 1}, ""),
    ("4", {"n": {"$ne": 5}}, "r2 r4 r6"),
    ("5", {"n": {"$gt": 4}}, "r1 r2"),
    ("6", {"n": {"$lt": "6"}}, "r4"),
    ("7", {"labels": {"$gt": 4}}, ""),
    ("8-in", {"labels": {"$in": []}}, ""),
    ("8-nin", {"labels": {"$nin": []}}, "r1 r2 r3 r4 r6"),
    ("9-number", {"labels": {"$in": [5]}}, "r6"),
    ("9-string", {"labels": {"$in": ["5"]}}, "r6"),
    ("10", {"labels": {"$nin": ["plan"]}}, "r2 r3 r4 r6"),
    ("11-two", {"labels": {"$all": ["q3", "plan"]}}, "r1"),
    ("11-one", {"labels": {"$all": ["q3"]}}, "r1 r2 r4"),
    ("12-element", {"labels": {"$contains": "q3"}}, "r1 r2 r4"),
    ("12-part", {"s": {"$contains": "50%"}}, "r2"),
    ("12-literal", {"s": {"$contains": "a%a"}}, ""),
    ("13-there", {"n": {"$exists": True, "$eq": 10}}, "r2"),
    ("13-missing", {"n": {"$exists": False}}, "r3 r5"),
    ("14", {"n": {"$gt": 4, "$lt": 10}}, "r1"),
    ("15-not-eq", {"$not": {"n": 5}}, "r2 r3 r4 r5 r6"),
    ("15-not-ne", {"$not": {"n": {"$ne": 5}}}, "r1 r3 r5"),
    ("16", {"$or": [{"n": {"$gt": 6}}, {"labels": "plan"}], "flag": True}, "r1"),
    ("17-all", {}, "r1 r2 r3 r4 r5 r6"),
    ("17-none", {"$or": []}, ""),
    ("18", {"x'; --": 1}, ""),
]

EDGES: list[tuple[str, Filter, list[Any], list[Any]]] = [
    ("True is no 1", Eq("k", True), [True, [True]], [1, 1.0, "True", "true", [1]]),
    ("1 is no True", Eq("k", 1), [1, 1.0, [1]], [True, "1", [True]]),
    ("False is no 0", In("k", [False]), [False], [0, 0.0, -0.0, "", []]),
    ("5 is 5.0 and no string", Eq("k", 5), [5, 5.0, ["x", 5.0]], ["5", 5.5, "5.0"]),
    ("numbers are exact", Eq("k", 2**53 + 1), [2**53 + 1], [2**53, float(2**53), 2**53 + 2]),
    ("large ints are exact in ranges", Range("k", gt=2**53), [2**53 + 1, 2**63 - 1, 1e300], [2**53, float(2**53)]),
    ("a float bound is exact", Range("k", lt=float(2**63)), [2**63 - 1, -1.5], [float(2**63), 1e300, True]),
    ("no boolean has an order", Range("k", gte=0), [0, 1, 0.0, -0.0], [True, False, "0", [5]]),
    ("strings go by code point", Range("k", gt="\ufffd"), ["\U0001f600"], ["\ufffd", "Z", "", 5, ["\U0001f600"]]),
    ("capitals come first", Range("k", gte="Z", lt="a"), ["Z", "Zebra", "^"], ["a", "A", "é", "z"]),
    ("a part is literal %", Contains("k", "%"), ["50%", "%", ["%"]], ["50", ["50%"], "％"]),
    ("a part is literal _", Contains("k", "a_b"), ["xa_by"], ["xaxby", "a\\_b"]),
    ("a part is literal \\", Contains("k", "\\"), ["a\\b"], ["ab", "/"]),
    ("a part keeps case and form", Contains("k", "é"), ["café"], ["cafe\u0301", "CAFÉ", "cafe", ["café"]]),
    ("a number contains nothing", Contains("k", "5"), ["15"], [5, 15, 5.5, True]),
    ("an empty string is there", Exists("k"), ["", [], 0, False], []),
    ("another kind is not equal", Ne("k", "5"), [5, "", [], True, ["x"]], ["5", ["x", "5"]]),
    ("none of none is all that have it", NotIn("k", []), [[], "", 0], []),
    ("all, repeated", All("k", ["a", "a"]), ["a", ["a"], ["b", "a"]], ["b", [], ["A"]]),
    ("all of different kinds", All("k", [1, "1", True]), [[True, 1, "1"]], [1, [1, "1"]]),
    ("in, of different kinds", In("k", [1, "a", False]), [1.0, "a", [False]], [True, "A", 0, [0]]),
    ("in nothing", In("k", []), [], ["", [], 0]),
    ("bounds that exclude each other", Range("k", gt=5, lt=5), [], [5, 4, 6]),
    ("a bound that is met", Range("k", gte=5, lte=5.0), [5, 5.0], [4.999, "5"]),
]

METHODS: dict[str, Callable[[Shelf, Any], Any]] = {
    "count": lambda shelf, where: shelf.count(where),
    "scan": lambda shelf, where: shelf.scan(where),
    "dense": lambda shelf, where: shelf.dense([1, 0], where),
    "lexical": lambda shelf, where: shelf.lexical("red", where),
    "replace": lambda shelf, where: shelf.replace([record("new#0")], where),
    "replace with nothing": lambda shelf, where: shelf.replace([], where),
    "update": lambda shelf, where: shelf.update({"new": 1}, where),
    "delete": lambda shelf, where: shelf.delete(where),
}

NO_FILTERS: list[Any] = [None, {}, {"n": 5}, "n", [], [Eq("n", 5)], True, ("tenantId", "t")]

REFUSABLE: dict[str, Callable[[], Filter]] = {
    "Ne": lambda: Ne("n", 5),
    "NotIn": lambda: NotIn("n", [5]),
    "Contains": lambda: Contains("s", "a"),
    "Not": lambda: Not(Eq("n", 5)),
}


class FilterTests:
    """What holds of `where` in every method."""

    @pytest.mark.parametrize(("row", "form", "expected"), ROWS, ids=[f"row-{row[0]}" for row in ROWS])
    def test_filters_rows_of_the_language(self, shelf: Shelf, row: str, form: dict[str, Any], expected: str) -> None:
        """Look at the compiler of the node: scan, count, dense, update and delete all keep what `matches` says."""
        del row
        shelf.put(*(record(f"{name}#0", metadata=metadata) for name, metadata in SIX.items()))
        where = And(tenant(), parse(form))
        if is_proven_refused(shelf, where, lambda: shelf.count(where)):
            return
        names = [f"{name}#0" for name in expected.split()]
        assert shelf.count(parse(form)) == len(names)
        assert shelf.ids(parse(form)) == names
        assert ids(shelf.dense([1, 0], parse(form))) == names
        if not is_refused(shelf, "update"):
            assert shelf.update({"marked": True}, where) == len(names)
            assert shelf.ids(Eq("marked", True)) == names
        assert shelf.delete(where) == len(names)
        assert shelf.ids() == [f"{name}#0" for name in SIX if f"{name}#0" not in names]

    @pytest.mark.parametrize(("edge", "where", "hits", "misses"), EDGES, ids=[edge[0] for edge in EDGES])
    def test_filters_keep_kinds_forms_and_numbers_apart(
        self, shelf: Shelf, edge: str, where: Filter, hits: list[Any], misses: list[Any]
    ) -> None:
        """Look at how values are compared: by kind, by exact number, by code point; in JSON and in columns alike."""
        del edge
        values = [*hits, *misses]
        shelf.put(record("missing#0"), *(record(f"s{at:02}#0", "red", k=value) for at, value in enumerate(values)))
        if is_proven_refused(shelf, where, lambda: shelf.count(where)):
            return
        names = [f"s{at:02}#0" for at in range(len(hits))]
        assert shelf.ids(where) == names
        assert shelf.count(where) == len(names)
        assert ids(shelf.dense([1, 0], where)) == names
        if not is_refused(shelf, "lexical"):
            assert ids(shelf.lexical("red", where)) == names
        assert shelf.delete(And(tenant(), where)) == len(names)

    @pytest.mark.parametrize("key", ["title", "stackroom.any"])
    @pytest.mark.parametrize("value", ["a", "A", "a ", "é", "e\u0301", "1"])
    def test_filters_on_keys_of_a_source_mean_the_same(self, shelf: Shelf, key: str, value: str) -> None:
        """Look at keys that are kept once a source: a filter on them is as exact as on a record's own."""
        values = ["a", "A", "a ", "é", "e\u0301", "1"]
        shelf.put(*(record(f"s{at}#0", metadata={key: each}) for at, each in enumerate(values)), record("z#0"))
        assert shelf.ids(Eq(key, value)) == [f"s{values.index(value)}#0"]
        assert shelf.count(Range(key, gte=value)) == sum(each >= value for each in values)
        assert shelf.ids(Exists(key, exists=False)) == ["z#0"]

    def test_filters_on_the_identity_are_those_of_any_key(self, shelf: Shelf) -> None:
        """Look at columns of their own for tenant, source and index: kinds and ranges hold there, too."""
        shelf.put(*(record(f"a#{index}") for index in (0, 2, 10)), record("b#2"), record("a#2", tenant="u"))
        assert shelf.ids(And(tenant(), Range("index", gt=0, lte=10.0))) == ["a#2", "a#10", "b#2"]
        assert shelf.ids(And(tenant(), In("index", [2, "0", True]))) == ["a#2", "b#2"]
        assert shelf.ids(Range("tenantId", gt="t")) == ["a#2"]
        assert shelf.ids(And(Eq("tenantId", "t"), Eq("tenantId", "u"))) == []
        assert shelf.count(Or(source("b"), source("a", "u"))) == 2
        assert shelf.count(In("tenantId", ["u", "t", "none", 1])) == 5
        assert shelf.count(Eq("index", "2")) == shelf.count(Eq("tenantId", 1)) == 0

    @pytest.mark.parametrize("method", METHODS)
    def test_filters_row_8_an_empty_in_reaches_nothing(self, shelf: Shelf, method: str) -> None:
        """Look at In without values: it matches nothing, and is never left out of the query."""
        shelf.put(record("a#0", "red", n=5), record("b#0", "red"))
        before = shelf.state()
        if is_refused_method(shelf, method):
            return
        for empty in (In("n", []), In("sourceId", []), In("aclGroups", []), Or(), And(In("n", []), Eq("n", 5))):
            where = And(tenant(), empty)
            answer = METHODS[method](shelf, where)
            assert answer == 0 or (method in {"scan", "dense", "lexical"} and len(answer) == 0)
            if method == "replace":
                assert shelf.delete(source("new")) == 1
            assert shelf.state() == before

    @pytest.mark.parametrize("method", METHODS)
    def test_filters_of_a_scope_hold_in_every_method(self, shelf: Shelf, method: str) -> None:
        """Look at tenant and groups in each statement: a condition that is lost here is a leak."""
        if is_refused_method(shelf, method):
            return
        owners = [("mine", "t", ["g", "x"]), ("not-my-group", "t", ["h"]), ("no-group", "t", []), ("mine", "u", ["g"])]
        shelf.put(*(record(f"{name}#0", "red", tenant=owner, aclGroups=groups) for name, owner, groups in owners))
        scope = And(tenant(), In("aclGroups", ["g", "g2"]), Exists("index"))
        before = shelf.state()
        answer = METHODS[method](shelf, scope)
        if method in {"scan", "dense", "lexical"}:
            assert [_place_of(found) for found in answer] == [("t", "mine", 0)]
        else:
            assert answer == 1
        if method in {"replace", "replace with nothing", "update", "delete"}:
            others = And(Not(scope), Ne("sourceId", "new"))
            untouched = [of for of in before if not matches(scope, of.metadata)]
            assert [of for of in shelf.state() if matches(others, of.metadata)] == untouched

    @pytest.mark.parametrize("method", METHODS)
    def test_filters_of_several_branches_are_one_question(self, shelf: Shelf, method: str) -> None:
        """Look at Or within a scope, as `any_of` is asked: what two branches keep counts once, and the scope holds."""
        if is_refused_method(shelf, method):
            return
        sources = [("both", "g", "a"), ("first", "g", "a"), ("second", "g", "b"), ("third", "g", "c"), ("h", "h", "a")]
        shelf.put(*(record(f"{name}#0", "red", aclGroups=[group], folderId=at) for name, group, at in sources))
        branches = Or(And(Eq("folderId", "a")), And(In("folderId", ["b"])), And(In("sourceId", ["both", "h"])))
        where = And(tenant(), In("aclGroups", ["g"]), branches)
        answer = METHODS[method](shelf, where)
        if method in {"scan", "dense", "lexical"}:
            assert [_place_of(found)[1] for found in answer] == ["both", "first", "second"]
        else:
            assert answer == 3

    @pytest.mark.parametrize("method", METHODS)
    def test_filters_of_expiry_hold_in_every_method(self, shelf: Shelf, method: str) -> None:
        """Look at the key `stackroom.expiresAt`: not there, or after now to the microsecond, in each statement."""
        if is_refused_method(shelf, method):
            return
        now = 1_714_564_800_000_001
        for name, at in (("before", now - 1), ("at", now), ("after", now + 1)):
            shelf.put(record(f"{name}#0", "red", metadata={"stackroom.expiresAt": at}))
        shelf.put(record("never#0", "red"))
        alive = Or(Exists("stackroom.expiresAt", exists=False), Range("stackroom.expiresAt", gt=now))
        answer = METHODS[method](shelf, And(tenant(), alive))
        if method in {"scan", "dense", "lexical"}:
            assert [_place_of(found)[1] for found in answer] == ["after", "never"]
        else:
            assert answer == 2

    @pytest.mark.parametrize("method", METHODS)
    def test_filters_are_filters_and_nothing_else(self, shelf: Shelf, method: str) -> None:
        """Look at the door: a dict, None or a string is a FilterError in every method, never "no condition"."""
        shelf.put(record("a#0", "red"))
        if is_refused_method(shelf, method):
            return
        for wrong in NO_FILTERS:
            with pytest.raises(FilterError):
                METHODS[method](shelf, wrong)
        assert shelf.ids() == ["a#0"]

    @pytest.mark.parametrize("node", REFUSABLE_NODES)
    @pytest.mark.parametrize("method", METHODS)
    def test_filters_that_are_refused_are_refused_wherever_they_stand(
        self, shelf: Shelf, node: str, method: str
    ) -> None:
        """Look at the check of nodes: before anything is read or written, even where the rest could not match."""
        shelf.put(record("a#0", "red", n=5, s="abc"), record("b#0", "red", n=6, s="xyz"))
        if is_refused_method(shelf, method):
            return
        leaf = REFUSABLE[node]()
        wheres = [And(tenant(), leaf), And(tenant("nobody"), leaf), And(tenant(), Or(), leaf)]
        for where in wheres:
            is_proven_refused(shelf, where, lambda where=where: METHODS[method](shelf, where))  # type: ignore[misc] # bound now

    def test_filters_of_10000_values_are_served(self, shelf: Shelf) -> None:
        """Look at limits on bound values and on the length of a statement: 10,000 values in a node are served."""
        number = 10_000
        shelf.put(record("a#0", "red", k=number - 1), record("b#0", "red", k="x"), record("c#0", l=list(range(number))))
        many = range(number)
        assert shelf.ids(In("k", many)) == ["a#0"]
        assert shelf.ids(In("sourceId", [f"s{value}" for value in many] + ["b"])) == ["b#0"]
        assert shelf.ids(All("l", many)) == ["c#0"]
        assert ids(shelf.dense([1, 0], In("k", many))) == ["a#0"]
        none = And(tenant(), NotIn("k", many))
        if not is_proven_refused(shelf, none, lambda: shelf.count(none)):
            assert shelf.ids(none) == ["b#0"]
        assert shelf.delete(In("k", many)) == 1

    def test_filters_of_1000_nodes_are_served(self, shelf: Shelf) -> None:
        """Look at limits on a query's size and nesting: 1,000 nodes, or 64 levels of them, are served."""
        shelf.put(record("a#0", "red", k=999, s="x"), record("b#0", "red", k=-1))
        wide = Or(*(Eq("k", value) for value in range(1, 1000)))
        assert shelf.ids(wide) == ["a#0"]
        assert shelf.ids(And(*(Range("k", gt=-value) for value in range(1, 999)), tenant())) == ["a#0"]
        deep: Filter = Eq("k", 999)
        for level in range(30):
            deep = Or(And(deep, Exists("s")), In("k", [f"{level}"]))
        assert shelf.ids(And(tenant(), deep)) == ["a#0"]
        assert shelf.delete(And(tenant(), wide)) == 1

    def test_filters_random_ones_mean_what_matches_says(self, store: VectorStore, unused: str) -> None:
        """Look at the compiler of filters: count, scan and dense find exactly the records that `matches` says."""
        store.create_collection(unused, CollectionSpec(3, "m@3"))
        shelf = Shelf(store, unused)

        @strategies.seeded(30)
        @given(sources=strategies.libraries(), wheres=st.lists(strategies.filters, min_size=1, max_size=8))
        def agree(sources: list[list[Record]], wheres: list[Filter]) -> None:
            records = filled(shelf, sources)
            for where in wheres:
                if is_proven_refused(shelf, where, lambda where=where: shelf.count(where)):  # type: ignore[misc] # bound now
                    continue
                expected = [place(of) for of in matching(records, where)]
                for got in (
                    [place(of) for of in shelf.scan(where)],
                    sorted(place(match.record) for match in shelf.dense([1, 0, 0], where)),
                ):
                    with explained(records, where, expected, got):
                        assert got == expected
                with explained(records, where, [len(expected)], number := shelf.count(where)):
                    assert number == len(expected)

        agree()

    def test_filters_random_ones_let_a_delete_take_what_matches_says(self, store: VectorStore, unused: str) -> None:
        """Look at how delete compiles its filter: as count does, and a write without a condition is refused."""
        store.create_collection(unused, CollectionSpec(3, "m@3"))
        shelf = Shelf(store, unused)

        @strategies.seeded(25)
        @given(sources=strategies.libraries(), where=strategies.scopes | strategies.filters)
        def agree(sources: list[list[Record]], where: Filter) -> None:
            records = filled(shelf, sources)
            if is_proven_refused(shelf, where, lambda: shelf.delete(where)):
                return
            going = matching(records, where)
            if matches(where, {}):
                with pytest.raises(FilterError):
                    shelf.delete(where)
                going = []
            else:
                with explained(records, where, [len(going)], went := shelf.delete(where)):
                    assert went == len(going)
            gone = {place(of) for of in going}
            expected = [place(of) for of in records if place(of) not in gone]
            with explained(records, where, expected, left := [place(of) for of in shelf.scan()]):
                assert left == expected

        agree()


def is_refused_method(shelf: Shelf, method: str) -> bool:
    """Tell whether the store refuses a whole method of `METHODS`; its own group proves that."""
    return (method == "lexical" and is_refused(shelf, "lexical")) or (
        method == "update" and is_refused(shelf, "update")
    )


def _place_of(found: Record | Match) -> Place:
    return place(found if isinstance(found, Record) else found.record)
