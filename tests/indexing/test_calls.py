"""Calls to an embedder: none after a failure, and pauses that end early."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.library.doubles import PATIENCE, RecordingEmbedder

from stackroom import EmbedderError
from stackroom.embedders._door import Gate, check_embedder
from stackroom.indexing._calls import Calls, Patience, Stopped, Text


def calls(embedder: Any, width: int, patience: Patience | None = None) -> Calls:
    return Calls(embedder, check_embedder(embedder), Gate(None), width, None, patience or Patience())


def test_a_call_that_waits_for_its_turn_is_not_made_after_a_failure() -> None:
    all_asked = threading.Event()

    def before(_: int) -> None:
        all_asked.wait(PATIENCE)
        raise RuntimeError("down")

    embedder = RecordingEmbedder(before_batch=before)
    with calls(embedder, width=1) as asked:
        asked.ask([Text("a", 1)])
        asked.ask([Text("b", 2)])
        all_asked.set()
        with pytest.raises(EmbedderError):
            asked.answer()
        with pytest.raises(Stopped):
            asked.answer()
    assert embedder.batches == [("a",)]


def test_a_failure_ends_the_pause_of_another_call() -> None:
    pausing = threading.Event()

    class Server(RecordingEmbedder):
        def embed_passages(self, texts: Any) -> Any:
            if texts == ("busy",):
                pausing.set()
                raise EmbedderError("busy", retryable=True, retry_after=500)
            pausing.wait(PATIENCE)
            raise EmbedderError("down")

    with calls(Server(), 2, Patience(attempts=3)) as asked:
        asked.ask([Text("busy", 1)])
        asked.ask([Text("other", 2)])
        with pytest.raises(Stopped):
            asked.answer()
        with pytest.raises(EmbedderError, match="down"):
            asked.answer()
