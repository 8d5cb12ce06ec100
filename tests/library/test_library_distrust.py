"""What a store with a fault cannot do: hide what it did behind a note, repeat itself unseen, or end in a riddle."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from tests.library.doubles import HandClock, LegStore, RecordingEmbedder, in_thread, source
from tests.stores.test_kit_catches_legs import Legs

from stackroom import EmbedderMismatch, Library, Note, Scope, StoreError
from stackroom.filters import Exists
from stackroom.stores import CollectionSpec, Match, Matches, MemoryStore, Page, Record
from stackroom.stores._legs import Rankings

if TYPE_CHECKING:
    from collections.abc import Callable

    from stackroom import Answer
    from stackroom.filters import Filter

SCOPE = Scope("t", ["g"])
MODES: list[Any] = ["hybrid", "dense", "lexical"]


class Says(LegStore):
    """Answers more than was asked, and says something beside it."""

    note = Note("scan_limit", "")

    def leg(self, ask: Callable[[Filter], list[Match]], where: Filter) -> list[Match]:
        del where
        return Matches(ask(Exists("tenantId")), [self.note])


class WithoutMetadata(LegStore):
    """Answers something that is no record of anybody, first."""

    def leg(self, ask: Callable[[Filter], list[Match]], where: Filter) -> list[Match]:
        return [Match(Record.stored("secret", None, {}, 1), 1.0), *ask(where)]


class NoNumbers(LegStore):
    """Scores what it finds with what is no score."""

    def leg(self, ask: Callable[[Filter], list[Match]], where: Filter) -> list[Match]:
        return [Match(match.record, float("nan")) for match in ask(where)]


class RepeatsAtOnce(Legs):
    def handed(self, rankings: Rankings) -> Rankings:
        return Rankings(rankings.id_of, [*rankings.dense, *rankings.dense], rankings.lexical)


class ReadsFewer(Legs):
    def read(self, records: list[Record]) -> list[Record]:
        return records[:-1]


class ReadsNothing(Legs):
    def read(self, records: list[Record]) -> list[Record]:
        nothing: Any = [None] * len(records)
        return nothing  # type: ignore[no-any-return] # that is the fault


def library_on(store: MemoryStore) -> Library:
    library = Library(store, "library", RecordingEmbedder(), clock=HandClock())
    for number in range(3):
        library.index_source(source(f"s{number}", f"some text {number}"))
    library.index_source(source("foreign", "some text of beta", tenant_id="beta"))
    return library


def codes(answer: Answer) -> list[str]:
    return sorted(note.code for note in answer.notes)


@pytest.mark.parametrize("code", ["dropped_by_check", "no_words", "empty_query", "ranker_fallback", "of_my_own"])
@pytest.mark.parametrize("mode", MODES)
def test_a_store_cannot_speak_for_the_library(mode: Any, code: str) -> None:
    store = Says()
    store.note = Note(code, "0 of nothing")
    answer = library_on(store).search("some text", scope=SCOPE, mode=mode)
    assert codes(answer) == ["dropped_by_check"]
    assert answer.notes[0].message.startswith("2 of" if mode == "hybrid" else "1 of")
    assert not answer.complete


@pytest.mark.parametrize("code", ["scan_limit", "lagging"])
def test_what_a_store_may_say_is_said_in_the_librarys_words(code: str) -> None:
    store = Says()
    store.note = Note(code, "gave up after tenant beta's 5 rows")
    answer = library_on(store).search("some text", scope=SCOPE)
    assert codes(answer) == sorted(["dropped_by_check", code])
    assert not any("beta" in note.message for note in answer.notes)
    assert not answer.complete


@pytest.mark.parametrize("mode", MODES)
def test_what_is_no_record_of_anybody_is_dropped_and_counted(mode: Any) -> None:
    answer = library_on(WithoutMetadata()).search("some text", scope=SCOPE, mode=mode)
    assert {hit.source_id for hit in answer} == {"s0", "s1", "s2"}
    assert codes(answer) == ["dropped_by_check"]


@pytest.mark.parametrize("mode", MODES)
def test_what_has_no_score_is_dropped_and_counted(mode: Any) -> None:
    answer = library_on(NoNumbers()).search("some text", scope=SCOPE, mode=mode)
    assert (len(answer), answer.complete, codes(answer)) == (0, False, ["dropped_by_check"])


def test_what_both_legs_at_once_repeat_is_dropped_and_takes_no_rank() -> None:
    answer = library_on(RepeatsAtOnce()).search("some text", scope=SCOPE)
    assert sorted(hit.dense_rank or 0 for hit in answer) == [1, 2, 3]
    assert (answer.complete, codes(answer)) == (False, ["dropped_by_check"])
    assert answer.notes[0].message.startswith("3 of")


@pytest.mark.parametrize("store", [ReadsFewer, ReadsNothing])
def test_records_other_than_were_chosen_are_the_stores_fault(store: type[Legs]) -> None:
    with pytest.raises(StoreError, match="check-store"):
        library_on(store()).search("some text", scope=SCOPE)


class ShowsTwoVersions(MemoryStore):
    """Shows the first passage of a source under another version than the rest, each time."""

    def scan(self, name: str, **options: Any) -> Page[Record]:
        page = super().scan(name, **options)
        return Page(
            tuple(Record.stored(of.text, of.vector, of.metadata, (of.version or 0) + (of.index == 0)) for of in page),
            page.next,
        )


def test_a_source_that_shows_under_two_versions_is_read_in_one() -> None:
    library = Library(ShowsTwoVersions(), "library", RecordingEmbedder())
    library.index_source(source("s", "one", "two", "three"))
    assert [hit.text for hit in library.passages("s", scope=SCOPE)] == ["two", "three"]


class ChangesMeanwhile(Says):
    """Drops the condition, and shows a source under another version at the first two questions."""

    calls = 0

    def leg(self, ask: Callable[[Filter], list[Match]], where: Filter) -> list[Match]:
        self.calls += 1
        found = super().leg(ask, where)
        if self.calls > 2:
            return found
        return [Match(Record.stored(of.record.text, None, of.record.metadata, self.calls), of.score) for of in found]


def test_what_was_dropped_is_counted_of_the_last_attempt_alone() -> None:
    answer = library_on(ChangesMeanwhile()).search("some text", scope=SCOPE)
    assert [note.message for note in answer.notes if note.code == "dropped_by_check"] == [
        "2 of the store's hits did not pass the check and were dropped"
    ]


class MadeMeanwhile(MemoryStore):
    """Somebody else makes the collection between our look and our making it."""

    def create_collection(self, name: str, spec: CollectionSpec) -> None:
        super().create_collection(name, CollectionSpec(spec.dimension, "another@16"))
        super().create_collection(name, spec)


def test_a_collection_that_another_made_meanwhile_is_judged_by_whose_it_is() -> None:
    with pytest.raises(EmbedderMismatch):
        Library(MadeMeanwhile(), "library", RecordingEmbedder())


def test_verifying_keeps_to_the_most_that_an_embedder_takes_at_once() -> None:
    embedder: Any = RecordingEmbedder()
    embedder.max_batch = 2
    library = Library(MemoryStore(), "library", embedder)
    library.index_source(source("s", "one", "two", "three"))
    embedder.batches.clear()
    assert library.verify_embedder(sample=3) > 0.99
    assert [len(batch) for batch in embedder.batches] == [2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_after_a_fork_searches_both_legs_with_threads_of_its_own() -> None:
    library = library_on(MemoryStore())
    library.search("some text", scope=SCOPE)
    child = os.fork()
    if child == 0:
        found = in_thread(lambda: len(library.search("some text", scope=SCOPE)))
        os._exit(0 if found == 3 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
