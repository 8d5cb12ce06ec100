"""Fingerprints: what may be one, how it is written and read."""

from __future__ import annotations

import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackroom.embedders import Embedder, Fingerprint, FunctionEmbedder, HashingEmbedder, LocalEmbedder
from stackroom.text import is_blank

IDS = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=200).filter(
    lambda name: not is_blank(name)
)


def test_a_fingerprint_is_written_as_id_and_dimension() -> None:  # row 1
    assert str(Fingerprint("a", 3)) == "a@3"


def test_a_written_fingerprint_is_read_by_its_last_at_sign() -> None:  # row 1
    assert Fingerprint.parse("p@q@7") == Fingerprint("p@q", 7)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("abc", id="2-no-at"),
        pytest.param("@9", id="2-no-id"),
        pytest.param("x@y", id="2-no-digits"),
        pytest.param("x@0", id="2-zero"),
        "",
        "@",
        "x@",
        " @9",
        "x@65537",
        "x@-3",
        "x@+3",
        "x@ 3",
        "x@3 ",
        "x@3\n",
        "x@1_0",
        "x@3.0",
        "x@٣",
        "x@²",
        "a\nb@3",
        f"{'a' * 201}@3",
        "x@99999999999999999999",
    ],
)
def test_a_text_that_is_no_fingerprint_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="fingerprint"):
        Fingerprint.parse(text)


def test_more_digits_than_python_reads_are_refused() -> None:
    with pytest.raises(ValueError, match="digits"):
        Fingerprint.parse(f"x@{'9' * 5000}")


def test_only_a_str_is_read() -> None:
    with pytest.raises(ValueError, match="not bytes"):
        Fingerprint.parse(b"a@3")  # type: ignore[arg-type] # the point of the test


@pytest.mark.parametrize(
    ("name", "dimension"),
    [
        pytest.param("", 3, id="3-empty"),
        pytest.param(" ", 3, id="3-blank"),
        pytest.param("a", 0, id="3-zero"),
        pytest.param("a", True, id="3-bool"),
        pytest.param("a", 1.5, id="3-float"),
        pytest.param("\u200b\ufeff", 3, id="blank-format-characters"),
        pytest.param("a\x00b", 3, id="NUL"),
        pytest.param("a\tb", 3, id="tab"),
        pytest.param("a\x85b", 3, id="C1-control"),
        pytest.param("a\ud800", 3, id="lone-surrogate"),
        pytest.param("a" * 201, 3, id="201-characters"),
        pytest.param(None, 3, id="no-id"),
        pytest.param(b"a", 3, id="bytes"),
        pytest.param("a", -1, id="negative"),
        pytest.param("a", 65_537, id="too-long"),
        pytest.param("a", "3", id="dimension-str"),
        pytest.param("a", None, id="dimension-None"),
    ],
)
def test_what_breaks_a_rule_is_refused(name: object, dimension: object) -> None:
    with pytest.raises(ValueError, match=r"a fingerprint's (id|dimension) must"):
        Fingerprint(name, dimension)  # type: ignore[arg-type] # the point of the test


@pytest.mark.parametrize(("name", "dimension"), [("a", 1), ("a", 65_536), ("é" * 200, 3), ("a @ b", 3), ("@", 3)])
def test_the_borders_are_inside(name: str, dimension: int) -> None:
    assert Fingerprint(name, dimension).dimension == dimension


def test_fingerprints_are_equal_and_hash_by_both() -> None:
    assert {Fingerprint("a", 3), Fingerprint("a", 3)} == {Fingerprint("a", 3)}
    assert Fingerprint("a", 3) != Fingerprint("a", 4)
    assert Fingerprint("a", 3) != Fingerprint("b", 3)


def test_a_fingerprint_is_frozen() -> None:
    with pytest.raises(AttributeError):
        Fingerprint("a", 3).dimension = 4  # type: ignore[misc] # the point of the test


@given(IDS, st.integers(1, 65_536))
def test_what_was_written_is_read_again(name: str, dimension: int) -> None:
    assert Fingerprint.parse(str(Fingerprint(name, dimension))) == Fingerprint(name, dimension)


def test_the_protocol_is_usable_at_run_time() -> None:
    assert "texts" in typing.get_type_hints(Embedder.embed_passages)
    assert isinstance(HashingEmbedder(), Embedder)
    assert not isinstance(object(), Embedder)


def test_the_embedders_fit_the_protocol() -> None:
    def fits(embedder: Embedder) -> bool:
        return isinstance(embedder, Embedder)

    assert fits(HashingEmbedder())
    assert fits(FunctionEmbedder(lambda texts: [[1.0] for _ in texts], id="ones", dimension=1))
    pytest.importorskip("wordllama")
    assert fits(LocalEmbedder())
