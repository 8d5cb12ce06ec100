"""Arguments are checked before anything else happens: no embedder, no store, nothing changed."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.library.doubles import RecordingEmbedder, RecordingStore, source

from stackroom import RRF, FilterError, Library, Narrowing, Scope, ScopeError, SourceError, Weighted
from stackroom.stores import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

LONE_SURROGATE = chr(0xDC00)
NAN, INFINITY = float("nan"), float("inf")


@pytest.fixture
def ready(watched: Library, recording: RecordingStore, embedder: RecordingEmbedder) -> Library:
    """Return a library with something to find, whose store and embedder have forgotten how it came there."""
    watched.index_source(source("s", "some text"))
    recording.asked.clear()
    embedder.batches.clear()
    return watched


@pytest.fixture
def refused(ready: Library, recording: RecordingStore, embedder: RecordingEmbedder) -> Callable[..., None]:
    """Return what calls a method and sees that it is refused, with nothing asked, embedded or changed."""

    def call(error: type[Exception], method: str, *arguments: Any, **keywords: Any) -> None:
        with pytest.raises(error) as caught:
            getattr(ready, method)(*arguments, **keywords)
        assert isinstance(caught.value, ValueError)
        assert (recording.asked, embedder.calls) == ([], 0)

    return call


SEARCHES_REFUSED: list[Any] = [
    *[
        pytest.param({"text": text}, id=f"text {text!r:.20}")
        for text in (None, 5, True, b"x", ["x"], "a" + LONE_SURROGATE, chr(0xD83D) + "x")
    ],
    *[
        pytest.param({"mode": mode}, id=f"mode {mode!r}")
        for mode in (None, "", "Hybrid", "vector", 1, True, b"dense", ["dense"])
    ],
    *[pytest.param({"match": match}, id=f"match {match!r}") for match in (None, "", "ALL", "none", True, ["any"])],
    *[pytest.param({"prefix": prefix}, id=f"prefix {prefix!r}") for prefix in (None, 0, 1, "yes", "", ["x"])],
    *[
        pytest.param({"top_k": top_k}, id=f"top_k {top_k!r}")
        for top_k in (0, -1, 10_001, 2**70, True, False, 2.0, NAN, "5", None, [5], b"5")
    ],
    *[
        pytest.param({"min_score": least}, id=f"min_score {least!r}")
        for least in (True, False, NAN, INFINITY, -INFINITY, "0.5", [0.5], 1j, np.float64("nan"))
    ],
    *[
        pytest.param({"fusion": fusion}, id=f"fusion {fusion!r}")
        for fusion in ("rrf", 60, 0.5, RRF, Weighted, True, {"k": 60}, (0.5,))
    ],
]
SCOPES_REFUSED: list[Any] = [
    None,
    "t",
    ("t", ["g"]),
    {"tenant_id": "t", "acl_groups": ["g"]},
    SimpleNamespace(tenant_id="t", acl_groups=("g",)),
    source("s"),
    True,
    Scope,
]
WHERES_REFUSED: list[Any] = [
    "x",
    [],
    5,
    {"a": None},
    {"a": {"$foo": 1}},
    {"a": [1]},
    {"$and": []},
    {"a": {"$gt": True}},
]
NARROWINGS_REFUSED: list[Any] = [
    *[
        pytest.param({name: value}, id=f"{name} {value!r:.30}")
        for name in ("kinds", "folder_ids", "tags", "source_ids", "tiers")
        for value in ("hot", b"hot", {"hot": 1}, [""], [" "], ["hot", None], [5], ["a\x00"], ["x" * 513], 5, True)
    ],
    *[
        pytest.param({"folder_id": value}, id=f"folder_id {value!r:.30}")
        for value in ("", " ", chr(0x200B), 5, ["a"], "a\x00")
    ],
    *[pytest.param({"where": value}, id=f"where {value!r:.30}") for value in WHERES_REFUSED],
]


@pytest.mark.parametrize("wrong", SEARCHES_REFUSED)
def test_a_search_refuses_what_its_arguments_may_not_be(refused: Callable[..., None], wrong: dict[str, Any]) -> None:
    given: dict[str, Any] = {"text": "some", "scope": Scope("t", ["g"]), **wrong}
    refused(ValueError, "search", given.pop("text"), **given)


@pytest.mark.parametrize("top_k", [0, -1, 10_001, True, 2.0, "5", None])
def test_case_15_top_k_is_an_int_of_1_to_10_000(refused: Callable[..., None], scope: Scope, top_k: Any) -> None:
    refused(ValueError, "search", "some", scope=scope, top_k=top_k)


def test_case_16_arguments_are_checked_before_a_search_that_finds_nothing_ends(
    refused: Callable[..., None], scope: Scope
) -> None:
    refused(ValueError, "search", "some", scope=scope, any_of=[], top_k=0)
    refused(ValueError, "search", " ", scope=scope, source_ids=[], min_score=NAN)
    refused(FilterError, "search", " ", scope=scope, folder_id="")
    refused(FilterError, "search", "some", scope=scope, source_ids=[], any_of=[{}, {"scope": scope}])


@pytest.mark.parametrize("wrong", NARROWINGS_REFUSED)
@pytest.mark.parametrize("method", ["search", "sources", "count"])
def test_a_narrowing_refuses_what_it_may_not_be(
    refused: Callable[..., None], scope: Scope, method: str, wrong: dict[str, Any]
) -> None:
    refused(FilterError, method, *["some"][: method == "search"], scope=scope, **wrong)


@pytest.mark.parametrize("wrong", NARROWINGS_REFUSED)
def test_a_branch_refuses_what_a_narrowing_may_not_be(
    refused: Callable[..., None], scope: Scope, wrong: dict[str, Any]
) -> None:
    refused(FilterError, "search", "some", scope=scope, any_of=[{"kinds": ["doc"]}, wrong])


@pytest.mark.parametrize(
    "any_of",
    [
        [{"scope": Scope("u", ["g"])}],
        [{"folderId": "a"}],
        {"kinds": ["doc"]},
        [{"any_of": []}],
        [{"text": "x"}],
        [{"tenant_id": "u"}],
        [{1: "a"}],
        [{"kinds": ["doc"]}, None],
        ["kinds"],
        [["kinds"]],
        "kinds",
        b"kinds",
        5,
        True,
        Narrowing(kinds=["doc"]),
    ],
    ids=lambda value: f"{value!r:.40}",
)
def test_case_24_any_of_is_a_list_of_narrowings(refused: Callable[..., None], scope: Scope, any_of: Any) -> None:
    refused(FilterError, "search", "some", scope=scope, any_of=any_of)


@pytest.mark.parametrize("wrong", SCOPES_REFUSED, ids=lambda value: f"{value!r:.30}")
def test_nothing_stands_for_a_scope(refused: Callable[..., None], wrong: Any) -> None:
    refused(ScopeError, "search", "some", scope=wrong)
    refused(ScopeError, "sources", scope=wrong)
    refused(ScopeError, "source", "s", scope=wrong)
    refused(ScopeError, "passages", "s", scope=wrong)
    refused(ScopeError, "count", scope=wrong)


@pytest.mark.parametrize("method", ["search", "sources", "source", "passages", "count"])
def test_a_read_without_a_scope_is_no_call(ready: Library, method: str) -> None:
    arguments = {"search": ["some"], "source": ["s"], "passages": ["s"]}.get(method, [])
    with pytest.raises(TypeError):
        getattr(ready, method)(*arguments)


@pytest.mark.parametrize("limit", [0, -1, 10_001, True, 2.0, NAN, "5", None, [1]])
def test_limit_is_an_int_of_1_to_10_000(refused: Callable[..., None], scope: Scope, limit: Any) -> None:
    refused(ValueError, "sources", scope=scope, limit=limit)


@pytest.mark.parametrize("name", ["", " ", chr(0x200B), None, 5, True, b"t", ["t"], "a\x00", LONE_SURROGATE, "x" * 513])
def test_writes_refuse_what_names_no_tenant_or_source(refused: Callable[..., None], name: Any) -> None:
    refused(ScopeError, "remove_tenant", name)
    refused(ScopeError, "remove_source", "s", tenant_id=name)
    refused(ScopeError, "set_source_scope", "s", tenant_id=name, tags=[])
    refused(ScopeError, "set_source_scope", "s", tenant_id=name)
    refused(SourceError, "remove_source", name, tenant_id="t")
    refused(SourceError, "set_source_scope", name, tenant_id="t", tags=[])
    refused(SourceError, "set_source_scope", name, tenant_id="t")


@pytest.mark.parametrize(
    ("error", "changes"),
    [
        (ScopeError, {"acl_groups": []}),
        (ScopeError, {"acl_groups": None}),
        (ScopeError, {"acl_groups": "g"}),
        (ScopeError, {"acl_groups": ["g", ""]}),
        (ScopeError, {"acl_groups": {"g": 1}}),
        (SourceError, {"tags": None}),
        (SourceError, {"tags": "x"}),
        (SourceError, {"tags": ["x", " "]}),
        (SourceError, {"folder_id": ""}),
        (SourceError, {"folder_id": " "}),
        (SourceError, {"folder_id": 5}),
        (SourceError, {"folder_id": ["a"]}),
        (SourceError, {"title": 5}),
        (SourceError, {"title": "a\x00"}),
        (SourceError, {"title": "fine", "tags": [5]}),
    ],
    ids=str,
)
def test_a_rescope_refuses_what_a_source_may_not_have(
    refused: Callable[..., None], error: type[Exception], changes: dict[str, Any]
) -> None:
    refused(error, "set_source_scope", "s", tenant_id="t", **changes)


@pytest.mark.parametrize("given", [None, "s", {"source_id": "s"}, ["s"]])
def test_index_source_takes_a_source(refused: Callable[..., None], given: Any) -> None:
    refused(ValueError, "index_source", given)


@pytest.mark.parametrize("sample", [0, -1, True, 1.0, "3", None])
def test_sample_is_an_int_of_at_least_1(refused: Callable[..., None], sample: Any) -> None:
    refused(ValueError, "verify_embedder", sample=sample)


@pytest.mark.parametrize("batch_size", [0, -1, True, 64.0, "64", None, NAN])
def test_batch_size_is_an_int_of_at_least_1(batch_size: Any) -> None:
    store = MemoryStore()
    with pytest.raises(ValueError, match="batch_size"):
        Library(store, "library", RecordingEmbedder(), batch_size=batch_size)
    assert store.collection("library") is None


@pytest.mark.parametrize("fusion", ["rrf", 60, 0.5, RRF, None, True])
def test_a_librarys_fusion_is_one(fusion: Any) -> None:
    store = MemoryStore()
    with pytest.raises(ValueError, match="fusion"):
        Library(store, "library", RecordingEmbedder(), fusion=fusion)
    assert store.collection("library") is None


@pytest.mark.parametrize("k", [0, -1, -0.0, True, NAN, INFINITY, -INFINITY, "60", None, [60]])
def test_rrf_has_a_finite_k_above_0(k: Any) -> None:
    with pytest.raises(ValueError, match="k"):
        RRF(k=k)


@pytest.mark.parametrize("k", [60, 1, 0.5, 1e-9, np.float64(60)])
def test_these_are_ks(k: Any) -> None:
    assert RRF(k=k).k == k
    assert RRF() == RRF(k=60)


@pytest.mark.parametrize(
    "weight", [-0.1, 1.1, -1e-9, 10**400, True, False, NAN, INFINITY, "0.5", None, [0.5], 1j], ids=lambda v: f"{v!r:.9}"
)
def test_weighted_has_a_finite_weight_of_0_to_1(weight: Any) -> None:
    with pytest.raises(ValueError, match="weight"):
        Weighted(weight)


@pytest.mark.parametrize("weight", [0, 1, 0.0, 1.0, 0.7, np.float64(0.5)])
def test_these_are_weights(weight: Any) -> None:
    assert Weighted(weight).weight == weight


@pytest.mark.parametrize("min_score", [None, 0, -1, 0.5, 10**6, np.float64(0.0)])
def test_these_are_least_scores(ready: Library, scope: Scope, min_score: Any) -> None:
    assert ready.search("some", scope=scope, mode="lexical", min_score=min_score).complete


@pytest.mark.parametrize("top_k", [1, 10_000])
def test_top_k_of_1_to_10_000_is_served(ready: Library, scope: Scope, top_k: int) -> None:
    assert len(ready.search("some", scope=scope, top_k=top_k)) == 1


def test_the_text_of_a_search_may_hold_any_character_but_lone_surrogates(ready: Library, scope: Scope) -> None:
    for text in ("some\x00text", "some\n'; --", "some 😀", "some" + " x" * 10_000):
        assert [hit.id for hit in ready.search(text, scope=scope)] == ["s#0"]


def test_lists_of_a_search_may_be_any_iterable(ready: Library, scope: Scope) -> None:
    any_of: Any = ({"kinds": ("doc",)} for _ in range(2))
    found = ready.search("some", scope=scope, kinds={"doc"}, source_ids=iter(["s", "s"]), any_of=any_of)
    assert [hit.id for hit in found] == ["s#0"]


def test_a_message_never_shows_what_was_handed_in(ready: Library, scope: Scope) -> None:
    secret = "secret"  # noqa: S105 - a word to look for
    for attempt in (
        lambda: ready.search(secret + LONE_SURROGATE, scope=scope),
        lambda: ready.remove_source(secret + "\x00", tenant_id="t"),
        lambda: ready.remove_tenant(secret + "\x00"),
        lambda: ready.set_source_scope("s", tenant_id="t", acl_groups=[secret + "\x00"]),
        lambda: ready.count(scope=scope, source_ids=[secret + "\x00"]),
        lambda: ready.sources(scope=scope, after=secret),
    ):
        with pytest.raises(ValueError, match=r".") as caught:
            attempt()
        assert secret not in str(caught.value)


def test_a_naive_moment_is_refused_and_an_aware_one_taken() -> None:
    with pytest.raises(SourceError):
        source(expires_at=datetime(2030, 1, 1))  # noqa: DTZ001 - the naive one is the case
    assert source(expires_at=datetime(2030, 1, 1, tzinfo=UTC)).expires_at is not None
