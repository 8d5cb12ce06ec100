"""Tenants, groups, re-scoping and removal: cases 10–14, and that no read or write reaches beyond its scope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.library.doubles import HandClock, RecordingEmbedder, source

from stackroom import Library, Passage, Scope, Source
from stackroom.filters import And, Eq
from stackroom.stores import EmbeddedStore

if TYPE_CHECKING:
    from pathlib import Path

    from stackroom.stores import VectorStore

MODES: list[Any] = ["hybrid", "lexical", "dense"]
OTHER_GROUP = Scope("t", ["h"])


def found(library: Library, scope: Scope, text: str = "text", **narrowing: Any) -> list[list[str]]:
    """Return what each mode finds."""
    return [[hit.id for hit in library.search(text, scope=scope, mode=mode, **narrowing)] for mode in MODES]


def nothing_seen(library: Library, scope: Scope, source_id: str = "s") -> bool:
    return (
        found(library, scope) == [[], [], []]
        and len(library.sources(scope=scope)) == 0
        and library.source(source_id, scope=scope) is None
        and library.passages(source_id, scope=scope) == []
        and library.count(scope=scope) == 0
    )


def test_case_10_equal_source_ids_of_two_tenants_never_meet(library: Library) -> None:
    of_t, of_u = Scope("t", ["g"]), Scope("u", ["g"])
    library.index_source(source("s", "text of t"))
    library.index_source(source("s", "text of u", "more of u", tenant_id="u"))
    assert [hit.text for hit in library.passages("s", scope=of_t)] == ["text of t"]
    assert [hit.text for hit in library.passages("s", scope=of_u)] == ["text of u", "more of u"]
    assert {hit.text for hit in library.search("text of", scope=of_t)} == {"text of t"}
    assert library.remove_source("s", tenant_id="t") == 1
    assert nothing_seen(library, of_t)
    assert library.count(scope=of_u) == 2
    assert {hit.text for hit in library.search("text of", scope=of_u)} == {"text of u", "more of u"}


@pytest.mark.parametrize(
    "scope",
    [
        Scope("u", ["g"]),
        Scope("t", ["h"]),
        Scope("T", ["g"]),
        Scope("t ", ["g"]),
        Scope("t", ["G", "g ", "gg"]),
        Scope("%", ["g"]),
    ],
    ids=str,
)
def test_case_11_what_is_out_of_scope_looks_like_what_is_not_there(library: Library, scope: Scope) -> None:
    library.index_source(source("s", "text"))
    assert nothing_seen(library, scope)


def test_one_common_group_is_enough(library: Library) -> None:
    library.index_source(source("s", "text", acl_groups=["a", "b"]))
    for groups in (["a"], ["b"], ["x", "b"]):
        assert found(library, Scope("t", groups)) == [["s#0"]] * 3


def test_a_scope_of_a_thousand_groups_is_served(library: Library) -> None:
    library.index_source(source("s", "text"))
    assert found(library, Scope("t", [f"group {number}" for number in range(1000)] + ["g"])) == [["s#0"]] * 3


@pytest.mark.parametrize("status", ["archived", "", "Active", None])
def test_a_passage_that_is_not_active_is_out_of_every_scope(
    library: Library, store: VectorStore, scope: Scope, status: str | None
) -> None:
    library.index_source(source("s", "text"))
    store.update("library", {"status": status}, where=And(Eq("tenantId", "t"), Eq("sourceId", "s")))
    assert nothing_seen(library, scope)


@pytest.mark.parametrize(
    "where",
    [
        {"$or": [{"tenantId": "t"}, {"tenantId": "u"}]},
        {"tenantId": "u"},
        {"aclGroups": "h"},
        {"$not": {"tenantId": "t"}},
        {"tenantId": {"$exists": True}},
        {"status": {"$ne": "active"}},
        {},
    ],
    ids=str,
)
def test_no_filter_reaches_around_the_scope(library: Library, scope: Scope, where: dict[str, Any]) -> None:
    library.index_source(source("mine", "text"))
    library.index_source(source("hidden", "text", acl_groups=["h"]))
    library.index_source(source("theirs", "text", tenant_id="u"))
    for narrowing in ({"where": where}, {"any_of": [{"where": where}, {}]}):
        assert all(set(ids) <= {"mine#0"} for ids in found(library, scope, **narrowing))
    assert {info.source_id for info in library.sources(scope=scope, where=where)} <= {"mine"}
    assert library.count(scope=scope, where=where) <= 1


def test_case_12_a_rescope_moves_all_passages_at_once(
    library: Library, embedder: RecordingEmbedder, scope: Scope
) -> None:
    library.index_source(source("s", "text one", "text two", folder_id="a", title="T", tags=["o"]))
    embedder.batches.clear()
    changes: dict[str, Any] = {"acl_groups": ["h"], "folder_id": None, "title": None, "tags": ["n"]}
    assert library.set_source_scope("s", tenant_id="t", **changes) == 2
    assert embedder.calls == 0
    assert nothing_seen(library, scope)
    hits = library.search("text", scope=OTHER_GROUP, mode="lexical")
    assert {hit.id for hit in hits} == {"s#0", "s#1"}
    for hit in [*hits, *library.passages("s", scope=OTHER_GROUP)]:
        assert (hit.folder_id, hit.title, hit.tags, hit.metadata["aclGroups"]) == (None, None, ("n",), ["h"])
        assert not {"folderId", "title"} & hit.metadata.keys()
    info = library.source("s", scope=OTHER_GROUP)
    assert info is not None
    assert (info.acl_groups, info.folder_id, info.title, info.tags) == (("h",), None, None, ("n",))
    assert library.count(scope=OTHER_GROUP, folder_id="a") == 0
    assert library.count(scope=OTHER_GROUP, tags=["n"]) == 2
    assert library.count(scope=OTHER_GROUP, tags=["o"]) == 0


@pytest.mark.parametrize(
    ("changes", "then"),
    [
        ({"acl_groups": ["g", "h", "g"]}, {"acl_groups": ("g", "h")}),
        ({"folder_id": "b"}, {"folder_id": "b"}),
        ({"folder_id": None}, {"folder_id": None}),
        ({"tags": ["p", "q", "p"]}, {"tags": ("p", "q")}),
        ({"tags": []}, {"tags": ()}),
        ({"title": "U"}, {"title": "U"}),
        ({"title": None}, {"title": None}),
        ({"title": " "}, {"title": None}),
        ({}, {}),
    ],
    ids=str,
)
def test_a_rescope_changes_what_is_given_and_nothing_else(
    library: Library, clock: HandClock, scope: Scope, changes: dict[str, Any], then: dict[str, Any]
) -> None:
    given = source(
        "s", Passage("text", {"page": 3}), folder_id="a", title="T", tags=["o"], metadata={"team": "x"}, tier="cold"
    )
    library.index_source(given)
    before = library.source("s", scope=scope)
    assert before is not None
    changed_at = clock.forward(hours=1) if changes else clock.now
    assert library.set_source_scope("s", tenant_id="t", **changes) == (1 if changes else 0)
    after = library.source("s", scope=scope)
    assert after is not None
    shown = {name: getattr(after, name) for name in SHOWN}
    assert shown == {**{name: getattr(before, name) for name in SHOWN}, "updated_at": changed_at, **then}
    (hit,) = library.search("text", scope=scope, mode="lexical")
    assert (hit.folder_id, hit.title, hit.tags) == (after.folder_id, after.title, after.tags)
    assert (hit.metadata["page"], hit.metadata["team"], hit.text) == (3, "x", "text")


SHOWN = (
    "acl_groups",
    "folder_id",
    "tags",
    "title",
    "kind",
    "tier",
    "metadata",
    "passages",
    "created_at",
    "updated_at",
    "expires_at",
)


def test_a_folder_that_was_given_narrows_at_once(library: Library, scope: Scope) -> None:
    library.index_source(source("s", "text"))
    library.set_source_scope("s", tenant_id="t", folder_id="b", tags=["n"])
    assert found(library, scope, folder_id="b", tags=["n"]) == [["s#0"]] * 3


def test_case_13_a_rescope_of_an_unknown_source_or_anothers_changes_nothing(library: Library) -> None:
    library.index_source(source("s", "text", tenant_id="u"))
    assert library.set_source_scope("none", tenant_id="u", tags=["n"]) == 0
    assert library.set_source_scope("s", tenant_id="t", acl_groups=["h"]) == 0
    assert library.set_source_scope("S", tenant_id="u", acl_groups=["h"]) == 0
    assert found(library, Scope("u", ["g"])) == [["s#0"]] * 3


def test_case_14_removals_answer_how_many_passages_went(library: Library, scope: Scope) -> None:
    library.index_source(source("s", "text one", "text two"))
    library.index_source(source("r", "text"))
    library.index_source(source("q", "text", acl_groups=["h"]))
    library.index_source(source("s", "text", tenant_id="u"))
    assert library.remove_source("s", tenant_id="t") == 2
    assert library.remove_source("s", tenant_id="t") == 0
    assert library.remove_source("S", tenant_id="u") == 0
    assert library.remove_tenant("t") == 2
    assert library.remove_tenant("t") == 0
    assert library.remove_tenant("nobody") == 0
    assert nothing_seen(library, scope)
    assert library.count(scope=Scope("u", ["g"])) == 1


def test_a_removed_source_is_in_no_mode_and_no_listing(library: Library, scope: Scope) -> None:
    library.index_source(source("s", "text"))
    library.index_source(source("r", "text"))
    library.remove_source("s", tenant_id="t")
    assert found(library, scope) == [["r#0"]] * 3
    assert found(library, scope, source_ids=["s"]) == [[], [], []]
    assert [info.source_id for info in library.sources(scope=scope)] == ["r"]
    assert library.source("s", scope=scope) is None


def test_a_removed_tenant_may_begin_anew(library: Library, scope: Scope) -> None:
    library.index_source(source("s", "text"))
    library.remove_tenant("t")
    library.index_source(source("s", "other text"))
    assert [hit.text for hit in library.search("text", scope=scope)] == ["other text"]


def test_words_of_what_is_gone_move_no_score(library: Library, scope: Scope) -> None:
    library.index_source(source("s", "red fox"))
    library.index_source(source("r", "blue fox"))
    alone = library.search("fox", scope=scope, mode="lexical")
    for gone in range(5):
        library.index_source(source(f"gone {gone}", "fox fox", acl_groups=["h"]))
    assert library.search("fox", scope=scope, mode="lexical")[0].score != alone[0].score
    for gone in range(5):
        library.remove_source(f"gone {gone}", tenant_id="t")
    assert [hit.score for hit in library.search("fox", scope=scope, mode="lexical")] == pytest.approx(
        [hit.score for hit in alone], rel=1e-6
    )


@pytest.mark.parametrize("how", ["remove_source", "remove_tenant", "replace", "replace by nothing", "sweep"])
def test_text_that_is_gone_is_in_no_file_of_a_closed_library(tmp_path: Path, how: str) -> None:
    clock, embedder = HandClock(), RecordingEmbedder()
    with Library.open(tmp_path / "library", embedder=embedder, clock=clock) as library:
        library.index_source(source("kept", "plainword stays"))
        library.index_source(
            source("s", "secretword one", "xyzzyword two", expires_at=clock.now, metadata={"note": "hiddenvalue"})
        )
        if how == "remove_source":
            library.remove_source("s", tenant_id="t")
        elif how == "remove_tenant":
            library.remove_tenant("t")
            library.index_source(source("kept", "plainword stays"))
        elif how == "sweep":
            assert library.sweep() == 2
        else:
            kept = ["xyz two"] if how == "replace" else []
            library.index_source(Source("s", "doc", "t", ["g"], kept))
    held = b"".join(file.read_bytes() for file in (tmp_path / "library").rglob("*") if file.is_file())
    assert b"plainword" in held
    for gone in (b"secretword", b"xyzzyword", b"hiddenvalue"):
        assert gone not in held


def test_what_a_library_wrote_is_there_when_it_is_opened_again(tmp_path: Path, scope: Scope) -> None:
    with Library.open(tmp_path / "library", embedder=RecordingEmbedder()) as library:
        library.index_source(source("s", "text", title="T"))
        library.set_source_scope("s", tenant_id="t", tags=["n"])
    with Library.open(tmp_path / "library", embedder=RecordingEmbedder()) as library:
        assert found(library, scope, tags=["n"]) == [["s#0"]] * 3


def test_two_libraries_on_one_directory_see_each_others_writes(tmp_path: Path, scope: Scope) -> None:
    one = Library(EmbeddedStore(tmp_path / "d"), "library", RecordingEmbedder())
    other_store = EmbeddedStore(tmp_path / "d")
    other = Library(other_store, "library", RecordingEmbedder())
    one.index_source(source("s", "text"))
    assert found(other, scope) == [["s#0"]] * 3
    other.set_source_scope("s", tenant_id="t", acl_groups=["h"])
    assert found(one, scope) == [[], [], []]
    other.remove_source("s", tenant_id="t")
    assert found(one, OTHER_GROUP) == [[], [], []]
    one._store.close()  # noqa: SLF001 - it has no other name here
    other_store.close()


def test_collections_of_one_store_share_nothing(library: Library, scope: Scope, embedder: RecordingEmbedder) -> None:
    other = Library(library._store, "other", embedder)  # noqa: SLF001 - the same store under both stores' tests
    library.index_source(source("s", "text"))
    assert nothing_seen(other, scope)
    assert other.remove_tenant("t") == 0
    assert library.count(scope=scope) == 1
