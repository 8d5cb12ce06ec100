"""FastEmbedEmbedder: folders with ONNX files, their pooling, and models that fastembed lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.embedders import tiny_models
from tests.embedders.packages import Package, cosine

from stackroom import EmbedderError
from stackroom.embedders._door import check_embedder

pytestmark = pytest.mark.parametrize("package", ["fastembed"], indirect=True)


def test_pooling_changes_vectors_and_ids(package: Package, folder: Path, embedder: Any) -> None:
    first = package.embedder(folder, pooling="cls")
    last = package.embedder(folder, pooling="last_token")
    ids = {first.fingerprint.id, last.fingerprint.id, embedder.fingerprint.id}
    assert {id_.partition(";")[2] for id_ in ids} == {"pooling=cls", "pooling=last_token", "pooling=mean"}
    np.testing.assert_allclose(first.embed_query("red fox"), first.embed_query("red"), atol=1e-6)
    np.testing.assert_allclose(last.embed_query("red fox"), last.embed_query("fox"), atol=1e-6)
    assert cosine(embedder.embed_query("red fox"), first.embed_query("red fox")) < 0.999
    assert cosine(embedder.embed_query("red fox"), last.embed_query("red fox")) < 0.999
    assert package.embedder(folder, pooling="mean").fingerprint == embedder.fingerprint


@pytest.mark.parametrize(
    ("config", "pooling"),
    [
        ('{"pooling_mode": "lasttoken"}', "last_token"),
        ('{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}', "cls"),
        ('{"pooling_mode_mean_tokens": true}', "mean"),
    ],
)
def test_the_pooling_that_is_saved_beside_a_model_is_read(
    package: Package, tmp_path: Path, config: str, pooling: str
) -> None:
    made = package.save(tmp_path / "tiny")
    (made / "1_Pooling" / "config.json").write_text(config, encoding="utf-8")
    assert package.embedder(made).fingerprint.id.endswith(f";pooling={pooling}")


@pytest.mark.parametrize(
    "config",
    [
        None,
        "{}",
        '{"pooling_mode": "max"}',
        '{"pooling_mode": ["cls", "mean"]}',
        '{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}',
        '{"pooling_mode_max_tokens": true}',
    ],
)
def test_a_pooling_that_nobody_says_is_asked_for(package: Package, tmp_path: Path, config: str | None) -> None:
    made = package.save(tmp_path / "tiny", pooling=None)
    if config is not None:
        (made / "1_Pooling").mkdir()
        (made / "1_Pooling" / "config.json").write_text(config, encoding="utf-8")
    with pytest.raises(EmbedderError, match="give pooling"):
        check_embedder(package.embedder(made))
    assert package.embedder(made, pooling="mean").fingerprint.id.endswith(";pooling=mean")


def test_pooling_none_wants_a_model_that_answers_whole_vectors(package: Package, folder: Path) -> None:
    with pytest.raises(EmbedderError, match="fastembed cannot load"):
        check_embedder(package.embedder(folder, pooling="none"))


def test_of_several_onnx_files_one_must_be_named_and_stands_in_the_id(package: Package, tmp_path: Path) -> None:
    made = package.save(tmp_path / "tiny")
    tiny_models.save_onnx(made / "onnx" / "other.onnx", seed=9, dimension=8)
    with pytest.raises(EmbedderError, match=r"model_file must name .*onnx/model.onnx.*onnx/other.onnx"):
        check_embedder(package.embedder(made))
    with pytest.raises(EmbedderError, match="model_file must name"):
        check_embedder(package.embedder(made, model_file="none.onnx"))
    other = package.embedder(made, model_file="onnx/other.onnx")
    assert str(other.fingerprint).endswith(";pooling=mean;file=onnx/other.onnx@8")


def test_the_vector_of_a_quantised_model_does_not_depend_on_what_it_is_computed_with(
    package: Package, tmp_path: Path
) -> None:
    made = tiny_models.fastembed_folder(tmp_path / "tiny", is_quantised=True)
    texts = ["red", "fox", "blue whale", "hello world", "spring budget"]

    def lowest(embedder: Any) -> float:
        together = embedder.embed_passages(texts)
        return min(cosine(embedder.embed_query(text), row) for text, row in zip(texts, together, strict=True))

    assert lowest(package.embedder(made)) == pytest.approx(1.0, abs=1e-6)
    assert lowest(package.embedder(made, batch_size=32)) < 0.99999


def test_a_listed_model_in_the_cache_is_loaded_by_name_however_it_is_spelled(package: Package, tmp_path: Path) -> None:
    made = tiny_models.fastembed_folder(tmp_path / "tiny", file="model_optimized.onnx", pooling=None)
    cache = tiny_models.into_cache(made, tmp_path / "cache", "Qdrant/bge-small-en-v1.5-onnx-Q")
    named = package.embedder("baai/BGE-small-en-v1.5", cache_dir=cache)
    assert str(named.fingerprint) == f"fastembed:BAAI/bge-small-en-v1.5@{tiny_models.DIMENSION}"
    as_folder = package.embedder(made, pooling="cls")
    np.testing.assert_allclose(named.embed_query("red fox"), as_folder.embed_query("red fox"), atol=1e-6)


def test_a_model_that_fastembed_does_not_list_says_what_to_do(package: Package) -> None:
    with pytest.raises(EmbedderError, match=r"fastembed knows no model org/nowhere; .*list_supported_models"):
        check_embedder(package.embedder("org/nowhere"))


def test_a_listed_model_that_cannot_be_had_says_what_to_do(
    package: Package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(EmbedderError, match=r"fastembed cannot load .*load it once with network") as failed:
        check_embedder(package.embedder("BAAI/bge-small-en-v1.5", cache_dir=tmp_path))
    assert failed.value.__cause__ is not None


@pytest.mark.parametrize("options", [{"pooling": "mean"}, {"model_file": "model.onnx"}])
def test_a_listed_model_has_its_own_pooling_and_file(package: Package, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="are for a folder"):
        package.embedder("BAAI/bge-small-en-v1.5", **options)


@pytest.mark.parametrize("options", [{"pooling": "max"}, {"threads": 0}, {"batch_size": 0}])
def test_options_of_fastembed_that_are_none_are_refused(
    package: Package, folder: Path, options: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match="must be"):
        package.embedder(folder, **options)
