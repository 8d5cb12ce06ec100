"""RankerConformance: what any ranker must do, by itself and plugged into an embedded store."""

from __future__ import annotations

import functools
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from stackroom import Library, Scope, Source
from stackroom.embedders import HashingEmbedder
from stackroom.rankers import ExactRanker
from stackroom.testing._asking_rankers import (
    DIMENSION,
    ask,
    feed,
    ids_of,
    most_asked,
    most_listed,
    reach,
    scored,
    tell,
    unit_vectors,
)
from stackroom.testing._hostile_rankers import HOSTILE, SECRET, PluggedRanker
from stackroom.testing._ranker_writes import TakesInWhatItIsTold

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

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
    "apple#10",
    "Apple#10",
    "APPLE#10",
    "apple #10",
    " apple#10",
    "apple#1",
    "apple#010",
    "100%#2",
    "100_#2",
    "1000#2",
    "ß#0",
    "ss#0",
    "a\\b#0",
    "a\nb#0",
    "ａ#0",
    "a#0",
    "E\u0301#8",
)

HOSTILE_TENANTS = (
    *HOSTILE_IDS,
    *("x" * length + end for length in (16, 32, 64, 128, 255, 499) for end in "ab"),
    *("t", " t", "t ", "\tt", "t\n", "\u00a0t", "t.", "t/", "ﬁ", "fi", "①", "1", "ſ", "s", "\u200bt"),
)
"""Each is another one's when it is stripped, normalised, folded, cut to a length, or read as a pattern or a path."""

SEPARATORS = ("", "#", ":", "::", "/", "|", " ", "_", "-", ".", ",", "\t", "\x1f")
"""With what a tenant and an id may be joined to one key, so that two pairs are one."""


class RankerConformance(TakesInWhatItIsTold):
    """Every promise of a ranker, as tests. Subclass it, name the subclass `Test…`, and give it a `ranker` fixture.

    `ranker` yields an empty one and closes it. `reopen` returns a function that closes it and opens its state again; it
    is needed when the ranker has a `durable_id`. `reopen_unclosed` returns one that opens the state again while nothing
    was closed, as after a kill.
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

    @pytest.fixture
    def reopen_unclosed(self) -> Callable[[], Any]:
        """Stand in for the fixture that authors of durable rankers may give: it opens the state as after a kill."""
        pytest.skip("not applicable: no fixture opens this ranker's state while it was not closed")

    # Near and far

    @pytest.mark.parametrize("is_listed", [True, False])
    def test_own_vector_first_with_its_cosine(self, ranker: Any, is_listed: bool) -> None:  # noqa: FBT001 - a case
        """A passage's own vector finds it first, with a score within 1e-3 of 1: see what the index calls a distance."""
        vectors = unit_vectors(200)
        ids = feed(ranker, vectors)
        for place in range(0, 200, 20):
            answer = ask(ranker, vectors[place], ids if is_listed else None)
            assert answer[0][0] == ids[place]
            _assert_cosines(answer, ids, vectors, vectors[place])

    @pytest.mark.parametrize("number", [1, 2, 10, 50])
    def test_few_candidates_get_their_cosines_too(self, ranker: Any, number: int) -> None:
        """Of a few listed candidates, the nearest are answered, with their cosines."""
        vectors = unit_vectors(200)
        ids = feed(ranker, vectors)
        query = unit_vectors(1, seed=2)[0]
        listed = ids[100 : 100 + number]
        limit = max(1, number // 2)
        answer = ask(ranker, query, listed, limit)
        nearest = np.sort(vectors[100 : 100 + number] @ query)[::-1][:limit]
        assert [score for _, score in answer] == pytest.approx(nearest.tolist(), abs=1e-3)
        _assert_cosines(answer, ids, vectors, query)

    @pytest.mark.parametrize("is_listed", [True, False])
    def test_higher_scores_come_first(self, ranker: Any, is_listed: bool) -> None:  # noqa: FBT001 - a case
        """Scores fall along the answer: similarity, not distance."""
        vectors = unit_vectors(200)
        listed = feed(ranker, vectors)[: most_listed(ranker)] if is_listed else None
        if not is_listed:
            feed(ranker, vectors)
        scores = [score for _, score in ask(ranker, vectors[3], listed, min(20, most_asked(ranker)))]
        assert scores == sorted(scores, reverse=True)

    def test_recall_against_the_exact_ranker(self, ranker: Any) -> None:
        """recall@10 of at least 0.95 on 10,000 clustered vectors: none, all, 10 % and 1 % of them listed.

        Where a ranker takes fewer candidates, as many as it takes; recall@`max_limit` where that is below 10.
        """
        vectors, exact = unit_vectors(10_000), ExactRanker()
        ids = feed(ranker, vectors)
        feed(exact, vectors)
        limit = min(10, most_asked(ranker))
        chance = np.random.default_rng(3)
        for share in (None, *sorted({min(share, most_listed(ranker)) for share in (10_000, 1_000, 100)})):
            found = wanted = 0
            for query in unit_vectors(30, seed=2):
                listed = (
                    None if share is None else [ids[place] for place in chance.permutation(10_000)[:share].tolist()]
                )
                near = ids_of(ask(exact, query, listed, limit))
                found += len({*near} & {*ids_of(ask(ranker, query, listed, limit))})
                wanted += len(near)
            recall = found / wanted
            assert recall >= 0.95, f"recall@{limit} is {recall:.3f} with {share or 'no'} candidates listed"

    # Candidates and limits

    @pytest.mark.parametrize("number", [1, 10, 1_000, 1_200])
    def test_candidates_are_all_that_is_answered(self, ranker: Any, number: int) -> None:
        """1, 10, 1,000 or all as candidates: as many as are asked for, of those listed and no other."""
        vectors = unit_vectors(1_200)
        ids = feed(ranker, vectors)
        listed = ids[-number:]
        answer = ids_of(ask(ranker, vectors[0], listed))
        assert len(answer) == len(set(answer)) == min(10, number)
        assert set(answer) <= set(listed)
        assert ids_of(ask(ranker, vectors[-1], listed, limit=1)) == ids[-1:]
        assert ids_of(ask(ranker, vectors[-number], listed, limit=1)) == listed[:1]

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
        assert ask(ranker, vectors[5]) == []
        assert ask(ranker, vectors[5], ["s#5"]) == []
        ids = feed(ranker, vectors)
        for listed in (None, ids):
            assert ids_of(ask(ranker, vectors[5], listed, limit=1)) == [ids[5]]
            answer = ids_of(ask(ranker, vectors[5], listed, limit=100))
            assert len(answer) == len(set(answer)) == reach(ranker, listed, 20)
            assert set(answer) <= set(ids)
            assert ask(ranker, vectors[5], listed, tenant_id="nobody") == []

    def test_as_many_are_answered_as_it_says_that_it_can(self, ranker: Any) -> None:
        """Of 1,200 passages as many as are asked for, up to `max_limit`; 95 % where a graph does not reach them all."""
        vectors = unit_vectors(1_200)
        ids = feed(ranker, vectors)
        for listed in (None, ids[: most_listed(ranker)]):
            for wanted in (50, 300, 1_200):
                limit = min(wanted, most_asked(ranker), 1_200 if listed is None else len(listed))
                answer = ids_of(ask(ranker, vectors[0], listed, limit))
                assert 0.95 * limit <= len(answer) == len(set(answer))

    # Tenants and ids

    def test_tenants_with_equal_ids_stay_apart(self, ranker: Any) -> None:
        """Two tenants may hold the same ids: a search, a removal, a forgetting concerns one of them."""
        mine, theirs = unit_vectors(20, seed=4), unit_vectors(20, seed=5)
        ids = feed(ranker, mine, "t")
        feed(ranker, theirs, "T")
        for tenant_id, own in (("t", mine), ("T", theirs)):
            for listed in (None, ids):
                (best, *_) = ask(ranker, own[7], listed, tenant_id=tenant_id)
                assert best == scored(ids[7], 1.0)
        tell(ranker, ids[7], None, "t")
        for listed in (None, ids):
            assert ids[7] not in ids_of(ask(ranker, mine[7], listed, limit=20))
            assert ids_of(ask(ranker, theirs[7], listed, tenant_id="T"))[0] == ids[7]
        if hasattr(ranker, "forget_tenant"):
            ranker.forget_tenant(tenant_id="t")
            ranker.forget_tenant(tenant_id="nobody")
            assert ask(ranker, mine[3]) == []
            assert len(ask(ranker, theirs[3], ids, limit=20, tenant_id="T")) == 20

    def test_no_passage_of_another_tenant_is_answered(self, ranker: Any) -> None:
        """Not when a tenant has fewer than are asked for, not when the other's ids are listed, not by a pattern."""
        vectors = unit_vectors(30)
        own = {tenant: feed(ranker, vectors[:3], tenant, f"of-{tenant}") for tenant in ("%", "t%", "t_", "*", "'t'")}
        theirs = feed(ranker, vectors, "tx", "of-tx")
        for tenant, ids in own.items():
            for listed in (None, [*theirs, *ids]):
                answer = ids_of(ask(ranker, vectors[20], listed, limit=50, tenant_id=tenant))
                assert set(answer) <= set(ids)
                assert len(answer) == reach(ranker, listed, 3)
            assert ask(ranker, vectors[20], theirs, tenant_id=tenant) == []

    def test_a_tenant_and_an_id_are_two_things(self, ranker: Any) -> None:
        """What is the same when it is joined is not the same: tenant "x:y" with "z#0", tenant "x" with "y:z#0"."""
        vectors = unit_vectors(2)
        for separator in SEPARATORS:
            pairs = ((f"x{separator}y", "z#0"), ("x", f"y{separator}z#0"))
            for (tenant_id, passage_id), vector in zip(pairs, vectors, strict=True):
                tell(ranker, passage_id, vector, tenant_id)
            for (tenant_id, passage_id), vector in zip(pairs, vectors, strict=True):
                answer = ask(ranker, vector, [passage_id], tenant_id=tenant_id)
                assert answer == [scored(passage_id, 1.0)]
            for tenant_id, passage_id in pairs:
                tell(ranker, passage_id, None, tenant_id)
                assert ask(ranker, vectors[0], [passage_id], tenant_id=tenant_id) == []

    def test_any_id_and_any_tenant(self, ranker: Any) -> None:
        """Quotes, `%`, `#`, CJK, emoji, 500 characters, cases, two normal forms: bound, never spliced, never folded."""
        vectors = unit_vectors(len(HOSTILE_IDS))
        for tenant_id in ("it's", "東京%"):
            for passage_id, vector in zip(HOSTILE_IDS, vectors, strict=True):
                tell(ranker, passage_id, vector, tenant_id)
            for passage_id, vector in zip(HOSTILE_IDS, vectors, strict=True):
                for listed in (None, HOSTILE_IDS, [passage_id]):
                    assert ids_of(ask(ranker, vector, listed, limit=1, tenant_id=tenant_id)) == [passage_id]
            tell(ranker, HOSTILE_IDS[10], None, tenant_id)
            assert len(ask(ranker, vectors[0], HOSTILE_IDS, limit=100, tenant_id=tenant_id)) == len(HOSTILE_IDS) - 1

    def test_hostile_tenants_stay_apart(self, ranker: Any) -> None:
        """Tenants that differ in a space, a case, a normal form, a character far behind: each has its own passage."""
        vectors = unit_vectors(len(HOSTILE_TENANTS))
        for tenant_id, vector in zip(HOSTILE_TENANTS, vectors, strict=True):
            tell(ranker, "s#0", vector, tenant_id)
        for tenant_id, vector in zip(HOSTILE_TENANTS, vectors, strict=True):
            for listed in (None, ["s#0"]):
                assert ask(ranker, vector, listed, tenant_id=tenant_id) == [scored("s#0", 1.0)]
        for place, tenant_id in enumerate(HOSTILE_TENANTS[::2]):
            if hasattr(ranker, "forget_tenant") and place % 2:
                ranker.forget_tenant(tenant_id=tenant_id)
            else:
                tell(ranker, "s#0", None, tenant_id)
            assert ask(ranker, vectors[2 * place], tenant_id=tenant_id) == []
        for tenant_id, vector in zip(HOSTILE_TENANTS[1::2], vectors[1::2], strict=True):
            assert ask(ranker, vector, tenant_id=tenant_id) == [scored("s#0", 1.0)]

    def test_many_tenants_are_held(self, ranker: Any) -> None:
        """Two hundred tenants, each with a passage or two: none is dropped for another."""
        vectors = unit_vectors(200)
        for place, vector in enumerate(vectors):
            tell(ranker, "s#0", vector, f"tenant{place}")
        for place, vector in enumerate(vectors):
            assert ask(ranker, vector, tenant_id=f"tenant{place}") == [scored("s#0", 1.0)]

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


def _assert_cosines(
    answer: list[tuple[str, float]], ids: list[str], vectors: NDArray[np.float32], query: NDArray[np.float32]
) -> None:
    for passage_id, score in answer:
        assert score == pytest.approx(float(vectors[ids.index(passage_id)] @ query), abs=1e-3)


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
