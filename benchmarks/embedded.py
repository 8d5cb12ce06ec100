"""The embedded store measured: `python benchmarks/embedded.py --passages 100000`, every stage in a process of its own.

Medians and 95th percentiles of one run, in milliseconds. Searches go through `Library.search`; embedding the query is
left out. With `--rivals`, what a user would pick instead is measured on the same corpus in the same run (extras of the
benchmark: `pip install lancedb chromadb sqlite-vec apsw`).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from corpus import DIMENSION, GROUPS, SHARES, TENANTS, TOPICS, Corpus, scopes

from stackroom import Library, Scope
from stackroom.embedders import Fingerprint
from stackroom.filters import And, Eq, In
from stackroom.stores import CollectionSpec, EmbeddedStore, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

COLLECTION = "library"
FINGERPRINT = Fingerprint("benchmark", DIMENSION)
QUERIES = 60


class GivenVectors:
    """An embedder whose next query vector is set by hand: embedding is no part of what is measured."""

    fingerprint = FINGERPRINT
    max_input_chars = None
    vector: NDArray[np.float32]

    def embed_passages(self, _texts: Sequence[str]) -> NDArray[np.float32]:
        """Refuse: the benchmark hands vectors to the store."""
        raise RuntimeError("nothing is embedded here")

    def embed_query(self, _text: str) -> NDArray[np.float32]:
        """Return the vector that was set."""
        return self.vector


def batches(corpus: Corpus, tenant: int, size: int = 2000) -> Iterable[list[Record]]:
    """Yield a tenant's sources in batches of about `size` passages."""
    batch: list[Record] = []
    for records in corpus.sources(tenant):
        batch += records
        if len(batch) >= size:
            yield batch
            batch = []
    if batch:
        yield batch


def load(corpus: Corpus, directory: Path) -> dict[str, float]:
    """Write the corpus; vectors are given. The making of the corpus is not counted."""
    store = EmbeddedStore(directory)
    store.create_collection(COLLECTION, CollectionSpec(DIMENSION, str(FINGERPRINT)))
    spent = 0.0
    for tenant in range(TENANTS):
        for batch in batches(corpus, tenant):
            sources = list({record.source_id for record in batch})
            begin = time.perf_counter()
            store.replace(COLLECTION, batch, where=And(Eq("tenantId", f"tenant{tenant}"), In("sourceId", sources)))
            spent += time.perf_counter() - begin
    begin = time.perf_counter()
    store.close()
    spent += time.perf_counter() - begin
    disk = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    return {"passages/s": corpus.passages / spent, "disk MB": disk / 1e6}


def queries(corpus: Corpus) -> list[tuple[dict[str, str], NDArray[np.float32]]]:
    """Return queries: words of each kind, and a vector."""
    chance = np.random.default_rng(17)
    found = []
    for vector in corpus.vectors(chance, chance.integers(0, TOPICS, QUERIES)):
        words = corpus.text(chance, int(chance.integers(0, TOPICS))).split()
        by_rank = sorted(set(words), key=corpus.vocabulary.index)
        texts = {
            "mixed": " ".join(by_rank[place] for place in (0, len(by_rank) // 3, len(by_rank) // 2, -1)),
            "common": " ".join(by_rank[:3]),
            "rare": " ".join(by_rank[-3:]),
            "prefix": by_rank[-2][:4],
        }
        found.append((texts, vector))
    return found


def timed(calls: Sequence[Callable[[], object]]) -> list[float]:
    """Return the median and the 95th percentile of calls, in milliseconds, after a first round that is not counted."""
    for call in calls[:10]:
        call()
    spent = []
    for call in calls:
        begin = time.perf_counter()
        call()
        spent.append(1000 * (time.perf_counter() - begin))
    return [statistics.median(spent), statistics.quantiles(spent, n=20)[-1]]


def search(corpus: Corpus, directory: Path) -> dict[str, Any]:
    """Measure searches of every kind by the share of the corpus that the scope sees."""
    embedder = GivenVectors()
    asked = queries(corpus)
    embedder.vector = asked[0][1]
    begin = time.perf_counter()
    library = Library.open(directory, embedder=embedder, collection=COLLECTION)
    library.search(asked[0][0]["mixed"], scope=Scope("tenant0", ["group0"]))
    results: dict[str, Any] = {"cold open s": time.perf_counter() - begin, "rows": {}}

    def ask(place: int, among: list[Scope], text: str, **options: Any) -> Callable[[], object]:
        texts, vector = asked[place]

        def call() -> object:
            embedder.vector = vector
            return library.search(texts[text], scope=among[place % len(among)], **options)

        return call

    exact = EmbeddedStore(directory, exact=True)
    reference = Library(exact, COLLECTION, embedder)
    for share in SHARES:
        among = scopes(corpus, share, 20)
        seen = statistics.median(library.count(scope=scope) for scope in among)
        row: dict[str, Any] = {"rows in scope": seen}
        for name, text, options in (
            ("dense", "mixed", {"mode": "dense"}),
            ("mixed any", "mixed", {"mode": "lexical"}),
            ("common any", "common", {"mode": "lexical"}),
            ("rare any", "rare", {"mode": "lexical"}),
            ("common all", "common", {"mode": "lexical", "match": "all"}),
            ("prefix", "prefix", {"mode": "lexical", "prefix": True}),
            ("hybrid", "mixed", {}),
        ):
            row[name] = timed([ask(place, among, text, **options) for place in range(QUERIES)])
        row["recall@10"] = _recall(library, reference, embedder, asked, among)
        results["rows"][f"{share:.2%}"] = row
    results["RssAnon MB"] = anonymous_memory()
    results["two threads / one"] = _thread_ratio(library, scopes(corpus, 0.1, 20), asked, embedder)
    exact.close()
    library.close()
    return results


def _recall(
    library: Library, reference: Library, embedder: GivenVectors, asked: Sequence[Any], among: list[Scope]
) -> float:
    hits = wanted = 0
    for place, (texts, vector) in enumerate(asked):
        embedder.vector = vector
        scope = among[place % len(among)]
        near = {hit.id for hit in reference.search(texts["mixed"], scope=scope, mode="dense")}
        hits += len(near & {hit.id for hit in library.search(texts["mixed"], scope=scope, mode="dense")})
        wanted += len(near)
    return hits / max(1, wanted)


def _thread_ratio(library: Library, among: list[Scope], asked: Sequence[Any], embedder: GivenVectors) -> float:
    """Return how many times as many hybrid searches two threads do as one."""
    embedder.vector = asked[0][1]

    def run(first: int) -> None:
        for place in range(first, 200, 1):
            library.search(asked[place % len(asked)][0]["mixed"], scope=among[place % len(among)])

    begin = time.perf_counter()
    run(0)
    one = time.perf_counter() - begin
    begin = time.perf_counter()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, (0, 0)))
    return 2 * one / (time.perf_counter() - begin)


def anonymous_memory() -> float:
    """Return the megabytes of memory that are this process's own."""
    status = Path("/proc/self/status")
    if not status.exists():
        return float("nan")
    lines = [line for line in status.read_text().splitlines() if line.startswith("RssAnon")]
    return float(lines[0].split()[1]) / 1000 if lines else float("nan")


def writes(corpus: Corpus, directory: Path) -> dict[str, Any]:
    """Measure durable single writes into the largest tenant, and the removal of a tenant."""
    store = EmbeddedStore(directory)
    sources = [records[:10] for records, _ in zip(corpus.sources(0), range(60), strict=False) if len(records) >= 10]

    def where(records: list[Record]) -> And:
        return And(Eq("tenantId", "tenant0"), Eq("sourceId", records[0].source_id))

    def rescope(records: list[Record]) -> None:
        store.update(COLLECTION, {"aclGroups": [f"group{len(records[0].text) % GROUPS}"]}, where=where(records))

    def replace(records: list[Record]) -> None:
        store.replace(COLLECTION, records, where=where(records))

    def bound(call: Callable[[list[Record]], None]) -> list[Callable[[], object]]:
        return [lambda records=records: call(records) for records in sources]  # type: ignore[misc] # bound at once

    found: dict[str, Any] = {"replace ms": timed(bound(replace)), "re-scope ms": timed(bound(rescope))}
    begin = time.perf_counter()
    gone = store.delete(COLLECTION, where=Eq("tenantId", "tenant1"))
    found["tenant removal ms"] = 1000 * (time.perf_counter() - begin)
    found["passages removed"] = gone
    begin = time.perf_counter()
    store.close()
    found["close with erasure s"] = time.perf_counter() - begin
    return found


def floor(corpus: Corpus) -> dict[str, float]:
    """Return the measured memory bandwidth, and the least time in which a scope's float32 vectors could be read."""
    block = np.ones(64_000_000, dtype=np.float32)
    spent = min(_seconds(block.sum) for _ in range(3))
    bandwidth = block.nbytes / spent
    return {"bandwidth GB/s": bandwidth / 1e9} | {
        f"{share:.2%} of vectors ms": 1000 * share * corpus.passages * DIMENSION * 4 / bandwidth for share in SHARES
    }


def _seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


STAGES: dict[str, Callable[[Corpus, Path], dict[str, Any]]] = {"load": load, "search": search, "writes": writes}


def shown(name: str, results: dict[str, Any]) -> None:
    """Print a stage's results."""
    print(f"\n## {name}")
    for key, value in results.items():
        if key != "rows":
            print(f"  {key:24} {_number(value)}")
    rows: dict[str, dict[str, Any]] = results.get("rows", {})
    if rows:
        columns = list(next(iter(rows.values())))
        print("\n  | scope | " + " | ".join(columns) + " |\n  |---|" + "---|" * len(columns))
        for share, row in rows.items():
            print(f"  | {share} | " + " | ".join(_number(row[column]) for column in columns) + " |")


def _number(value: Any) -> str:
    if isinstance(value, list):
        return " / ".join(f"{part:.2f}" for part in value)
    return f"{value:,.3f}" if isinstance(value, float) and value < 10 else f"{value:,.0f}"


def main() -> None:
    """Run the stages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--directory", type=Path, help="keep the library here and use it again")
    parser.add_argument("--rivals", action="store_true", help="measure what a user would pick instead, too")
    parser.add_argument("--stage", choices=[*STAGES], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    corpus = Corpus(arguments.passages)
    if arguments.stage:
        print(json.dumps(STAGES[arguments.stage](corpus, arguments.directory)))
        return
    directory = arguments.directory or Path(tempfile.mkdtemp()) / "library"
    print(f"# {arguments.passages:,} passages, {DIMENSION} dimensions, {os.cpu_count()} cores; ms: median / 95th")
    shown("floor", floor(corpus))
    for stage in ("load", "search", "writes"):
        if stage == "load" and (directory / "library.toml").exists():
            continue
        command = [sys.executable, __file__, "--passages", str(arguments.passages), "--directory", str(directory)]
        done = subprocess.run([*command, "--stage", stage], stdout=subprocess.PIPE, text=True, check=True)
        shown(stage, json.loads(done.stdout))
    if arguments.rivals:
        from rivals import RIVALS

        for name, measure in RIVALS.items():
            shown(f"rival: {name}", measure(corpus, Path(tempfile.mkdtemp())))
    if not arguments.directory:
        shutil.rmtree(directory.parent)


if __name__ == "__main__":
    main()
