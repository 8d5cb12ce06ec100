"""The default fusion, without knowing which leg is better: no worse than the better one, where equal ranks are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.quality.judged import DATA, lines_of, ndcg_at_10, relevant_of, skipped_without, text_of

from stackroom import RRF, Library, Scope
from stackroom.embedders import LocalEmbedder
from stackroom.indexing import Document, index_documents

SCOPE = Scope("_global", ["everyone"])
WHOLE = 100_000
MOST_QUERIES = 300
TOLERANCE = 0.005

COLLECTIONS = [
    pytest.param(DATA / name, id=name, marks=skipped_without(DATA / name / "corpus.jsonl.gz"))
    for name in ("scifact", "jsquad-ja")
]


@pytest.fixture
def library(folder: Path, tmp_path: Path) -> Iterator[Library]:
    documents = [Document(line["_id"], text_of(line)) for line in lines_of(folder / "corpus.jsonl.gz")]
    with Library.open(tmp_path / "library", embedder=LocalEmbedder()) as opened:
        index_documents(opened, documents, max_chunk_chars=WHOLE)
        yield opened


def ndcg(library: Library, folder: Path, **options: Any) -> float:
    relevant = relevant_of(folder)
    asked = (query for query in lines_of(folder / "queries.jsonl.gz") if query["_id"] in relevant)
    gains = [
        ndcg_at_10(
            [hit.source_id for hit in library.search(query["text"], scope=SCOPE, **options)], relevant[query["_id"]]
        )
        for query in islice(asked, MOST_QUERIES)
    ]
    return sum(gains) / len(gains)


@pytest.mark.parametrize("folder", COLLECTIONS)
def test_hybrid_search_is_no_worse_than_its_better_leg(library: Library, folder: Path) -> None:
    better = max(ndcg(library, folder, mode="lexical"), ndcg(library, folder, mode="dense"))
    assert ndcg(library, folder) >= better - TOLERANCE
    assert ndcg(library, folder, fusion=RRF(k=60)) < better - TOLERANCE  # what the default is measured against
