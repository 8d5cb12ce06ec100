"""SentenceTransformersEmbedder: prompts, revisions and the cache, with the double and, where it is, the package."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.embedders import sentence_transformers_double as double
from tests.embedders import tiny_models
from tests.embedders.packages import Package, cosine

from stackroom.embedders import SentenceTransformersEmbedder

pytestmark = pytest.mark.parametrize(
    "package", ["sentence-transformers-double", "sentence-transformers"], indirect=True
)


def test_the_models_own_prompts_are_applied(package: Package, folder: Path, embedder: Any) -> None:
    bare = package.embedder(folder, query_prompt="", passage_prompt="", **package.options)
    np.testing.assert_allclose(embedder.embed_query("fox"), bare.embed_query("query : fox"), atol=1e-6)
    np.testing.assert_allclose(embedder.embed_passages(["fox"]), bare.embed_passages(["passage : fox"]), atol=1e-6)


def test_one_prompt_given_leaves_the_other_to_the_model(package: Package, folder: Path, embedder: Any) -> None:
    half = package.embedder(folder, query_prompt="hello ", **package.options)
    np.testing.assert_allclose(half.embed_passages(["fox"]), embedder.embed_passages(["fox"]), atol=1e-6)
    assert cosine(half.embed_query("fox"), embedder.embed_query("fox")) < 0.999


@pytest.mark.parametrize("revision", [None, "main", "a" * 40])
def test_a_model_in_the_cache_is_loaded_by_name_without_network(
    package: Package,
    folder: Path,
    embedder: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    revision: str | None,
) -> None:
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tiny_models.into_cache(folder, tmp_path, "org/tiny")))
    named = package.embedder("org/tiny", revision=revision, **package.options)
    at = "" if revision is None else f"@{revision}"
    assert named.fingerprint.id == f"sentence-transformers:org/tiny{at}"
    np.testing.assert_allclose(named.embed_query("red fox"), embedder.embed_query("red fox"), atol=1e-6)


@pytest.mark.usefixtures("package")
def test_a_short_name_is_found_in_the_cache_too(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tiny_models.into_cache(folder, tmp_path, "sentence-transformers/tiny")
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(cache))
    assert SentenceTransformersEmbedder("tiny")._is_at_hand()  # noqa: SLF001 - whether the network is needed
    assert not SentenceTransformersEmbedder("tiny", revision="v2")._is_at_hand()  # noqa: SLF001 - likewise
    assert not SentenceTransformersEmbedder("other")._is_at_hand()  # noqa: SLF001 - likewise


def test_a_cache_without_the_list_of_modules_is_no_model(
    package: Package, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tiny_models.into_cache(folder, tmp_path, "org/tiny")
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(cache))
    next(cache.rglob("modules.json")).unlink()
    assert not package.embedder("org/tiny")._is_at_hand()  # noqa: SLF001 - whether the network is needed


def test_the_package_takes_every_argument_that_its_double_takes(package: Package) -> None:
    real = vars(sys.modules[package.module])["SentenceTransformer"]
    for name in ("__init__", "encode_document", "encode_query"):
        parameters = inspect.signature(getattr(double.SentenceTransformer, name)).parameters.values()
        taken = {parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}
        assert taken
        assert taken - set(inspect.signature(getattr(real, name)).parameters) == set()
