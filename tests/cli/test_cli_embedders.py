"""`stackroom reembed`, `stackroom verify-embedder`, and embedders by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.embedders.embedding_server import Answer, Body, EmbeddingServer

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
    monkeypatch.delenv("STACKROOM_EMBEDDER")
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
