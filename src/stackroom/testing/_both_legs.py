"""Both legs at once: what the optional method `legs` answers is what `dense` and `lexical` answer one by one."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackroom import CapabilityError, Conflict
from stackroom.filters import And, In
from stackroom.stores import CollectionSpec, LexicalQuery, Record
from stackroom.stores._legs import LegsQuery, Rankings, answers_legs
from stackroom.testing import strategies
from stackroom.testing._differential import explained, filled
from stackroom.testing._records import PAGE, SPEC, content, record, source, tenant
from stackroom.testing._refusals import is_proven_refused, is_refused
from stackroom.testing._shelf import Shelf
from stackroom.testing._threads import again, side_by_side

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from stackroom.filters import Filter
    from stackroom.stores._legs import Ranked

RED = LexicalQuery("red")


class LegsTests:
    """What holds of `legs`, where a store has it: a Library asks it instead of `dense` and `lexical`."""

    @pytest.fixture
    def both(self, shelf: Shelf) -> Shelf:
        """Return the shelf, where the store has the method; a Library asks others leg by leg."""
        if not answers_legs(type(shelf.store)) or is_refused(shelf, "lexical"):
            pytest.skip("not applicable: this store has no method `legs`, or no lexical leg")
        return shelf

    @pytest.mark.parametrize("across", [False, True])
    def test_legs_are_those_of_dense_and_lexical(self, both: Shelf, *, across: bool) -> None:
        """Look at what `choose` is handed: both rankings, in order, with the scores of `dense` and `lexical`."""
        both.put(record("a#0", "red", [1, 0]), record("b#0", "blue", [1, 1]), record("c#0", "red red", [0, 1]))
        found = _legs(both, [1, 0], RED, tenant(), 2, across=across)
        assert _ids(found, found.dense) == [(match.id, match.score) for match in both.dense([1, 0], tenant(), 2)]
        assert _ids(found, found.lexical) == [(match.id, match.score) for match in both.lexical("red", tenant(), 2)]

    def test_legs_score_what_only_the_other_found(self, both: Shelf) -> None:
        """Look at `across`: what one leg's end left out has there the score that it would have had."""
        both.put(*(record(f"s{at}#0", "red" if at > 1 else "blue", [1, at]) for at in range(5)))
        found = _legs(both, [1, 0], RED, tenant(), 2, across=True)
        dense = {match.id: match.score for match in both.dense([1, 0])}
        lexical = {match.id: match.score for match in both.lexical("red")}
        by_dense, by_words = dict(_ids(found, found.dense)), dict(_ids(found, found.lexical))
        assert dict(_ids(found, found.dense_across)) == {
            name: dense[name] for name in by_words.keys() - by_dense.keys()
        }
        across = dict(_ids(found, found.lexical_across))
        assert across == {name: lexical[name] for name in (by_dense.keys() - by_words.keys()) & lexical.keys()}

    def test_legs_run_alone(self, both: Shelf) -> None:
        """Look at a query without a vector, or without words: the leg that was not asked finds nothing."""
        both.put(record("a#0", "red"))
        words = _legs(both, None, RED, tenant())
        assert (len(words.dense), len(words.lexical)) == (0, 1)
        vectors = _legs(both, [1, 0], None, tenant())
        assert (len(vectors.dense), len(vectors.lexical)) == (1, 0)

    def test_legs_answer_what_was_chosen_whole_and_in_its_order(self, both: Shelf) -> None:
        """Look at the records read after the choice: texts and metadata whole, in the order chosen, no vector."""
        written = [record(f"s{at}#0", f"red {at}", [1, at], k=at, aclGroups=["g"]) for at in range(4)]
        both.put(*written)
        chosen: list[str] = []

        def choose(rankings: Rankings) -> list[Hashable]:
            keys = [key for key, _ in reversed(rankings.dense)][:3]
            chosen.extend(map(rankings.id_of, keys))
            return keys

        records = _ask(both, _asked([1, 0], RED, tenant()), choose)
        assert [of.id for of in records] == chosen == ["s3#0", "s2#0", "s1#0"]
        assert [content(of) for of in records] == [content(of) for of in (written[3], written[2], written[1])]
        assert all(of.vector is None for of in records)
        assert [of.version for of in records] == [both.one(of.id).version for of in records]

    def test_legs_of_a_tenant_that_is_not_there_find_nothing(self, both: Shelf) -> None:
        """Look at an empty scope: `choose` is called all the same, with nothing to choose from."""
        both.put(record("a#0", "red"))
        for where in (tenant("u"), And(tenant(), In("aclGroups", [])), And(tenant(), tenant("u"))):
            found = _legs(both, [1, 0], RED, where)
            assert (list(found.dense), list(found.lexical)) == ([], [])

    def test_legs_see_every_write(self, both: Shelf) -> None:
        """Look at what `legs` reads its filters and records from: a re-scope or a removal is seen at once, by both."""
        both.put(record("a#0", "red", aclGroups=["g"], k=1), record("b#0", "red", aclGroups=["g"], k=1))
        if not is_refused(both, "update"):
            assert both.update({"aclGroups": ["h"], "k": 2}, source("a")) == 1
            for group, expected in (("g", ["b#0"]), ("h", ["a#0"])):
                found = _legs(both, [1, 0], RED, And(tenant(), In("aclGroups", [group])))
                assert [name for name, _ in found.dense] == [name for name, _ in found.lexical] == expected
            records = _ask(both, _asked([1, 0], RED, source("a")), lambda found: [key for key, _ in found.dense])
            assert [(of.metadata["aclGroups"], of.metadata["k"]) for of in records] == [(["h"], 2)]
        assert both.delete(source("a")) == 1
        found = _legs(both, [1, 0], RED, tenant())
        assert [name for name, _ in found.dense] == [name for name, _ in found.lexical] == ["b#0"]

    def test_legs_read_what_they_chose_from(self, both: Shelf) -> None:
        """Look at the state of the records read after the choice: that of the scores, whatever is written meanwhile."""
        near, far = record("a#0", "near red", [1, 0]), record("a#0", "far red", [0, 1])
        both.put(near)
        done = threading.Event()

        def writing() -> None:
            try:
                for number in range(40):
                    again(partial(both.put, far if number % 2 else near))
            finally:
                done.set()

        def reading() -> None:
            while not done.is_set():
                scores: list[float] = []

                def choose(found: Rankings, scores: list[float] = scores) -> list[Hashable]:
                    scores.extend(score for _, score in found.dense)
                    return [key for key, _ in found.dense]

                (of,) = _ask(both, _asked([1, 0], RED, tenant()), choose)
                assert (of.text == near.text) is (scores == [1.0]), "scored in one state and read in another"

        side_by_side(writing, reading)

    def test_legs_refuse_another_fingerprint(self, both: Shelf) -> None:
        """Look at `fingerprint`: a vector of another embedder is a Conflict, before anything is chosen."""
        both.put(record("a#0", "red"))
        with pytest.raises(Conflict):
            _ask(both, _asked([1, 0], None, tenant()), lambda _rankings: [], fingerprint="other@2")

    def test_legs_random_answers_are_those_of_the_legs_one_by_one(self, both: Shelf) -> None:
        """Look at filter, score, order and cut together: both roads give the same, bit for bit."""
        shelf = Shelf(both.store, f"{both.name}.side")
        shelf.store.create_collection(shelf.name, CollectionSpec(3, SPEC.fingerprint))

        @strategies.seeded(30)
        @given(
            sources=strategies.libraries(),
            vector=strategies.vectors(3),
            query=strategies.queries | strategies.prefix_queries,
            where=st.builds(And, strategies.tenants, strategies.scopes | strategies.filters),
            limit=st.sampled_from((1, 2, 3, 100)),
        )
        def agree(
            sources: list[list[Record]], vector: NDArray[np.float32], query: LexicalQuery, where: Filter, limit: int
        ) -> None:
            records = filled(shelf, sources)
            if is_proven_refused(shelf, where, lambda: shelf.count(where)):
                return
            if query.prefix and is_refused(shelf, "prefix"):
                with pytest.raises(CapabilityError):
                    _legs(shelf, vector, query, where, limit)
                return
            found = _legs(shelf, vector, query, where, limit)
            for of_leg, one_by_one in (
                (found.dense, shelf.dense(vector, where, limit)),
                (found.lexical, shelf.lexical(query, where, limit)),
            ):
                expected = [(match.id, match.score) for match in one_by_one]
                with explained(records, (vector, query, where, limit), expected, got := _ids(found, of_leg)):
                    assert got == expected

        agree()


def _asked(
    vector: Sequence[float] | NDArray[np.float32] | None,
    words: LexicalQuery | None,
    where: Filter,
    limit: int = PAGE,
    *,
    across: bool = False,
) -> LegsQuery:
    return LegsQuery(None if vector is None else np.asarray(vector, dtype=np.float32), words, where, limit, across)


def _ask(shelf: Shelf, asked: LegsQuery, choose: object, fingerprint: str = SPEC.fingerprint) -> list[Record]:
    answered: list[Record] = shelf.store.legs(shelf.name, asked, choose, fingerprint=fingerprint)  # type: ignore[attr-defined] # where there is one
    return answered


def _legs(
    shelf: Shelf,
    vector: Sequence[float] | NDArray[np.float32] | None,
    words: LexicalQuery | None,
    where: Filter,
    limit: int = PAGE,
    *,
    across: bool = False,
) -> Rankings:
    """Return what `choose` is handed, with ids for keys: the store's own mean nothing after the call."""
    handed: list[Rankings] = []

    def choose(rankings: Rankings) -> list[Hashable]:
        lists = (rankings.dense, rankings.lexical, rankings.dense_across, rankings.lexical_across)
        named = [[(rankings.id_of(key), score) for key, score in of_leg] for of_leg in lists]
        handed.append(Rankings(str, named[0], named[1], named[2], named[3]))
        return []

    assert _ask(shelf, _asked(vector, words, where, limit, across=across), choose) == []
    (found,) = handed
    return found


def legs_of(shelf: Shelf, vector: NDArray[np.float64], words: str, where: Filter) -> Rankings:
    """Return what both legs find, with ids for keys."""
    return _legs(shelf, vector.astype(np.float32), LexicalQuery(words), where)


def _ids(found: Rankings, of_leg: Ranked) -> list[tuple[str, float]]:
    return [(found.id_of(key), score) for key, score in of_leg]
