"""What embedders of models share: places and their ids, loading once, words that a model does not know."""

from __future__ import annotations

import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from stackroom import EmbedderError
from stackroom._packages import require_package
from stackroom.embedders import HashingEmbedder
from stackroom.embedders._models import (
    ModelPlace,
    Once,
    chars_of,
    check_options,
    fingerprint_of,
    loading,
    prompts_id,
    with_directions,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "model"
    (made / "1_Pooling").mkdir(parents=True)
    (made / "model.safetensors").write_bytes(b"weights")
    (made / "1_Pooling" / "config.json").write_text("{}", encoding="utf-8")
    return made


def id_of(folder: Path) -> str:
    return ModelPlace.of(folder).id("x")


@pytest.mark.parametrize("name", ["BAAI/bge-small-en-v1.5", "all-MiniLM-L6-v2", "a", "org/with_under.dots"])
def test_a_name_stands_in_the_id_as_it_is(name: str) -> None:
    assert ModelPlace.of(name).id("x") == f"x:{name}"


def test_revision_and_details_stand_behind_the_name() -> None:
    assert (
        ModelPlace.of("org/m", "v1.0").id("x", None, "dtype=int8", "prompts=1") == "x:org/m@v1.0;dtype=int8;prompts=1"
    )


def test_a_folder_is_known_by_what_is_in_it_wherever_it_lies_and_whatever_it_is_called(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "elsewhere" / "other name"
    shutil.copytree(folder, copy)
    assert id_of(copy) == id_of(folder)
    assert str(tmp_path) not in id_of(folder)
    monkeypatch.chdir(tmp_path)
    assert ModelPlace.of("model").id("x") == ModelPlace.of("./model/").id("x") == id_of(folder)


def test_a_folder_is_found_after_the_process_has_gone_elsewhere(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    place = ModelPlace.of("model")
    monkeypatch.chdir(folder)
    assert place.id("x") == id_of(folder)


@pytest.mark.parametrize(
    "changed", ["model.safetensors", "1_Pooling/config.json", "new.bin", "1_Pooling/new.json", "vocab.txt"]
)
def test_another_content_is_another_id(folder: Path, changed: str) -> None:
    before = id_of(folder)
    (folder / changed).write_bytes(b"other")
    assert id_of(folder) != before


def test_a_file_of_another_name_is_another_id(folder: Path) -> None:
    before = id_of(folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert id_of(folder) != before


@pytest.mark.parametrize("note", ["README.md", ".gitattributes", ".cache/huggingface/model.lock"])
def test_notes_about_a_model_are_no_part_of_its_id(folder: Path, note: str) -> None:
    before = id_of(folder)
    (folder / note).parent.mkdir(parents=True, exist_ok=True)
    (folder / note).write_text("note", encoding="utf-8")
    assert id_of(folder) == before


@pytest.mark.parametrize("model", ["", " ", None, 3, b"org/m", "https://user:secret@hub.example/org/m?token=secret"])
def test_what_is_no_name_and_no_folder_is_refused(model: object) -> None:
    with pytest.raises(ValueError, match="model must be") as refused:
        ModelPlace.of(model)  # type: ignore[arg-type] # the point of the test
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("model", ["./nowhere", "/no/where/at/all", Path("nowhere"), "a/b/c", "-x", "a b", "n" * 300])
def test_a_path_without_a_folder_says_what_to_do(
    model: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EmbedderError, match="save the model there, or give the model's name on the hub"):
        ModelPlace.of(model)


@pytest.mark.parametrize("revision", ["", " ", "a b", "a@b", "a;b", "x" * 65, 3])
def test_what_is_no_revision_is_refused(revision: object) -> None:
    with pytest.raises(ValueError, match="revision must be"):
        ModelPlace.of("org/m", revision)  # type: ignore[arg-type] # the point of the test


def test_a_folder_has_no_revision(folder: Path) -> None:
    with pytest.raises(ValueError, match="leave revision away"):
        ModelPlace.of(folder, "main")


def test_prompts_are_told_apart_by_a_digest() -> None:
    given = [
        (None, None),
        ("", None),
        (None, ""),
        ("", ""),
        ("a", ""),
        ("", "a"),
        ("a", "b"),
        ("Instruct:\n" * 90, None),
    ]
    ids = [prompts_id(*prompts) for prompts in given]
    assert ids[0] is None
    assert len(set(ids)) == len(given)
    assert {len(id_) for id_ in ids if id_ is not None} == {24}


def test_a_thing_is_made_once_whoever_asks() -> None:
    made: list[object] = []
    all_ask = threading.Barrier(8)

    def make() -> object:
        made.append(object())
        return made[-1]

    once = Once(make)

    def ask(_: int) -> object:
        all_ask.wait()
        return once()

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(ask, range(8)))
    assert len(made) == 1
    assert set(answers) == set(made)


def test_a_thing_that_could_not_be_made_is_tried_anew() -> None:
    outcomes = iter([OSError("busy"), None])

    def make() -> str:
        outcome = next(outcomes)
        if outcome is not None:
            raise outcome
        return "made"

    once = Once(make)
    with pytest.raises(OSError, match="busy"):
        once()
    assert once() == "made"


@pytest.mark.parametrize(("place", "said"), [("org/m", "load it once with network"), (".", "save it there")])
def test_what_a_package_raises_becomes_an_error_that_says_what_to_do(place: str, said: str) -> None:
    original = OSError("https://user:secret@hub.example/org/m?token=secret")
    with pytest.raises(EmbedderError, match=said) as failed, loading(ModelPlace.of(place), "pack"):
        raise original
    assert failed.value.__cause__ is original
    assert "OSError" in str(failed.value)
    assert "secret" not in str(failed.value)


def test_a_package_that_a_model_needs_besides_is_named() -> None:
    with pytest.raises(EmbedderError, match="pip install einops"), loading(ModelPlace.of("org/m"), "pack"):
        raise ImportError("run `pip install einops`")


def test_more_dimensions_than_a_model_has_are_refused() -> None:
    assert str(fingerprint_of("x:m", 8, None)) == str(fingerprint_of("x:m", 8, 8)) == "x:m@8"
    with pytest.raises(EmbedderError, match="the model has 8 dimensions"):
        fingerprint_of("x:m", 8, 9)


@pytest.mark.parametrize(
    ("tokens", "chars"), [(512, 2048), (None, None), (float("inf"), None), (10**30, None), (0, None), ("512", None)]
)
def test_a_limit_of_tokens_is_one_of_characters(tokens: object, chars: int | None) -> None:
    assert chars_of(tokens) == chars


def test_a_text_without_a_vector_gets_that_of_a_text_without_words() -> None:
    given = np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 0.0], [np.nan, 0.0, 0.0]], dtype=np.float16)
    rows = with_directions(given, ["a", "😀", "b"])
    assert rows.dtype == np.float32
    assert rows[0].tolist() == [1.0, 2.0, 0.0]
    assert rows[1].tolist() == HashingEmbedder(3).embed_query("😀").tolist()
    assert np.isnan(rows[2, 0])
    assert not given[1].any()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"id": ""}, "id must not be blank"),
        ({"dimension": 0}, "dimension must be"),
        ({"dimension": True}, "dimension must be"),
        ({"prompts": (3, None)}, "query_prompt must be a str"),
        ({"prompts": (None, b"")}, "passage_prompt must be a str"),
        ({"max_batch": 0}, "max_batch must be"),
        ({"max_input_chars": 1.5}, "max_input_chars must be"),
    ],
)
def test_options_that_are_none_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_options(**{"id": None, **options})  # type: ignore[arg-type] # the point of the test


def test_a_missing_package_is_named_with_the_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "model2vec", None)
    with pytest.raises(ImportError, match=r'X needs the package model2vec: pip install "stackroom\[model2vec\]"'):
        require_package("model2vec", "model2vec", "X")
