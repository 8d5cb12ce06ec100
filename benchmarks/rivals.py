"""What a user would pick instead, on the same corpus: each filters by tenant and groups inside the engine.

Only what has a wheel and runs in the process. Each is loaded in one go and asked the same questions.
"""

from __future__ import annotations

import os
import statistics
import time
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from corpus import DIMENSION, SHARES, TENANTS, TOPICS, Corpus, scopes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from stackroom import Scope
    from stackroom.stores import Record

QUERIES = 30


class Rival(Protocol):
    """An engine with the corpus in it."""

    def load(self, records: Iterable[Record]) -> None:
        """Write everything."""

    def dense(self, scope: Scope, vector: NDArray[np.float32]) -> list[str]:
        """Return the ids of the ten nearest in scope."""

    def lexical(self, scope: Scope, words: str) -> list[str] | None:
        """Return the ids of the ten best worded in scope, or None where the engine ranks no words."""


class LanceDB:
    """LanceDB: flat search with scalar indexes before it, and its full-text index."""

    def __init__(self, directory: Path) -> None:
        os.environ.setdefault("LANCEDB_LOG", "error")  # it warns at every search
        import lancedb

        self._database = lancedb.connect(str(directory))

    def load(self, records: Iterable[Record]) -> None:
        """Write everything, then make the indexes that a filtered search needs."""
        import pyarrow as pa

        schema = pa.schema(
            [
                pa.field("id", pa.string()),
                pa.field("tenant", pa.string()),
                pa.field("groups", pa.list_(pa.string())),
                pa.field("text", pa.string()),
                pa.field("vector", pa.list_(pa.float32(), DIMENSION)),
            ]
        )
        rows = [
            {
                "id": record.id,
                "tenant": record.tenant_id,
                "groups": record.metadata["aclGroups"],
                "text": record.text,
                "vector": record.vector,
            }
            for record in records
        ]
        self._table: Any = self._database.create_table(
            "passages", data=pa.Table.from_pylist(rows, schema), schema=schema
        )
        self._table.create_scalar_index("tenant", index_type="BITMAP")
        self._table.create_scalar_index("groups", index_type="LABEL_LIST")
        self._table.create_fts_index("text", use_tantivy=False)

    def _where(self, scope: Scope) -> str:
        groups = ", ".join(f"'{group}'" for group in scope.acl_groups)
        return f"tenant = '{scope.tenant_id}' AND array_has_any(groups, [{groups}])"

    def dense(self, scope: Scope, vector: NDArray[np.float32]) -> list[str]:
        """Search flat, the filter first."""
        found = self._table.search(vector).distance_type("cosine").where(self._where(scope), prefilter=True)
        return [str(row["id"]) for row in found.select(["id"]).limit(10).to_list()]

    def lexical(self, scope: Scope, words: str) -> list[str] | None:
        """Ask its full-text index, the filter first."""
        found = self._table.search(words, query_type="fts").where(self._where(scope), prefilter=True)
        return [str(row["id"]) for row in found.select(["id"]).limit(10).to_list()]


class Chroma:
    """Chroma: HNSW with a filter on metadata; a group is a boolean key, as it has no lists that can be filtered."""

    def __init__(self, directory: Path) -> None:
        import chromadb

        self._collection = chromadb.PersistentClient(str(directory)).create_collection(
            "passages", metadata={"hnsw:space": "cosine"}, embedding_function=None
        )

    def load(self, records: Iterable[Record]) -> None:
        """Write everything, 5,000 at a time."""
        batch: list[Record] = []
        for record in records:
            batch.append(record)
            if len(batch) == 5000:
                self._add(batch)
                batch = []
        if batch:
            self._add(batch)

    def _add(self, batch: list[Record]) -> None:
        self._collection.add(
            ids=[f"{record.tenant_id}/{record.id}" for record in batch],
            embeddings=np.stack([record.vector for record in batch if record.vector is not None]),
            metadatas=[
                {"tenant": record.tenant_id} | {str(group): True for group in record.metadata["aclGroups"]}  # type: ignore[union-attr] # a list
                for record in batch
            ],
        )

    def dense(self, scope: Scope, vector: NDArray[np.float32]) -> list[str]:
        """Ask for ten, filtered."""
        groups = [{group: True} for group in scope.acl_groups]
        where = {"$and": [{"tenant": scope.tenant_id}, {"$or": groups} if len(groups) > 1 else groups[0]]}
        found = self._collection.query(query_embeddings=[vector], n_results=10, where=where, include=[])
        return [name.split("/", 1)[1] for name in found["ids"][0]]

    def lexical(self, _scope: Scope, _words: str) -> list[str] | None:
        """Answer nothing: it ranks no words in the process."""
        return None


class SqliteVec:
    """sqlite-vec: vectors partitioned by tenant, the allowed rows by a join on groups."""

    def __init__(self, directory: Path) -> None:
        import apsw
        import sqlite_vec

        directory.mkdir(parents=True, exist_ok=True)
        self._database = apsw.Connection(str(directory / "vectors.db"))
        self._database.enable_load_extension(True)
        self._database.load_extension(sqlite_vec.loadable_path())

    def load(self, records: Iterable[Record]) -> None:
        """Write everything in one transaction, and the groups beside it."""
        database = self._database
        database.execute(
            f"CREATE VIRTUAL TABLE vectors USING vec0(tenant TEXT PARTITION KEY, row INTEGER PRIMARY KEY,"
            f" vector FLOAT[{DIMENSION}] DISTANCE_METRIC=cosine)"
        )
        database.execute("CREATE TABLE passage (row INTEGER PRIMARY KEY, id TEXT)")
        database.execute("CREATE TABLE acl (tenant TEXT, grp TEXT, row INTEGER, PRIMARY KEY (tenant, grp, row))")
        with database:
            for row, record in enumerate(records, start=1):
                vector = np.asarray(record.vector, dtype="<f4").tobytes()
                database.execute(
                    "INSERT INTO vectors (tenant, row, vector) VALUES (?, ?, ?)", (record.tenant_id, row, vector)
                )
                database.execute("INSERT INTO passage VALUES (?, ?)", (row, record.id))
                groups = [(record.tenant_id, str(group), row) for group in record.metadata["aclGroups"]]  # type: ignore[union-attr] # a list
                database.executemany("INSERT INTO acl VALUES (?, ?, ?)", groups)

    def dense(self, scope: Scope, vector: NDArray[np.float32]) -> list[str]:
        """Ask for ten of the tenant's rows that a group may see."""
        marks = ", ".join("?" * len(scope.acl_groups))
        query = (
            "SELECT passage.id FROM vectors JOIN passage USING (row) WHERE vector MATCH ? AND k = 10 AND tenant = ?"
            f" AND vectors.row IN (SELECT row FROM acl WHERE tenant = ? AND grp IN ({marks}))"
        )
        vectors = vector.astype("<f4").tobytes()
        found = self._database.execute(query, (vectors, scope.tenant_id, scope.tenant_id, *scope.acl_groups))
        return [str(name) for (name,) in found]

    def lexical(self, _scope: Scope, _words: str) -> list[str] | None:
        """Answer nothing: it knows no words."""
        return None


def measure(make: Callable[[Path], Rival], corpus: Corpus, directory: Path) -> dict[str, Any]:
    """Load the corpus and ask by share of the corpus in scope; what is not installed is said."""
    try:
        rival = make(directory / "rival")
    except ImportError as error:
        return {f"not installed: {error.name}": float("nan")}
    records = [record for tenant in range(TENANTS) for source in corpus.sources(tenant) for record in source]
    begin = time.perf_counter()
    rival.load(records)
    spent = time.perf_counter() - begin
    disk = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    results: dict[str, Any] = {"passages/s": corpus.passages / spent, "disk MB": disk / 1e6, "rows": {}}
    by_tenant = [record for record in records if record.tenant_id == "tenant0"]
    for share in SHARES:
        results["rows"][f"{share:.2%}"] = _asked(rival, corpus, by_tenant, scopes(corpus, share, 20))
    return results


def _asked(rival: Rival, corpus: Corpus, records: list[Record], among: list[Scope]) -> dict[str, Any]:
    chance = np.random.default_rng(17)
    vectors = corpus.vectors(chance, chance.integers(0, TOPICS, QUERIES))
    matrix = np.stack([record.vector for record in records if record.vector is not None])
    dense, lexical, hits, wanted = [], [], 0, 0
    for place, vector in enumerate(vectors):
        scope = among[place % len(among)]
        begin = time.perf_counter()
        found = rival.dense(scope, vector)
        dense.append(1000 * (time.perf_counter() - begin))
        near = _nearest(records, matrix, scope, vector)
        hits, wanted = hits + len(near & set(found)), wanted + len(near)
        words = " ".join(corpus.text(chance, 0).split()[:40:10])
        begin = time.perf_counter()
        if rival.lexical(scope, words) is not None:
            lexical.append(1000 * (time.perf_counter() - begin))
    row: dict[str, Any] = {"dense": _both(dense), "recall@10": hits / max(1, wanted)}
    return row | ({"lexical any": _both(lexical)} if lexical else {})


def _both(spent: list[float]) -> list[float]:
    return [statistics.median(spent), statistics.quantiles(spent, n=20)[-1]]


def _nearest(records: list[Record], matrix: NDArray[np.float32], scope: Scope, vector: NDArray[np.float32]) -> set[str]:
    groups = set(scope.acl_groups)
    seen = [place for place, record in enumerate(records) if groups & set(record.metadata["aclGroups"])]  # type: ignore[arg-type] # a list
    scores = matrix[seen] @ vector
    return {records[seen[place]].id for place in np.argsort(-scores)[:10]}


RIVALS: dict[str, Callable[[Corpus, Path], dict[str, Any]]] = {
    "LanceDB": lambda corpus, directory: measure(LanceDB, corpus, directory),
    "sqlite-vec": lambda corpus, directory: measure(SqliteVec, corpus, directory),
    "Chroma": lambda corpus, directory: measure(Chroma, corpus, directory),
}
