# mypy: disable-error-code="override"
"""The calls that the store makes of qdrant-client, on Qdrant's own core in this process (`qdrant-edge-py`).

What a server answers is what the core answers; what is missing here is the network and the cluster.
"""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import qdrant_edge as edge
from qdrant_client import QdrantClient, models


class EdgeClient(QdrantClient):
    """Collections as shards of the core, in a directory that goes with the client."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="stackroom-edge-")
        self._shards: dict[str, Any] = {}
        self._lock = threading.RLock()
        self._client = None  # type: ignore[assignment] # neither local mode nor a server

    def info(self) -> Any:
        return SimpleNamespace(version="1.18.0")

    def collection_exists(self, collection_name: str, **_: Any) -> bool:
        return collection_name in self._shards

    def create_collection(self, collection_name: str, vectors_config: Any = None, **options: Any) -> bool:
        path = Path(self._directory.name, collection_name)
        path.mkdir()
        vectors = {
            name: edge.EdgeVectorParams(size=params.size, distance=edge.Distance.Cosine)
            for name, params in (vectors_config or {}).items()
        }
        sparse = {name: edge.EdgeSparseVectorParams() for name in options.get("sparse_vectors_config") or {}}
        with self._lock:
            self._shards[collection_name] = edge.EdgeShard.create(
                str(path), edge.EdgeConfig(vectors=vectors, sparse_vectors=sparse)
            )
        return True

    def create_payload_index(self, collection_name: str, field_name: str, field_schema: Any = None, **_: Any) -> Any:
        assert field_schema is not None
        self._shard(collection_name).update(
            edge.UpdateOperation.create_field_index(field_name, edge.PayloadSchemaType.Keyword)
        )

    def delete_collection(self, collection_name: str, **_: Any) -> bool:
        with self._lock:
            self._shards.pop(collection_name, None)  # not closed: another thread may be reading it
        return True

    def upsert(self, collection_name: str, points: Any, **options: Any) -> Any:
        mode = {
            None: None,
            models.UpdateMode.INSERT_ONLY: edge.UpdateMode.InsertOnly,
            models.UpdateMode.UPDATE_ONLY: edge.UpdateMode.UpdateOnly,
        }[options.get("update_mode")]
        made = [edge.Point(point.id, _vectors(point.vector), point.payload) for point in points]
        self._shard(collection_name).update(
            edge.UpdateOperation.upsert_points(made, condition=_filter(options.get("update_filter")), update_mode=mode)
        )

    def delete(self, collection_name: str, points_selector: Any, **_: Any) -> Any:
        self._shard(collection_name).update(
            edge.UpdateOperation.delete_points_by_filter(_filter(points_selector.filter))
        )

    def count(self, collection_name: str, count_filter: Any = None, **_: Any) -> Any:
        asked = edge.CountRequest(exact=True, filter=_filter(count_filter))
        return SimpleNamespace(count=self._shard(collection_name).count(asked))

    def scroll(self, collection_name: str, scroll_filter: Any = None, limit: int = 10, **options: Any) -> Any:
        asked = edge.ScrollRequest(
            offset=options.get("offset"),
            limit=limit,
            filter=_filter(scroll_filter),
            with_payload=options["with_payload"],
        )
        return self._shard(collection_name).scroll(asked)

    def retrieve(self, collection_name: str, ids: Any, with_payload: Any = None, **_: Any) -> Any:
        return self._shard(collection_name).retrieve(list(ids), with_payload, False)

    def query_points(self, collection_name: str, query: Any = None, **options: Any) -> Any:
        named = edge.SparseVector(query.indices, query.values) if isinstance(query, models.SparseVector) else query
        asked = edge.QueryRequest(
            limit=options["limit"],
            query=edge.Query.Nearest(named, using=options["using"]),
            filter=_filter(options["query_filter"]),
            with_payload=options["with_payload"],
            params=edge.SearchParams(exact=options["search_params"].exact),
        )
        return SimpleNamespace(points=self._shard(collection_name).query(asked))

    def close(self, **_: Any) -> None:
        for name in list(self._shards):
            self.delete_collection(name)
        self._directory.cleanup()

    def _shard(self, name: str) -> Any:
        with self._lock:
            if name not in self._shards:
                raise ValueError(f"Collection {name} not found")
            return self._shards[name]


def _vectors(given: dict[str, Any]) -> dict[str, Any]:
    return {
        name: edge.SparseVector(vector.indices, vector.values) if isinstance(vector, models.SparseVector) else vector
        for name, vector in given.items()
    }


def _filter(given: models.Filter | None) -> Any:
    if given is None:
        return None
    return edge.Filter(**{name: _conditions(getattr(given, name)) for name in ("must", "should", "must_not")})


def _conditions(given: Any) -> Any:
    return None if given is None else [_condition(one) for one in given]


def _condition(given: Any) -> Any:
    if isinstance(given, models.Filter):
        return _filter(given)
    if isinstance(given, models.HasIdCondition):
        return edge.HasIdCondition(set(given.has_id))
    match = given.match
    if isinstance(match, models.MatchAny):
        return edge.FieldCondition(given.key, match=edge.MatchAny(match.any))
    return edge.FieldCondition(given.key, match=edge.MatchValue(match.value))
