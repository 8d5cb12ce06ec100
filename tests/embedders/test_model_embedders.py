"""The embedders of packages that run models: what holds for each of them, with tiny models in the packages' formats.

sentence-transformers is tested twice: by a double that records the contract, always, and where it is installed by the
package itself. model2vec and fastembed are always the packages themselves.
"""

from __future__ import annotations

import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.embedders import tiny_models
from tests.embedders.packages import TEXTS, TRANSFORMERS, Package, cosine

from stackroom import EmbedderError, Library, Scope, Source
from stackroom.embedders._door import check_embedder, embed_in_batches, embed_passages, embed_query
from stackroom.stores import MemoryStore


def test_it_declares_one_call_at_a_time_and_what_a_text_may_be(package: Package, embedder: Any) -> None:
    limits = check_embedder(embedder)
    assert (limits.max_concurrency, limits.max_batch, limits.provider) == (1, None, package.extra)
    assert limits.max_input_chars == package.max_input_chars
    assert limits.fingerprint.dimension == tiny_models.DIMENSION
    assert limits.fingerprint.id.startswith(f"{package.extra}:sha256=")
    assert limits.fingerprint.id[len(package.extra) + 40 :] == package.id


def test_limits_are_as_given(package: Package, folder: Path) -> None:
    limits = check_embedder(package.embedder(folder, max_batch=3, max_input_chars=900, **package.options))
    assert (limits.max_batch, limits.max_input_chars) == (3, 900)


def test_every_text_passes_the_door(embedder: Any) -> None:
    vectors = embed_passages(embedder, TEXTS, tiny_models.DIMENSION)
    assert vectors.shape == (len(TEXTS), tiny_models.DIMENSION)
    for text in TEXTS:
        embed_query(embedder, text, tiny_models.DIMENSION)


def test_a_text_has_the_same_vector_alone_and_in_a_batch(embedder: Any) -> None:
    together = embed_passages(embedder, TEXTS, tiny_models.DIMENSION)
    by_twos = embed_in_batches(embedder, check_embedder(embedder), TEXTS, 2)
    alone = [embed_passages(embedder, [text], tiny_models.DIMENSION)[0] for text in TEXTS]
    np.testing.assert_allclose(by_twos, together, atol=1e-6, rtol=0)
    np.testing.assert_allclose(alone, together, atol=1e-6, rtol=0)


@pytest.mark.parametrize("package", TRANSFORMERS, indirect=True)
def test_passes_of_any_size_make_the_same_vectors(package: Package, folder: Path, embedder: Any) -> None:
    for size in (1, 2, 32):
        sized = package.embedder(folder, batch_size=size, **package.options)
        np.testing.assert_allclose(sized.embed_passages(TEXTS), embedder.embed_passages(TEXTS), atol=1e-6, rtol=0)


def test_texts_are_told_apart(embedder: Any) -> None:
    vectors = embed_passages(embedder, ["red fox", "blue whale"], tiny_models.DIMENSION)
    query = embed_query(embedder, "red fox", tiny_models.DIMENSION)
    assert cosine(vectors[0], query) > cosine(vectors[1], query) + 0.01


def test_a_copy_of_the_folder_is_the_same_embedder(
    package: Package, folder: Path, embedder: Any, tmp_path: Path
) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    copy = package.embedder(str(tmp_path / "copy"), **package.options)
    assert copy.fingerprint == embedder.fingerprint
    assert copy.embed_passages(TEXTS).tobytes() == embedder.embed_passages(TEXTS).tobytes()


def test_other_weights_are_another_embedder(package: Package, embedder: Any, tmp_path: Path) -> None:
    other = package.embedder(package.save(tmp_path / "other", seed=8), **package.options)
    assert other.fingerprint.id != embedder.fingerprint.id
    assert cosine(other.embed_query("red fox"), embedder.embed_query("red fox")) < 0.999


def test_dimension_keeps_the_first_components(package: Package, folder: Path, embedder: Any) -> None:
    cut = package.embedder(folder, dimension=4, **package.options)
    assert str(cut.fingerprint) == f"{embedder.fingerprint.id}@4"
    texts = ["red fox", "blue whale"]
    short = embed_passages(cut, texts, 4).astype(np.float64)
    whole = embed_passages(embedder, texts, tiny_models.DIMENSION)[:, :4].astype(np.float64)
    assert [cosine(a, b) for a, b in zip(short, whole, strict=True)] == pytest.approx([1.0, 1.0], abs=1e-6)
    assert cosine(embed_query(cut, texts[0], 4), embedder.embed_query(texts[0])[:4]) == pytest.approx(1.0, abs=1e-6)
    assert embed_passages(cut, TEXTS, 4).shape == (len(TEXTS), 4)


def test_more_dimensions_than_the_model_has_are_refused(package: Package, folder: Path) -> None:
    with pytest.raises(EmbedderError, match=f"the model has {tiny_models.DIMENSION} dimensions"):
        check_embedder(package.embedder(folder, dimension=tiny_models.DIMENSION + 1, **package.options))


def test_an_id_of_ones_own_stands_as_it_is(package: Package, folder: Path) -> None:
    named = package.embedder(folder, id="house-model-v3", **package.options)
    assert str(named.fingerprint) == f"house-model-v3@{tiny_models.DIMENSION}"


@pytest.mark.parametrize("package", TRANSFORMERS, indirect=True)
def test_given_prompts_stand_in_front_and_in_the_id(package: Package, folder: Path, embedder: Any) -> None:
    bare = package.embedder(folder, query_prompt="", passage_prompt="", **package.options)
    prompted = package.embedder(folder, query_prompt="hello ", passage_prompt="world ", **package.options)
    ids = {one.fingerprint.id for one in (embedder, bare, prompted)}
    assert len(ids) == 3
    assert all(id_.startswith(embedder.fingerprint.id) for id_ in ids)
    np.testing.assert_allclose(prompted.embed_query("fox"), bare.embed_query("hello fox"), atol=1e-6)
    np.testing.assert_allclose(prompted.embed_passages(["fox"]), bare.embed_passages(["world fox"]), atol=1e-6)
    assert cosine(prompted.embed_query("fox"), prompted.embed_passages(["fox"])[0]) < 0.999


def test_the_model_is_loaded_when_first_needed_once(
    package: Package, folder: Path, embedder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[object] = []
    made = package.embedder(folder, **package.options)
    load = made._load  # noqa: SLF001 - counted here

    def counted() -> object:
        loads.append(load())
        return loads[-1]

    monkeypatch.setattr(made._loaded, "_make", counted)  # noqa: SLF001 - likewise
    assert not loads
    with ThreadPoolExecutor(4) as threads:
        found = set(threads.map(lambda _: made.fingerprint, range(8)))
    assert made.embed_query("red fox").tobytes() == embedder.embed_query("red fox").tobytes()
    assert found == {embedder.fingerprint}
    assert len(loads) == 1


def test_a_missing_package_is_named_with_the_pip_line(
    package: Package, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package.module, None)
    with pytest.raises(ImportError, match=rf'pip install "stackroom\[{package.extra}\]"'):
        package.embedder(folder)


def test_a_folder_without_a_model_says_what_to_do(package: Package, tmp_path: Path) -> None:
    empty = package.embedder(tmp_path, **package.options)
    with pytest.raises(EmbedderError, match=r"the folder .*(save it there|pooling|ONNX)"):
        check_embedder(empty)


@pytest.mark.parametrize(
    "options", [{"dimension": 0}, {"id": " "}, {"max_batch": True}, {"max_input_chars": 0}, {"model": ""}]
)
def test_options_that_are_none_are_refused(package: Package, folder: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must"):
        package.embedder(**{"model": folder, **options})


def test_it_shows_what_it_was_made_of(package: Package, folder: Path, embedder: Any) -> None:
    assert repr(embedder) == f"{package.embedder.__name__}({str(folder)!r})"


def test_a_library_finds_what_it_embeds(embedder: Any) -> None:
    with Library(MemoryStore(), "library", embedder) as library:
        library.index_source(Source("a", "doc", "acme", ["staff"], ["red fox", "blue whale", "😀"]))
        assert library.search("blue whale", scope=Scope("acme", ["staff"]), mode="dense")[0].text == "blue whale"
        assert library.verify_embedder() == pytest.approx(1.0, abs=1e-5)
