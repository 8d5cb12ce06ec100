"""What people judged to be the answer comes back: Japanese questions by words, and questions about long meetings."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.quality.judged import DATA, lines_of, put_all, skipped_without, text_of

from stackroom import Library, Passage, Scope, Source, Turn, chunk_turns
from stackroom.embedders import HashingEmbedder

SCOPE = Scope("judged", ["everyone"])
JAPANESE, MEETINGS = DATA / "jsquad-ja", DATA / "qmsum"


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    with Library.open(tmp_path / "library", embedder=HashingEmbedder(64)) as made:
        yield made


def source(source_id: str, passages: list[Passage | str]) -> Source:
    return Source(source_id, "judged", SCOPE.tenant_id, SCOPE.acl_groups, passages)


@skipped_without(JAPANESE / "corpus.jsonl.gz")
def test_a_question_in_japanese_finds_its_paragraph_by_words(library: Library) -> None:
    documents = lines_of(JAPANESE / "corpus.jsonl.gz")
    put_all(library, [source(document["_id"], [text_of(document)]) for document in documents])
    rows = [line.split("\t") for line in (JAPANESE / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]]
    relevant = {query_id: document_id for query_id, document_id, _ in rows}
    queries = list(islice(lines_of(JAPANESE / "queries.jsonl.gz"), 0, None, 20))
    found = [
        relevant[query["_id"]] in {hit.source_id for hit in library.search(query["text"], scope=SCOPE, mode="lexical")}
        for query in queries
    ]
    assert len(found) > 200
    assert sum(found) / len(found) >= 0.96


def turns_of(meeting: dict[str, Any]) -> list[Turn]:
    return [
        Turn(number, str(number), turn["content"], speaker=turn["speaker"])
        for number, turn in enumerate(meeting["meeting_transcripts"])
    ]


@skipped_without(MEETINGS / "test.jsonl.gz")
def test_a_question_about_a_meeting_finds_a_passage_with_the_turns_that_answer_it(library: Library) -> None:
    meetings = {str(number): meeting for number, meeting in enumerate(lines_of(MEETINGS / "test.jsonl.gz"))}
    for name, meeting in meetings.items():
        chunks = chunk_turns(turns_of(meeting))
        library.index_source(source(name, [Passage(chunk.text, chunk.metadata) for chunk in chunks]))
    found = []
    for name, meeting in meetings.items():
        for question in meeting["specific_query_list"]:
            spans = [(int(first), int(last)) for first, last in question["relevant_text_span"]]
            hits = library.search(question["query"], scope=SCOPE, mode="lexical", source_ids=[name])
            held: list[tuple[Any, Any]] = [(hit.metadata["firstSeq"], hit.metadata["lastSeq"]) for hit in hits]
            found.append(any(begin <= last and first <= end for begin, end in held for first, last in spans))
    assert len(found) > 200
    assert sum(found) / len(found) >= 0.9
