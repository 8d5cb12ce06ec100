"""The retriever for Haystack, in a pipeline."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("haystack")

from haystack import Pipeline
from tests.integrations.shelf import a_library, incomplete

from stackroom import Scope
from stackroom.integrations.haystack import StackroomRetriever

BAKERS, MILLERS = Scope("acme", ["bakers"]), Scope("acme", ["millers"])


def test_it_answers_what_its_scope_sees_in_a_pipeline() -> None:
    pipeline = Pipeline()
    pipeline.add_component("retriever", StackroomRetriever(a_library(), BAKERS, top_k=2))
    found = pipeline.run({"retriever": {"query": "rye bread secret"}})["retriever"]["documents"]
    assert next(document.id for document in found) == "rye#0"
    assert len(found) == 2
    assert found[0].content == "rye bread"
    assert found[0].meta["title"] == "Rye"
    more = pipeline.run({"retriever": {"query": "rye bread secret", "top_k": 9}})["retriever"]["documents"]
    assert {document.meta["sourceId"] for document in more} == {"rye", "oat", "malt"}


def test_a_scope_cannot_be_given_with_the_question() -> None:
    pipeline = Pipeline()
    pipeline.add_component("retriever", StackroomRetriever(a_library(), BAKERS))
    with pytest.raises(ValueError, match="scope"):
        pipeline.run({"retriever": {"query": "bread", "scope": MILLERS}})


def test_an_answer_that_may_be_short_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    library = a_library()
    incomplete(library, monkeypatch)
    assert StackroomRetriever(library, BAKERS).run("bread")["documents"][0].meta["incomplete"] == ["lagging"]


def test_a_live_library_is_not_written_out() -> None:
    with pytest.raises(NotImplementedError, match="make it anew"):
        StackroomRetriever(a_library(), BAKERS).to_dict()


@pytest.mark.parametrize(
    ("scope", "options"),
    [(None, {}), ("acme", {}), (BAKERS, {"top_k": 0}), (BAKERS, {"options": {"scope": MILLERS}})],
)
def test_what_is_wrong_is_refused_when_it_is_made(scope: Any, options: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        StackroomRetriever(a_library(), scope, **options)
