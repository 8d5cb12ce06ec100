"""Real collections: where they lie, and how they are read. Tests that need one are skipped where it is absent."""

from __future__ import annotations

import gzip
import json
import math
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from stackroom import Library, Source
from stackroom._records import records_of
from stackroom.embedders import HashingEmbedder
from stackroom.filters import Eq

BESIDE_THE_CHECKOUT = Path(__file__).parents[3] / "shared" / "data"
DATA = Path(os.environ.get("STACKROOM_DATA", BESIDE_THE_CHECKOUT))


def skipped_without(file: Path) -> pytest.MarkDecorator:
    reason = f"{file.parent.name} is not there: set STACKROOM_DATA to the folder that holds {file.parent.name}/"
    return pytest.mark.skipif(not file.is_file(), reason=reason)


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a gzipped JSON Lines file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def text_of(document: dict[str, Any]) -> str:
    """Return a document's title and text as one."""
    return "\n".join(part for part in (document.get("title", ""), document["text"]) if part)


def put_all(library: Library, sources: Sequence[Source]) -> None:
    """Write all sources of a tenant at once: what `index_source` writes of each, without a transaction for each."""
    embedder = HashingEmbedder(64)
    records = [
        record
        for source in sources
        for record in records_of(
            source,
            list(embedder.embed_passages([passage.text for passage in source.passages])),
            created_at=0,
            updated_at=0,
            own={},
        )
    ]
    where = Eq("tenantId", sources[0].tenant_id)
    library._store.replace("library", records, where=where)  # noqa: SLF001 - no public way writes many sources at once


def relevant_of(folder: Path) -> dict[str, set[str]]:
    """Return the documents of a collection that were judged relevant, by query."""
    judged: dict[str, set[str]] = defaultdict(set)
    for row in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines():
        query_id, document_id, grade = row.split("\t")
        if grade.isdigit() and int(grade) > 0:
            judged[query_id].add(document_id)
    return dict(judged)


def ndcg_at_10(ranked: Sequence[str], relevant: set[str]) -> float:
    """Return the normalised discounted cumulative gain of the first ten, with gains of 0 and 1 (Järvelin 2002)."""
    gain = sum(1 / math.log2(rank + 1) for rank, name in enumerate(ranked[:10], start=1) if name in relevant)
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(len(relevant), 10) + 1))
    return gain / ideal
