"""Neo4j, and what else speaks Bolt and Cypher."""

from stackroom.stores.neo4j._store import Neo4jStore

__all__ = ["Neo4jStore"]
