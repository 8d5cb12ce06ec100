"""The retriever for LlamaIndex."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("llama_index.core")

from llama_index.core.schema import MetadataMode
from tests.integrations.shelf import a_library, incomplete

from stackroom import Scope
from stackroom.integrations.llama_index import StackroomRetriever

BAKERS, MILLERS = Scope("acme", ["bakers"]), Scope("acme", ["millers"])


def test_it_answers_what_its_scope_sees() -> None:
    found = StackroomRetriever(a_library(), BAKERS, top_k=2).retrieve("rye bread secret")
    assert len(found) == 2
    assert found[0].node.node_id == "rye#0"
    assert found[0].node.metadata["title"] == "Rye"
    assert (found[0].score or 0) > (found[1].score or 0)
    assert found[0].node.get_content(MetadataMode.LLM) == "rye bread"
    assert {node.node.metadata["sourceId"] for node in StackroomRetriever(a_library(), MILLERS).retrieve("bread")} == {
        "secret"
    }


def test_an_answer_that_may_be_short_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    library = a_library()
    incomplete(library, monkeypatch)
    assert StackroomRetriever(library, BAKERS).retrieve("bread")[0].node.metadata["incomplete"] == ["lagging"]


@pytest.mark.parametrize(
    ("scope", "options"),
    [(None, {}), ("acme", {}), (BAKERS, {"top_k": 0}), (BAKERS, {"options": {"scope": MILLERS}})],
)
def test_what_is_wrong_is_refused_when_it_is_made(scope: Any, options: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        StackroomRetriever(a_library(), scope, **options)
