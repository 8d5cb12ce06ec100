"""The stores that ship, and what a store is."""

from stackroom.stores._protocol import (
    Capabilities,
    CollectionSpec,
    Cursor,
    LexicalQuery,
    Match,
    Matches,
    Page,
    Record,
    Support,
    VectorStore,
)
from stackroom.stores.embedded import EmbeddedStore
from stackroom.stores.lance import LanceStore
from stackroom.stores.memory import MemoryStore
from stackroom.stores.neo4j import Neo4jStore
from stackroom.stores.postgres import PostgresStore
from stackroom.stores.qdrant import QdrantStore
from stackroom.stores.sql import SqlStore

__all__ = [
    "Capabilities",
    "CollectionSpec",
    "Cursor",
    "EmbeddedStore",
    "LanceStore",
    "LexicalQuery",
    "Match",
    "Matches",
    "MemoryStore",
    "Neo4jStore",
    "Page",
    "PostgresStore",
    "QdrantStore",
    "Record",
    "SqlStore",
    "Support",
    "VectorStore",
]
