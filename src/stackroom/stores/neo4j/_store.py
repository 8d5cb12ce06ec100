"""A library in Neo4j (extra `neo4j`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stackroom._packages import require_package
from stackroom.stores.generations import GenerationStore
from stackroom.stores.generations._store import LOCK_SECONDS

if TYPE_CHECKING:
    from neo4j import Driver


class Neo4jStore(GenerationStore):
    """A store in a database of Neo4j 5.18 or newer, or of another server that speaks Bolt and Cypher.

    A driver given is used, and left open unless `close_driver` says otherwise. Passages are nodes with the label
    `StackroomRow`, the store's notes `StackroomNote`; constraints and indexes for both are made at opening unless
    `manage_schema` is False. Every dense search compares all that is allowed, in the database: exact at any size of
    scope, and as slow as there is much.
    """

    def __init__(
        self,
        driver: Driver,
        *,
        database: str | None = None,
        manage_schema: bool = True,
        lock_timeout: float = LOCK_SECONDS,
        close_driver: bool = False,
    ) -> None:
        require_package("neo4j", "neo4j", "Neo4jStore", "the driver of Neo4j")
        from stackroom.stores.neo4j._engine import Neo4jEngine

        super().__init__(
            Neo4jEngine(driver, database=database, manage_schema=manage_schema, owns=close_driver),
            lexical="native",
            exact=True,
            durable=True,
            shared=True,
            lock_timeout=lock_timeout,
        )
