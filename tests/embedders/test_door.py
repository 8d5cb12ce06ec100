"""The door: what an embedder may answer, row by row of the table, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from stackroom import _errors
from stackroom._errors import EmbedderError, IndexingCancelled
from stackroom.embedders import Fingerprint
from stackroom.embedders._door import check_embedder as checked
from stackroom.embedders._door import checked_passage_vectors, embed_in_batches, embed_passages, embed_query

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

PRIVATE = "the launch plan"


class Answering:
    """An embedder of dimension 2 that answers what it was made with, and remembers what it was called with."""

    max_input_chars: int | None = None

    def __init__(self, passages: object = None, query: object = None) -> None:
        self.fingerprint = Fingerprint("answering", 2)
        self.passages = passages
        self.query = query
        self.calls: list[object] = []

    def embed_passages(self, texts: Sequence[str]) -> object:
        self.calls.append(texts)
        return self.passages(texts) if callable(self.passages) else self.passages

    def embed_query(self, text: str) -> object:
        self.calls.append(text)
        return self.query() if callable(self.query) else self.query


class ByInterface:
    """Something that is no array but has `__array__`."""

    def __array__(self, dtype: object = None) -> NDArray[np.float64]:
        return np.array([[1.0, 2.0], [3.0, 4.0]])


class Failing:
    """Something whose `__array__` fails with a chosen exception."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __array__(self) -> NDArray[np.float64]:
        raise self.error


def passages_answered(answer: object, texts: Sequence[str] = (PRIVATE, "b")) -> NDArray[np.float32]:
    return embed_passages(Answering(passages=answer), texts, 2)  # type: ignore[arg-type] # answers of every kind


def query_answered(answer: object) -> NDArray[np.float32]:
    return embed_query(Answering(query=answer), PRIVATE, 2)  # type: ignore[arg-type] # answers of every kind


def read_only() -> NDArray[np.float32]:
    vectors = np.array([[1, 2], [3, 4]], dtype=np.float32)
    vectors.setflags(write=False)
    return vectors


ROWS = [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(ROWS, id="7-lists-of-ints"),
        pytest.param(np.asfortranarray(np.array(ROWS, dtype=np.float64)), id="7-float64-fortran"),
        pytest.param(np.array(ROWS, dtype=np.float16), id="7-float16"),
        *[
            pytest.param(np.array(ROWS, dtype=kind), id=kind)
            for kind in ("float32", "longdouble", "int8", "uint8", "int64", "uint64", ">f4", ">i2")
        ],
        pytest.param(read_only(), id="read-only"),
        pytest.param(((1, 2.0), [3, 4]), id="tuple-of-mixed"),
        pytest.param([np.array([1, 2]), np.array([3.0, 4.0])], id="list-of-arrays"),
        pytest.param(np.array([[1, 9, 2, 9], [3, 9, 4, 9]])[:, ::2], id="strided"),
        pytest.param(ByInterface(), id="__array__"),
    ],
)
def test_arrays_and_nested_sequences_of_numbers_are_accepted(answer: object) -> None:
    vectors = passages_answered(answer)

    assert vectors.dtype == np.float32
    assert vectors.tolist() == ROWS
    assert vectors.flags.c_contiguous
    assert vectors.flags.owndata
    assert vectors.flags.writeable


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param([[1, 2]], ["1 vectors", "2 texts"], id="5-fewer"),
        pytest.param([[1, 2]] * 3, ["3 vectors", "2 texts"], id="5-more"),
        pytest.param([], ["0 vectors", "2 texts"], id="none-at-all"),
        pytest.param(np.zeros((0, 2)), ["0 vectors", "2 texts"], id="no-rows"),
        pytest.param(7.0, ["a single number", "2 texts"], id="scalar"),
        pytest.param([[1, 2, 3]] * 2, ["dimension 2", "length 3"], id="6-longer-rows"),
        pytest.param([[1], [2]], ["dimension 2", "length 1"], id="6-shorter-rows"),
        pytest.param([[], []], ["dimension 2", "length 0"], id="empty-rows"),
        pytest.param([1, 2], ["dimension 2", "()"], id="flat"),
        pytest.param([[[1, 2]], [[3, 4]]], ["dimension 2", "(1, 2)"], id="three-dimensional"),
        pytest.param([[1, 2], [3]], ["list", "ragged"], id="ragged"),
        pytest.param([["1", "2"], ["3", "4"]], ["list", "str"], id="strings"),
        pytest.param(PRIVATE, ["str"], id="a-string"),
        pytest.param([[1, PRIVATE], [3, 4]], ["list", "str"], id="a-string-inside"),
        pytest.param(np.array(ROWS, dtype=object), ["ndarray", "object"], id="object"),
        pytest.param([[1, None], [3, 4]], ["list", "object"], id="None-inside"),
        pytest.param(np.array([[True, False], [True, True]]), ["ndarray", "bool"], id="bool"),
        pytest.param(np.array(ROWS, dtype=complex), ["ndarray", "complex"], id="complex"),
        pytest.param(np.array(ROWS, dtype="m8[s]"), ["ndarray", "timedelta"], id="timedelta"),
        pytest.param(None, ["NoneType"], id="None"),
        pytest.param({0: [1, 2], 1: [3, 4]}, ["dict"], id="dict"),
        pytest.param(lambda texts: ([1, 2] for _ in texts), ["generator"], id="generator"),
        pytest.param([[1, 2], [float("nan"), 4]], ["text 1", "NaN"], id="6-NaN"),
        pytest.param([[1, 2], [3, float("inf")]], ["text 1", "infinite"], id="6-inf"),
        pytest.param([[1, 2], [3, float("-inf")]], ["text 1", "infinite"], id="minus-inf"),
        pytest.param([[1, 2], [3, 1e39]], ["text 1", "too large for float32", "component 1"], id="6-1e39"),
        pytest.param([[1, 2], [0, 0]], ["text 1", "zeros"], id="6-zeros"),
        pytest.param([[1, 2], [1e-60, -1e-60]], ["text 1", "zeros"], id="6-1e-60"),
        pytest.param([[-0.0, 0.0], [0, 0]], ["text 0", "zeros"], id="the-first-of-two"),
        pytest.param([[float("nan"), 1], [float("inf"), 1]], ["text 0"], id="the-first-NaN"),
    ],
)
def test_anything_else_is_refused_and_the_message_says_what_came(answer: object, words: list[str]) -> None:
    with pytest.raises(EmbedderError) as refused:
        passages_answered(answer)

    message = str(refused.value)
    assert [word for word in words if word not in message] == []
    assert PRIVATE not in message


async def answer_later() -> list[list[int]]:
    return ROWS


def test_a_coroutine_is_refused_and_closed() -> None:
    with pytest.raises(EmbedderError, match="a coroutine"):
        passages_answered(lambda _texts: answer_later())


def test_numbers_of_vectors_are_not_in_messages() -> None:
    with pytest.raises(EmbedderError) as refused:
        passages_answered([[0.123456, 1e39], [3, 4]])

    assert "0.123456" not in str(refused.value)
    assert "1e" not in str(refused.value)


@pytest.mark.parametrize("answer", [[1, 2], (1.0, 2), np.array([1, 2], dtype=np.float16)])
def test_a_query_is_answered_with_one_flat_vector(answer: object) -> None:
    vector = query_answered(answer)

    assert vector.dtype == np.float32
    assert vector.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param([[1, 2]], ["dimension 2", "(1, 2)"], id="8-one-row"),
        pytest.param([float("nan"), 1], ["NaN"], id="8-NaN"),
        pytest.param([0, 0], ["zeros"], id="8-zeros"),
        pytest.param([1e39, 1], ["too large"], id="1e39"),
        pytest.param([1e-60, 0], ["zeros"], id="1e-60"),
        pytest.param([1, 2, 3], ["dimension 2", "length 3"], id="longer"),
        pytest.param([], ["dimension 2", "length 0"], id="empty"),
        pytest.param(3.0, ["dimension 2", "()"], id="scalar"),
        pytest.param(None, ["NoneType"], id="None"),
        pytest.param(answer_later, ["coroutine"], id="coroutine"),
        pytest.param("12", ["str"], id="string"),
    ],
)
def test_any_other_answer_to_a_query_is_refused(answer: object, words: list[str]) -> None:
    with pytest.raises(EmbedderError) as refused:
        query_answered(answer)

    assert [word for word in words if word not in str(refused.value)] == []
    assert PRIVATE not in str(refused.value)


def test_later_changes_to_the_answer_do_not_matter() -> None:  # row 12
    answer = np.array(ROWS, dtype=np.float32)
    vectors = passages_answered(answer)
    one = np.array([1, 2], dtype=np.float32)
    vector = query_answered(one)

    answer[:] = 9
    one[:] = 9

    assert vectors.tolist() == ROWS
    assert vector.tolist() == [1, 2]


def test_rows_are_not_scaled() -> None:
    assert passages_answered([[1e30, 1e30], [3, 4]]).tolist() == [[np.float32(1e30)] * 2, [3, 4]]


def test_the_smallest_numbers_of_float32_are_no_zeros() -> None:
    assert passages_answered([[1e-45, 0], [3, 4]]).any(axis=1).all()


@given(npst.arrays(st.sampled_from([np.float16, np.float32, np.float64, np.int64]), npst.array_shapes(max_side=4)))
def test_an_answer_is_either_refused_or_its_float32_values(answer: NDArray[np.float64]) -> None:
    with np.errstate(over="ignore"):
        expected = answer.astype(np.float32)
    good = answer.shape == (2, 2) and bool(np.isfinite(expected).all()) and bool(expected.any(axis=1).all())
    if good:
        np.testing.assert_array_equal(checked_passage_vectors(answer, 2, 2), expected)
    else:
        with pytest.raises(EmbedderError):
            checked_passage_vectors(answer, 2, 2)


# What is called when


def raising(error: BaseException) -> Callable[..., object]:
    def raise_it(*_arguments: object) -> object:
        raise error

    return raise_it


@pytest.mark.parametrize("method", [passages_answered, query_answered])
def test_an_exception_comes_as_embedder_error_with_its_cause(method: Callable[[object], object]) -> None:  # row 11
    original = ValueError(PRIVATE)

    with pytest.raises(EmbedderError, match="ValueError") as failed:
        method(raising(original))

    assert failed.value.__cause__ is original
    assert PRIVATE not in str(failed.value)
    assert not failed.value.retryable


@pytest.mark.parametrize(
    "error",
    [
        EmbedderError("busy", retryable=True, status=429),
        _errors.EmbedderMismatch("other", stored=Fingerprint("a", 1), given=Fingerprint("a", 2), problem="dimension"),
        IndexingCancelled("stopped"),
        KeyboardInterrupt(),
        SystemExit(1),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_embedder_error_a_cancel_and_a_stop_pass_unchanged(error: BaseException) -> None:
    with pytest.raises(type(error)) as passed:
        passages_answered(raising(error))

    assert passed.value is error


def test_what_the_answer_raises_while_it_is_read_comes_as_embedder_error() -> None:
    original = RuntimeError(PRIVATE)

    with pytest.raises(EmbedderError, match="Failing") as failed:
        passages_answered(Failing(original))

    assert failed.value.__cause__ is original
    busy = EmbedderError("busy")
    with pytest.raises(EmbedderError) as passed:
        passages_answered(Failing(busy))
    assert passed.value is busy


def test_texts_arrive_as_a_tuple_untouched() -> None:
    embedder = Answering(passages=ROWS)

    embed_passages(embedder, [" a\n", "B\u200b"], 2)  # type: ignore[arg-type] # an embedder of every answer

    assert embedder.calls == [(" a\n", "B\u200b")]
    assert type(embedder.calls[0]) is tuple


@pytest.mark.parametrize(
    ("count", "batch_size", "max_batch", "sizes"),
    [
        pytest.param(130, 64, None, [64, 64, 2], id="10"),
        (130, 64, 50, [50, 50, 30]),
        (130, 64, 100, [64, 64, 2]),
        (64, 64, None, [64]),
        (3, 1, None, [1, 1, 1]),
        (0, 64, None, []),
    ],
)
def test_batches_keep_their_order_and_size(
    count: int, batch_size: int, max_batch: int | None, sizes: list[int]
) -> None:
    embedder = Answering(passages=lambda texts: [[float(text), 1] for text in texts])
    embedder.max_batch = max_batch  # type: ignore[attr-defined] # an optional member
    texts = [str(number) for number in range(count)]

    vectors = embed_in_batches(embedder, checked(embedder), texts, batch_size)  # type: ignore[arg-type] # as above

    assert [len(call) for call in embedder.calls] == sizes  # type: ignore[arg-type] # tuples
    assert vectors.shape == (count, 2)
    assert vectors.dtype == np.float32
    assert vectors[:, 0].tolist() == list(range(count))


def test_positions_count_from_the_first_text_of_all_batches() -> None:
    embedder = Answering(passages=lambda texts: [[int(text != "bad"), 0] for text in texts])

    with pytest.raises(EmbedderError, match="text 3 "):
        embed_in_batches(embedder, checked(embedder), ["a", "b", "c", "bad", "e"], 2)  # type: ignore[arg-type] # as above

    assert len(embedder.calls) == 2


def test_no_texts_make_no_call() -> None:
    embedder = Answering(passages=raising(AssertionError()))

    assert embed_passages(embedder, (), 2).shape == (0, 2)  # type: ignore[arg-type] # an embedder of every answer
