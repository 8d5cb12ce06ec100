"""When a ranker is asked, and what."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from tests.library.doubles import RecordingEmbedder
from tests.rankers.conftest import OWN, SCOPE, Open, codes, found, source, store_of
from tests.rankers.doubles import Answering, HonestRanker

from stackroom import CapabilityError, Library, Scope
from stackroom._model import Mode
from stackroom.filters import Eq
from stackroom.rankers import VectorRanker
from stackroom.stores import CollectionSpec, EmbeddedStore


def many(library: Library, number: int, groups: Any = lambda _place: ["g"]) -> None:
    """Index sources with one passage each."""
    for place in range(number):
        library.index_source(source(f"s{place}", f"text {place}", acl_groups=groups(place)))


def test_an_honest_ranker_is_asked_once_with_all_that_is_allowed(three: Open) -> None:
    ranker = HonestRanker()
    library = three(ranker)
    assert found(library) == OWN
    (asked,) = ranker.asked
    assert (asked["tenant_id"], sorted(asked["candidate_ids"]), asked["limit"]) == ("t", ["a#0", "b#0", "c#0"], 3)
    assert isinstance(asked["candidate_ids"], tuple)
    assert codes(library) == []


@pytest.mark.parametrize("mode", ["dense", "hybrid"])
@pytest.mark.parametrize(("top_k", "limit"), [(1, 50), (10, 50), (20, 60)])
def test_listed_candidates_are_asked_for_as_many_as_a_leg_holds(
    opened: Open, embedder: RecordingEmbedder, top_k: int, limit: int, mode: Mode
) -> None:
    ranker = HonestRanker()
    library = opened(ranker)
    library.index_source(source("s", *[f"text {place}" for place in range(200)]))
    embedder.vectors["text 1"] = [0.0, 0.0, 1.0]
    library.search("text 1", scope=SCOPE, mode=mode, top_k=top_k)
    assert [asked["limit"] for asked in ranker.asked] == [limit]
    assert len(ranker.asked[0]["candidate_ids"]) == 200


def test_what_has_expired_is_no_candidate(three: Open) -> None:
    ranker = HonestRanker()
    library = three(ranker)
    library.index_source(source("b", "car vehicle", expires_at=datetime(2000, 1, 1, tzinfo=UTC)))
    assert found(library) == [("a", 1.0), ("c", 0.6)]
    assert sorted(ranker.asked[0]["candidate_ids"]) == ["a#0", "c#0"]


@pytest.mark.parametrize("mode", ["dense", "hybrid"])
@pytest.mark.parametrize(
    ("allowed", "all_of_them", "bounds", "limit"),
    [
        pytest.param(500, 1000, {"max_candidates": 100}, 150, id="1.5 · 50 · 1000 / 500"),
        pytest.param(170, 400, {"max_candidates": 20}, 177, id="1.5 · 50 · 400 / 170, rounded up"),
        pytest.param(390, 400, {"max_candidates": 20}, 100, id="2 · 50"),
        pytest.param(30, 400, {"max_candidates": 20}, 400, id="the whole tenant"),
        pytest.param(30, 400, {"max_candidates": 20, "max_limit": 120}, 120, id="max_limit"),
        pytest.param(100, 400, {"max_candidates": 100}, 50, id="listed"),
        pytest.param(100, 400, {"max_candidates": 100, "max_limit": 7}, 7, id="listed, max_limit"),
    ],
)
def test_unlisted_candidates_are_asked_for_by_their_share_of_the_tenant(
    opened: Open, allowed: int, all_of_them: int, bounds: dict[str, Any], limit: int, mode: Mode
) -> None:
    ranker = HonestRanker(**bounds)
    library = opened(ranker)
    for name, group, number in (("seen", "g", allowed), ("unseen", "h", all_of_them - allowed)):
        library.index_source(source(name, *[f"text {place}" for place in range(number)], acl_groups=[group]))
    assert len(library.search("text 1", scope=SCOPE, mode=mode, top_k=10)) == 10
    assert (ranker.asked[0]["candidate_ids"] is None) is (allowed > bounds["max_candidates"])
    assert ranker.asked[0]["limit"] == limit


def test_a_tenant_that_is_smaller_than_twice_the_leg_is_asked_for_whole(opened: Open) -> None:
    ranker = HonestRanker(max_candidates=5)
    library = opened(ranker)
    many(library, 30)
    library.search("text 1", scope=SCOPE, mode="dense")
    assert ranker.asked[0]["limit"] == 30


@pytest.mark.parametrize(
    "asked",
    [
        {"mode": "lexical"},
        {"source_ids": []},
        {"folder_ids": []},
        {"any_of": []},
        {"folder_id": "nowhere"},
        {"scope": Scope("nobody", ["g"])},
        {"scope": Scope("t", ["h"])},
    ],
    ids=str,
)
def test_it_is_not_asked_where_there_is_nothing_to_rank(three: Open, asked: dict[str, Any]) -> None:
    ranker = HonestRanker()
    library = three(ranker)
    library.search("apple", **{"scope": SCOPE, "mode": "dense", **asked})
    assert ranker.asked == []


@pytest.mark.parametrize("mode", ["dense", "hybrid"])
def test_any_of_is_one_question(three: Open, mode: str, embedder: RecordingEmbedder) -> None:
    ranker = HonestRanker()
    library = three(ranker)
    found(library, mode=mode, any_of=[{"source_ids": ["a"]}, {"source_ids": ["b"]}])
    (asked,) = ranker.asked
    assert sorted(asked["candidate_ids"]) == ["a#0", "b#0"]
    assert embedder.queries == ["apple"]


def test_only_the_scopes_tenant_is_asked_about(three: Open) -> None:
    ranker = HonestRanker()
    library = three(ranker)
    library.index_source(source("a", "car vehicle", tenant="u"))
    assert found(library) == OWN
    assert found(library, scope=Scope("u", ["g"])) == [("a", 0.0)]
    assert [asked["tenant_id"] for asked in ranker.asked] == ["t", "u"]


def test_the_query_is_a_fresh_copy_of_unit_length(three: Open, embedder: RecordingEmbedder) -> None:
    embedder.vectors["far"] = [3.0, 4.0, 0.0]
    kept: list[Any] = []

    def spoil(honest: list[Any]) -> list[Any]:
        kept.append(ranker.asked[-1]["query"].copy())
        ranker.asked[-1]["query"][:] = np.nan
        return honest

    ranker = Answering(spoil)
    library = three(ranker)
    for _ in range(2):
        assert found(library, "far") == [("c", 1.0), ("b", 0.8), ("a", 0.6)]
    for query in kept:
        assert (query.dtype, query.shape) == (np.float32, (3,))
        assert query.tolist() == pytest.approx([0.6, 0.8, 0.0])


def test_a_query_that_was_spoilt_before_a_failure_is_right_all_the_same(three: Open) -> None:
    def spoil(_honest: list[Any]) -> list[Any]:
        ranker.asked[-1]["query"][:] = np.nan
        raise RuntimeError

    ranker = Answering(spoil)
    library = three(ranker)
    for _ in range(2):
        assert found(library) == OWN


def test_a_store_by_itself_never_asks_it(three: Open) -> None:
    ranker = HonestRanker()
    library = three(ranker)
    store = store_of(library)
    assert [match.id for match in store.dense("library", [1, 0, 0], where=Eq("tenantId", "t"), limit=3)] == [
        "a#0",
        "c#0",
        "b#0",
    ]
    assert ranker.asked == []


def test_only_keyword_arguments_are_passed(three: Open) -> None:
    class Positional:
        def rank_by_similarity(self, *positional: Any, **named: Any) -> list[Any]:
            assert not positional
            assert set(named) == {"tenant_id", "query", "candidate_ids", "limit"}
            return []

        def on_embedding_persisted(self, *positional: Any, **named: Any) -> None:
            assert not positional
            assert set(named) == {"tenant_id", "passage_id", "vector"}

    assert "ranker_fallback" not in codes(three(Positional()))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"ranker_fallback": "never"}, ValueError),
        ({"ranker_fallback": None}, ValueError),
        ({"ranker": object()}, TypeError),
        ({"on_ranker_fallback": "call"}, TypeError),
        ({"sanitize_ranker_errors": 1}, TypeError),
        *(({"ranker_timeout": wrong}, ValueError) for wrong in (0, -1, float("nan"), float("inf"), True, "5")),
        *(({"ranker": HonestRanker(max_limit=wrong)}, ValueError) for wrong in (0, -1, True)),
        ({"ranker": HonestRanker(max_candidates=0)}, ValueError),
        ({"ranker": HonestRanker(durable_id="")}, ValueError),
    ],
)
def test_what_cannot_be_a_ranker_is_refused_and_nothing_is_made(
    tmp_path: Any, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        EmbeddedStore(tmp_path / "store", **options)
    assert not (tmp_path / "store").exists()


def test_a_subclass_of_the_protocol_has_only_what_it_defines(three: Open) -> None:
    class Inherits(VectorRanker):
        def rank_by_similarity(self, **_: Any) -> list[Any]:
            return []

    library = three(Inherits())  # type: ignore[abstract] # at run time it is none
    assert found(library) == OWN
    assert store_of(library).ranker_health().owed == 0


def test_a_store_with_a_ranker_holds_one_collection_and_its_side(three: Open) -> None:
    store = store_of(three(HonestRanker()))
    spec = CollectionSpec(3, "m@3")
    with pytest.raises(CapabilityError):
        store.create_collection("second", spec)
    store.create_collection("library.side", spec)
    store.drop_collection("library.side")


def test_opening_a_second_collection_with_a_ranker_is_refused(tmp_path: Any) -> None:
    store = EmbeddedStore(tmp_path / "store")
    for name in ("one", "two"):
        store.create_collection(name, CollectionSpec(3, "m@3"))
    store.close()
    store = EmbeddedStore(tmp_path / "store", HonestRanker())
    assert store.collection("two") is not None
    with pytest.raises(CapabilityError):
        store.collection("one")
    store.close()


def test_no_store_closes_a_ranker(three: Open) -> None:
    class Closes(HonestRanker):
        def close(self) -> None:
            raise AssertionError("it is its maker's")

    library = three(Closes())
    library.close()
