"""Listings: pages and cursors (case 30), one source, its passages, counts."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.library.doubles import HandClock, RecordingEmbedder, source

from stackroom import Library, Page, Passage, Scope, SourceInfo

if TYPE_CHECKING:
    from stackroom.stores import VectorStore


def names(page: Page[SourceInfo]) -> list[str]:
    return [info.source_id for info in page]


def pages(library: Library, scope: Scope, **options: Any) -> list[list[str]]:
    """Return the names of page after page, to the end."""
    found, after = [], None
    while True:
        page = library.sources(scope=scope, after=after, **options)
        found.append(names(page))
        after = page.next
        if after is None:
            return found


@pytest.fixture
def five(library: Library) -> Library:
    for name in "daceb":
        library.index_source(source(name, "text one", "text two", folder_id="f"))
    return library


def test_case_30_sources_come_page_by_page(five: Library, scope: Scope) -> None:
    assert pages(five, scope, limit=2) == [["a", "b"], ["c", "d"], ["e"]]


@pytest.mark.parametrize("limit", [5, 6, 100, 10_000])
def test_one_page_that_holds_all_has_no_next(five: Library, scope: Scope, limit: int) -> None:
    page = five.sources(scope=scope, limit=limit)
    assert (names(page), page.next) == (list("abcde"), None)


def test_a_page_is_a_sequence(five: Library, scope: Scope) -> None:
    page = five.sources(scope=scope, limit=3)
    assert isinstance(page, Sequence)
    assert (len(page), page[0].source_id, page[-1].source_id) == (3, "a", "c")
    assert [info.source_id for info in page[1:]] == ["b", "c"]


def test_sources_are_ordered_as_python_orders_strings(library: Library, scope: Scope) -> None:
    given = [
        "s10",
        "s2",
        "S",
        "é",
        "e" + chr(0x301),
        chr(0xFFFD),
        "😀",
        "a\nb",
        "a#1",
        "a",
        "a!",
        "it's",
        '"',
        "%",
        " x",
    ]
    for name in given:
        library.index_source(source(name, "text"))
    assert [name for page in pages(library, scope, limit=4) for name in page] == sorted(given)


def test_a_hundred_sources_are_listed_unless_said(library: Library, scope: Scope) -> None:
    for number in range(101):
        library.index_source(source(f"{number:03}", "text"))
    assert [len(page) for page in pages(library, scope)] == [100, 1]


def test_listing_goes_on_behind_the_last_source_whatever_was_written(five: Library, scope: Scope) -> None:
    page = five.sources(scope=scope, limit=2)
    five.index_source(source("a0", "text"))
    five.index_source(source("b", "replaced"))
    five.index_source(source("bb", "text"))
    five.remove_source("c", tenant_id="t")
    five.set_source_scope("d", tenant_id="t", folder_id="elsewhere")
    page = five.sources(scope=scope, limit=2, after=page.next)
    assert names(page) == ["bb", "d"]
    assert names(five.sources(scope=scope, limit=2, after=page.next)) == ["e"]


def test_listing_goes_on_when_the_last_source_is_gone(five: Library, scope: Scope) -> None:
    page = five.sources(scope=scope, limit=2)
    five.remove_source("b", tenant_id="t")
    assert names(five.sources(scope=scope, after=page.next)) == ["c", "d", "e"]


def test_a_cursor_may_be_used_again(five: Library, scope: Scope) -> None:
    after = five.sources(scope=scope, limit=1).next
    assert [names(five.sources(scope=scope, limit=limit, after=after)) for limit in (1, 2)] == [["b"], ["b", "c"]]


def test_a_cursor_of_a_page_goes_on_in_another_library(five: Library, store: VectorStore, scope: Scope) -> None:
    after = five.sources(scope=scope, limit=3).next
    again = Library(store, "library", RecordingEmbedder())
    assert names(again.sources(scope=scope, after=after)) == ["d", "e"]


GARBAGE: list[Any] = [
    "",
    "a",
    "b#0",
    "AAAA",
    "é😀",
    chr(0xD800),
    "\x00",
    base64.urlsafe_b64encode(b'["a","b"]').decode(),
    base64.urlsafe_b64encode(b'{"a":1}').decode(),
    base64.urlsafe_b64encode(b"[" * 200_000).decode(),
    base64.urlsafe_b64encode(b"1" * 10_000).decode(),
    "x" * 100_000,
    0,
    1,
    True,
    2.5,
    b"a",
    ["a"],
    ("t", "a", 0),
    {"a": 1},
]


@pytest.mark.parametrize("after", GARBAGE, ids=lambda value: f"{value!r:.20}")
@pytest.mark.parametrize("narrowing", [{}, {"source_ids": []}], ids=["plain", "finds nothing"])
def test_a_cursor_that_no_page_gave_is_refused(
    five: Library, scope: Scope, after: Any, narrowing: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=r"."):
        five.sources(scope=scope, after=after, **narrowing)


def test_a_cursor_that_was_changed_is_refused(five: Library, scope: Scope) -> None:
    after = str(five.sources(scope=scope, limit=2).next)
    for changed in (after[:-8], after[4:], after.swapcase(), after + "AAAA"):
        with pytest.raises(ValueError, match=r"."):
            five.sources(scope=scope, after=changed)


@pytest.mark.parametrize(
    ("scope_then", "narrowing"),
    [
        (Scope("u", ["g"]), {}),
        (Scope("t", ["h"]), {}),
        (Scope("t", ["g", "h"]), {}),
        (Scope("t", ["g"]), {"kinds": ["doc"]}),
        (Scope("t", ["g"]), {"folder_id": "f"}),
        (Scope("t", ["g"]), {"folder_ids": ["f"]}),
        (Scope("t", ["g"]), {"source_ids": ["a", "b", "c"]}),
        (Scope("t", ["g"]), {"tiers": ["hot"]}),
        (Scope("t", ["g"]), {"tags": ["x"]}),
        (Scope("t", ["g"]), {"where": {"index": 0}}),
    ],
    ids=str,
)
def test_a_cursor_of_another_scope_or_narrowing_is_refused(
    five: Library, scope: Scope, scope_then: Scope, narrowing: dict[str, Any]
) -> None:
    after = five.sources(scope=scope, limit=2).next
    with pytest.raises(ValueError, match=r"."):
        five.sources(scope=scope_then, after=after, **narrowing)


def test_a_narrowed_listing_goes_on_with_its_own_cursor(five: Library, scope: Scope) -> None:
    narrowing: dict[str, Any] = {"folder_id": "f", "source_ids": ["a", "c", "e"], "where": {"index": {"$lt": 5}}}
    assert pages(five, scope, limit=2, **narrowing) == [["a", "c"], ["e"]]
    after = five.sources(scope=scope, limit=2, **narrowing).next
    with pytest.raises(ValueError, match=r"."):
        five.sources(scope=scope, after=after, **{**narrowing, "where": {"index": {"$lt": 6}}})
    with pytest.raises(ValueError, match=r"."):
        five.sources(scope=scope, after=after)


def test_where_lists_a_source_when_one_of_its_passages_matches(library: Library, scope: Scope) -> None:
    for number in range(6):
        library.index_source(
            source(f"s{number}", *([Passage(f"text {page}", {"page": page}) for page in range(number * 10)] or "x"))
        )
    assert pages(library, scope, where={"page": {"$gte": 15}}, limit=2) == [["s2", "s3"], ["s4", "s5"]]
    assert pages(library, scope, where={"page": 35}, limit=1) == [["s4"], ["s5"]]
    assert pages(library, scope, where={"page": {"$exists": False}}) == [["s0"]]
    (info,) = library.sources(scope=scope, where={"page": 45})
    assert (info.source_id, info.passages) == ("s5", 50)


def test_a_source_shows_its_properties(library: Library, clock: HandClock, scope: Scope) -> None:
    expires_at = clock.now + timedelta(days=1)
    library.index_source(
        source(
            "s",
            Passage("one", {"page": 1}),
            "two",
            kind="meeting",
            acl_groups=["g", "h"],
            folder_id="f",
            tags=["x", "y"],
            title="T",
            metadata={"team": "a", "labels": ["q3"], "n": 5},
            expires_at=expires_at,
            tier="warm",
        )
    )
    expected = SourceInfo(
        source_id="s",
        kind="meeting",
        tenant_id="t",
        acl_groups=("g", "h"),
        folder_id="f",
        tags=("x", "y"),
        title="T",
        metadata={"team": "a", "labels": ["q3"], "n": 5},
        passages=2,
        created_at=clock.now,
        updated_at=clock.now,
        expires_at=expires_at,
        tier="warm",
    )
    assert library.source("s", scope=scope) == expected
    assert list(library.sources(scope=scope)) == [expected]


def test_a_source_of_nothing_but_what_it_needs(library: Library, scope: Scope) -> None:
    library.index_source(source("s", "one"))
    info = library.source("s", scope=scope)
    assert info is not None
    assert (info.folder_id, info.tags, info.title, dict(info.metadata)) == (None, (), None, {})
    assert (info.expires_at, info.tier, info.passages) == (None, None, 1)


@pytest.mark.parametrize("source_id", ["none", "S", "s ", "s#0", "hidden", "theirs", "*", "%"])
def test_what_is_not_there_and_what_is_not_visible_look_alike(library: Library, scope: Scope, source_id: str) -> None:
    library.index_source(source("s", "text"))
    library.index_source(source("hidden", "text", acl_groups=["h"]))
    library.index_source(source("theirs", "text", tenant_id="u"))
    assert library.source(source_id, scope=scope) is None
    assert library.passages(source_id, scope=scope) == []


@pytest.mark.parametrize("source_id", ["", " ", None, 5, b"s", "a\x00"])
def test_a_source_id_that_cannot_be_one_is_refused(library: Library, scope: Scope, source_id: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        library.source(source_id, scope=scope)
    with pytest.raises(ValueError, match=r"."):
        library.passages(source_id, scope=scope)


def test_passages_come_by_index_as_hits_without_legs(library: Library, scope: Scope) -> None:
    library.index_source(source("s", *[Passage(f"text {n}", {"page": n}) for n in range(12)], title="T", tags=["x"]))
    hits = library.passages("s", scope=scope)
    assert isinstance(hits, list)
    assert [hit.index for hit in hits] == list(range(12))
    assert [hit.id for hit in hits] == [f"s#{number}" for number in range(12)]
    assert [hit.metadata["page"] for hit in hits] == list(range(12))
    for hit in hits:
        assert (hit.score, hit.dense_score, hit.dense_rank, hit.lexical_score, hit.lexical_rank) == (0.0, *[None] * 4)
        assert (hit.title, hit.tags, hit.kind) == ("T", ("x",), "doc")


def test_all_passages_of_a_long_source_come(library: Library, scope: Scope) -> None:
    library.index_source(source("s", *[f"text {number}" for number in range(2_001)]))
    assert [hit.text for hit in library.passages("s", scope=scope)] == [f"text {number}" for number in range(2_001)]
    assert library.count(scope=scope) == 2_001


def test_counts_are_passages_in_scope(five: Library, scope: Scope) -> None:
    five.index_source(source("hidden", "text", acl_groups=["h"]))
    five.index_source(source("theirs", "text", tenant_id="u"))
    assert five.count(scope=scope) == 10
    assert five.count(scope=scope, source_ids=["a", "b"], where={"index": 1}) == 2
    assert five.count(scope=Scope("t", ["g", "h"])) == 11
    assert five.count(scope=scope, where={"$or": []}) == 0
