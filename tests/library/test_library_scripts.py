"""Random scripts of writes: what each answers, and all that can be read after it, is what brute force says."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.library.doubles import HandClock, RecordingEmbedder
from tests.library.library_model import Model

from stackroom import Answer, Library, Passage, Scope, Source, Weighted
from stackroom.stores import EmbeddedStore, MemoryStore

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

TEXTS = {
    "red": (1.0, 0.1),
    "red fox": (3.0, 1.3),
    "red red hen": (0.5, 0.9),
    "blue fox jumps high": (-0.2, 1.0),
    "a blue hen": (-7.0, -0.4),
    "hen and hen": (0.5, 0.9),
}
NAMES = ["s", "s#1", "S", "é"]
TENANTS = ["t", "u"]
GROUPS = ["g", "h"]
QUERIES = ["red", "red fox", "hen and hen"]

some = st.sampled_from
maybe_folder = some([None, "a", "b"])
groups = st.lists(some(GROUPS), min_size=1, max_size=2)
tags = st.lists(some(["x", "y"]), max_size=2)


@st.composite
def indexing(draw: Any) -> tuple[str, dict[str, Any]]:
    passages = draw(st.lists(st.tuples(some(list(TEXTS)), some([{}, {"page": 1}, {"page": 2}])), max_size=3))
    return "index_source", {
        "source_id": draw(some(NAMES)),
        "kind": draw(some(["doc", "meeting"])),
        "tenant_id": draw(some(TENANTS)),
        "acl_groups": draw(groups),
        "passages": [Passage(text, metadata) for text, metadata in passages],
        "folder_id": draw(maybe_folder),
        "tags": draw(tags),
        "metadata": draw(some([{}, {"team": "a"}, {"page": 1}])),
        "tier": draw(some([None, "hot", "cold"])),
        "hours": draw(some([None, None, -1, 0, 1, 2])),
    }


def rescoping() -> SearchStrategy[tuple[str, dict[str, Any]]]:
    changes = st.fixed_dictionaries(
        {}, optional={"acl_groups": groups, "folder_id": maybe_folder, "tags": tags, "title": some([None, "T"])}
    )
    return st.tuples(some(NAMES), some(TENANTS), changes).map(
        lambda drawn: ("set_source_scope", {"source_id": drawn[0], "tenant_id": drawn[1], "changes": drawn[2]})
    )


operations = st.one_of(
    indexing(),
    indexing(),
    rescoping(),
    st.fixed_dictionaries({"source_id": some(NAMES), "tenant_id": some(TENANTS)}).map(lambda of: ("remove_source", of)),
    st.fixed_dictionaries({"tenant_id": some(TENANTS)}).map(lambda of: ("remove_tenant", of)),
    st.just(("sweep", {})),
    st.just(("wait", {})),
)
narrowings = st.fixed_dictionaries(
    {},
    optional={
        "kinds": some([[], ["doc"]]),
        "folder_id": some(["a", "b"]),
        "folder_ids": some([[], ["a"], ["a", "b"]]),
        "tags": tags,
        "source_ids": some([[], ["s", "é"], ["s#1"]]),
        "tiers": some([[], ["hot"], ["hot", "cold"]]),
        "where": some([{}, {"page": 1}, {"team": "a"}, {"index": 0}]),
    },
)


def perform(library: Library, model: Model, clock: HandClock, name: str, given_to: dict[str, Any]) -> None:
    """Do one thing to both and see that both answer the same."""
    now = clock.now
    if name == "wait":
        clock.forward(hours=1)
    elif name == "sweep":
        assert library.sweep() == model.sweep(now)
    elif name == "index_source":
        hours = given_to["hours"]
        fields = {key: value for key, value in given_to.items() if key != "hours"}
        source = Source(**fields, expires_at=None if hours is None else now + timedelta(hours=hours))
        assert library.index_source(source) == model.index_source(source, now)
    elif name == "set_source_scope":
        source_id, tenant_id, changes = given_to["source_id"], given_to["tenant_id"], given_to["changes"]
        assert library.set_source_scope(source_id, tenant_id=tenant_id, **changes) == model.set_source_scope(
            source_id, tenant_id, changes
        )
    elif name == "remove_source":
        assert library.remove_source(**given_to) == model.remove_source(**given_to)
    else:
        assert library.remove_tenant(**given_to) == model.remove_tenant(**given_to)


def check_listings(library: Library, model: Model, clock: HandClock, scope: Scope, narrowing: dict[str, Any]) -> None:
    seen = model.seen(scope, clock.now, narrowing)
    assert library.count(scope=scope, **narrowing) == len(seen)
    infos = library.sources(scope=scope, **narrowing)
    assert [info.source_id for info in infos] == model.listed(scope, clock.now, narrowing)
    visible = {source.source_id: source for source in model.sources(scope, clock.now, {})}
    for name in NAMES:
        texts = [passage.text for passage in visible[name].passages] if name in visible else []
        assert [hit.text for hit in library.passages(name, scope=scope)] == texts
        info = library.source(name, scope=scope)
        assert (info is not None) is (name in visible)
        if info is not None:
            of = visible[name]
            assert (info.acl_groups, info.folder_id, info.tags) == (of.acl_groups, of.folder_id, of.tags)
            assert (info.title, dict(info.metadata), info.expires_at) == (of.title, dict(of.metadata), of.expires_at)
            assert info.created_at == model.created[scope.tenant_id, name]


def check_order(answer: Answer, expected: dict[str, float]) -> dict[str, int]:
    """See that an answer has these scores in the total order; return each hit's rank."""
    assert (answer.complete, answer.notes) == (True, ())
    assert {hit.id: hit.score for hit in answer} == pytest.approx(expected, abs=1e-5)
    ranked = [(-hit.score, hit.id) for hit in answer]
    assert ranked == sorted(ranked)
    return {hit.id: rank for rank, hit in enumerate(answer, start=1)}


def check_search(library: Library, model: Model, clock: HandClock, scope: Scope, narrowing: dict[str, Any]) -> None:
    seen = model.seen(scope, clock.now, narrowing)
    asked: dict[str, Any] = {"scope": scope, "top_k": 50, **narrowing}
    for text in QUERIES:
        cosines = model.cosines(text, seen)
        words = model.bm25(text, seen, scope.tenant_id, needs_all=False)
        dense = check_order(library.search(text, mode="dense", **asked), cosines)
        lexical = check_order(library.search(text, mode="lexical", **asked), words)
        every = model.bm25(text, seen, scope.tenant_id, needs_all=True)
        check_order(library.search(text, mode="lexical", match="all", **asked), every)
        hybrid = library.search(text, **asked)
        check_order(
            hybrid,
            {name: sum(1 / (60 + ranks[name]) for ranks in (dense, lexical) if name in ranks) for name in seen},
        )
        assert {hit.id: (hit.dense_rank, hit.lexical_rank) for hit in hybrid} == {
            name: (dense[name], lexical.get(name)) for name in seen
        }
        best = max(words.values(), default=1.0)
        weighed = {name: 0.3 * max(0.0, cosines[name]) + 0.7 * words.get(name, 0.0) / best for name in seen}
        check_order(library.search(text, fusion=Weighted(0.3), **asked), weighed)


@pytest.mark.parametrize("kind", ["memory", "embedded"])
@settings(max_examples=25)
@given(script=st.lists(operations, max_size=12), narrowing=narrowings)
def test_a_library_is_what_brute_force_says(
    kind: str, script: list[tuple[str, dict[str, Any]]], narrowing: dict[str, Any]
) -> None:
    clock, model = HandClock(), Model(TEXTS)
    with tempfile.TemporaryDirectory() as directory:
        store = MemoryStore() if kind == "memory" else EmbeddedStore(Path(directory) / "store")
        library = Library(store, "library", RecordingEmbedder(TEXTS), clock=clock)
        for name, given_to in script:
            perform(library, model, clock, name, given_to)
        for scope in (Scope("t", ["g"]), Scope("t", ["h", "g"]), Scope("u", ["h"])):
            for narrowed in ({}, narrowing):
                check_listings(library, model, clock, scope, narrowed)
                check_search(library, model, clock, scope, narrowed)
        library.close()
        store.close()
