"""The default store: one directory, one SQLite shard a tenant, and nothing to install but NumPy."""

from stackroom.stores.embedded._store import EmbeddedStore

__all__ = ["EmbeddedStore"]
