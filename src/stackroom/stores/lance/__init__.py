"""LanceDB: a directory, or a bucket of an object store."""

from stackroom.stores.lance._store import LanceStore

__all__ = ["LanceStore"]
