"""Every hit of a store is judged again, and what a store cannot do is refused before anything is embedded."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.library.doubles import (
    AnswersFewer,
    DropsConditions,
    HandClock,
    RecordingEmbedder,
    RefusesLexical,
    RefusesNe,
    RefusesPrefix,
    RepeatsRows,
    source,
)

from stackroom import RRF, CapabilityError, FilterError, Library, Scope, UnsupportedFilter

if TYPE_CHECKING:
    from stackroom import Answer
    from stackroom.stores import VectorStore

MODES: list[Any] = ["hybrid", "lexical", "dense"]


def codes(answer: Answer) -> list[str]:
    return [note.code for note in answer.notes]


def library_on(store: VectorStore, clock: HandClock | None = None) -> tuple[Library, RecordingEmbedder]:
    """Return a library with a source that may be seen, and its embedder."""
    embedder = RecordingEmbedder()
    library = Library(store, "library", embedder, clock=clock or HandClock())
    library.index_source(source("s", "some text", folder_id="a", tags=["x"]))
    embedder.batches.clear()
    return library, embedder


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("fields", "narrowing"),
    [
        pytest.param({"tenant_id": "u"}, {}, id="another tenant"),
        pytest.param({"acl_groups": ["h"]}, {}, id="another group"),
        pytest.param({"expires_at": HandClock().now}, {}, id="expired"),
        pytest.param({"folder_id": "b"}, {"folder_id": "a"}, id="another folder"),
        pytest.param({"kind": "meeting"}, {"kinds": ["doc"]}, id="another kind"),
        pytest.param({"tags": ["y"]}, {"tags": ["x"]}, id="other tags"),
        pytest.param({"tier": "hot"}, {"source_ids": ["s"]}, id="another source"),
        pytest.param({"tier": "hot"}, {"where": {"folderId": "a"}}, id="where"),
        pytest.param({"folder_id": "b"}, {"any_of": [{"folder_id": "a"}, {"source_ids": ["s"]}]}, id="any_of"),
    ],
)
def test_what_a_store_should_not_have_answered_is_dropped_and_counted(
    mode: Any, fields: dict[str, Any], narrowing: dict[str, Any]
) -> None:
    library, _ = library_on(DropsConditions())
    library.index_source(source("foreign", "some text secret", **fields))
    answer = library.search("some text", scope=Scope("t", ["g"]), mode=mode, **narrowing)
    assert [hit.id for hit in answer] == ["s#0"]
    assert (answer.complete, codes(answer)) == (False, ["dropped_by_check"])
    (note,) = answer.notes
    assert str(2 if mode == "hybrid" else 1) in note.message
    assert "foreign" not in note.message
    assert "secret" not in note.message


def test_what_was_dropped_is_logged_as_a_warning_without_ids_and_texts(
    scope: Scope, caplog: pytest.LogCaptureFixture
) -> None:
    library, _ = library_on(DropsConditions())
    library.index_source(source("foreign", "some text secret", tenant_id="u"))
    library.search("some text", scope=scope, mode="dense")
    (logged,) = caplog.records
    assert (logged.name, logged.levelname) == ("stackroom", "WARNING")
    assert logged.getMessage() == "1 of the store's hits did not pass the check and were dropped"


def test_a_foreign_passage_with_the_same_id_does_not_stand_for_the_own(scope: Scope) -> None:
    library, _ = library_on(DropsConditions())
    library.index_source(source("s", "some text of u some text", tenant_id="u"))
    answer = library.search("some text", scope=scope)
    assert [(hit.id, hit.text) for hit in answer] == [("s#0", "some text")]
    assert codes(answer) == ["dropped_by_check"]


def test_what_is_dropped_takes_no_rank(scope: Scope) -> None:
    library, _ = library_on(DropsConditions())
    for number in range(3):
        library.index_source(source(f"a{number}", "some text", tenant_id="u"))
    (hit,) = library.search("some text", scope=scope, fusion=RRF(k=60))
    assert (hit.dense_rank, hit.lexical_rank, hit.score) == (1, 1, 2 / 61)


@pytest.mark.parametrize("mode", MODES)
def test_what_comes_twice_is_dropped_once_and_counted(scope: Scope, mode: Any) -> None:
    library, _ = library_on(RepeatsRows())
    library.index_source(source("r", "some other text"))
    answer = library.search("some text", scope=scope, mode=mode)
    assert sorted(hit.id for hit in answer) == ["r#0", "s#0"]
    assert sorted(rank for hit in answer for rank in (hit.dense_rank, hit.lexical_rank) if rank) == (
        [1, 1, 2, 2] if mode == "hybrid" else [1, 2]
    )
    assert (answer.complete, codes(answer)) == (False, ["dropped_by_check"])
    assert str(4 if mode == "hybrid" else 2) in answer.notes[0].message


@pytest.mark.parametrize("mode", MODES)
def test_the_stores_of_the_core_never_cause_a_drop(library: Library, clock: HandClock, scope: Scope, mode: Any) -> None:
    for number in range(10):
        library.index_source(source(f"s{number}", "some text", acl_groups=["gh"[number % 2]]))
        library.index_source(source(f"u{number}", "some text", tenant_id="u"))
        library.index_source(source(f"e{number}", "some text", expires_at=clock.now + timedelta(seconds=number % 2)))
    answer = library.search("some text", scope=scope, mode=mode, top_k=50)
    assert len(answer) == 10
    assert (answer.complete, answer.notes) == (True, ())


@pytest.mark.parametrize("code", ["scan_limit", "lagging"])
@pytest.mark.parametrize("mode", MODES)
def test_a_store_that_held_some_back_is_quoted(scope: Scope, mode: Any, code: str) -> None:
    store = AnswersFewer()
    store.code = code
    library, _ = library_on(store)
    library.index_source(source("r", "some text"))
    answer = library.search("some text", scope=scope, mode=mode)
    assert len(answer) == 1
    assert (answer.complete, codes(answer)) == (False, [code])


def test_lexical_mode_without_a_lexical_leg_is_refused(scope: Scope) -> None:
    store = RefusesLexical()
    library, embedder = library_on(store)
    store.asked.clear()
    with pytest.raises(CapabilityError):
        library.search("some", scope=scope, mode="lexical")
    assert (store.asked, embedder.calls) == ([], 0)


@pytest.mark.parametrize("prefix", [False, True])
def test_hybrid_without_a_lexical_leg_is_answered_by_the_dense_leg_alone(scope: Scope, *, prefix: bool) -> None:
    store = RefusesLexical()
    library, _ = library_on(store)
    answer = library.search("some", scope=scope, prefix=prefix, fusion=RRF(k=60))
    assert [(hit.id, hit.score, hit.dense_rank, hit.lexical_rank) for hit in answer] == [("s#0", 1 / 61, 1, None)]
    assert (answer.mode, answer.complete, codes(answer)) == ("hybrid", True, ["no_lexical_leg"])
    assert "lexical" not in store.names()
    assert codes(library.search("some", scope=scope, mode="dense")) == []


def test_prefix_is_refused_where_the_lexical_leg_has_none(scope: Scope) -> None:
    store = RefusesPrefix()
    library, embedder = library_on(store)
    store.asked.clear()
    for mode in MODES[:2]:
        with pytest.raises(CapabilityError):
            library.search("some", scope=scope, mode=mode, prefix=True)
    assert (store.asked, embedder.calls) == ([], 0)
    assert len(library.search("some", scope=scope, mode="dense", prefix=True)) == 1
    assert len(library.search("some", scope=scope)) == 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "narrowing",
    [
        {"where": {"n": {"$ne": 5}}},
        {"where": {"$or": [{"n": 1}, {"$not": {"m": {"$ne": 5}}}]}},
        {"any_of": [{"kinds": ["doc"]}, {"where": {"n": {"$ne": 5}}}]},
    ],
    ids=str,
)
def test_a_filter_that_the_store_cannot_answer_is_refused(scope: Scope, mode: Any, narrowing: dict[str, Any]) -> None:
    store = RefusesNe()
    library, embedder = library_on(store)
    store.asked.clear()
    with pytest.raises(UnsupportedFilter) as caught:
        library.search("some", scope=scope, mode=mode, **narrowing)
    assert caught.value.operator == "Ne"
    assert isinstance(caught.value, FilterError)
    assert (store.asked, embedder.calls) == ([], 0)
    assert len(library.search("some", scope=scope, mode=mode, where={"n": {"$exists": False}})) == 1


def test_arguments_are_checked_before_capabilities(scope: Scope) -> None:
    library, _ = library_on(RefusesLexical())
    with pytest.raises(ValueError, match="top_k"):
        library.search("some", scope=scope, mode="lexical", top_k=0)


def test_a_search_that_can_find_nothing_ends_before_capabilities(scope: Scope) -> None:
    library, _ = library_on(RefusesLexical())
    assert library.search("some", scope=scope, mode="lexical", source_ids=[]).complete
    assert codes(library.search(" ", scope=scope, mode="lexical")) == ["empty_query"]


def test_several_notes_stand_side_by_side(scope: Scope) -> None:
    store = DropsConditions()
    library, embedder = library_on(store)
    embedder.max_input_chars = 3
    library = Library(store, "library", embedder)
    library.index_source(source("r", "some text", tenant_id="u"))
    answer = library.search("some", scope=scope)
    assert sorted(codes(answer)) == ["clipped_query", "dropped_by_check"]
    assert not answer.complete
