"""What a ranker must make of what it is told: upserts, removals, forgettings, from any thread, and after a restart."""

from __future__ import annotations

import threading
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from stackroom.testing._asking_rankers import ask, feed, ids_of, most_asked, reach, scored, tell, unit_vectors

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


class TakesInWhatItIsTold:
    """The part of the kit about writes."""

    def test_an_upsert_moves(self, ranker: Any) -> None:
        """A second vector of an id takes the first one's place."""
        vectors = unit_vectors(20)
        ids = feed(ranker, vectors)
        tell(ranker, ids[0], -vectors[0])
        for listed in (None, ids):
            answer = ask(ranker, vectors[0], listed, limit=20)
            assert len(answer) == reach(ranker, listed, 20)
            assert ids_of(answer)[0] != ids[0]
            assert answer[-1][1] == pytest.approx(-1.0, abs=1e-3) or len(answer) < 20
            (best, *_) = ask(ranker, -vectors[0], listed)
            assert best == scored(ids[0], 1.0)

    def test_a_removal_removes_and_a_removed_id_may_come_again(self, ranker: Any) -> None:
        """None takes a passage out, for good until it comes again."""
        vectors = unit_vectors(20)
        ids = feed(ranker, vectors)
        tell(ranker, ids[0], None)
        for listed in (None, ids):
            answer = ids_of(ask(ranker, vectors[0], listed, limit=20))
            assert len(answer) == len(set(answer)) == reach(ranker, listed, 19)
            assert set(answer) <= set(ids[1:])
        tell(ranker, ids[0], vectors[0])
        for listed in (None, ids):
            assert ids_of(ask(ranker, vectors[0], listed))[0] == ids[0]

    def test_every_write_is_seen_by_the_next_search(self, ranker: Any) -> None:
        """The same question, asked again after each write, is answered anew."""
        vectors = unit_vectors(20)
        ids = feed(ranker, vectors)
        for listed in (None, ids, ids[:1]):
            for vector, is_first in ((vectors[0], True), (None, False), (vectors[0], True), (-vectors[0], False)):
                tell(ranker, ids[0], vector)
                answer = ask(ranker, vectors[0], listed)
                assert (bool(answer) and answer[0] == scored(ids[0], 1.0)) is is_first

    def test_a_tenant_may_become_empty(self, ranker: Any) -> None:
        """When its last passage went, nothing is answered, without an error; it may come again."""
        vectors = unit_vectors(5)
        for _ in range(2):
            ids = feed(ranker, vectors)
            for passage_id in ids:
                tell(ranker, passage_id, None)
            for listed in (None, ids):
                assert ask(ranker, vectors[0], listed) == []
        feed(ranker, vectors)
        assert ids_of(ask(ranker, vectors[3]))[0] == ids[3]

    def test_repeating_a_call_is_harmless(self, ranker: Any) -> None:
        """The feed delivers at least once: twice the same, or a removal of what was never there, changes nothing."""
        vectors = unit_vectors(20)
        ids = feed(ranker, vectors)
        feed(ranker, vectors)
        for _ in range(2):
            tell(ranker, ids[1], None)
            tell(ranker, "never#0", None)
            tell(ranker, "never#0", None, "nobody")
        for listed in (None, ids):
            answer = ids_of(ask(ranker, vectors[0], listed, limit=100))
            assert len(answer) == len(set(answer)) == reach(ranker, listed, 19)
            assert set(answer) <= {*ids} - {ids[1]}

    def test_a_forgotten_tenant_is_gone_and_may_come_again(self, ranker: Any) -> None:
        """`forget_tenant`, when there is one, drops one tenant whole; each full feed begins with it."""
        if not hasattr(ranker, "forget_tenant"):
            pytest.skip("not applicable: this ranker has no forget_tenant")
        vectors = unit_vectors(20)
        for tenant_id in ("t", "u"):
            ids = feed(ranker, vectors, tenant_id)
        for _ in range(2):
            ranker.forget_tenant(tenant_id="t")
            for listed in (None, ids):
                assert ask(ranker, vectors[0], listed) == []
            assert feed(ranker, vectors[:7]) == ids[:7]
            for listed in (None, ids):
                answer = ids_of(ask(ranker, vectors[0], listed, limit=20))
                assert answer[0] == ids[0]
                assert set(answer) <= set(ids[:7])
                assert len(answer) == reach(ranker, listed, 7)
        assert len(ask(ranker, vectors[0], ids, limit=20, tenant_id="u")) == 20

    def test_many_changes_leave_what_came_last(self, ranker: Any) -> None:
        """Half of an index replaced and removed, several times over: no trace of it, and nothing lost."""
        chance = np.random.default_rng(11)
        held: dict[str, NDArray[np.float32]] = {}
        for seed in range(6):
            for place, vector in enumerate(unit_vectors(150, seed=seed)):
                if chance.random() < 0.6:
                    held[f"s#{place}"] = vector
                    tell(ranker, f"s#{place}", vector)
                elif chance.random() < 0.5:
                    held.pop(f"s#{place}", None)
                    tell(ranker, f"s#{place}", None)
        everything = [f"s#{place}" for place in range(150)]
        for listed in (None, everything):
            answer = ids_of(ask(ranker, unit_vectors(1)[0], listed, limit=150))
            assert len(answer) == len(set(answer)) == reach(ranker, listed, len(held))
            assert set(answer) <= set(held)
        for passage_id, vector in held.items():
            assert ask(ranker, vector, [passage_id]) == [scored(passage_id, 1.0)]

    # From any thread

    def test_eight_threads_search_while_one_writes(self, ranker: Any) -> None:
        """Calls come from any thread, several at once: a ranker that cannot bear that takes a lock."""
        vectors = unit_vectors(300)
        ids = feed(ranker, vectors[:200])
        is_over = threading.Event()

        def search(place: int) -> None:
            while not is_over.is_set():
                assert ask(ranker, vectors[place], ids[:100])[0] == scored(ids[place], 1.0)
                assert len(ask(ranker, vectors[place])) == min(10, most_asked(ranker))

        def write() -> None:
            try:
                more = feed(ranker, vectors[200:], name="more")
                for passage_id in [*ids[100:150], *more[:10]]:
                    tell(ranker, passage_id, None)
            finally:
                is_over.set()

        _all_at_once([*(partial(search, place) for place in range(8)), write])
        everything = [*ids, *(f"more#{place}" for place in range(100))]
        assert len(ask(ranker, vectors[0], everything, limit=300)) == 240

    def test_several_threads_write_to_tenants_of_their_own(self, ranker: Any) -> None:
        """One tenant's calls come one after the other, those of several at once."""
        vectors = unit_vectors(60)

        def write(number: int) -> None:
            ids = feed(ranker, vectors, f"t{number}")
            for passage_id in ids[: 10 + number]:
                tell(ranker, passage_id, None, f"t{number}")
            tell(ranker, ids[0], vectors[0], f"t{number}")

        _all_at_once([partial(write, number) for number in range(6)])
        ids = [f"s#{place}" for place in range(60)]
        for number in range(6):
            answer = ids_of(ask(ranker, vectors[0], ids, limit=60, tenant_id=f"t{number}"))
            assert sorted(answer) == sorted([ids[0], *ids[10 + number :]])
            assert answer[0] == ids[0]

    # What outlives the process

    def test_the_same_answers_after_close_and_open(self, ranker: Any, reopen: Callable[[], Any]) -> None:
        """A durable ranker that was closed cleanly names the same state and answers the same from it."""
        vectors = unit_vectors(300)
        ids = feed(ranker, vectors)
        feed(ranker, vectors[:5], "u")
        tell(ranker, ids[9], None)
        tell(ranker, ids[8], -vectors[8])
        name = ranker.durable_id
        before = [ask(ranker, query, listed) for query in vectors[:10] for listed in (None, ids[5:50])]
        again = reopen()
        with closing(again):
            assert isinstance(name, str)
            assert again.durable_id == name
            assert [ask(again, query, listed) for query in vectors[:10] for listed in (None, ids[5:50])] == before
            assert len(ask(again, vectors[0], ids, limit=300)) == 299
            tell(again, "new#0", -vectors[0])
            assert ids_of(ask(again, -vectors[0], limit=1)) == ["new#0"]
            assert len(ask(again, vectors[0], ids[:5], tenant_id="u")) == 5

    def test_after_close_and_open_it_is_told_as_before(self, ranker: Any, reopen: Callable[[], Any]) -> None:
        """What was loaded can be moved and removed, and what was forgotten before stays forgotten."""
        vectors = unit_vectors(20)
        ids = feed(ranker, vectors)
        feed(ranker, vectors, "u")
        for passage_id in ids:
            tell(ranker, passage_id, None, "u")
        again = reopen()
        with closing(again):
            for listed in (None, ids):
                assert ask(again, vectors[0], listed, tenant_id="u") == []
            tell(again, ids[0], -vectors[0])
            tell(again, ids[1], None)
            for listed in (None, ids):
                assert ids_of(ask(again, -vectors[0], listed))[0] == ids[0]
                assert ids[1] not in ids_of(ask(again, vectors[1], listed))
            assert len(ask(again, vectors[0], ids, limit=20)) == 19

    def test_its_name_promises_what_it_was_told(self, ranker: Any, reopen_unclosed: Callable[[], Any]) -> None:
        """After a kill, a durable ranker holds all that it was told, or shows another name: then it is fed in full."""
        vectors = unit_vectors(20)
        ids = feed(ranker, vectors)
        tell(ranker, ids[0], None)
        again = reopen_unclosed()
        with closing(again):
            if again.durable_id == ranker.durable_id:
                assert sorted(ids_of(ask(again, vectors[0], ids, limit=20))) == sorted(ids[1:])


def _all_at_once(work: list[Callable[[], object]]) -> None:
    """Do several things in threads; a failure in one is one here, and so is hanging."""
    failures: list[BaseException] = []

    def run(one: Callable[[], object]) -> None:
        try:
            one()
        except BaseException as error:  # noqa: BLE001 - told by the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=run, args=(one,), daemon=True) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert not any(thread.is_alive() for thread in threads)
