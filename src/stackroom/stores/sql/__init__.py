"""The store in any SQL database, over SQLAlchemy: SQLite, PostgreSQL without pgvector, MariaDB, MySQL."""

from stackroom.stores.sql._schema import schema_sql
from stackroom.stores.sql._store import SqlStore

__all__ = ["SqlStore", "schema_sql"]
