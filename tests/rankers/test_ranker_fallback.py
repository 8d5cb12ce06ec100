"""What is done when a ranker fails, and how little is told of it."""

from __future__ import annotations

import gc
import logging
import pickle
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.library.doubles import in_thread
from tests.rankers.conftest import OWN, SCOPE, Open, codes, found
from tests.rankers.doubles import Answering, HonestRanker, generated, raising

from stackroom import EmbedderError, RankerError
from stackroom.rankers import RankerFallback

SECRET = "postgres://u:pw@h/db"  # noqa: S105 - nobody's


class Waits(HonestRanker):
    """Does not return before it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go = threading.Event()
        self.calls = 0

    def answer(self, honest: list[Any], asked: dict[str, Any]) -> Any:  # noqa: ARG002
        self.calls += 1
        assert self.may_go.wait(20)
        return honest


@pytest.fixture
def waits() -> Iterator[Waits]:
    ranker = Waits()
    yield ranker
    ranker.may_go.set()


async def coroutine() -> list[Any]:
    return []


async def async_generated() -> Any:
    yield ("a#0", 1.0)


class IterRaises:
    def __iter__(self) -> Any:
        raise ZeroDivisionError


FAILURES: dict[str, tuple[Callable[[list[Any]], Any], str]] = {
    "raises": (raising(RuntimeError(SECRET)), "RuntimeError"),
    "a generator that raises": (lambda honest: generated(honest[:2], OSError(SECRET)), "OSError"),
    "None": (lambda _: None, "TypeError"),
    "a number": (lambda _: 7, "TypeError"),
    "a coroutine": (lambda _: coroutine(), "TypeError"),
    "an async generator": (lambda _: async_generated(), "TypeError"),
    "not iterable after all": (lambda _: IterRaises(), "ZeroDivisionError"),
    "stops": (raising(StopIteration(SECRET)), "StopIteration"),
}


@pytest.mark.parametrize("timeout", [5.0, None])
@pytest.mark.parametrize(("make", "kind"), FAILURES.values(), ids=FAILURES)
def test_each_failure_runs_the_policy_and_is_noted_by_its_kind(
    three: Open, make: Callable[[list[Any]], Any], kind: str, timeout: float | None
) -> None:
    heard: list[RankerFallback] = []
    library = three(Answering(make), on_ranker_fallback=heard.append, ranker_timeout=timeout)
    answer = library.search("apple", scope=SCOPE, mode="dense")
    assert [(hit.source_id, round(hit.score, 6)) for hit in answer] == OWN
    assert answer.complete
    (note,) = answer.notes
    assert note.code == "ranker_fallback"
    assert kind in note.message
    assert "exact" in note.message
    (event,) = heard
    assert (event.tenant_id, event.policy, event.error.kind) == ("t", "exact", kind)


@pytest.mark.parametrize("mode", ["dense", "hybrid"])
@pytest.mark.parametrize("text", ["apple", "car", "?!"])
def test_lexical_answers_what_a_lexical_search_answers(three: Open, embedder: Any, mode: str, text: str) -> None:
    embedder.vectors.update({"car": [0.0, 1.0, 0.0], "?!": [1.0, 0.0, 0.0]})
    library = three(Answering(raising(RuntimeError())), ranker_fallback="lexical")
    worded = library.search(text, scope=SCOPE, mode="lexical")
    answer = library.search(text, scope=SCOPE, mode=mode)  # type: ignore[arg-type] # one of the modes
    assert answer.hits == worded.hits
    assert (answer.mode, answer.complete) == (mode, False)
    assert "ranker_fallback" in [note.code for note in answer.notes]
    assert {note.code for note in worded.notes} <= {note.code for note in answer.notes}


def test_lexical_takes_the_same_call(three: Open, embedder: Any) -> None:
    embedder.vectors["car ap"] = [0.0, 1.0, 0.0]
    library = three(Answering(raising(RuntimeError())), ranker_fallback="lexical")
    asked: dict[str, Any] = {"scope": SCOPE, "match": "all", "prefix": True, "top_k": 1, "min_score": 0.01}
    worded = library.search("car ap", mode="lexical", **asked)
    assert [hit.source_id for hit in worded] == ["c"]
    assert library.search("car ap", mode="hybrid", **asked).hits == worded.hits


@pytest.mark.parametrize("mode", ["dense", "hybrid"])
def test_empty_answers_nothing_from_either_leg(three: Open, mode: str) -> None:
    library = three(Answering(raising(RuntimeError())), ranker_fallback="empty")
    answer = library.search("apple", scope=SCOPE, mode=mode)  # type: ignore[arg-type] # one of the modes
    assert (len(answer), answer.complete) == (0, False)
    assert [note.code for note in answer.notes] == ["ranker_fallback"]


def test_exact_answers_hybrid_as_without_a_ranker(three: Open) -> None:
    plain = three().search("apple", scope=SCOPE)
    answer = three(Answering(raising(RuntimeError()))).search("apple", scope=SCOPE)
    assert (answer.hits, answer.complete) == (plain.hits, True)


def failing(three: Open, error: BaseException, **options: Any) -> RankerError:
    """Return what a search raises whose ranker raises."""
    library = three(Answering(raising(error)), ranker_fallback="raise", **options)
    with pytest.raises(RankerError) as caught:
        library.search("apple", scope=SCOPE, mode="dense")
    return caught.value


@pytest.mark.parametrize("timeout", [5.0, None])
def test_raise_raises_and_leads_nowhere_near_the_rankers_exception(three: Open, timeout: float | None) -> None:
    cause = RuntimeError(SECRET)
    cause.add_note(SECRET)
    error = failing(three, cause, ranker_timeout=timeout)
    assert error.kind == "RuntimeError"
    assert error.__cause__ is None
    assert error.__context__ is None
    assert not hasattr(error, "__notes__")
    told = "".join(traceback.format_exception(error))
    assert "pw" not in told
    assert "doubles.py" not in told
    assert pickle.loads(pickle.dumps(error)).kind == "RuntimeError"  # noqa: S301 - our own


def test_the_context_is_what_the_caller_was_handling(three: Open) -> None:
    own = KeyError("of the caller")
    errors = []
    try:
        raising(own)("asked")
    except KeyError:
        errors.append(failing(three, RuntimeError(SECRET)))
    assert errors[0].__context__ is own


@pytest.mark.parametrize("policy", ["exact", "lexical", "empty", "raise"])
def test_no_secret_of_an_exception_shows_anywhere(
    three: Open, caplog: pytest.LogCaptureFixture, policy: str, recwarn: pytest.WarningsRecorder
) -> None:
    heard: list[RankerFallback] = []
    library = three(Answering(raising(RuntimeError(SECRET))), ranker_fallback=policy, on_ranker_fallback=heard.append)
    told = ""
    try:
        told += repr(library.search("apple", scope=SCOPE).notes)
    except RankerError as error:
        told += repr(error) + "".join(traceback.format_exception(error))
    told += repr(heard[0]) + repr(vars(heard[0].error)) + "".join(traceback.format_exception(heard[0].error))
    assert "RuntimeError" in told
    assert [record.name for record in caplog.records] == ["stackroom.rankers"]
    assert [(record.levelno, record.exc_info) for record in caplog.records] == [(logging.WARNING, None)]
    told += caplog.text
    for secret in ("pw", "postgres"):
        assert secret not in told
    assert not recwarn.list


def test_unsanitized_the_cause_is_the_exception_and_notes_keep_to_its_kind(three: Open) -> None:
    cause = RuntimeError(SECRET)
    assert failing(three, cause, sanitize_ranker_errors=False).__cause__ is cause
    heard: list[RankerFallback] = []
    library = three(Answering(raising(cause)), sanitize_ranker_errors=False, on_ranker_fallback=heard.append)
    answer = library.search("apple", scope=SCOPE, mode="dense")
    assert "pw" not in answer.notes[0].message
    assert heard[0].error.__cause__ is cause


def hostile(name: str) -> Exception:
    """Return an exception that raises when anything of it is called, of a class with this name."""

    def fail(*_: Any, **__: Any) -> Any:
        raise AssertionError("touched")

    members = dict.fromkeys(("__str__", "__repr__", "__getattribute__", "__reduce__", "__eq__", "__hash__"), fail)
    made: type[Exception] = type(name, (Exception,), {**members, "__class__": property(fail)})
    return made()


@pytest.mark.parametrize(
    ("name", "kind"),
    [("Boom", "Boom"), ("pw@host", "Exception"), ("É", "Exception"), ("x" * 64, "x" * 64), ("x" * 65, "Exception")],
)
def test_the_kind_is_the_classs_name_when_that_is_harmless(three: Open, name: str, kind: str) -> None:
    assert failing(three, hostile(name)).kind == kind


def test_a_metaclass_has_no_say_in_the_kind(three: Open) -> None:
    class Meta(type):
        @property
        def __name__(cls) -> str:  # type: ignore[override] # hostile
            raise AssertionError("touched")

    class Odd(Exception, metaclass=Meta):
        pass

    assert failing(three, Odd()).kind == "Odd"


def test_the_callback_is_heard_first_once_and_on_the_searching_thread(three: Open) -> None:
    heard: list[threading.Thread] = []
    library = three(
        Answering(raising(RuntimeError())), on_ranker_fallback=lambda _: heard.append(threading.current_thread())
    )
    library.search("apple", scope=SCOPE)
    assert heard == [threading.current_thread()]


@pytest.mark.parametrize("policy", ["exact", "raise"])
def test_what_the_callback_raises_changes_nothing_and_is_logged_by_its_name(
    three: Open, caplog: pytest.LogCaptureFixture, policy: str
) -> None:
    library = three(
        Answering(raising(RuntimeError())),
        ranker_fallback=policy,
        on_ranker_fallback=raising(KeyError(SECRET)),
    )
    if policy == "raise":
        with pytest.raises(RankerError) as caught:
            found(library)
        assert caught.value.__context__ is None
    else:
        assert found(library) == OWN
    assert "KeyError" in caplog.text
    assert "pw" not in caplog.text


@pytest.mark.parametrize("timeout", [5.0, None])
@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_no_exception_passes_through_and_runs_no_policy(
    three: Open, interruption: type[BaseException], timeout: float | None
) -> None:
    heard: list[Any] = []
    library = three(Answering(raising(interruption())), on_ranker_fallback=heard.append, ranker_timeout=timeout)
    with pytest.raises(interruption):
        found(library)
    assert heard == []


def test_an_embedders_failure_is_none_of_a_rankers(three: Open, embedder: Any) -> None:
    heard: list[Any] = []
    library = three(HonestRanker(), on_ranker_fallback=heard.append)
    embedder.embed_query = raising(EmbedderError("down"))
    with pytest.raises(EmbedderError):
        found(library)
    assert heard == []


def test_what_one_search_met_does_not_stick(three: Open) -> None:
    ranker = Answering(raising(RuntimeError()))
    library = three(ranker)
    assert codes(library) == ["ranker_fallback"]
    ranker.make = lambda honest: honest
    assert codes(library) == []


def test_a_call_that_never_returns_fails_with_a_timeout(three: Open, waits: Waits) -> None:
    library = three(waits, ranker_timeout=0.05)
    answer = library.search("apple", scope=SCOPE, mode="dense")
    assert [(hit.source_id, round(hit.score, 6)) for hit in answer] == OWN
    assert "TimeoutError" in answer.notes[0].message


def test_reading_the_answer_counts_as_the_call(three: Open, waits: Waits) -> None:
    def slow(honest: list[Any]) -> Any:
        yield honest[0]
        assert waits.may_go.wait(20)

    library = three(Answering(slow), ranker_timeout=0.05)
    assert "TimeoutError" in library.search("apple", scope=SCOPE, mode="dense").notes[0].message


def test_a_score_that_takes_for_ever_to_become_a_number_counts_as_the_call(three: Open, waits: Waits) -> None:
    class Hangs(float):
        def __float__(self) -> float:
            assert waits.may_go.wait(20)
            return 1.0

    library = three(Answering(lambda honest: [(item.id, Hangs(item.score)) for item in honest]), ranker_timeout=0.05)
    answer = in_thread(lambda: library.search("apple", scope=SCOPE, mode="dense"))
    assert [(hit.source_id, round(hit.score, 6)) for hit in answer] == OWN
    assert "TimeoutError" in answer.notes[0].message


def test_while_four_calls_have_not_returned_no_further_one_is_begun(three: Open, waits: Waits) -> None:
    library = three(waits, ranker_timeout=0.02)
    for _ in range(6):
        assert codes(library) == ["ranker_fallback"]
    assert waits.calls == 4
    waits.may_go.set()
    deadline = 200
    while codes(library) != [] and deadline:
        deadline -= 1
    assert codes(library) == []


def test_without_a_timeout_the_call_is_on_the_callers_thread(three: Open) -> None:
    threads: list[threading.Thread] = []

    def note(honest: list[Any]) -> list[Any]:
        threads.append(threading.current_thread())
        return honest

    assert found(three(Answering(note), ranker_timeout=None)) == OWN
    assert threads == [threading.current_thread()]


def test_no_frame_or_exception_of_a_ranker_is_kept_alive(three: Open) -> None:
    class Held(Exception):
        pass

    def fail(_honest: Any) -> Any:
        raise Held(SECRET)

    library = three(Answering(fail))
    assert codes(library) == ["ranker_fallback"]
    gc.collect()
    assert [thing for thing in gc.get_objects() if type(thing) is Held] == []
