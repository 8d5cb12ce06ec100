"""How good the answers are: nDCG@10 of each mode on judged collections in the BEIR layout, with the default embedder.

`python benchmarks/quality.py DATA`, where DATA holds folders such as scifact/ with corpus.jsonl.gz, queries.jsonl.gz
and qrels.tsv. One passage a document: title, line feed, text.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import math
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stackroom import Library, Scope, Source, Weighted
from stackroom.embedders import LocalEmbedder

if TYPE_CHECKING:
    from collections.abc import Iterator

SCOPE = Scope("benchmark", ["everyone"])
MODES: dict[str, dict[str, Any]] = {
    "lexical": {"mode": "lexical"},
    "dense": {"mode": "dense"},
    "hybrid, RRF(60)": {},
    "hybrid, Weighted(0.3)": {"fusion": Weighted(0.3)},
}


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a gzipped JSON Lines file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def ndcg(found: list[str], judged: dict[str, int]) -> float:
    """Return nDCG@10 with the gains as judged and a discount of log2(rank + 1)."""
    gained = sum(judged.get(name, 0) / math.log2(rank + 1) for rank, name in enumerate(found[:10], start=1))
    ideal = sum(gain / math.log2(rank + 1) for rank, gain in enumerate(sorted(judged.values(), reverse=True)[:10], 1))
    return gained / ideal if ideal else 0.0


def measure(folder: Path, most: int) -> None:
    """Index a collection and print the table of its modes."""
    judged: dict[str, dict[str, int]] = defaultdict(dict)
    with (folder / "qrels.tsv").open(encoding="utf-8") as file:
        for asked, answer, gain in list(csv.reader(file, delimiter="\t"))[1:]:
            judged[asked][answer] = int(gain)
    with tempfile.TemporaryDirectory() as directory, Library.open(directory, embedder=LocalEmbedder()) as library:
        for document in lines(folder / "corpus.jsonl.gz"):
            text = "\n".join(part for part in (document.get("title", ""), document["text"]) if part)
            library.index_source(Source(document["_id"], "document", "benchmark", ["everyone"], [text]))
        queries = [query for query in lines(folder / "queries.jsonl.gz") if query["_id"] in judged][:most]
        print(f"\n## {folder.name}: {library.count(scope=SCOPE):,} documents, {len(queries):,} judged queries")
        for name, options in MODES.items():
            scores = []
            for query in queries:
                found = library.search(query["text"], scope=SCOPE, **options)
                scores.append(ndcg([hit.source_id for hit in found], judged[query["_id"]]))
            print(f"  {name:24} nDCG@10 {sum(scores) / len(scores):.3f}")


def main() -> None:
    """Measure every collection that is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--queries", type=int, default=1000, help="of each collection at most so many")
    arguments = parser.parse_args()
    for folder in sorted(path.parent for path in arguments.data.glob("*/qrels.tsv")):
        measure(folder, arguments.queries)


if __name__ == "__main__":
    main()
