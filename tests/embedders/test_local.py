"""LocalEmbedder: the small model of the package wordllama, offline."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stackroom._errors import EmbedderError
from stackroom.embedders import LocalEmbedder, _local
from stackroom.embedders._door import check_embedder, embed_passages, embed_query

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

pytest.importorskip("tokenizers")
pytest.importorskip("wordllama")

TEXTS = [
    "The invoice is due in March.",
    "",
    " ",
    "<s> and </s>",
    "日本語",
    "\x00",
    "a\n\nb  c ",
    "Zürich 😀",
    "x" * 300,
]


def embed(text: str) -> NDArray[np.float32]:
    return embed_query(LocalEmbedder(), text, 256)


def cosine(one: str, other: str) -> float:
    a, b = embed(one).astype(np.float64), embed(other).astype(np.float64)
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def run(program: str) -> str:
    command = [sys.executable, "-W", "error", "-c", program]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not answer.stderr
    return answer.stdout.strip()


def test_it_pools_exactly_as_wordllama_does() -> None:
    from wordllama import WordLlama

    folder = _local._package_folder()  # noqa: SLF001 - where the package carries its model
    original = WordLlama.load(cache_dir=folder, disable_download=True)
    texts = [text for text in TEXTS if text]

    ours = embed_passages(LocalEmbedder(), texts, 256)

    np.testing.assert_allclose(ours, original.embed(texts), rtol=1e-5, atol=1e-5)


def test_it_declares_one_call_at_a_time() -> None:
    limits = check_embedder(LocalEmbedder())

    assert limits.fingerprint.id.startswith("local:")
    assert limits.fingerprint.dimension == 256
    assert (limits.max_concurrency, limits.provider) == (1, "local")


@given(st.lists(st.text(max_size=40), min_size=1, max_size=5))
@settings(max_examples=30)
def test_a_text_has_the_same_vector_alone_and_in_a_batch(texts: list[str]) -> None:
    together = embed_passages(LocalEmbedder(), texts, 256)

    for text, vector in zip(texts, together, strict=True):
        np.testing.assert_allclose(embed_passages(LocalEmbedder(), [text], 256)[0], vector, atol=1e-6)
        np.testing.assert_allclose(embed(text), vector, atol=1e-6)


@pytest.mark.parametrize("text", [*TEXTS, "\u200b", "\ufeff", "\n", "   ", "\U0010ffff"])
def test_every_text_has_a_vector_with_a_direction(text: str) -> None:
    assert np.linalg.norm(embed(text)) > 0.1


def test_the_empty_text_is_as_one_space() -> None:
    assert embed("").tolist() == embed(" ").tolist()


@pytest.mark.parametrize(
    ("question", "near", "far"),
    [
        ("how do I pay an invoice", "Bills are settled by bank transfer.", "The cat slept on the warm roof."),
        ("puppy training", "Teaching a young dog to sit", "Quarterly revenue of the steel industry"),
        ("a king rules", "The queen governs her kingdom.", "Install the package with pip."),
    ],
)
def test_similar_sentences_score_above_unrelated_ones(question: str, near: str, far: str) -> None:
    assert cosine(question, near) > cosine(question, far) + 0.05


def test_another_process_makes_the_same_vectors_without_warning_or_import_of_wordllama() -> None:
    program = (
        "import sys; from stackroom.embedders import LocalEmbedder; e = LocalEmbedder(); "
        "assert e.fingerprint.dimension == 256; assert 'tokenizers' not in sys.modules; "
        "print(e.embed_passages(('The invoice is due.', '')).tobytes().hex()); assert 'wordllama' not in sys.modules"
    )

    assert run(program) == LocalEmbedder().embed_passages(("The invoice is due.", "")).tobytes().hex()


def test_the_model_is_read_once_whoever_asks() -> None:
    _local._read_model.cache_clear()  # noqa: SLF001 - as in a new process

    with ThreadPoolExecutor(8) as threads:
        vectors = list(threads.map(lambda _: LocalEmbedder().embed_query("hello").tobytes(), range(16)))

    assert len(set(vectors)) == 1
    assert _local._read_model.cache_info().misses == 1  # noqa: SLF001 - likewise


def test_a_long_text_is_pooled_in_pieces_with_the_tokens_of_the_whole() -> None:
    words = ["The", "quick", "bröwn", "fox,", "12.5%", "jumps", "<unk>ish", "日本語", "naïveté", "end.\nNew"] * 400
    text = " ".join(words)
    tokenizer = _local._model().tokenizer  # noqa: SLF001 - the law of the cut
    pieces = list(_local._pieces(text))  # noqa: SLF001 - likewise

    def ids(part: str) -> list[int]:
        found: list[int] = tokenizer.encode(part, add_special_tokens=False).ids
        return found

    assert len(pieces) > 3
    assert [number for piece in pieces for number in ids(piece)] == ids(text)


@given(st.text(st.sampled_from("ab \n"), max_size=60))
def test_pieces_are_bounded_and_lose_nothing_but_spaces(text: str) -> None:
    long = text * 300
    pieces = list(_local._pieces(long))  # noqa: SLF001 - the law of the cut

    assert all(len(piece) <= 4096 for piece in pieces)
    assert "".join(pieces).replace(" ", "") == long.replace(" ", "")


@pytest.mark.parametrize("text", ["word " * 40_000, "x" * 200_000, " " * 200_000, "\n" * 200_000, "日" * 100_000])
def test_a_very_long_text_has_a_vector(text: str) -> None:
    assert np.isfinite(embed(text)).all()


@pytest.mark.parametrize("package", ["wordllama", "tokenizers"])
def test_a_missing_package_is_named_with_the_pip_line(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(ImportError, match=r'pip install "stackroom\[local\]"'):
        LocalEmbedder()


@pytest.mark.parametrize("has_file", [True, False])
def test_another_model_in_the_package_is_refused(
    has_file: bool,  # noqa: FBT001 - a case
    tmp_path: Path,
) -> None:
    path = tmp_path / "weights"
    if has_file:
        path.write_bytes(b"other weights")

    with pytest.raises(EmbedderError, match="does not carry the model of local:"):
        _local._verified(path, "0" * 64)  # noqa: SLF001 - the file of another version


def test_line_ends_of_windows_are_the_same_tokenizer(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(b"{\r\n}")

    assert _local._verified(path, sha256(b"{\n}").hexdigest(), is_text=True) == b"{\n}"  # noqa: SLF001 - a Windows wheel
