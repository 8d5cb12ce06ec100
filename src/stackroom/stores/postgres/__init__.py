"""The store in a PostgreSQL database with pgvector."""

from stackroom.stores.postgres._schema import schema_sql
from stackroom.stores.postgres._store import PostgresStore

__all__ = ["PostgresStore", "schema_sql"]
