"""Both legs of a search at once: one round trip, one state."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import pytest
from tests.postgres_room import Room

from stackroom import RRF, Library, Scope, Source, Weighted
from stackroom.embedders import HashingEmbedder
from stackroom.filters import And, Eq
from stackroom.stores import CollectionSpec, LexicalQuery, PostgresStore, Record
from stackroom.stores._legs import LegsQuery, Rankings
from stackroom.stores.postgres._connections import Session

LONG = "word " * 20_000
"""Too long to ride along with what a leg finds, however well it is compressed."""

SCOPE = Scope("t", ["g"])


def random_text(length: int) -> str:
    letters = np.random.default_rng(1).integers(97, 123, length)
    return "".join(map(chr, letters.tolist()))


@pytest.fixture
def round_trips(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the statements of each round trip of a transaction; its end counts when it is one of its own."""
    counted: list[int] = []
    asked, ended = Session.ask, Session.end

    def end(self: Session) -> None:
        if not self.may_have_ended:
            counted.append(0)
        ended(self)

    monkeypatch.setattr(Session, "end", end)

    def ask(self: Session, *statements: Any, last: bool = False) -> Any:
        counted.append(len(statements))
        return asked(self, *statements, last=last)

    monkeypatch.setattr(Session, "ask", ask)
    return counted


@pytest.fixture
def library(room: Room) -> Library:
    made = Library(room.store(), "library", HashingEmbedder(16), fusion=RRF())
    for number in range(8):
        made.index_source(Source(f"s{number}", "doc", "t", ["g"], [f"red fox {number}", f"blue hen {number}"]))
    made.search("warm", scope=SCOPE)
    return made


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_a_search_is_one_round_trip(library: Library, round_trips: list[int], mode: Any) -> None:
    answer = library.search("red fox", scope=SCOPE, mode=mode)
    assert len(answer) == (8 if mode == "lexical" else 10)
    assert len(round_trips) == 1


@pytest.mark.usefixtures("library")
def test_a_fusion_that_scores_what_one_leg_found_by_the_other_takes_two_more(
    room: Room, round_trips: list[int]
) -> None:
    weighted = Library(room.store(), "library", HashingEmbedder(16), fusion=Weighted(0.5))
    weighted.search("warm", scope=SCOPE)
    round_trips.clear()
    assert len(weighted.search("red fox", scope=SCOPE)) == 10
    assert len(round_trips) == 3  # both legs; the words of what only the dense one found; the end


def test_texts_that_are_long_are_read_of_what_is_chosen_alone(library: Library, round_trips: list[int]) -> None:
    texts = [f"red {number} {random_text(20_000)}" for number in range(12)]
    library.index_source(Source("long", "doc", "t", ["g"], texts))
    library.search("red 3", scope=SCOPE, top_k=2)
    round_trips.clear()
    answer = library.search("red 3", scope=SCOPE, top_k=2)
    assert len(round_trips) == 3  # both legs; the texts; the end
    assert {hit.text for hit in answer} <= {*texts, "red fox 3"}
    assert any(len(hit.text) > 20_000 for hit in answer)


def test_what_is_chosen_is_read_of_the_state_that_it_was_chosen_from(room: Room) -> None:
    store, other = room.store(), room.store()
    store.create_collection("c", CollectionSpec(2, "m"))
    old, new = f"old {random_text(9_000)}", f"new {random_text(9_000)}"
    store.replace("c", [_record(old)], where=Eq("tenantId", "t"))
    asked = LegsQuery(np.asarray([1, 0], dtype=np.float32), LexicalQuery("old"), Eq("tenantId", "t"), 5, across=False)

    def choose(rankings: Rankings) -> list[Hashable]:
        other.replace("c", [_record(new)], where=Eq("tenantId", "t"))
        assert [key for key, _ in rankings.dense] == [key for key, _ in rankings.lexical]
        return [key for key, _ in rankings.dense]

    (chosen,) = store.legs("c", asked, choose, fingerprint="m")
    assert chosen.text == old
    assert [record.text for record in store.scan("c", where=Eq("tenantId", "t"), limit=2)] == [new]


def test_two_tenants_that_no_passage_can_be_of_find_nothing(room: Room) -> None:
    store = room.store()
    store.create_collection("c", CollectionSpec(2, "m"))
    store.replace("c", [_record("red")], where=Eq("tenantId", "t"))
    seen: list[Rankings] = []

    def choose(rankings: Rankings) -> list[Hashable]:
        seen.append(rankings)
        return []

    nobody = And(Eq("tenantId", "t"), Eq("tenantId", "u"))
    asked = LegsQuery(np.asarray([1, 0], dtype=np.float32), LexicalQuery("red"), nobody, 5, across=True)
    assert store.legs("c", asked, choose, fingerprint="m") == []
    assert [(of.dense, of.lexical) for of in seen] == [((), ())]


def test_a_subclass_that_changes_a_leg_is_asked_leg_by_leg(room: Room) -> None:
    class Silent(PostgresStore):
        def lexical(self, *_: Any, **__: Any) -> Any:
            return []

    store = Silent(room.dsn, schema=room.schema)
    library = Library(store, "library", HashingEmbedder(16))
    library.index_source(Source("s", "doc", "t", ["g"], ["red fox"]))
    (hit,) = library.search("red", scope=SCOPE)
    assert hit.lexical_rank is None
    store.close()


def _record(text: str) -> Record:
    return Record(text, [1.0, 0.5], {"tenantId": "t", "sourceId": "a", "index": 0})
