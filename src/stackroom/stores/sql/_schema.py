"""The statements that make a library's tables: for migrations."""

from __future__ import annotations


def schema_sql(database: str, *, prefix: str = "stackroom_") -> str:
    """Return the statements that make a library's tables, for a store that is opened with `manage_schema=False`.

    `database` is "sqlite", "postgresql", "mariadb" or "mysql". They may be run again and again.
    """
    from sqlalchemy.engine.url import URL
    from sqlalchemy.schema import CreateTable

    from stackroom.stores.sql._dialects import DIALECTS
    from stackroom.stores.sql._tables import check_prefix, tables

    if database not in DIALECTS:
        raise ValueError(f"database must be one of {', '.join(DIALECTS)}")
    dialect = URL.create(database).get_dialect()()
    made = [CreateTable(table, if_not_exists=True) for table in tables(check_prefix(prefix)).all]
    return "".join(f"{str(table.compile(dialect=dialect)).strip()};\n" for table in made)
