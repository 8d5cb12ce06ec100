"""RankerConformance: what any ranker must do, by itself and plugged into an embedded store."""

from __future__ import annotations

import functools
import tempfile
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from stackroom import Library, Scope, Source
from stackroom.embedders import HashingEmbedder
from stackroom.rankers import ExactRanker
from stackroom.testing._hostile_rankers import HOSTILE, SECRET, PluggedRanker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

DIMENSION = 64
HOSTILE_IDS = (
    "it's#0",
    'say "x"#1',
    "100%_done#2",
    "a#b#c#3",
    "東京#4",
    "🦊#5",
    "x" * 498 + "#6",
    "--; DROP TABLE passage#7",
    "É#8",
    "E\u0301#9",
)


def unit_vectors(number: int, seed: int = 1) -> NDArray[np.float32]:
    """Return clustered vectors of length 1, shape (number, 64): the same for the same seed."""
    chance = np.random.default_rng((7, seed))
    centres = np.random.default_rng(7).standard_normal((100, DIMENSION))
    rows = centres[chance.integers(0, 100, number)] + 0.5 * chance.standard_normal((number, DIMENSION))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def feed(ranker: Any, vectors: NDArray[np.float32], tenant_id: str = "t", name: str = "s") -> list[str]:
    """Tell a ranker of vectors; return their ids."""
    ids = [f"{name}#{place}" for place in range(len(vectors))]
    for passage_id, vector in zip(ids, vectors, strict=True):
        ranker.on_embedding_persisted(tenant_id=tenant_id, passage_id=passage_id, vector=vector.copy())
    return ids


def ask(
    ranker: Any,
    query: NDArray[np.float32],
    candidate_ids: Sequence[str] | None = None,
    limit: int = 10,
    tenant_id: str = "t",
) -> list[tuple[str, float]]:
    """Ask a ranker as a store does; return what it answers as pairs."""
    listed = None if candidate_ids is None else tuple(candidate_ids)
    answer = ranker.rank_by_similarity(tenant_id=tenant_id, query=query.copy(), candidate_ids=listed, limit=limit)
    return [(passage_id, float(score)) for passage_id, score in answer]


def ids_of(answer: list[tuple[str, float]]) -> list[str]:
    """Return the ids of an answer."""
    return [passage_id for passage_id, _ in answer]


class RankerConformance:
    """Every promise of a ranker, as tests. Subclass it, name the subclass `Test…`, and give it a `ranker` fixture.

    `ranker` yields an empty one and closes it. `reopen` returns a function that closes it and opens its state again; it
    is needed when the ranker has a `durable_id`.
    """

    @pytest.fixture
    def ranker(self) -> Any:
        """Stand in for the fixture that the adapter's author gives: an empty ranker, yielded, then closed."""
        raise NotImplementedError("give your subclass a `ranker` fixture that yields an empty ranker")

    @pytest.fixture
    def reopen(self, ranker: Any) -> Callable[[], Any]:
        """Stand in for the fixture that authors of durable rankers give."""
        if getattr(ranker, "durable_id", None) is not None:
            pytest.fail("this ranker has a durable_id: give your subclass a `reopen` fixture that closes and opens it")
        pytest.skip("not applicable: this ranker's state does not outlive the process")

    # Near and far

    @pytest.mark.parametrize("is_listed", [True, False])
    def test_own_vector_first_with_its_cosine(self, ranker: Any, is_listed: bool) -> None:  # noqa: FBT001 - a case
        """A passage's own vector finds it first, with a score within 1e-3 of 1: see what the index calls a distance."""
        vectors = unit_vectors(200)
        ids = feed(ranker, vectors)
        for place in range(0, 200, 20):
            answer = ask(ranker, vectors[place], ids if is_listed else None)
            assert answer[0][0] == ids[place]
            for passage_id, score in answer:
                assert score == pytest.approx(float(vectors[ids.index(passage_id)] @ vectors[place]), abs=1e-3)

    @pytest.mark.parametrize("is_listed", [True, False])
    def test_higher_scores_come_first(self, ranker: Any, is_listed: bool) -> None:  # noqa: FBT001 - a case
        """Scores fall along the answer: similarity, not distance."""
        vectors = unit_vectors(200)
        ids = feed(ranker, vectors)
        scores = [score for _, score in ask(ranker, vectors[3], ids if is_listed else None, 20)]
        assert scores == sorted(scores, reverse=True)

    def test_recall_against_the_exact_ranker(self, ranker: Any) -> None:
        """recall@10 of at least 0.95 on 10,000 clustered vectors: none, all, 10 % and 1 % of them listed."""
        vectors, exact = unit_vectors(10_000), ExactRanker()
        ids = feed(ranker, vectors)
        feed(exact, vectors)
        most = getattr(ranker, "max_candidates", 10_000)
        chance = np.random.default_rng(3)
        for share in (None, 10_000, 1_000, 100):
            found = 0
            for query in unit_vectors(30, seed=2):
                listed = None
                if share is not None and share <= most:
                    listed = [ids[place] for place in chance.permutation(10_000)[:share].tolist()]
                near = ids_of(ask(exact, query, listed))
                found += len({*near} & {*ids_of(ask(ranker, query, listed))})
            assert found / 300 >= 0.95, f"recall@10 is {found / 300:.3f} with {share or 'no'} candidates listed"

    # Candidates and limits

    def test_candidates_are_all_that_is_answered(self, ranker: Any) -> None:
        """1, 10, 1,000 or all as candidates: as many as are asked for, of those listed and no other."""
        vectors = unit_vectors(1_200)
        ids = feed(ranker, vectors)
        for number in (1, 10, 1_000, 1_200):
            listed = ids[-number:]
            answer = ids_of(ask(ranker, vectors[0], listed, limit=10))
            assert len(answer) == len(set(answer)) == min(10, number)
            assert set(answer) <= set(listed)

    def test_no_candidates_no_answer(self, ranker: Any) -> None:
        """An empty tuple is no None: nothing may be answered."""
        vectors = unit_vectors(20)
        feed(ranker, vectors)
        assert ask(ranker, vectors[0], []) == []

    def test_unknown_candidates_are_fine(self, ranker: Any) -> None:
        """The store may list what the ranker was not told yet."""
        vectors = unit_vectors(20)
        ids = feed(ranker, vectors)
        assert ids_of(ask(ranker, vectors[0], ["never#0", ids[4]])) == [ids[4]]
        assert ask(ranker, vectors[0], ["never#0"]) == []

    def test_limits(self, ranker: Any) -> None:
        """Limit 1 answers the nearest; more than is held, all; an empty tenant, nothing and no error."""
        vectors = unit_vectors(20)
        ids = feed(ranker, vectors)
        assert ids_of(ask(ranker, vectors[5], limit=1)) == [ids[5]]
        for listed in (None, ids):
            assert sorted(ids_of(ask(ranker, vectors[5], listed, limit=100))) == sorted(ids)
        assert ask(ranker, vectors[5], tenant_id="nobody") == []
        assert ask(ranker, vectors[5], ids, tenant_id="nobody") == []

    # Tenants and ids

    def test_tenants_with_equal_ids_stay_apart(self, ranker: Any) -> None:
        """Two tenants may hold the same ids: a search, a removal, a forgetting concerns one of them."""
        mine, theirs = unit_vectors(20, seed=4), unit_vectors(20, seed=5)
        ids = feed(ranker, mine, "t")
        feed(ranker, theirs, "T")
        for tenant_id, own in (("t", mine), ("T", theirs)):
            for listed in (None, ids):
                (best, *_) = ask(ranker, own[7], listed, tenant_id=tenant_id)
                assert best[0] == ids[7]
                assert best[1] == pytest.approx(1.0, abs=1e-3)
        ranker.on_embedding_persisted(tenant_id="t", passage_id=ids[7], vector=None)
        assert ids[7] not in ids_of(ask(ranker, mine[7], limit=20))
        assert ids_of(ask(ranker, theirs[7], tenant_id="T"))[0] == ids[7]
        if hasattr(ranker, "forget_tenant"):
            ranker.forget_tenant(tenant_id="t")
            ranker.forget_tenant(tenant_id="nobody")
            assert ask(ranker, mine[3]) == []
            assert len(ask(ranker, theirs[3], limit=20, tenant_id="T")) == 20

    def test_any_id_and_any_tenant(self, ranker: Any) -> None:
        """Quotes, `%`, `#`, CJK, emoji, 500 characters, two normal forms: bound, never spliced, never folded."""
        vectors = unit_vectors(len(HOSTILE_IDS))
        for tenant_id in ("it's", "東京%"):
            for passage_id, vector in zip(HOSTILE_IDS, vectors, strict=True):
                ranker.on_embedding_persisted(tenant_id=tenant_id, passage_id=passage_id, vector=vector.copy())
            for passage_id, vector in zip(HOSTILE_IDS, vectors, strict=True):
                for listed in (None, HOSTILE_IDS, [passage_id]):
                    assert ids_of(ask(ranker, vector, listed, limit=1, tenant_id=tenant_id)) == [passage_id]

    # Writes

    def test_an_upsert_moves(self, ranker: Any) -> None:
        """A second vector of an id takes the first one's place."""
        vectors = unit_vectors(20)
        ids = feed(ranker, vectors)
        ranker.on_embedding_persisted(tenant_id="t", passage_id=ids[0], vector=-vectors[0])
        for listed in (None, ids):
            answer = ask(ranker, vectors[0], listed, limit=20)
            assert len(answer) == 20
            assert answer[-1][0] == ids[0]
            assert answer[-1][1] == pytest.approx(-1.0, abs=1e-3)

    def test_a_removal_removes_and_a_removed_id_may_come_again(self, ranker: Any) -> None:
        """None takes a passage out, for good until it comes again."""
        vectors = unit_vectors(20)
        ids = feed(ranker, vectors)
        ranker.on_embedding_persisted(tenant_id="t", passage_id=ids[0], vector=None)
        for listed in (None, ids):
            answer = ids_of(ask(ranker, vectors[0], listed, limit=20))
            assert sorted(answer) == sorted(ids[1:])
        ranker.on_embedding_persisted(tenant_id="t", passage_id=ids[0], vector=vectors[0].copy())
        assert ids_of(ask(ranker, vectors[0]))[0] == ids[0]

    def test_repeating_a_call_is_harmless(self, ranker: Any) -> None:
        """The feed delivers at least once: twice the same, or a removal of what was never there, changes nothing."""
        vectors = unit_vectors(20)
        ids = feed(ranker, vectors)
        feed(ranker, vectors)
        for _ in range(2):
            ranker.on_embedding_persisted(tenant_id="t", passage_id=ids[1], vector=None)
            ranker.on_embedding_persisted(tenant_id="t", passage_id="never#0", vector=None)
            ranker.on_embedding_persisted(tenant_id="nobody", passage_id="never#0", vector=None)
        answer = ids_of(ask(ranker, vectors[0], limit=100))
        assert sorted(answer) == sorted({*ids} - {ids[1]})

    def test_many_changes_leave_what_came_last(self, ranker: Any) -> None:
        """Half of an index replaced and removed, several times over: no trace of it, and nothing lost."""
        chance = np.random.default_rng(11)
        held: dict[str, NDArray[np.float32]] = {}
        for seed in range(6):
            for place, vector in enumerate(unit_vectors(150, seed=seed)):
                if chance.random() < 0.6:
                    held[f"s#{place}"] = vector
                    ranker.on_embedding_persisted(tenant_id="t", passage_id=f"s#{place}", vector=vector.copy())
                elif chance.random() < 0.5:
                    held.pop(f"s#{place}", None)
                    ranker.on_embedding_persisted(tenant_id="t", passage_id=f"s#{place}", vector=None)
        assert sorted(ids_of(ask(ranker, unit_vectors(1)[0], limit=1_000))) == sorted(held)
        for passage_id, vector in held.items():
            assert ask(ranker, vector, [passage_id])[0][1] == pytest.approx(1.0, abs=1e-3)

    def test_eight_threads_search_while_one_writes(self, ranker: Any) -> None:
        """Calls come from any thread, several at once: a ranker that cannot bear that takes a lock."""
        vectors = unit_vectors(300)
        ids = feed(ranker, vectors[:200])
        is_over, failures = threading.Event(), []

        def search(place: int) -> None:
            try:
                while not is_over.is_set():
                    assert ask(ranker, vectors[place], ids[:100])[0][0] == ids[place]
                    assert len(ask(ranker, vectors[place])) == 10
            except BaseException as error:  # noqa: BLE001 - told by the test's own thread
                failures.append(error)

        threads = [threading.Thread(target=search, args=(place,)) for place in range(8)]
        for thread in threads:
            thread.start()
        try:
            feed(ranker, vectors[200:], name="more")
            for passage_id in ids[100:150]:
                ranker.on_embedding_persisted(tenant_id="t", passage_id=passage_id, vector=None)
        finally:
            is_over.set()
            for thread in threads:
                thread.join(60)
        assert failures == []
        assert len(ask(ranker, vectors[0], limit=1_000)) == 250

    # What outlives the process

    def test_the_same_answers_after_close_and_open(self, ranker: Any, reopen: Callable[[], Any]) -> None:
        """A durable ranker that was closed cleanly names the same state and answers the same from it."""
        vectors = unit_vectors(300)
        ids = feed(ranker, vectors)
        feed(ranker, vectors[:5], "u")
        ranker.on_embedding_persisted(tenant_id="t", passage_id=ids[9], vector=None)
        name = ranker.durable_id
        before = [ask(ranker, query, listed) for query in vectors[:10] for listed in (None, ids[5:50])]
        again = reopen()
        with closing(again):
            assert again.durable_id == name
            assert [ask(again, query, listed) for query in vectors[:10] for listed in (None, ids[5:50])] == before
            again.on_embedding_persisted(tenant_id="t", passage_id="new#0", vector=-vectors[0])
            assert ids_of(ask(again, -vectors[0], limit=1)) == ["new#0"]
            assert len(ask(again, vectors[0], tenant_id="u")) == 5

    # Plugged in

    def test_plugged_in_a_library_answers_as_without(self, ranker: Any, tmp_path: Path) -> None:
        """Writes, replacements, removals and searches of a library with the ranker in it: the answers stay the same."""
        with Library.open(tmp_path / "ranked", embedder=HashingEmbedder(DIMENSION), ranker=ranker) as library:
            write_library(library)
            answers = answers_of(library)
        assert [hits for hits, _ in answers] == answers_without()
        assert {code for _, codes in answers for code in codes} <= {"ranker_short"}

    @pytest.mark.parametrize("spoil", HOSTILE.values(), ids=HOSTILE)
    def test_hostile_in_any_way_it_neither_leaks_nor_changes_a_score(
        self,
        ranker: Any,
        tmp_path: Path,
        spoil: Callable[..., Any],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """The ranker, made hostile in one way: the library answers as without one, and no secret of an error shows."""
        may_go = threading.Event()
        hostile = PluggedRanker(ranker, spoil, may_go)
        try:
            with Library.open(
                tmp_path / "ranked", embedder=HashingEmbedder(DIMENSION), ranker=hostile, ranker_timeout=0.2
            ) as library:
                write_library(library)
                assert [hits for hits, _ in answers_of(library)] == answers_without()
                assert SECRET not in repr(library.search("red", scope=Scope("t", ["g"])).notes)
        finally:
            may_go.set()
        assert SECRET not in caplog.text


WORDS = ("red", "green", "blue", "apple", "pear", "plum", "house", "river")


def write_library(library: Library) -> None:
    """Write sources of two tenants, replace some, remove some."""
    for number in range(7):
        texts = [f"{WORDS[number % 8]} {WORDS[(number + place) % 8]} {place}" for place in range(1 + number % 3)]
        for tenant_id in ("t", "u"):
            library.index_source(Source(f"s{number}", "doc", tenant_id, ["g" if number % 4 else "h"], texts))
    library.index_source(Source("s1", "doc", "t", ["g"], ["red river"]))
    library.remove_source("s2", tenant_id="t")


@functools.cache
def answers_without() -> list[list[tuple[str, float]]]:
    """Return the hits of those searches in a library without a ranker; they are always the same."""
    with (
        tempfile.TemporaryDirectory() as directory,
        Library.open(Path(directory, "plain"), embedder=HashingEmbedder(DIMENSION)) as library,
    ):
        write_library(library)
        return [hits for hits, _ in answers_of(library)]


def answers_of(library: Library) -> list[tuple[list[tuple[str, float]], list[str]]]:
    """Return what some searches answer, and the codes of their notes."""
    found = []
    for text in ("red", "apple river", "plum"):
        for mode in ("dense", "hybrid"):
            answer = library.search(text, scope=Scope("t", ["g"]), mode=mode, top_k=5)
            hits = [(hit.id, hit.score) for hit in answer]
            found.append((hits, [note.code for note in answer.notes]))
    return found
