"""Qdrant: a server or a cluster, or the client's own local mode."""

from stackroom.stores.qdrant._store import QdrantStore

__all__ = ["QdrantStore"]
