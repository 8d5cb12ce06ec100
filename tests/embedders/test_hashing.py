"""HashingEmbedder: fully defined vectors, the same everywhere."""

from __future__ import annotations

import subprocess
import sys
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackroom.embedders import Fingerprint, HashingEmbedder
from stackroom.embedders._door import embed_passages, embed_query


def hashed(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def test_the_same_text_has_the_same_vector() -> None:  # row 13
    embedder = HashingEmbedder(256)

    assert embedder.embed_query("hello").tobytes() == HashingEmbedder(256).embed_query("hello").tobytes()


def test_another_process_makes_the_same_vector() -> None:  # row 13
    program = (
        "from stackroom.embedders import HashingEmbedder as H; print(H().embed_query('hello wörld').tobytes().hex())"
    )
    command = [sys.executable, "-c", program]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)

    assert answer.stdout.strip() == HashingEmbedder().embed_query("hello wörld").tobytes().hex()


@pytest.mark.parametrize("dimension", [1, 2, 3, 256, 65_536])
def test_the_shape_follows_the_dimension(dimension: int) -> None:  # row 13
    embedder = HashingEmbedder(dimension)

    assert embedder.fingerprint == Fingerprint("hashing-v1", dimension)
    assert embed_query(embedder, "hello", dimension).shape == (dimension,)
    assert embed_passages(embedder, ["hello", "you"], dimension).shape == (2, dimension)


def test_case_and_punctuation_do_not_matter() -> None:  # row 14
    assert HashingEmbedder().embed_query("a b").tolist() == HashingEmbedder().embed_query("B  A!").tolist()


def test_a_word_adds_plus_or_minus_one_to_its_slot() -> None:
    vector = HashingEmbedder(1000).embed_query("red red blue")

    expected = np.zeros(1000)
    for word in ("red", "red", "blue"):
        expected[hashed(word) % 1000] += -1 if hashed(word) >> 63 else 1
    np.testing.assert_array_equal(vector, (expected / np.linalg.norm(expected)).astype(np.float32))


def test_a_known_vector_stays_as_it_is() -> None:
    half = float(np.float32(np.sqrt(0.5)))

    assert HashingEmbedder(8).embed_query("hello world").tolist() == [half, 0, 0, 0, 0, 0, 0, half]


@pytest.mark.parametrize("text", ["", " ", "?!", "\u200b", "\x00", "_", "😀", "\ud800"])
def test_a_text_without_words_has_one_slot_of_its_own(text: str) -> None:
    slot = int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little") % 256

    assert np.flatnonzero(HashingEmbedder().embed_query(text)).tolist() == [slot]
    assert HashingEmbedder().embed_query(text)[slot] == 1.0


def test_words_that_cancel_out_fall_back_to_the_whole_text() -> None:
    names = [f"w{number}" for number in range(50)]
    up = next(name for name in names if not hashed(name) >> 63)
    down = next(name for name in names if hashed(name) >> 63)

    assert HashingEmbedder(1).embed_query(f"{up} {down}").tolist() == [1.0]


@pytest.mark.parametrize("dimension", [0, -1, 65_537, True, 2.0, "8", None])
def test_a_dimension_that_is_none_is_refused(dimension: object) -> None:
    with pytest.raises(ValueError, match="dimension"):
        HashingEmbedder(dimension)  # type: ignore[arg-type] # the point of the test


@given(st.text(max_size=60), st.integers(1, 9))
def test_every_vector_is_float32_of_unit_length(text: str, dimension: int) -> None:
    vector = HashingEmbedder(dimension).embed_query(text)

    assert vector.dtype == np.float32
    assert np.linalg.norm(vector.astype(np.float64)) == pytest.approx(1.0, abs=1e-6)


@given(st.lists(st.text(max_size=20), min_size=1, max_size=4))
def test_query_and_passage_are_the_same(texts: list[str]) -> None:
    embedder = HashingEmbedder(16)

    assert embedder.embed_passages(texts).tolist() == [embedder.embed_query(text).tolist() for text in texts]


@given(st.lists(st.sampled_from(["a", "b", "ä", "9"]), min_size=1))
def test_order_of_words_does_not_matter(words: list[str]) -> None:
    one, other = " ".join(words), "-".join(reversed(words))
    vectors = HashingEmbedder(64).embed_passages([one, other])

    assert vectors[0].tolist() == vectors[1].tolist()
