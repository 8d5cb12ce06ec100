"""SqlStore on each of its databases, with the embedded store beside it: the same corpus, one run.

`python benchmarks/sql.py` loads the largest tenant of a corpus of 333,000 passages, which has 100,000, in batches of
about 2,000. It makes a file of SQLite and starts a PostgreSQL and a MariaDB of its own, with what they acknowledge on
disk. Milliseconds are medians of searches through a Library, in scopes as in `corpus.py` and, last, in the whole
tenant: passed, and in brackets spent by this process, which tells what a busy machine hides.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

import sqlalchemy as sa
from corpus import DIMENSION, SHARES, TENANTS, Corpus, scopes
from tests import mariadb_server, postgres_server

from embedded import COLLECTION, FINGERPRINT, GivenVectors, batches, queries
from stackroom import Library, Scope
from stackroom.filters import And, Eq, In
from stackroom.stores import CollectionSpec, EmbeddedStore, SqlStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stackroom.stores import Record, VectorStore

EVERY_GROUP = [f"group{number}" for number in range(200)]
POSTGRES = {"shared_buffers": "1GB", "max_wal_size": "8GB"}


def opened(name: str, held: ExitStack, directory: Path) -> VectorStore:
    """Open a store on a database of its own; what it takes ends with `held`."""
    if name == "embedded":
        return EmbeddedStore(directory / "library")
    if name == "sqlite":
        return SqlStore(f"sqlite:///{directory}/library.db", max_rows=None)
    if name == "postgresql":
        server = held.enter_context(postgres_server.running(settings=POSTGRES))
        url = sa.URL.create("postgresql+psycopg", "postgres", database="postgres", query={"host": str(server.sockets)})
        return SqlStore(url, max_rows=None)
    address = held.enter_context(mariadb_server.running(durable=True)).url
    engine = sa.create_engine(address)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE DATABASE library")
    engine.dispose()
    return SqlStore(sa.make_url(address).set(database="library"), max_rows=None)


def load(store: VectorStore, corpus: Corpus, tenants: int) -> float:
    """Write the largest tenants and return passages a second; the making of the corpus is not counted."""
    store.create_collection(COLLECTION, CollectionSpec(DIMENSION, str(FINGERPRINT)))
    spent = 0.0
    for tenant in range(tenants):
        for batch in batches(corpus, tenant):
            where = And(Eq("tenantId", f"tenant{tenant}"), In("sourceId", list({record.source_id for record in batch})))
            begin = time.perf_counter()
            store.replace(COLLECTION, batch, where=where)
            spent += time.perf_counter() - begin
    return sum(corpus.tenant_sizes[:tenants]) / spent


def search(store: VectorStore, corpus: Corpus, number: int) -> None:
    """Print what searches take, by how many passages are allowed."""
    embedder = GivenVectors()
    asked = queries(corpus)[:number]
    embedder.vector = asked[0][1]
    library = Library(store, COLLECTION, embedder)
    everything = [[Scope("tenant0", EVERY_GROUP)] * 20]
    print("| allowed | dense | words | hybrid | year filter |\n|---|---|---|---|---|")
    for among in [scopes(corpus, share, 20) for share in SHARES] + everything:

        def ask(place: int, among: list[Scope] = among, **options: Any) -> Callable[[], object]:
            texts, vector = asked[place]

            def call() -> object:
                embedder.vector = vector
                return library.search(texts["mixed"], scope=among[place % 20], **options)

            return call

        seen = statistics.median(library.count(scope=scope) for scope in among)
        kinds: list[dict[str, Any]] = [
            {"mode": "dense"},
            {"mode": "lexical"},
            {},
            {"mode": "dense", "where": {"year": {"$exists": False}}},
        ]
        shown = [timed([ask(place, **options) for place in range(len(asked))]) for options in kinds]
        print(f"| {seen:,.0f} | {' | '.join(shown)} |", flush=True)


def timed(calls: Sequence[Callable[[], object]]) -> str:
    """Return the medians of the time that calls take and of what this process spends, in ms, after the first few."""
    for call in calls[:3]:
        call()
    passed, spent = [], []
    for call in calls:
        begin, began = time.perf_counter(), time.process_time()
        call()
        passed.append(1000 * (time.perf_counter() - begin))
        spent.append(1000 * (time.process_time() - began))
    return f"{statistics.median(passed):.1f} ({statistics.median(spent):.1f})"


def writes(store: VectorStore, corpus: Corpus) -> None:
    """Print what single writes into the largest tenant take, and the removal of a tenant."""
    sources = [records[:10] for records, _ in zip(corpus.sources(0), range(40), strict=False) if len(records) >= 10]

    def of(source_id: str) -> And:
        return And(Eq("tenantId", "tenant0"), Eq("sourceId", source_id))

    def rescoping(records: list[Record]) -> Callable[[], object]:
        return lambda: store.update(COLLECTION, {"aclGroups": ["group3"]}, where=of(records[0].source_id))

    def replacing(records: list[Record]) -> Callable[[], object]:
        return lambda: store.replace(COLLECTION, records, where=of(records[0].source_id))

    rescope = timed([rescoping(records) for records in sources[:20]])
    replace = timed([replacing(records) for records in sources[:20]])
    begin = time.perf_counter()
    gone = store.delete(COLLECTION, where=Eq("tenantId", "tenant0"))
    removal = 1000 * (time.perf_counter() - begin)
    print(f"\nre-scope {rescope}, replace of 10 passages {replace}, removal of {gone:,} passages {removal:,.0f} ms")


def main() -> None:
    """Measure each database by itself, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=333_000)
    parser.add_argument("--tenants", type=int, default=1, choices=range(1, TENANTS + 1), metavar="1…50")
    parser.add_argument("--queries", type=int, default=20)
    every = ["embedded", "sqlite", "postgresql", "mariadb"]
    parser.add_argument("--sides", nargs="+", default=every, choices=every)
    arguments = parser.parse_args()
    corpus = Corpus(arguments.passages)
    number, machine = sum(corpus.tenant_sizes[: arguments.tenants]), f"{os.cpu_count()} cores, NumPy {np.__version__}"
    print(f"# {number:,} passages, {DIMENSION} dimensions, {machine}")
    for name in arguments.sides:
        with ExitStack() as held:
            directory = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="stackroom-bench-")))
            store = held.enter_context(closing(opened(name, held, directory)))
            busy, rate = os.getloadavg()[0], load(store, corpus, arguments.tenants)
            print(f"\n## {name}: {rate:,.0f} passages/s (load of the machine {busy:.1f})\n", flush=True)
            search(store, corpus, arguments.queries)
            writes(store, corpus)


if __name__ == "__main__":
    main()
