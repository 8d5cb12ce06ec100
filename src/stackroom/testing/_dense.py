"""Dense: the nearest by cosine, never fewer than there are, in one total order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackroom import Conflict, StoreError
from stackroom.filters import And, Eq, In
from stackroom.stores import CollectionSpec, Record, VectorStore
from stackroom.testing import strategies
from stackroom.testing._differential import explained, filled
from stackroom.testing._oracle import judge_nearest, nearest
from stackroom.testing._records import PAGE, ids, record, scores, source, tenant
from stackroom.testing._refusals import is_proven_refused
from stackroom.testing._shelf import Shelf

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stackroom.filters import Filter
    from stackroom.stores import Match

DIMENSION = 17

NO_QUERIES: dict[str, Any] = {
    "too long": [1, 0, 0],
    "too short": [1],
    "empty": [],
    "NaN": [float("nan"), 1],
    "infinite": [float("inf"), 1],
    "zeros": [0, 0],
}
NO_LIMITS: list[Any] = [0, -1, True, False, 1.0, "1", None]


class DenseTests:
    """What holds of the nearest."""

    def test_dense_row_14_answers_the_nearest_first_with_their_cosines(self, shelf: Shelf) -> None:
        """Look at scores: cosines, not distances; the query's length does not matter."""
        shelf.put(record("a#0", vector=[1, 0]), record("b#0", vector=[0.6, 0.8]), record("c#0", vector=[0, 1]))
        found = shelf.dense([2, 0], limit=2)
        assert ids(found) == ["a#0", "b#0"]
        assert [match.score for match in found] == pytest.approx([1.0, 0.6], abs=1e-5)

    def test_dense_row_15_equal_vectors_come_by_id(self, shelf: Shelf) -> None:
        """Look at the cut of `limit`: of equal scores the smaller ids stay, compared as strings (s10 before s2)."""
        shelf.put(*(record(f"s{number}#0") for number in reversed(range(12))))
        assert ids(shelf.dense([1, 0], limit=4)) == ["s0#0", "s1#0", "s10#0", "s11#0"]
        shelf.put(*(record(f"s0#{number}") for number in (0, 2, 10)))
        assert ids(shelf.dense([1, 0], limit=3)) == ["s0#0", "s0#10", "s0#2"]

    def test_dense_ties_of_one_id_come_by_tenant(self, shelf: Shelf) -> None:
        """Look at a query over several tenants: merged by score, id, tenant; by code point, not by UTF-16 or locale."""
        shelf.put(*(record(at, tenant=owner) for at in ("b#0", "a#0") for owner in ("u", "t", "\U0001f600", "\ufffd")))
        found = [(match.id, match.record.tenant_id) for match in shelf.dense([1, 0], limit=5)]
        assert found == [("a#0", "t"), ("a#0", "u"), ("a#0", "\ufffd"), ("a#0", "\U0001f600"), ("b#0", "t")]

    @pytest.mark.parametrize("query", NO_QUERIES)
    def test_dense_row_16_refuses_what_is_no_query(self, shelf: Shelf, query: str) -> None:
        """Look at the check of the query vector: another length, NaN, infinity, zeros → ValueError, even when empty."""
        for _ in range(2):
            with pytest.raises(ValueError, match=r".") as raised:
                shelf.dense(NO_QUERIES[query])
            assert not isinstance(raised.value, StoreError)
            shelf.put(record("a#0"))

    @pytest.mark.parametrize("limit", NO_LIMITS)
    def test_dense_row_16_refuses_what_is_no_limit(self, shelf: Shelf, limit: Any) -> None:
        """Look at the check of `limit`: an int of at least 1, and True is none."""
        shelf.put(record("a#0"))
        with pytest.raises(ValueError, match=r"."):
            shelf.dense([1, 0], limit=limit)

    def test_dense_finds_nothing_where_nothing_is(self, shelf: Shelf) -> None:
        """Look at empty collections and unknown tenants: an empty answer, no error."""
        assert shelf.dense([1, 0]) == []
        shelf.put(record("a#0"))
        assert shelf.dense([1, 0], tenant("nobody")) == []

    def test_dense_reads_what_its_filter_allows_and_nothing_else(self, shelf: Shelf) -> None:
        """Look at where the filter stands: inside the search, on tenant, groups and any key."""
        shelf.put(
            record("a#0", vector=[0, 1], aclGroups=["g"]),
            record("b#0", vector=[1, 0], aclGroups=["h"]),
            record("a#0", vector=[1, 0], aclGroups=["g"], tenant="u"),
        )
        assert ids(shelf.dense([1, 0], And(tenant(), In("aclGroups", ["g"])))) == ["a#0"]
        (match,) = shelf.dense([1, 0], And(tenant("u"), In("aclGroups", ["g", "h"])))
        assert match.record.tenant_id == "u"
        assert match.score == pytest.approx(1.0, abs=1e-5)

    def test_dense_answers_as_many_as_match_however_far_they_are(self, shelf: Shelf) -> None:
        """Look at filtering after the search: three of 600 match, the three farthest, and all three are answered."""
        shelf.put(*(record(f"near{number}#0", vector=[1, number / 1000], k=0) for number in range(597)))
        shelf.put(*(record(f"far{number}#0", vector=[-1, number / 10], k=1) for number in range(3)))
        found = shelf.dense([1, 0], And(tenant(), Eq("k", 1)), limit=10)
        assert ids(found) == ["far2#0", "far1#0", "far0#0"]
        assert len(shelf.dense([1, 0], tenant(), limit=600)) == 600

    @pytest.mark.parametrize("query", [[1e30, 1e30], [1, 1], [1e-30, 1e-30], [3, 3]])
    def test_dense_cosines_do_not_know_lengths(self, shelf: Shelf, query: list[float]) -> None:
        """Look at sums of squares: [1e30, 1e30] and [1e-30, 1e-30] neither overflow nor vanish in float32."""
        lengths = {"a#0": 1.0, "b#0": 1e30, "c#0": 1e-30, "d#0": 3e38, "e#0": 1e-40}
        shelf.put(*(record(at, vector=[length, length]) for at, length in lengths.items()))
        shelf.put(record("f#0", vector=[-1e30, -1e30]), record("g#0", vector=[-1e-30, 1e-30]))
        found = scores(shelf.dense(query))
        assert found == pytest.approx(dict.fromkeys(lengths, 1.0) | {"f#0": -1.0, "g#0": 0.0}, abs=1e-5)
        assert all(-1.0 <= score <= 1.0 for score in found.values())

    def test_dense_takes_any_array_of_numbers(self, shelf: Shelf) -> None:
        """Look at how the query is converted: lists, tuples, float64, float32 and ints ask the same."""
        shelf.put(record("a#0", vector=[3, 4]))
        for query in ([1, 0], (1.0, 0.0), np.asarray([1, 0]), np.asarray([1, 0], dtype=np.float32)):
            assert scores(shelf.dense(query)) == {"a#0": pytest.approx(0.6, abs=1e-5)}

    def test_dense_equal_vectors_have_equal_scores_bit_for_bit(self, store: VectorStore, unused: str) -> None:
        """Look at how dot products are summed: in blocks, the same vector may score otherwise at another place."""
        shelf = _deep(store, unused)
        numbers = np.random.default_rng(7).standard_normal((240, DIMENSION)).astype(np.float32)
        numbers[::7] = numbers[0]
        shelf.put(*(_row("a", index, vector) for index, vector in enumerate(numbers[:120])))
        shelf.put(*(_row(f"s{index}", 0, vector) for index, vector in enumerate(numbers[120:], start=120)))
        found = shelf.dense(numbers[0] + np.float32(0.25) * numbers[1])
        twins = {match.score for match in found if match.record.metadata["n"] in range(0, 240, 7)}
        assert len(twins) == 1

    def test_dense_is_exact_among_a_thousand_matches(self, store: VectorStore, unused: str) -> None:
        """Look at when the search is approximate: never when at most 1,000 records match."""
        shelf = _deep(store, unused)
        records, queries = _many(1_500)
        shelf.put(*records)
        where = And(tenant(), In("part", [0, 1]))
        for query in queries[:5]:
            judge_nearest(shelf.dense(query, where, 10), nearest(records, query.tolist(), where), 10)

    def test_dense_is_exact_or_finds_99_of_100_among_more(self, store: VectorStore, unused: str) -> None:
        """Look at `Capabilities.exact` and at the index's settings: recall@10 is 1, or at least 0.99."""
        shelf = _deep(store, unused)
        records, queries = _many(1_500)
        shelf.put(*records)
        hit = 0
        for query in queries:
            expected = nearest(records, query.tolist(), tenant())
            found = shelf.dense(query, tenant(), 10)
            if store.capabilities.exact:
                judge_nearest(found, expected, 10)
            best = sorted(expected, key=lambda scored: (-scored.score, scored.record.id))[:10]
            hit += len({scored.record.id for scored in best} & set(ids(found)))
        assert hit >= 0.99 * 10 * len(queries)

    def test_dense_serves_a_limit_of_100000(self, shelf: Shelf) -> None:
        """Look at the engine's own limit on answers: 100,000 may be asked for."""
        shelf.put(*(record(f"a#{index}") for index in range(300)))
        assert len(shelf.dense([1, 0], limit=PAGE)) == 300

    def test_dense_refuses_another_fingerprint(self, shelf: Shelf) -> None:
        """Look at `fingerprint`: another than the collection's is a Conflict, its own and None are fine."""
        shelf.put(record("a#0"))
        with pytest.raises(Conflict):
            shelf.dense([1, 0], fingerprint="n@2")
        assert ids(shelf.dense([1, 0], fingerprint="m@2")) == ids(shelf.dense([1, 0])) == ["a#0"]

    def test_dense_forgets_what_was_removed_and_replaced(self, shelf: Shelf) -> None:
        """Look at the vector index after a write: removed and replaced vectors are not found, at any limit."""
        shelf.put(*(record(f"s{number}#0", vector=[1, 0]) for number in range(6)))
        shelf.delete(source("s0"))
        shelf.put(record("s1#0", vector=[0, 1]))
        found = shelf.dense([1, 0], limit=5)
        assert ids(found) == ["s2#0", "s3#0", "s4#0", "s5#0", "s1#0"]
        assert math.isclose(found[-1].score, 0.0, abs_tol=1e-5)

    def test_dense_random_answers_are_those_of_a_brute_force(self, store: VectorStore, unused: str) -> None:
        """Look at filter, score, order and cut together: the answer is the one of a cosine summed by math.fsum."""
        store.create_collection(unused, CollectionSpec(3, "m@3"))
        shelf = Shelf(store, unused)

        @strategies.seeded(40)
        @given(
            sources=strategies.libraries(),
            query=strategies.vectors(3),
            asked=st.lists(
                st.tuples(
                    strategies.tenant_leaves | strategies.scopes | strategies.filters, st.sampled_from((1, 2, 3, 100))
                ),
                min_size=1,
                max_size=6,
            ),
        )
        def agree(sources: list[list[Record]], query: NDArray[np.float32], asked: list[tuple[Filter, int]]) -> None:
            records = filled(shelf, sources)
            for where, limit in asked:

                def found(where: Filter = where, limit: int = limit) -> list[Match]:
                    return shelf.dense(query, where, limit)

                if is_proven_refused(shelf, where, found):
                    continue
                got, expected = found(), nearest(records, query.tolist(), where)
                with explained(records, (query, where, limit), expected, got):
                    judge_nearest(got, expected, limit)

        agree()


def _deep(store: VectorStore, name: str) -> Shelf:
    store.create_collection(name, CollectionSpec(DIMENSION, "deep"))
    return Shelf(store, name)


def _row(source_id: str, index: int, vector: NDArray[np.float32]) -> Record:
    number = index if source_id == "a" else int(source_id[1:])
    return record(f"{source_id}#{index}", vector=vector, n=number)


def _many(number: int) -> tuple[list[Record], NDArray[np.float32]]:
    """Return records of 30 sources, a third of them to each part, and queries of their kind."""
    numbers = np.random.default_rng(11).standard_normal((number + 20, DIMENSION)).astype(np.float32)
    records = [
        record(f"s{index % 30}#{index // 30}", vector=vector, part=index % 3)
        for index, vector in enumerate(numbers[:number])
    ]
    return records, numbers[number:]
