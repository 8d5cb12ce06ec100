"""`stackroom reembed`, `stackroom verify-embedder`, and embedders by name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.embedders import sentence_transformers_double as double
from tests.embedders import tiny_models
from tests.embedders.embedding_server import Answer, Body, EmbeddingServer

from stackroom import Library
from stackroom.embedders import Model2VecEmbedder

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine


@pytest.mark.usefixtures("notes")
def test_reembed_moves_a_library_and_later_commands_need_not_name_the_embedder(
    stackroom: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    stackroom.index("notes")
    monkeypatch.delenv("STACKROOM_EMBEDDER")
    ran = stackroom("reembed", "hashing:32")
    assert ran.code == 0
    assert ran.out.startswith("moved to hashing-v1@32: 3 passages")
    assert stackroom.found("spring budget", "--mode", "dense")[0] == "budget.md#0"
    assert stackroom("reembed", "hashing:32", "--json").json["embedded"] == 0


def test_reembed_without_a_library_or_an_embedder_is_refused(stackroom: CommandLine, here: Path) -> None:
    assert stackroom("reembed", "hashing:32").code == 1
    assert stackroom("reembed", "klingon").code == 2
    assert stackroom("reembed").code == 2
    assert not (here / "library").exists()


@pytest.mark.usefixtures("notes")
def test_verify_embedder_says_the_lowest_cosine(stackroom: CommandLine) -> None:
    stackroom.index("notes")
    assert "lowest cosine 1.000000" in stackroom("verify-embedder").out
    assert stackroom("verify-embedder", "--json").json["lowest_cosine"] == pytest.approx(1.0)


@pytest.mark.usefixtures("notes")
def test_verify_embedder_says_when_there_was_nothing_to_compare(stackroom: CommandLine) -> None:
    stackroom.index("notes")
    stackroom("remove-tenant", "acme", "--yes")
    ran = stackroom("verify-embedder")
    assert ran.code == 0
    assert ran.out == "nothing is stored yet, so there was nothing to compare\n"
    assert stackroom("verify-embedder", "--json").json["lowest_cosine"] is None


@pytest.mark.usefixtures("notes")
def test_doctor_sees_that_a_model_of_the_same_name_is_another(stackroom: CommandLine, server: EmbeddingServer) -> None:
    stackroom.index("notes", "--embedder", "openai:bge")
    assert stackroom("doctor").code == 0

    def other(body: Body) -> Answer:
        data = [{"index": at, "embedding": [0.0, 1.0, -1.0]} for at, _ in enumerate(body["input"])]
        return Answer(200, {"data": data})

    server.answers.extend([other, other])
    ran = stackroom("doctor")
    assert ran.code == 1
    assert "its vectors differ" in ran.out


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingServer]:
    made = EmbeddingServer()
    monkeypatch.setenv("OPENAI_BASE_URL", made.url)
    monkeypatch.delenv("STACKROOM_EMBEDDER", raising=False)
    yield made
    made.close()


@pytest.mark.usefixtures("notes")
def test_a_server_that_speaks_openais_api_embeds_and_is_remembered(
    stackroom: CommandLine, server: EmbeddingServer
) -> None:
    assert stackroom.index("notes", "--embedder", "openai:bge").code == 0
    asked = len(server.asked)
    assert stackroom.found("spring budget", "--mode", "dense")
    assert len(server.asked) > asked
    assert {one.body["model"] for one in server.asked} == {"bge"}


@pytest.fixture
def unnamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No embedder is named by the environment."""
    monkeypatch.delenv("STACKROOM_EMBEDDER")


SAVED: dict[str, Callable[[Path], Path]] = {
    "model2vec": tiny_models.model2vec_folder,
    "fastembed": tiny_models.fastembed_folder,
    "sentence-transformers": double.saved,
}


@pytest.mark.usefixtures("notes", "unnamed")
@pytest.mark.parametrize("kind", SAVED)
def test_a_model_in_a_folder_embeds_and_its_folder_is_asked_for(
    stackroom: CommandLine, here: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", double.package())
    SAVED[kind](here / "my model")
    assert stackroom.index("notes", "--embedder", f"{kind}:my model").code == 0
    assert stackroom.found("spring budget", "--mode", "dense", "--embedder", f"{kind}:./my model")
    assert stackroom.found("spring budget", "--mode", "lexical")
    ran = stackroom("search", "spring budget", "--tenant", "acme", "--group", "staff")
    assert ran.code == 1
    assert f"belongs to the embedder {kind}:sha256=" in ran.err
    assert f"say where it is, with --embedder {kind}:FOLDER" in ran.err


@pytest.mark.usefixtures("notes", "unnamed")
def test_a_model_by_name_is_remembered_with_its_dimension(
    stackroom: CommandLine, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tiny_models.into_cache(tiny_models.model2vec_folder(here / "tiny"), here / "cache", "org/tiny")
    monkeypatch.setattr("model2vec.persistence.hf.HF_HUB_CACHE", str(cache))
    Library.open(here / "library", embedder=Model2VecEmbedder("org/tiny", dimension=4)).close()
    assert stackroom.index("notes").code == 0
    assert stackroom.found("spring budget", "--mode", "dense")
    assert "model2vec:org/tiny@4" in stackroom("info").out
    assert stackroom("reembed", "model2vec:org/tiny").out.startswith("moved to model2vec:org/tiny@16")
    assert stackroom("verify-embedder").code == 0


@pytest.mark.usefixtures("notes", "unnamed")
def test_a_listed_model_of_fastembed_is_remembered(
    stackroom: CommandLine, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tiny_models.fastembed_folder(here / "tiny", file="model_optimized.onnx")
    cache = tiny_models.into_cache(made, here / "cache", "Qdrant/bge-small-en-v1.5-onnx-Q")
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(cache))
    assert stackroom.index("notes", "--embedder", "fastembed:BAAI/bge-small-en-v1.5").code == 0
    assert stackroom.found("spring budget", "--mode", "dense")


@pytest.mark.usefixtures("notes", "unnamed")
@pytest.mark.parametrize("name", ["org/tiny", "org/tiny@main"])
def test_a_model_of_sentence_transformers_is_remembered_with_its_revision(
    stackroom: CommandLine, here: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", double.package())
    cache = tiny_models.into_cache(double.saved(here / "tiny"), here / "cache", "org/tiny")
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(cache))
    assert stackroom.index("notes", "--embedder", f"sentence-transformers:{name}").code == 0
    assert stackroom.found("spring budget", "--mode", "dense")
    assert f"sentence-transformers:{name}@16" in stackroom("info").out


@pytest.mark.usefixtures("notes", "unnamed")
def test_a_model_with_prompts_of_ones_own_is_used_from_python(stackroom: CommandLine, here: Path) -> None:
    embedder = Model2VecEmbedder(tiny_models.model2vec_folder(here / "tiny"), id="model2vec:org/m;prompts=1")
    Library.open(here / "library", embedder=embedder).close()
    ran = stackroom("search", "x", "--tenant", "acme", "--group", "staff")
    assert ran.code == 1
    assert "which the command line does not have" in ran.err


@pytest.mark.usefixtures("notes", "unnamed")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("model2vec:./nowhere", "there is no folder './nowhere'"),
        ("fastembed:org/nowhere", "fastembed knows no model org/nowhere"),
        ("sentence-transformers:org/m@", "revision must be"),
        ("model2vec:https://user:secret@hub.example/m", "no address"),
    ],
)
def test_a_model_that_cannot_be_had_is_one_line_and_leaves_no_library(
    stackroom: CommandLine, here: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", double.package())
    ran = stackroom.index("notes", "--embedder", name)
    assert ran.code == 1
    assert said in ran.err
    assert "secret" not in ran.err
    assert ran.err.count("\n") == 1
    assert not (here / "library").exists()


@pytest.mark.usefixtures("notes", "unnamed")
def test_a_server_that_does_not_know_a_model_leaves_no_library(
    stackroom: CommandLine, here: Path, server: EmbeddingServer
) -> None:
    server.answers.append(lambda _: Answer(404, {"error": {"message": "no such model"}}))
    ran = stackroom.index("notes", "--embedder", "openai:nowhere")
    assert ran.code == 1
    assert "no such model" in ran.err
    assert not (here / "library").exists()
