"""Words through Library.search: rows L1–L7 of text.md, and statistics that no other tenant moves."""

from __future__ import annotations

from typing import Any

import pytest
from tests.library.doubles import source

from stackroom import Library, Scope

FOXES = {"a": "red fox runs", "b": "red red hen", "c": "blue fox jumps high today"}


@pytest.fixture
def foxes(library: Library) -> Library:
    for source_id, text in FOXES.items():
        library.index_source(source(source_id, text))
    return library


def scores(library: Library, text: str, scope: Scope, **options: Any) -> dict[str, float]:
    return {hit.source_id: hit.score for hit in library.search(text, scope=scope, mode="lexical", **options)}


@pytest.mark.parametrize(
    ("stored", "query", "prefix", "is_found"),
    [
        pytest.param("Chapters on the spring budget", "chapter", False, False, id="L1"),
        pytest.param("Chapters on the spring budget", "chapter", True, True, id="L1 prefix"),
        pytest.param("sales in spring", "Q3's", True, False, id="L2"),
        pytest.param("sales in spring", "s", True, True, id="L3"),
        pytest.param("私は東京都に住む", "京", False, True, id="L4 one character"),
        pytest.param("私は東京都に住む", "京都", False, True, id="L4 neighbours"),
        pytest.param("私は東京都に住む", "京に", False, False, id="L4 no neighbours"),
        pytest.param("Große STRASSE", "straße", False, True, id="folded"),
        pytest.param("cafe" + chr(0x301), "CAFÉ", False, True, id="composed"),
        pytest.param("not stored in title", "T", False, False, id="title"),
    ],
)
def test_words_are_found_as_the_text_page_says(
    library: Library, scope: Scope, stored: str, query: str, *, prefix: bool, is_found: bool
) -> None:
    library.index_source(source("s", stored, title="T", tags=["T"], metadata={"T": "T"}))
    assert ("s" in scores(library, query, scope, prefix=prefix)) is is_found


@pytest.mark.parametrize(
    ("query", "match", "expected"),
    [
        pytest.param("red", "any", {"b": 0.890966, "a": 0.782691}, id="L5"),
        pytest.param("red fox", "any", {"a": 1.565382, "b": 0.890966, "c": 0.774447}, id="L6 any"),
        pytest.param("red fox", "all", {"a": 1.565382}, id="L6 all"),
        pytest.param("red RED red", "any", {"b": 0.890966, "a": 0.782691}, id="asked twice"),
    ],
)
def test_scores_are_bm25(foxes: Library, scope: Scope, query: str, match: Any, expected: dict[str, float]) -> None:
    found = scores(foxes, query, scope, match=match)
    assert list(found) == list(expected)
    assert found == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("match", "expected"), [("any", {"a", "b", "c"}), ("all", set())])
def test_l7_prefixes_of_any_or_all(foxes: Library, scope: Scope, match: Any, expected: set[str]) -> None:
    assert set(scores(foxes, "re jum", scope, prefix=True, match=match)) == expected


def test_no_other_tenant_moves_a_score(foxes: Library, scope: Scope) -> None:
    before = [scores(foxes, text, scope, prefix=prefix) for text in ("red", "red fox", "j") for prefix in (False, True)]
    for number in range(20):
        foxes.index_source(source(f"r{number}", "red fox jumps " * number + "red", tenant_id="u"))
    after = [scores(foxes, text, scope, prefix=prefix) for text in ("red", "red fox", "j") for prefix in (False, True)]
    assert after == before


def test_statistics_are_the_tenants_whatever_the_scope_or_narrowing(foxes: Library, scope: Scope) -> None:
    foxes.index_source(source("hidden", "red red red", acl_groups=["h"]))
    wide = scores(foxes, "red fox", Scope("t", ["g", "h"]))
    assert scores(foxes, "red fox", scope) == {name: wide[name] for name in "abc"}
    assert scores(foxes, "red fox", scope, source_ids=["c"]) == {"c": wide["c"]}
    assert scores(foxes, "red fox", scope, any_of=[{"source_ids": ["a"]}, {"source_ids": ["c"]}]) == {
        "a": wide["a"],
        "c": wide["c"],
    }


def test_a_query_may_have_any_number_of_terms(foxes: Library, scope: Scope) -> None:
    query = " ".join(f"w{number}" for number in range(2_000)) + " red"
    assert scores(foxes, query, scope) == pytest.approx({"b": 0.890966, "a": 0.782691}, abs=1e-5)


def test_a_replaced_text_is_found_by_its_new_words_only(foxes: Library, scope: Scope) -> None:
    foxes.index_source(source("a", "green owl"))
    assert set(scores(foxes, "red", scope)) == {"b"}
    assert set(scores(foxes, "owl", scope)) == {"a"}
