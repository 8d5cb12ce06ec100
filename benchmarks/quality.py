"""How good the answers are, on judged collections, with the default embedder.

`python benchmarks/quality.py DATA`, where DATA holds folders in the BEIR layout, such as scifact/ with corpus.jsonl.gz,
queries.jsonl.gz and qrels.tsv (one passage a document: title, line feed, text), and qmsum/ with meetings.

* judged collections: nDCG@10 and recall@10 of each mode
* meetings: how often one of the first ten passages holds turns that were annotated as the answer's, and nDCG@10 with
  those passages as the relevant ones
* scopes: groups given at random; answers in a scope, beside those of a library that holds nothing else
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import math
import random
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stackroom import RRF, Library, Passage, Scope, Source, Turn, Weighted, chunk_turns
from stackroom.embedders import LocalEmbedder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stackroom import Hit

TENANT: Final = "benchmark"
SCOPE: Final = Scope(TENANT, ["everyone"])
MODES: Final[dict[str, dict[str, Any]]] = {
    "lexical": {"mode": "lexical"},
    "dense": {"mode": "dense"},
    "hybrid": {},
    "hybrid, RRF(60)": {"fusion": RRF(k=60)},
    "hybrid, Weighted(0.3)": {"fusion": Weighted(0.3)},
    "hybrid, Weighted(0.7)": {"fusion": Weighted(0.7)},
}
GROUPS: Final = [f"group {number}" for number in range(20)]
SCOPES: Final = (1, 3, 8)
"""How many of the groups the callers have whose answers are compared."""


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a gzipped JSON Lines file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def text_of(document: dict[str, Any]) -> str:
    """Return a document's title and text, as they are indexed."""
    return "\n".join(part for part in (document.get("title", ""), document["text"]) if part)


def mean(values: Iterable[float]) -> float:
    """Return the mean; 0 of nothing."""
    given = list(values)
    return sum(given) / len(given) if given else 0.0


# Judged collections


def ndcg(found: Sequence[str], judged: dict[str, int]) -> float:
    """Return nDCG@10 with the gains as judged and a discount of log2(rank + 1)."""
    gained = sum(judged.get(name, 0) / math.log2(rank + 1) for rank, name in enumerate(found[:10], start=1))
    ideal = sum(gain / math.log2(rank + 1) for rank, gain in enumerate(sorted(judged.values(), reverse=True)[:10], 1))
    return gained / ideal if ideal else 0.0


def recall(found: Sequence[str], judged: dict[str, int]) -> float:
    """Return recall@10: the share of what was judged relevant that is among the first ten."""
    relevant = {name for name, gain in judged.items() if gain > 0}
    return len(relevant & set(found[:10])) / len(relevant) if relevant else 0.0


def judgements(folder: Path) -> dict[str, dict[str, int]]:
    """Return the gain of each judged document, by query."""
    judged: dict[str, dict[str, int]] = defaultdict(dict)
    with (folder / "qrels.tsv").open(encoding="utf-8") as file:
        for asked, answer, gain in list(csv.reader(file, delimiter="\t"))[1:]:
            judged[asked][answer] = int(gain)
    return judged


def measure(folder: Path, most: int) -> None:
    """Index a collection and print the table of its modes."""
    judged = judgements(folder)
    with tempfile.TemporaryDirectory() as directory, Library.open(directory, embedder=LocalEmbedder()) as library:
        for document in lines(folder / "corpus.jsonl.gz"):
            library.index_source(Source(document["_id"], "document", TENANT, ["everyone"], [text_of(document)]))
        queries = [query for query in lines(folder / "queries.jsonl.gz") if query["_id"] in judged][:most]
        print(f"\n## {folder.name}: {library.count(scope=SCOPE):,} documents, {len(queries):,} judged queries")
        for name, options in MODES.items():
            found = {
                query["_id"]: [hit.source_id for hit in library.search(query["text"], scope=SCOPE, **options)]
                for query in queries
            }
            gains = mean(ndcg(ranked, judged[query_id]) for query_id, ranked in found.items())
            recalled = mean(recall(ranked, judged[query_id]) for query_id, ranked in found.items())
            print(f"  {name:24} nDCG@10 {gains:.3f}   recall@10 {recalled:.3f}")


# Meetings


def passages_of(meeting: dict[str, Any]) -> list[Passage]:
    """Return a meeting's turns as passages of whole turns."""
    turns = [
        Turn(number, str(number), turn["content"], speaker=turn["speaker"])
        for number, turn in enumerate(meeting["meeting_transcripts"])
    ]
    return [Passage(chunk.text, chunk.metadata) for chunk in chunk_turns(turns)]


def questions_of(meeting: dict[str, Any]) -> Iterator[tuple[str, set[int]]]:
    """Yield each specific question with the numbers of the turns that answer it."""
    for question in meeting["specific_query_list"]:
        spans = [(int(first), int(last)) for first, last in question["relevant_text_span"]]
        yield question["query"], {turn for first, last in spans for turn in range(first, last + 1)}


def turns_in(passage: Passage | Hit) -> set[int]:
    """Return the numbers of the turns that a passage holds."""
    numbers: Any = passage.metadata["turnSeqs"]
    return set(numbers)


def chance(passages: Sequence[Passage], wanted: set[int], number: int) -> float:
    """Return how often so many passages of a meeting drawn at random would hold one of these turns."""
    others = sum(turns_in(passage).isdisjoint(wanted) for passage in passages)
    drawn = min(number, len(passages))
    return 1 - math.comb(others, drawn) / math.comb(len(passages), drawn)


def measure_meetings(folder: Path) -> None:
    """Index the meetings and print how often the turns that answer a question are found."""
    meetings = {
        f"{path.name} {number}": meeting
        for path in sorted(folder.glob("*.jsonl.gz"))
        for number, meeting in enumerate(lines(path))
    }
    held = {name: passages_of(meeting) for name, meeting in meetings.items()}
    asked = [(name, *question) for name, meeting in meetings.items() for question in questions_of(meeting)]
    with tempfile.TemporaryDirectory() as directory, Library.open(directory, embedder=LocalEmbedder()) as library:
        for name, passages in held.items():
            library.index_source(Source(name, "meeting", TENANT, ["everyone"], passages))
        number = library.count(scope=SCOPE)
        print(f"\n## {folder.name}: {len(meetings)} meetings, {number:,} passages, {len(asked):,} questions")
        by_chance = [mean(chance(held[name], wanted, most) for name, _, wanted in asked) for most in (1, 10)]
        print(f"  {'drawn at random':24} within the meeting: hit rate@1 {by_chance[0]:.3f}, @10 {by_chance[1]:.3f}")
        for mode, options in MODES.items():
            first, within, everywhere, gains = [], [], [], []
            for name, text, wanted in asked:
                of_meeting = library.search(text, scope=SCOPE, source_ids=[name], **options)
                own = [bool(turns_in(hit) & wanted) for hit in of_meeting]
                first.append(own[:1] == [True])
                within.append(any(own))
                every = library.search(text, scope=SCOPE, **options)
                judged = {f"{name}#{at}": 1 for at, passage in enumerate(held[name]) if turns_in(passage) & wanted}
                everywhere.append(any(hit.id in judged for hit in every))
                gains.append(ndcg([hit.id for hit in every], judged))
            print(
                f"  {mode:24} within the meeting: hit rate@1 {mean(first):.3f}, @10 {mean(within):.3f}; "
                f"over all meetings: @10 {mean(everywhere):.3f}, nDCG@10 {mean(gains):.3f}"
            )


# Scopes


def found_in(library: Library, text: str, scope: Scope, mode: Any) -> list[tuple[str, float]]:
    """Return the first ten documents and their scores."""
    return [(hit.source_id, hit.score) for hit in library.search(text, scope=scope, mode=mode)]


def measure_scopes(folder: Path, most: int) -> None:
    """Print how the answers in a scope agree with those of a library that holds nothing else."""
    draw = random.Random(1)  # noqa: S311 - a corpus, no secrets
    documents = {document["_id"]: text_of(document) for document in lines(folder / "corpus.jsonl.gz")}
    groups = {name: draw.sample(GROUPS, draw.choice([1, 1, 2])) for name in documents}
    queries = [query["text"] for query in lines(folder / "queries.jsonl.gz")][:most]
    print(f"\n## {folder.name} in scopes: {len(documents):,} documents in one or two of {len(GROUPS)} groups at random")
    with tempfile.TemporaryDirectory() as directory:
        whole = Library.open(f"{directory}/whole", embedder=LocalEmbedder())
        fill(whole, documents, groups)
        for number in SCOPES:
            scope = Scope(TENANT, GROUPS[:number])
            inside = {name for name, of_document in groups.items() if not set(of_document).isdisjoint(scope.acl_groups)}
            alone = Library.open(f"{directory}/{number}", embedder=LocalEmbedder(), exact=True)
            fill(alone, {name: documents[name] for name in documents if name in inside}, groups)
            print(f"  {number} groups, {len(inside):,} documents:", end="")
            for mode in ("dense", "lexical"):
                pairs = [(found_in(whole, text, scope, mode), found_in(alone, text, scope, mode)) for text in queries]
                equal = mean([name for name, _ in one] == [name for name, _ in other] for one, other in pairs)
                shared = mean(len(dict(one).keys() & dict(other).keys()) / max(len(other), 1) for one, other in pairs)
                print(f"   {mode}: the same ten in the same order {equal:.3f}, overlap@10 {shared:.3f}", end="")
            print()
            alone.close()
        whole.close()


def fill(library: Library, documents: dict[str, str], groups: dict[str, list[str]]) -> None:
    """Index documents, each for its groups."""
    for name, text in documents.items():
        library.index_source(Source(name, "document", TENANT, groups[name], [text]))


def main() -> None:
    """Measure every collection that is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--queries", type=int, default=1000, help="of each judged collection at most so many")
    arguments = parser.parse_args()
    for folder in sorted(path.parent for path in arguments.data.glob("*/qrels.tsv")):
        measure(folder, arguments.queries)
    if (arguments.data / "qmsum").is_dir():
        measure_meetings(arguments.data / "qmsum")
    if (arguments.data / "scifact").is_dir():
        measure_scopes(arguments.data / "scifact", arguments.queries)


if __name__ == "__main__":
    main()
