"""What an embedder declares is read and checked once; its methods receive a token when they take one."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest

from stackroom._errors import EmbedderError
from stackroom.embedders import Fingerprint, FunctionEmbedder, HashingEmbedder
from stackroom.embedders._door import EmbedderLimits, check_embedder, embed_in_batches, embed_passages, embed_query

if TYPE_CHECKING:
    from collections.abc import Sequence


class Plain:
    """An embedder with nothing but what it must have."""

    max_input_chars: int | None = None

    def __init__(self, **members: object) -> None:
        self.fingerprint = Fingerprint("plain", 1)
        for name, member in members.items():
            setattr(self, name, member)

    def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0] for _ in texts]

    def embed_query(self, text: str) -> list[float]:
        return [float(len(text) + 1)]


def test_what_is_not_declared_has_defaults() -> None:
    assert check_embedder(Plain()) == EmbedderLimits(Fingerprint("plain", 1), None, None, None, "custom", False)


def test_what_is_declared_is_read() -> None:
    embedder = Plain(max_input_chars=9, max_batch=2, max_concurrency=1, provider="house")

    limits = check_embedder(embedder)

    assert (limits.max_input_chars, limits.max_batch, limits.max_concurrency, limits.provider) == (9, 2, 1, "house")


def test_what_is_read_is_frozen() -> None:
    with pytest.raises(AttributeError):
        check_embedder(Plain()).provider = "other"  # type: ignore[misc] # the point of the test


def test_the_fingerprint_is_read_once() -> None:
    class Counting(Plain):
        reads = 0

        def __getattribute__(self, name: str) -> Any:
            if name == "fingerprint":
                Counting.reads += 1
            return super().__getattribute__(name)

    check_embedder(Counting())

    assert Counting.reads == 1


@pytest.mark.parametrize("name", ["max_input_chars", "max_batch", "max_concurrency"])
@pytest.mark.parametrize("value", [0, -1, True, False, 1.0, "5", float("inf")])
def test_a_limit_that_is_none_is_refused(name: str, value: object) -> None:
    with pytest.raises(EmbedderError, match=name):
        check_embedder(Plain(**{name: value}))


@pytest.mark.parametrize("fingerprint", ["a@3", None, ("a", 3), Fingerprint])
def test_a_fingerprint_that_is_none_is_refused(fingerprint: object) -> None:
    with pytest.raises(EmbedderError, match="must be a Fingerprint"):
        check_embedder(Plain(fingerprint=fingerprint))


@pytest.mark.parametrize("provider", [None, 3, "", " "])
def test_a_provider_that_names_nobody_is_refused(provider: object) -> None:
    with pytest.raises(EmbedderError, match="provider"):
        check_embedder(Plain(provider=provider))


@pytest.mark.parametrize("embedder", [object(), HashingEmbedder, None])
def test_what_is_no_embedder_is_refused(embedder: Any) -> None:
    with pytest.raises(EmbedderError):
        check_embedder(embedder)


def test_a_fingerprint_that_cannot_be_learned_is_an_embedder_error() -> None:
    original = OSError("no route")

    class Unreachable(Plain):
        def __getattribute__(self, name: str) -> Any:
            if name == "fingerprint":
                raise original
            return super().__getattribute__(name)

    with pytest.raises(EmbedderError, match="OSError") as failed:
        check_embedder(Unreachable())

    assert failed.value.__cause__ is original


async def embed_later(_texts: object) -> list[float]:
    return [1.0]


class CallableLater:
    async def __call__(self, _texts: object) -> list[float]:
        return [1.0]


@pytest.mark.parametrize("name", ["embed_passages", "embed_query"])
@pytest.mark.parametrize(
    "method", [embed_later, functools.partial(embed_later), CallableLater()], ids=["function", "partial", "object"]
)
def test_coroutine_functions_are_refused(name: str, method: object) -> None:
    with pytest.raises(EmbedderError, match=f"{name} of this embedder is a coroutine function"):
        check_embedder(Plain(**{name: method}))


@pytest.mark.parametrize("name", ["embed_passages", "embed_query"])
def test_a_method_that_cannot_be_called_is_refused(name: str) -> None:
    with pytest.raises(EmbedderError, match=name):
        check_embedder(Plain(**{name: None}))


# Tokens


class Cancellable(Plain):
    """Remembers the token of each call."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens: list[object] = []

    def embed_passages(self, texts: Sequence[str], *, cancel: object = "none given") -> list[list[float]]:
        self.tokens.append(cancel)
        return super().embed_passages(texts)

    def embed_query(self, text: str, cancel: object = "none given") -> list[float]:
        self.tokens.append(cancel)
        return super().embed_query(text)


def test_an_embedder_that_takes_cancel_receives_the_callers_token() -> None:
    embedder, token = Cancellable(), object()

    embed_passages(embedder, ["a"], 1, cancel=token)
    embed_query(embedder, "a", 1, cancel=token)
    embed_in_batches(embedder, check_embedder(embedder), ["a", "b"], 1, cancel=token)

    assert check_embedder(embedder).takes_cancel
    assert embedder.tokens == [token] * 4


def test_without_a_token_the_parameter_is_left_out() -> None:
    embedder = Cancellable()

    embed_passages(embedder, ["a"], 1)
    embed_query(embedder, "a", 1)

    assert embedder.tokens == ["none given"] * 2


def test_an_embedder_that_takes_no_cancel_is_called_without() -> None:
    def no_keyword(texts: Sequence[str], cancel: object = None, /, **others: object) -> list[list[float]]:
        assert cancel is None
        assert not others
        return [[1.0] for _ in texts]

    assert embed_passages(Plain(embed_passages=no_keyword), ["a"], 1, cancel=object()).tolist() == [[1.0]]
    assert embed_passages(Plain(), ["a"], 1, cancel=object()).tolist() == [[1.0]]


def test_a_function_without_a_signature_is_called_without_cancel() -> None:
    embedder = Plain(embed_passages=dict([("a", 1)]).get)  # noqa: C406 - a compiled method

    assert not check_embedder(embedder).takes_cancel


def test_the_embedders_that_ship_are_accepted() -> None:
    assert check_embedder(HashingEmbedder(8)) == EmbedderLimits(
        Fingerprint("hashing-v1", 8), 1_000_000, None, 1, "hashing", False
    )
    function = FunctionEmbedder(
        lambda texts: [[1.0] for _ in texts], id="f", dimension=1, max_batch=3, max_concurrency=2
    )
    assert check_embedder(function) == EmbedderLimits(Fingerprint("f", 1), None, 3, 2, "function", False)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (HashingEmbedder, r"HashingEmbedder is a class, not an embedder: make one of it, HashingEmbedder\(…\)"),
        ("hashing", "an object, not its name"),
    ],
)
def test_a_class_or_a_name_is_told_from_an_embedder(given: Any, said: str) -> None:
    with pytest.raises(EmbedderError, match=said):
        check_embedder(given)
