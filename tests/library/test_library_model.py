"""A library is what brute force says: random writes, restarts and searches, each answer compared with a plain dict's.

The same runs in CI every time; `make fuzz` draws others for as long as it is given.
"""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import pytest
from hypothesis import seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from tests.library.doubles import HandClock, RecordingEmbedder
from tests.library.library_model import Model

from stackroom import RRF, Library, Passage, Scope, Source, Weighted
from stackroom._seeds import seed_of_this_run
from stackroom.stores import EmbeddedStore, MemoryStore

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from stackroom import Answer
    from stackroom.stores import VectorStore

TEXTS = {
    "red": (1.0, 0.1),
    "red fox": (3.0, 1.3),
    "red red hen": (0.5, 0.9),
    "blue fox jumps high": (-0.2, 1.0),
    "a blue hen": (-7.0, -0.4),
    "hen and hen": (0.5, 0.9),
}
NAMES = ["s", "s#1", "S", "é", "e\u0301"]
TENANTS = ["t", "u", "T"]
GROUPS = ["g", "h", "G"]

some = st.sampled_from
groups = st.lists(some(["g", *GROUPS]), min_size=1, max_size=2)
tags = st.lists(some(["x", "y"]), max_size=2)
folders = some([None, "a", "b"])
names, tenants = some(NAMES), some(["t", "t", *TENANTS])
scopes = st.builds(Scope, tenants, st.lists(some(GROUPS), min_size=1, max_size=3))
passages = st.builds(Passage, some(list(TEXTS)), some([{}, {"page": 1}, {"page": 2}]))
sources = st.fixed_dictionaries(
    {
        "source_id": names,
        "kind": some(["doc", "meeting"]),
        "tenant_id": tenants,
        "acl_groups": groups,
        "passages": some([1, 1, 1, 1, 0]).flatmap(lambda least: st.lists(passages, min_size=least, max_size=3 * least)),
        "folder_id": folders,
        "tags": tags,
        "title": some([None, "T"]),
        "metadata": some([{}, {"team": "a"}, {"page": 1}]),
        "tier": some([None, "hot", "cold"]),
        "hours": some([None, None, None, None, None, 0, 1, 2]),
    }
)
changes = st.fixed_dictionaries(
    {}, optional={"acl_groups": groups, "folder_id": folders, "tags": tags, "title": some([None, "T"])}
)
_narrowing: dict[str, Any] = {
    "kinds": some([[], ["doc"], ["meeting", "doc"]]),
    "folder_id": some(["a", "b"]),
    "folder_ids": some([[], ["a"], ["a", "b"]]),
    "tags": tags,
    "source_ids": some([[], ["s", "é"], ["s#1"], NAMES]),
    "tiers": some([[], ["hot"], ["hot", "cold"]]),
    "where": some([{}, {"page": 1}, {"team": "a"}, {"index": 0}]),
}
narrowings = st.lists(some(list(_narrowing)), max_size=2, unique=True).flatmap(
    lambda fields: st.fixed_dictionaries({name: _narrowing[name] for name in fields})
)
branches = st.none() | st.lists(narrowings, max_size=3)
Action: TypeAlias = tuple[str, dict[str, Any]]
indexing: SearchStrategy[Action] = sources.map(lambda given: ("index", given))
rescoping: SearchStrategy[Action] = st.fixed_dictionaries(
    {"source_id": names, "tenant_id": tenants, "given": changes}
).map(lambda given: ("rescope", given))
removing: SearchStrategy[Action] = st.fixed_dictionaries({"source_id": names, "tenant_id": tenants}).map(
    lambda given: ("remove", given)
)
happening: SearchStrategy[Action] = some(["wait", "sweep", "restart", "restart", "compact", "remove_tenant"]).flatmap(
    lambda name: st.fixed_dictionaries({"tenant_id": tenants} if name == "remove_tenant" else {}).map(
        lambda given: (name, given)
    )
)
actions: SearchStrategy[Action] = some([indexing, indexing, indexing, rescoping, removing, happening]).flatmap(
    lambda kind: kind
)
questions = st.fixed_dictionaries(
    {
        "text": some(["red", "red fox", "hen and hen"]),
        "scope": scopes,
        "own": narrowings,
        "any_of": branches,
        "top_k": some([1, 3, 50]),
        "match": some(["any", "all"]),
        "prefix": st.booleans(),
    }
)


class LibraryMachine(RuleBasedStateMachine):
    """Does the same to a library and to the model; whatever is asked, both must say the same."""

    survives: ClassVar[bool] = True
    """Whether what was written is there after the store was closed and opened again."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.clock = HandClock()
        self.model = Model(TEXTS)
        self.start()

    def open_store(self, path: Path) -> VectorStore:
        """Open the store that stands in a directory."""
        raise NotImplementedError

    def start(self) -> None:
        self.store = self.open_store(Path(self.directory.name) / "store")
        self.library = Library(self.store, "library", RecordingEmbedder(TEXTS), clock=self.clock)

    def stop(self) -> None:
        self.library.close()
        self.store.close()

    def teardown(self) -> None:
        self.stop()
        self.directory.cleanup()

    @initialize(several=st.lists(sources, min_size=6, max_size=12))
    def begin(self, several: list[dict[str, Any]]) -> None:
        for fields in several:
            self.index(**fields)

    @rule(action=actions, question=questions, limit=some([1, 2, 100]))
    def step(self, action: tuple[str, dict[str, Any]], question: dict[str, Any], limit: int) -> None:
        name, given_to = action
        getattr(self, name)(**given_to)
        self.search(**question)
        self.list_sources(question["scope"], question["own"], limit)
        self.read(question["scope"])

    # Writes

    def index(self, hours: int | None, **fields: Any) -> None:
        expires_at = None if hours is None else self.clock.now + timedelta(hours=hours)
        source = Source(**fields, expires_at=expires_at)
        assert self.library.index_source(source) == self.model.index_source(source, self.clock.now)

    def rescope(self, source_id: str, tenant_id: str, given: dict[str, Any]) -> None:
        changed = self.library.set_source_scope(source_id, tenant_id=tenant_id, **given)
        assert changed == self.model.set_source_scope(source_id, tenant_id, given)

    def remove(self, source_id: str, tenant_id: str) -> None:
        went = self.library.remove_source(source_id, tenant_id=tenant_id)
        assert went == self.model.remove_source(source_id, tenant_id)

    def remove_tenant(self, tenant_id: str) -> None:
        assert self.library.remove_tenant(tenant_id) == self.model.remove_tenant(tenant_id)

    def sweep(self) -> None:
        assert self.library.sweep() == self.model.sweep(self.clock.now)

    def wait(self) -> None:
        self.clock.forward(hours=1)

    def restart(self) -> None:
        if self.survives:
            self.stop()
            self.start()

    def compact(self) -> None:
        if isinstance(self.store, EmbeddedStore):
            self.store.compact()

    # Reads

    def search(
        self,
        *,
        text: str,
        scope: Scope,
        own: dict[str, Any],
        any_of: list[dict[str, Any]] | None,
        top_k: int,
        match: Literal["any", "all"],
        prefix: bool,
    ) -> None:
        seen = self.model.seen(scope, self.clock.now, own, any_of)
        asked: dict[str, Any] = {"scope": scope, "any_of": any_of, "match": match, "prefix": prefix, **own}
        cosines = self.model.cosines(text, seen)
        words = self.model.bm25(text, seen, scope.tenant_id, needs_all=match == "all", prefix=prefix)
        dense = check_order(self.library.search(text, mode="dense", top_k=50, **asked), cosines)
        lexical = check_order(self.library.search(text, mode="lexical", top_k=50, **asked), words)
        ranks = {name: (dense[name], lexical.get(name)) for name in seen}
        fused = {name: sum(1 / (60 + rank) for rank in of if rank is not None) for name, of in ranks.items()}
        best = max(words.values(), default=1.0)
        weighed = {name: 0.3 * max(0.0, cosines[name]) + 0.7 * words.get(name, 0.0) / best for name in seen}
        for fusion, scores in ((RRF(k=60), fused), (Weighted(0.3), weighed)):
            whole = self.library.search(text, top_k=50, fusion=fusion, **asked)
            check_order(whole, scores)
            assert {hit.id: (hit.dense_rank, hit.lexical_rank) for hit in whole} == ranks
            cut = self.library.search(text, top_k=top_k, fusion=fusion, **asked)
            assert [(hit.id, hit.score) for hit in cut] == [(hit.id, hit.score) for hit in whole[:top_k]]
            assert cut.complete

    def list_sources(self, scope: Scope, narrowing: dict[str, Any], limit: int) -> None:
        seen = self.model.seen(scope, self.clock.now, narrowing)
        assert self.library.count(scope=scope, **narrowing) == len(seen)
        page = self.library.sources(scope=scope, limit=limit, **narrowing)
        found = [info.source_id for info in page]
        while page.next is not None:
            page = self.library.sources(scope=scope, limit=limit, after=page.next, **narrowing)
            found += [info.source_id for info in page]
        assert found == sorted({name.rpartition("#")[0] for name in seen})

    def read(self, scope: Scope) -> None:
        visible = {source.source_id: source for source in self.model.sources(scope, self.clock.now, {})}
        for name in NAMES:
            of = visible.get(name)
            texts = [hit.text for hit in self.library.passages(name, scope=scope)]
            assert texts == ([passage.text for passage in of.passages] if of else [])
            info = self.library.source(name, scope=scope)
            assert (info is None) is (of is None)
            if info is not None and of is not None:
                assert (info.acl_groups, info.folder_id, info.tags) == (of.acl_groups, of.folder_id, of.tags)
                assert (info.title, dict(info.metadata), info.tier) == (of.title, dict(of.metadata), of.tier)
                assert (info.expires_at, info.passages) == (of.expires_at, len(of.passages))
                assert info.created_at == self.model.created[scope.tenant_id, name]

    @invariant()
    def counts_agree(self) -> None:
        for tenant_id in TENANTS:
            scope = Scope(tenant_id, GROUPS)
            assert self.library.count(scope=scope) == len(self.model.seen(scope, self.clock.now, {}))


def check_order(answer: Answer, expected: dict[str, float]) -> dict[str, int]:
    """See that an answer has these scores in the total order; return each hit's rank."""
    assert (answer.complete, answer.notes) == (True, ())
    assert {hit.id: hit.score for hit in answer} == pytest.approx(expected, abs=1e-5)
    ranked = [(-hit.score, hit.id) for hit in answer]
    assert ranked == sorted(ranked)
    return {hit.id: rank for rank, hit in enumerate(answer, start=1)}


class MemoryMachine(LibraryMachine):
    survives = False

    def open_store(self, path: Path) -> VectorStore:
        del path
        return MemoryStore()


class EmbeddedMachine(LibraryMachine):
    def open_store(self, path: Path) -> VectorStore:
        return EmbeddedStore(path)


class ExactMachine(LibraryMachine):
    def open_store(self, path: Path) -> VectorStore:
        return EmbeddedStore(path, exact=True, max_open_shards=1)


@pytest.mark.parametrize("machine", [MemoryMachine, EmbeddedMachine, ExactMachine])
def test_a_library_is_what_brute_force_says(machine: type[LibraryMachine]) -> None:
    compare(machine, examples=20)


def compare(machine: type[LibraryMachine], *, examples: int) -> None:
    """Run so many scripts of a machine, drawn with this run's seed."""
    how = settings(max_examples=examples, stateful_step_count=10, deadline=None, database=None)
    run_state_machine_as_test(seed(seed_of_this_run())(machine), settings=how)
