"""The built-in dense search beside each ranker: `python benchmarks/rankers.py --passages 100000`.

Every ranker in a process of its own, plugged into the same library; searches go through `Library.search` with
`mode="dense"`, embedding the query left out. Times are medians in milliseconds; recall@10 is against a store that
compares everything. What is built counts from an empty ranker to one that is owed nothing; one that takes longer than
`--patience` minutes for it is given up. Extras of the benchmark:
`pip install "stackroom[sqlite-vec,faiss,hnswlib,usearch]"`; rankers whose package is missing are left out.
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
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from corpus import SHARES, Corpus, scopes

from embedded import COLLECTION, GivenVectors, anonymous_memory, load, queries
from stackroom import Library, Scope
from stackroom.rankers import ExactRanker, FaissRanker, HnswRanker, SqliteVecRanker, UsearchRanker
from stackroom.stores import EmbeddedStore

RANKERS: dict[str, Any] = {
    "built in": None,
    "ExactRanker": ExactRanker,
    "FaissRanker": FaissRanker,
    "HnswRanker": HnswRanker,
    "UsearchRanker": UsearchRanker,
    "SqliteVecRanker": SqliteVecRanker,
}
LONGEST = 36_000.0
GIVEN_UP = 3


def measure(corpus: Corpus, directory: Path, name: str, patience: float) -> dict[str, Any]:
    """Measure one ranker, or the search that is built in. Ends the process when it is not built in time."""
    make = RANKERS[name]
    embedder = GivenVectors()
    ranker = None if make is None else make()
    before = anonymous_memory()
    store = EmbeddedStore(directory, ranker, ranker_timeout=LONGEST)
    giving_up = threading.Timer(60 * patience, lambda: os._exit(GIVEN_UP))
    giving_up.start()
    begin = time.perf_counter()
    owed = store.sync_ranker().owed
    giving_up.cancel()
    results: dict[str, Any] = {"build s": time.perf_counter() - begin, "owed": owed, "rows": {}}
    library = Library(store, COLLECTION, embedder)
    results["memory MB"] = anonymous_memory() - before
    exact = EmbeddedStore(directory, exact=True)
    reference = Library(exact, COLLECTION, embedder)
    asked = [vector for _, vector in queries(corpus)]
    for share in SHARES:
        among = scopes(corpus, share, 20)
        results["rows"][f"{share:.2%}"] = _row(library, reference, embedder, asked, among)
    results["memory after searches MB"] = anonymous_memory() - before
    library.close()
    store.close()
    exact.close()
    if ranker is not None:
        ranker.close()
    return results


def _row(library: Library, reference: Library, embedder: GivenVectors, asked: list[Any], among: list[Scope]) -> Any:
    spent, hits, wanted, short = [], 0, 0, 0
    for turn in range(2):  # the first round is not counted
        for place, vector in enumerate(asked):
            embedder.vector = vector
            scope = among[place % len(among)]
            begin = time.perf_counter()
            answer = library.search("text", scope=scope, mode="dense")
            if turn:
                spent.append(1000 * (time.perf_counter() - begin))
                near = {hit.id for hit in reference.search("text", scope=scope, mode="dense")}
                hits += len(near & {hit.id for hit in answer})
                wanted += len(near)
                short += any(note.code == "ranker_short" for note in answer.notes)
    return {
        "rows in scope": statistics.median(library.count(scope=scope) for scope in among),
        "p50 ms": statistics.median(spent),
        "p95 ms": statistics.quantiles(spent, n=20)[-1],
        "recall@10": hits / max(1, wanted),
        "completed by the store": short / len(asked),
    }


def shown(found: dict[str, dict[str, Any]]) -> None:
    """Print a table: a line a ranker, a column a scope."""
    shares = list(next(iter(found.values()))["rows"])
    print(
        "\n| | build, s | memory, MB | " + " | ".join(f"p50 at {share}" for share in shares) + " | lowest recall@10 |"
    )
    print("|---|" + "---|" * (len(shares) + 3))
    for name, results in found.items():
        rows = results["rows"].values()
        cells = " | ".join(f"{row['p50 ms']:.2f}" for row in rows)
        least = min(row["recall@10"] for row in rows)
        print(f"| {name} | {results['build s']:.1f} | {results['memory MB']:.0f} | {cells} | {least:.3f} |")


def shown_one(name: str, results: dict[str, Any]) -> None:
    """Print what was measured of one ranker."""
    print(
        f"\n## {name}: built in {results['build s']:.1f} s, owed {results['owed']},"
        f" memory {results['memory MB']:.0f} MB, after searches {results['memory after searches MB']:.0f} MB"
    )
    for share, row in results["rows"].items():
        print(f"  {share:8} " + "  ".join(f"{key} {value:.3f}" for key, value in row.items()))
    sys.stdout.flush()


def main() -> None:
    """Make the library, then measure each ranker in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--directory", type=Path, help="keep the library here and use it again")
    parser.add_argument("--rankers", nargs="*", default=[*RANKERS], choices=[*RANKERS])
    parser.add_argument("--patience", type=float, default=40.0, help="minutes in which a ranker must be built")
    parser.add_argument("--one", choices=[*RANKERS], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    corpus = Corpus(arguments.passages)
    if arguments.one:
        print(json.dumps(measure(corpus, arguments.directory, arguments.one, arguments.patience)))
        return
    directory = arguments.directory or Path(tempfile.mkdtemp()) / "library"
    print(f"# {arguments.passages:,} passages, {os.cpu_count()} cores; medians in milliseconds", flush=True)
    if not (directory / "library.toml").exists():
        load(corpus, directory)
    found = {}
    for name in arguments.rankers:
        command = [sys.executable, __file__, "--passages", str(arguments.passages), "--directory", str(directory)]
        command += ["--patience", str(arguments.patience)]
        done = subprocess.run([*command, "--one", name], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode == GIVEN_UP:
            print(f"\n## {name}: not built within {arguments.patience:g} minutes", flush=True)
        elif done.returncode:
            print(f"\n## {name}: could not be measured", flush=True)
        else:
            found[name] = json.loads(done.stdout)
            shown_one(name, found[name])
    if found:
        shown(found)
    if not arguments.directory:
        shutil.rmtree(directory.parent)


if __name__ == "__main__":
    main()
