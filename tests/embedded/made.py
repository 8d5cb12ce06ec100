"""A store in a directory, with what most tests put there: records of one vector, by tenant and source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stackroom.filters import And, Eq, Filter
from stackroom.stores import CollectionSpec, EmbeddedStore, Record

T = Eq("tenantId", "t")


def record(tenant: str, source: str, index: int, text: str = "hello", vector: Any = (1, 0)) -> Record:
    return Record(text, vector, {"tenantId": tenant, "sourceId": source, "index": index})


def of(tenant: str, source: str) -> Filter:
    return And(Eq("tenantId", tenant), Eq("sourceId", source))


def made(path: Path, dimension: int = 2, **options: Any) -> EmbeddedStore:
    store = EmbeddedStore(path, **options)
    store.create_collection("c", CollectionSpec(dimension, "m"))
    return store
