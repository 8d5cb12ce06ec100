"""Update: keys set and taken away on all that matches, the source kept in one piece."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given

from stackroom import FilterError
from stackroom._filters import leaves
from stackroom._keys import is_source_key
from stackroom.filters import And, Eq, Exists, Filter, In, Or, matches
from stackroom.stores import CollectionSpec, Record, VectorStore
from stackroom.testing import strategies
from stackroom.testing._differential import check_state, explained, filled
from stackroom.testing._oracle import matching
from stackroom.testing._records import content, place, record, scores, source, tenant, typed
from stackroom.testing._refusals import is_proven_refused, is_refused, unless_refused
from stackroom.testing._shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

NO_PATCHES: dict[str, Any] = {
    "empty": {},
    "index": {"index": 5},
    "a tenant": {"tenantId": "u", "k": 1},
    "a source taken away": {"sourceId": None},
    "NaN": {"k": float("nan")},
    "nested": {"k": [[1]]},
    "an int beyond 64 bits": {"k": 2**63},
    "an empty key": {"": 1},
    "a NUL": {"k": "a\x00"},
    "a surrogate": {"k": ["\ud800"]},
    "tags that are a string": {"tags": "q3"},
    "groups of numbers": {"aclGroups": [1]},
    "a title that is a number": {"title": 1},
    "a dict": {"k": {"a": 1}},
    "None in a list": {"k": [None]},
    "no mapping": [("k", 1)],
}

SPLITTING: list[tuple[dict[str, Any], Filter]] = [
    ({"tags": []}, Eq("index", 0)),
    ({"tags": []}, And(tenant(), Eq("index", 0))),
    ({"aclGroups": ["g"], "k": 1}, And(tenant(), Eq("k", 1))),
    ({"title": None}, And(source("a"), Exists("k"))),
    ({"stackroom.tier": "hot"}, Or(source("a"), Eq("k", 1))),
    ({"folderId": "f"}, And(tenant(), In("k", []))),
]


@unless_refused("update")
class UpdateTests:
    """What holds of patches."""

    def test_update_row_12_sets_keys_and_takes_them_away(self, shelf: Shelf) -> None:
        """Look at the patch: None removes a key, others stay, and every record that matched counts."""
        shelf.put(record("a#0", size=1, kept=[1]), record("a#1"), record("b#0", size=1))
        assert shelf.update({"color": "red", "size": None}, source("a")) == 2
        expected = [record("a#0", color="red", kept=[1]), record("a#1", color="red"), record("b#0", size=1)]
        check_state(shelf, expected)
        assert shelf.ids(Eq("color", "red")) == ["a#0", "a#1"]
        assert shelf.ids(Exists("size")) == ["b#0"]

    @pytest.mark.parametrize(("patch", "where"), SPLITTING, ids=repr)
    def test_update_row_13_never_splits_a_source(self, shelf: Shelf, patch: dict[str, Any], where: Filter) -> None:
        """Look at the check of source keys: a `where` that names a record's own key or `index` could split a source."""
        shelf.put(record("a#0", k=1, tags=["x"]), record("a#1", k=2, tags=["x"]))
        before = shelf.state()
        with pytest.raises(FilterError):
            shelf.update(patch, where)
        assert shelf.state() == before

    @pytest.mark.parametrize("patch", NO_PATCHES)
    def test_update_row_13_refuses_what_is_no_patch(self, shelf: Shelf, patch: str) -> None:
        """Look at the check of the patch: no identity, no value that a record cannot hold, not empty."""
        shelf.put(record("a#0", k=1))
        before = shelf.state()
        for where in (source("a"), source("nobody")):
            with pytest.raises(ValueError, match=r"."):
                shelf.update(NO_PATCHES[patch], where)
        assert shelf.state() == before

    def test_update_of_a_source_reaches_all_its_records_and_no_other(self, shelf: Shelf) -> None:
        """Look at keys kept once a source: groups, tags, folder and title change for all of them at once."""
        shelf.put(record("a#0", tags=["x"]), record("a#1", tags=["x"]), record("b#0"), record("a#0", tenant="u"))
        patch = {"aclGroups": ["g", "h"], "tags": [], "folderId": "f", "title": "T", "stackroom.expiresAt": 5, "k": 1}
        assert shelf.update(patch, source("a")) == 2
        changed = [record(f"a#{index}", metadata=patch) for index in (0, 1)]
        check_state(shelf, [*changed, record("b#0"), record("a#0", tenant="u")])
        assert shelf.ids(In("aclGroups", ["h"])) == ["a#0", "a#1"]
        assert shelf.update({"folderId": None, "title": None}, And(tenant(), Eq("folderId", "f"))) == 2
        assert shelf.count(Exists("folderId")) == 0

    def test_update_judges_the_state_before(self, shelf: Shelf) -> None:
        """Look at when `where` is judged: once, before the first change, even when the patch changes what it names."""
        shelf.put(*(record(f"a#{number}", k=number) for number in range(3)), record("b#0", title="x"))
        assert shelf.update({"k": 1}, And(tenant(), Eq("k", 0))) == 1
        assert shelf.update({"k": None}, And(tenant(), Eq("k", 1))) == 2
        assert shelf.update({"title": "y"}, And(tenant(), Eq("title", "x"))) == 1
        check_state(shelf, [record("a#0"), record("a#1"), record("a#2", k=2), record("b#0", title="y")])

    def test_update_counts_what_matched_changed_or_not(self, shelf: Shelf) -> None:
        """Look at the number answered: databases that count changed rows answer too few."""
        shelf.put(record("a#0", k=1), record("b#0"))
        assert shelf.update({"k": 1}, tenant()) == 2
        assert shelf.update({"k": 1}, tenant()) == 2
        assert shelf.update({"none": None}, tenant()) == 2
        assert shelf.update({"k": 2}, tenant("nobody")) == 0

    def test_update_keeps_texts_vectors_scores_and_order(self, shelf: Shelf) -> None:
        """Look at how a patch is applied: no re-indexing that loses text, vector or statistics."""
        shelf.put(record("a#0", "red fox", [0.6, 0.8], k=1), record("a#1", "red", [1e-30, 1]), record("b#0", "fox"))
        dense = scores(shelf.dense([1, 0]))
        lexical = None if is_refused(shelf, "lexical") else scores(shelf.lexical("red"))
        shelf.update({"k": 2, "new": True}, tenant())
        shelf.update({"title": "red"}, source("a"))
        for of, text, vector in zip(
            shelf.state(), ["red fox", "red", "fox"], ([0.6, 0.8], [1e-30, 1], [1, 0]), strict=True
        ):
            assert of.text == text
            assert of.vector is not None
            assert of.vector.tobytes() == np.asarray(vector, dtype=np.float32).tobytes()
        assert scores(shelf.dense([1, 0])) == dense
        assert lexical is None or scores(shelf.lexical("red")) == lexical

    def test_update_keeps_the_types_of_its_values(self, shelf: Shelf) -> None:
        """Look at patches on their way to the database: NumPy scalars become Python's, types stay apart."""
        shelf.put(record("a#0", k=1))
        patch = {"i": np.int64(5), "f": np.float64(5), "b": np.bool_(True), "l": [1, 1.0, True, "1"], "k": True}
        shelf.update(patch, source("a"))
        expected = {"i": 5, "f": 5.0, "b": True, "l": [1, 1.0, True, "1"], "k": True}
        assert typed(shelf.one("a#0").metadata) == typed(record("a#0", metadata=expected).metadata)

    def test_update_keeps_a_copy_of_its_patch(self, shelf: Shelf) -> None:
        """Look at lists in a patch: each record has its own, and none is the caller's."""
        shelf.put(record("a#0"), record("a#1"), record("b#0"))
        own, tags = ["x"], ["y"]
        shelf.update({"l": own, "tags": tags}, tenant())
        own.append("later")
        tags.append("later")
        assert [content(of) for of in shelf.scan()] == [
            content(record(at, l=["x"], tags=["y"])) for at in ("a#0", "a#1", "b#0")
        ]

    def test_update_may_span_tenants_and_reaches_what_matches(self, shelf: Shelf) -> None:
        """Look at a `where` over several tenants, and at one within a tenant: no more and no less."""
        shelf.put(*(record(f"s{number}#0", k=number, tenant=owner) for number in range(3) for owner in ("t", "u", "v")))
        assert shelf.update({"m": 1}, And(In("tenantId", ["t", "u"]), Eq("k", 1))) == 2
        assert {(of.tenant_id, of.id) for of in shelf.scan(Exists("m"))} == {("t", "s1#0"), ("u", "s1#0")}
        assert shelf.update({"m": 2}, tenant("v")) == 3
        assert {of.tenant_id for of in shelf.scan(Eq("m", 2))} == {"v"}

    @pytest.mark.parametrize(
        ("key", "old", "new"),
        [
            ("aclGroups", ["g"], ["h"]),
            ("tags", ["x"], ["y", "z"]),
            ("folderId", "a", "b"),
            ("stackroom.expiresAt", 5, 7),
            ("k", "old", "new"),
        ],
    )
    def test_update_is_seen_by_every_question(self, shelf: Shelf, key: str, old: Any, new: Any) -> None:
        """Look at copies of metadata beside vectors and words: each leg filters and answers by what is stored now."""
        shelf.put(record("a#0", "red", metadata={key: old}), record("b#0", "red", metadata={key: old}))
        was, now = (In(key, value if isinstance(value, list) else [value]) for value in (old, new))
        assert shelf.update({key: new}, And(tenant(), source("a"))) == 1
        questions: list[Callable[[Filter], Iterable[Record]]] = [
            shelf.scan,
            lambda where: [match.record for match in shelf.dense([1, 0], where)],
        ]
        if not is_refused(shelf, "lexical"):
            questions.append(lambda where: [match.record for match in shelf.lexical("red", where)])
        for ask in questions:
            assert [of.id for of in ask(And(tenant(), was))] == ["b#0"]
            (found,) = ask(And(tenant(), now))
            assert (found.id, found.metadata[key]) == ("a#0", new)

    def test_update_refuses_to_stand_on_no_condition(self, shelf: Shelf) -> None:
        """Look at the guard: a `where` that matches a record without metadata is a FilterError."""
        shelf.put(record("a#0", k=1))
        before = shelf.state()
        for where in (And(), Or(And(), Eq("k", 1)), Exists("none", exists=False), And(And(), And())):
            with pytest.raises(FilterError):
                shelf.update({"m": 1}, where)
        assert shelf.state() == before

    def test_update_random_ones_change_what_matches_says(self, store: VectorStore, unused: str, shelf: Shelf) -> None:
        """Look at filter and patch together: exactly what `matches` says is changed, everything else stays."""
        del shelf
        name = f"{unused}.side"
        store.create_collection(name, CollectionSpec(3, "m@3"))
        random = Shelf(store, name)

        @strategies.seeded(30)
        @given(
            sources=strategies.libraries(),
            where=strategies.scopes | strategies.source_filters | strategies.filters,
            patch=strategies.own_patches | strategies.patches,
        )
        def agree(sources: list[list[Record]], where: Filter, patch: dict[str, Any]) -> None:
            records = filled(random, sources)
            if not patch or is_proven_refused(random, where, lambda: random.update(patch, where)):
                return
            if matches(where, {}) or _could_split(patch, where):
                with pytest.raises(FilterError):
                    random.update(patch, where)
                check_state(random, records)
                return
            going = {place(of) for of in matching(records, where)}
            with explained(records, (patch, where), [len(going)], changed := random.update(patch, where)):
                assert changed == len(going)
            expected = [_patched(of, patch) if place(of) in going else of for of in records]
            with explained(records, (patch, where), expected, random.state()):
                check_state(random, expected)
            left = sorted((of for of in expected if matches(where, of.metadata)), key=place)
            near = sorted((match.record for match in random.dense([1, 0, 0], where)), key=place)
            with explained(records, (patch, where, "nearest"), left, near):
                assert [content(of) for of in near] == [content(of) for of in left]

        agree()


def _could_split(patch: Mapping[str, Any], where: Filter) -> bool:
    """Tell whether a patch of a source key stands on a filter that names another key."""
    return any(map(is_source_key, patch)) and not all(is_source_key(getattr(leaf, "key", "")) for leaf in leaves(where))


def _patched(of: Record, patch: Mapping[str, Any]) -> Record:
    metadata = {key: value for key, value in {**of.metadata, **patch}.items() if value is not None}
    return Record(of.text, of.vector, metadata)
