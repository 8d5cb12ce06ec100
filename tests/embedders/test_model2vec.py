"""Model2VecEmbedder: what static models have of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.embedders import tiny_models
from tests.embedders.packages import TEXTS, Package, cosine

from stackroom import EmbedderError
from stackroom.embedders._door import check_embedder, embed_passages

pytestmark = pytest.mark.parametrize("package", ["model2vec"], indirect=True)


@pytest.mark.parametrize(("quantize_to", "at_least"), [("float16", 0.99999), ("int8", 0.999)])
def test_quantised_models_are_near_and_have_ids_of_their_own(
    package: Package, folder: Path, embedder: Any, quantize_to: str, at_least: float
) -> None:
    small = package.embedder(folder, quantize_to=quantize_to)
    assert small.fingerprint.id == f"{embedder.fingerprint.id};dtype={quantize_to}"
    assert cosine(small.embed_query("red fox"), embedder.embed_query("red fox")) > at_least
    assert embed_passages(small, TEXTS, tiny_models.DIMENSION).shape == (len(TEXTS), tiny_models.DIMENSION)


def test_an_unknown_quantisation_is_refused(package: Package, folder: Path) -> None:
    with pytest.raises(ValueError, match="quantize_to must be"):
        package.embedder(folder, quantize_to="int4")


def test_a_static_model_reads_to_the_end(package: Package, embedder: Any) -> None:
    assert package.max_input_chars > 10_000
    long = "fox " * 2_000
    assert cosine(embedder.embed_query(long), embedder.embed_query(long + "whale " * 2_000)) < 0.9


def test_a_static_model_in_the_cache_is_loaded_by_name(
    package: Package, folder: Path, embedder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tiny_models.into_cache(folder, tmp_path, "org/tiny")
    monkeypatch.setattr("model2vec.persistence.hf.HF_HUB_CACHE", str(cache))
    named = package.embedder("org/tiny")
    assert str(named.fingerprint) == f"model2vec:org/tiny@{tiny_models.DIMENSION}"
    assert named.embed_passages(TEXTS).tobytes() == embedder.embed_passages(TEXTS).tobytes()


def test_a_name_that_cannot_be_had_says_what_to_do(package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(EmbedderError, match=r"model2vec cannot load org/nowhere .*load it once with network") as failed:
        check_embedder(package.embedder("org/nowhere"))
    assert failed.value.__cause__ is not None
