"""FunctionEmbedder: a function of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from stackroom._errors import EmbedderError
from stackroom.embedders import Fingerprint, FunctionEmbedder
from stackroom.embedders._door import embed_passages, embed_query

if TYPE_CHECKING:
    from collections.abc import Sequence


def lengths(texts: list[str]) -> list[list[float]]:
    return [[len(text), 1] for text in texts]


def test_passages_go_to_the_function_as_a_list() -> None:
    given: list[object] = []

    def function(texts: list[str]) -> list[list[float]]:
        given.append(texts)
        return lengths(texts)

    vectors = embed_passages(FunctionEmbedder(function, id="lengths", dimension=2), ("a", "bcd"), 2)

    assert vectors.tolist() == [[1, 1], [3, 1]]
    assert given == [["a", "bcd"]]
    assert type(given[0]) is list


def test_a_query_goes_to_the_function_alone_and_its_row_is_taken() -> None:
    given: list[list[str]] = []

    def function(texts: list[str]) -> list[list[float]]:
        given.append(texts)
        return lengths(texts)

    assert embed_query(FunctionEmbedder(function, id="lengths", dimension=2), "abc", 2).tolist() == [3, 1]
    assert given == [["abc"]]


def test_a_query_function_takes_the_queries() -> None:
    embedder = FunctionEmbedder(lengths, id="lengths", dimension=2, query_function=lambda text: [len(text), 5])

    assert embed_query(embedder, "abc", 2).tolist() == [3, 5]
    assert embed_passages(embedder, ["abc"], 2).tolist() == [[3, 1]]


@pytest.mark.parametrize("answer", [[[1, 2], [3, 4]], [1, 2], [], None, [[1, 2, 3]], "ab", [[0, 0]]])
def test_a_query_needs_exactly_one_row_of_the_function(answer: Any) -> None:
    with pytest.raises(EmbedderError):
        embed_query(FunctionEmbedder(lambda _texts: answer, id="odd", dimension=2), "a", 2)


@pytest.mark.parametrize("answer", [[[1, 2]], [1], None])
def test_the_query_functions_answer_passes_the_door(answer: Any) -> None:
    with pytest.raises(EmbedderError):
        embed_query(FunctionEmbedder(lengths, id="odd", dimension=2, query_function=lambda _text: answer), "a", 2)


def test_a_function_that_raises_is_the_cause() -> None:  # row 11
    original = ValueError("x")

    def function(_texts: Sequence[str]) -> list[list[float]]:
        raise original

    embedder = FunctionEmbedder(function, id="raising", dimension=2)

    with pytest.raises(EmbedderError) as of_passages:
        embed_passages(embedder, ["a"], 2)
    with pytest.raises(EmbedderError) as of_query:
        embed_query(embedder, "a", 2)

    assert of_passages.value.__cause__ is original
    assert of_query.value.__cause__ is original


def test_it_declares_what_it_was_given() -> None:
    embedder = FunctionEmbedder(lengths, id="lengths", dimension=2, max_input_chars=9, max_batch=8, max_concurrency=7)

    assert embedder.fingerprint == Fingerprint("lengths", 2)
    assert (embedder.max_input_chars, embedder.max_batch, embedder.max_concurrency) == (9, 8, 7)
    assert embedder.provider == "function"


@pytest.mark.parametrize(
    "changed",
    [
        {"id": ""},
        {"id": " "},
        {"id": None},
        {"dimension": 0},
        {"dimension": True},
        {"dimension": 1.5},
        {"max_input_chars": 0},
        {"max_batch": -1},
        {"max_concurrency": True},
        {"max_concurrency": 1.0},
        {"max_batch": "5"},
    ],
    ids=str,
)
def test_what_breaks_a_rule_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(changed))):
        FunctionEmbedder(lengths, **{"id": "lengths", "dimension": 2, **changed})


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(TypeError, match="function must be a function, not str"):
        FunctionEmbedder("lengths", id="a", dimension=2)  # type: ignore[arg-type] # the point of the test
    with pytest.raises(TypeError, match="query_function must be a function, not int"):
        FunctionEmbedder(lengths, id="a", dimension=2, query_function=3)  # type: ignore[arg-type] # likewise


def test_any_kind_of_array_will_do() -> None:
    embedder = FunctionEmbedder(lambda texts: np.ones((len(texts), 3), dtype=np.float16), id="ones", dimension=3)

    assert embed_query(embedder, "a", 3).tolist() == [1, 1, 1]
