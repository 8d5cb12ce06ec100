"""Narrowings only take away: cases 17–24 and 31, each mode alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.library.doubles import RecordingEmbedder, RecordingStore, source

from stackroom import Library, Narrowing, Passage, Scope
from stackroom.filters import And, Contains, Eq, Ne, Not, Range

if TYPE_CHECKING:
    from collections.abc import Iterator

MODES: list[Any] = ["hybrid", "lexical", "dense"]

SOURCES: dict[str, dict[str, Any]] = {
    "a": {"kind": "doc", "folder_id": "a", "tags": ["x", "y"], "tier": "hot"},
    "b": {"kind": "doc", "folder_id": "b", "tags": ["x"], "tier": "cold"},
    "c": {"kind": "doc"},
    "m": {"kind": "meeting", "folder_id": "a", "tags": ["y"]},
    "n": {"kind": "meeting", "folder_id": "b"},
}
EVERY = "a b c m n"


@pytest.fixture
def filled(library: Library) -> Library:
    for place, (source_id, fields) in enumerate(SOURCES.items()):
        library.index_source(source(source_id, Passage("some text", {"page": place, "of": source_id}), **fields))
    library.index_source(source("theirs", "some text", tenant_id="u", folder_id="a"))
    library.index_source(source("hidden", "some text", acl_groups=["h"], folder_id="a", tags=["x", "y"]))
    return library


@pytest.fixture
def empty_without_asking(
    watched: Library, recording: RecordingStore, embedder: RecordingEmbedder, scope: Scope
) -> Iterator[Library]:
    watched.index_source(source("s", "some text", folder_id="a"))
    recording.asked.clear()
    embedder.batches.clear()
    yield watched
    assert (recording.asked, embedder.calls) == ([], 0)
    assert watched.count(scope=scope) == 1


def found(library: Library, scope: Scope, **narrowing: Any) -> str:
    """Return the sources that every mode finds, and every listing, when any_of is not given."""
    seen = {
        " ".join(sorted(hit.source_id for hit in library.search("text", scope=scope, mode=mode, **narrowing)))
        for mode in MODES
    }
    if "any_of" not in narrowing:
        seen.add(" ".join(info.source_id for info in library.sources(scope=scope, **narrowing)))
        assert library.count(scope=scope, **narrowing) == max(len(one.split()) for one in seen)
    assert len(seen) == 1, seen
    return seen.pop()


@pytest.mark.parametrize(
    ("narrowing", "expected"),
    [
        ({}, EVERY),
        ({"kinds": ["doc"]}, "a b c"),
        ({"kinds": ["doc", "meeting", "none"]}, EVERY),
        ({"kinds": ["Doc"]}, ""),
        ({"folder_id": "a"}, "a m"),
        ({"folder_ids": ["a", "b"]}, "a b m n"),
        ({"tags": ["x"]}, "a b"),
        ({"tags": ["x", "y"]}, "a"),
        ({"tags": ["y", "x", "y"]}, "a"),
        ({"tags": ["none"]}, ""),
        ({"source_ids": ["c", "n", "none", "theirs", "hidden"]}, "c n"),
        ({"tiers": ["hot"]}, "a"),
        ({"kinds": ["doc"], "folder_id": "b", "tags": ["x"], "tiers": ["cold"], "source_ids": ["b", "c"]}, "b"),
        ({"kinds": ["meeting"], "tags": ["x"]}, ""),
        ({"where": {"page": {"$gte": 3}}}, "m n"),
        ({"where": Range("page", lt=2)}, "a b"),
        ({"where": {"of": "c"}, "kinds": ["doc"]}, "c"),
        ({"where": {"of": "c"}, "kinds": ["meeting"]}, ""),
        ({"where": {"folderId": "a"}}, "a m"),
        ({"where": {"tags": {"$all": ["x", "y"]}}}, "a"),
        ({"where": Not(Eq("folderId", "a"))}, "b c n"),
        ({"where": Ne("folderId", "a")}, "b n"),
        ({"where": Contains("of", "m")}, "m"),
        ({"where": {}}, EVERY),
        ({"where": And()}, EVERY),
        ({"where": {"$or": []}}, ""),
        ({"where": {"no such key'; --": 1}}, ""),
        ({"where": {"title": {"$exists": False}}}, EVERY),
        ({"where": {"kind": "doc", "status": "active", "index": 0}}, "a b c"),
    ],
    ids=str,
)
def test_each_narrowing_keeps_what_it_says(
    filled: Library, scope: Scope, narrowing: dict[str, Any], expected: str
) -> None:
    assert found(filled, scope, **narrowing) == expected


@pytest.mark.parametrize(
    "narrowing",
    [{"source_ids": []}, {"folder_ids": []}, {"folder_id": "a", "folder_ids": ["b"]}, {"any_of": []}],
    ids=str,
)
@pytest.mark.parametrize("mode", MODES)
def test_case_17_a_search_that_can_find_nothing_ends_without_asking(
    empty_without_asking: Library, scope: Scope, mode: Any, narrowing: dict[str, Any]
) -> None:
    answer = empty_without_asking.search("text", scope=scope, mode=mode, **narrowing)
    assert (len(answer), answer.complete, answer.notes, answer.mode) == (0, True, (), mode)


@pytest.mark.parametrize(
    "any_of",
    [
        [{"source_ids": []}],
        [{"folder_ids": []}, {"source_ids": []}],
        [{"folder_id": "a", "folder_ids": ["b"]}],
        [Narrowing(folder_ids=())],
    ],
    ids=str,
)
def test_branches_that_all_find_nothing_end_without_asking(
    empty_without_asking: Library, scope: Scope, any_of: Any
) -> None:
    answer = empty_without_asking.search("text", scope=scope, any_of=any_of)
    assert (len(answer), answer.complete) == (0, True)


@pytest.mark.parametrize("narrowing", [{"source_ids": []}, {"folder_ids": []}], ids=str)
def test_listings_of_an_empty_list_ask_nothing(
    empty_without_asking: Library, scope: Scope, narrowing: dict[str, Any]
) -> None:
    page = empty_without_asking.sources(scope=scope, **narrowing)
    assert (len(page), page.next) == (0, None)
    assert empty_without_asking.count(scope=scope, **narrowing) == 0


def test_case_18_a_folder_and_folders_must_both_hold(filled: Library, scope: Scope) -> None:
    assert found(filled, scope, folder_id="a", folder_ids=["a", "b"]) == "a m"


def test_case_19_empty_kinds_tags_and_tiers_narrow_nothing(filled: Library, scope: Scope) -> None:
    assert found(filled, scope, kinds=[], tags=[]) == EVERY
    assert found(filled, scope, kinds=(), tags=(), tiers=(), where={}) == EVERY
    assert found(filled, scope, kinds=[], folder_id="a") == "a m"


@pytest.mark.parametrize(
    ("own", "any_of", "expected"),
    [
        pytest.param(
            {},
            [{"kinds": ["doc"], "folder_ids": ["a"]}, {"kinds": ["doc"], "source_ids": ["c"]}],
            "a c",
            id="case 20",
        ),
        pytest.param({"folder_id": "a"}, [{"folder_id": "b"}], "b n", id="case 21"),
        pytest.param({"folder_id": "a"}, [{"folder_ids": ["b"]}], "", id="case 22"),
        pytest.param({"kinds": ["doc"]}, [{"kinds": []}], "a b c", id="case 23"),
        pytest.param({"kinds": ["doc"]}, [{}], "a b c", id="an empty branch is the search's own"),
        pytest.param({"kinds": ["doc"]}, [Narrowing()], "a b c", id="and so is an empty Narrowing"),
        pytest.param({"kinds": ["doc"]}, [{"kinds": None}], "a b c", id="None is not given"),
        pytest.param({"tags": ["x"]}, [{"tags": ()}], "a b", id="empty tags replace nothing"),
        pytest.param({"tiers": ["hot"]}, [{"tiers": []}], "a", id="empty tiers replace nothing"),
        pytest.param({"where": {"of": "c"}}, [{"where": {}}], "c", id="an empty where replaces nothing"),
        pytest.param({"where": {"of": "c"}}, [{"where": {"of": "b"}}], "b", id="where replaces where"),
        pytest.param({"tags": ["x"]}, [{"tags": ["y"]}], "a m", id="tags replace tags"),
        pytest.param({"tiers": ["hot"]}, [{"tiers": ["cold"]}], "b", id="tiers replace tiers"),
        pytest.param({"kinds": ["doc"]}, [{"kinds": ["meeting"]}, {}], EVERY, id="a branch may widen its own field"),
        pytest.param({"kinds": ["doc"]}, [{"folder_id": "a"}], "a", id="other fields stay"),
        pytest.param({"source_ids": ["a"]}, [{"source_ids": []}], "", id="an empty list of sources finds nothing"),
        pytest.param({}, [{"source_ids": []}, {"source_ids": ["c"]}], "c", id="beside one that finds something"),
        pytest.param({"source_ids": []}, [{"source_ids": ["c"]}], "c", id="a branch replaces an empty list"),
        pytest.param({"folder_ids": []}, [{}, {"folder_ids": ["b"]}], "b n", id="likewise for folders"),
        pytest.param(
            {}, [{"folder_id": "a"}, {"tags": ["y"]}, {"folder_id": "a"}], "a m", id="found twice, shown once"
        ),
        pytest.param({}, [{"where": {"tenantId": "u"}}, {"source_ids": ["theirs", "hidden"]}], "", id="no wider scope"),
        pytest.param({}, [Narrowing(kinds=["meeting"], tags=["y"]), {"tiers": ["cold"]}], "b m", id="mixed kinds"),
    ],
)
def test_any_of_keeps_what_a_branch_keeps(
    filled: Library, scope: Scope, own: dict[str, Any], any_of: Any, expected: str
) -> None:
    assert found(filled, scope, **own, any_of=any_of) == expected


def test_any_of_none_is_not_given(filled: Library, scope: Scope) -> None:
    assert found(filled, scope, any_of=None) == EVERY


def test_branches_are_one_question_to_each_leg(
    watched: Library, recording: RecordingStore, embedder: RecordingEmbedder, scope: Scope
) -> None:
    for source_id in "abc":
        watched.index_source(source(source_id, "some text"))
    recording.asked.clear()
    answer = watched.search("text", scope=scope, any_of=[{"source_ids": [name]} for name in "abca"])
    assert sorted(recording.names()) == ["dense", "lexical"]
    assert embedder.queries == ["text"]
    assert [(hit.id, hit.dense_rank, hit.lexical_rank) for hit in answer] == [
        ("a#0", 1, 1),
        ("b#0", 2, 2),
        ("c#0", 3, 3),
    ]


def test_branches_leave_scores_as_they_are(filled: Library, scope: Scope) -> None:
    alone = {hit.id: hit.score for hit in filled.search("text", scope=scope, mode="lexical")}
    branched = filled.search("text", scope=scope, mode="lexical", any_of=[{"source_ids": ["a"]}, {"folder_id": "b"}])
    assert {hit.id: hit.score for hit in branched} == {name: alone[name] for name in ("a#0", "b#0", "n#0")}


@pytest.mark.parametrize(("tiers", "expected"), [(["hot", "cold"], "a b"), ([], "a b c")], ids=str)
def test_case_31_a_source_without_a_tier_is_in_none(filled: Library, scope: Scope, tiers: Any, expected: str) -> None:
    assert found(filled, scope, kinds=["doc"], tiers=tiers) == expected


def test_a_source_without_a_folder_is_in_none(filled: Library, scope: Scope) -> None:
    assert "c" not in found(filled, scope, folder_ids=["a", "b", "c", "None", "null"])


def test_a_passage_is_judged_by_its_own_metadata(library: Library, scope: Scope) -> None:
    library.index_source(source("s", Passage("text one", {"page": 1}), Passage("text two", {"page": 2})))
    assert [hit.id for hit in library.search("text", scope=scope, where={"page": 2})] == ["s#1"]
    assert library.count(scope=scope, where={"page": 2}) == 1
    assert [info.passages for info in library.sources(scope=scope, where={"page": 2})] == [2]
    assert len(library.sources(scope=scope, where={"page": 3})) == 0


def test_ten_thousand_sources_may_be_named(library: Library, scope: Scope) -> None:
    library.index_source(source("s", "some text"))
    assert found(library, scope, source_ids=[f"n{number}" for number in range(9_999)] + ["s"]) == "s"


def test_a_small_scope_in_a_large_tenant_gets_all_that_match(library: Library, scope: Scope) -> None:
    for number in range(60):
        library.index_source(source(f"other {number}", *["some text"] * 3, acl_groups=["h"]))
    library.index_source(source("mine", *["some text and more"] * 4))
    for mode in MODES:
        answer = library.search("some text", scope=scope, mode=mode, top_k=4)
        assert [hit.source_id for hit in answer] == ["mine"] * 4
        assert answer.complete
