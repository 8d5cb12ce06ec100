"""Neo4j as an engine of generations: passages and notes are nodes, and Cypher scores them inside the scope.

All that varies is a parameter; the statements are put together of words of this module alone. A note is written by a
statement that first takes the node's lock and then looks at what it holds.
"""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import neo4j
from neo4j import exceptions

from stackroom._errors import StoreError, StoreUnavailable
from stackroom.stores._tokens import Every, Form, Holds, HoldsAll, No, Some, digest
from stackroom.stores.generations import Found, Nearest, Place, Row, Stored, Worded
from stackroom.stores.generations._fields import PLACE, fields, place_of, stored_of, values_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from stackroom._model import Note

_SCHEMA: Final = (
    "CREATE CONSTRAINT stackroom_row IF NOT EXISTS FOR (r:StackroomRow) REQUIRE r.key IS UNIQUE",
    "CREATE CONSTRAINT stackroom_note IF NOT EXISTS FOR (n:StackroomNote) REQUIRE n.name IS UNIQUE",
    "CREATE INDEX stackroom_home IF NOT EXISTS FOR (r:StackroomRow) ON (r.home)",
    "CREATE INDEX stackroom_shelf IF NOT EXISTS FOR (r:StackroomRow) ON (r.shelf)",
)
_COSINE: Final = "vector.similarity.cosine(r.direction, $direction)"
_PRODUCT: Final = (
    "reduce(sum = 0.0, i IN range(0, size(r.numbers) - 1) | sum + "
    "CASE WHEN r.numbers[i] IN $numbers THEN r.weights[i] * $by_number[toString(r.numbers[i])] ELSE 0.0 END)"
)
_NOT_FOUND: Final = "Neo.ClientError.Statement.EntityNotFound"
_TRIES: Final = 20
_DROPPED: Final = 5_000
"""Nodes that are deleted in one transaction: bounds memory."""


class Neo4jEngine:
    """Rows as nodes of `StackroomRow`, notes as nodes of `StackroomNote`."""

    def __init__(
        self, driver: neo4j.Driver, *, database: str | None = None, manage_schema: bool = True, owns: bool = False
    ) -> None:
        if not isinstance(driver, neo4j.Driver):
            raise TypeError(f"driver must be a neo4j.Driver, not {type(driver).__name__}")
        self._driver = driver
        self._database = database
        self._owns = owns
        if manage_schema:
            for statement in _SCHEMA:
                self._ask(statement)
        (found,) = self._ask("RETURN vector.similarity.cosine([1.0, 0.0], [0.0, 1.0]) AS right_angle")
        self._from_zero = found["right_angle"] > 0.25  # noqa: PLR2004 - Neo4j says (1 + cosine) / 2, others the cosine

    def make_shelf(self, shelf: str, dimension: int) -> None:
        """Do nothing: nodes need no place made for them, and no vector index is used."""

    def drop_shelf(self, shelf: str) -> None:
        """Delete a shelf's nodes, some thousand at a time."""
        while self._ask(
            f"MATCH (r:StackroomRow {{shelf: $shelf}}) WITH r LIMIT {_DROPPED} DETACH DELETE r RETURN count(*) AS gone",
            shelf=shelf,
        )[0]["gone"]:
            pass

    def put(self, shelf: str, rows: Sequence[Row]) -> None:
        """Make nodes, all in one transaction."""
        self._ask(
            "UNWIND $rows AS row MERGE (r:StackroomRow {key: row.key}) SET r = row",
            rows=[_properties(shelf, row) for row in rows],
        )

    def erase(self, shelf: str, tenant: str, form: Form) -> None:
        """Delete nodes."""
        asked, values = _matched(shelf, tenant, form)
        self._ask(f"{asked} DETACH DELETE r", **values)

    def count(self, shelf: str, tenant: str, form: Form) -> int:
        """Count nodes."""
        asked, values = _matched(shelf, tenant, form)
        return int(self._ask(f"{asked} RETURN count(r) AS number", **values)[0]["number"])

    def places(self, shelf: str, tenant: str, form: Form) -> Iterator[Place]:
        """Return where nodes stand."""
        asked, values = _matched(shelf, tenant, form)
        return iter([place_of(found) for found in self._ask(f"{asked} RETURN {_columns(PLACE)}", **values)])

    def fetch(self, shelf: str, keys: Sequence[str], *, vectors: bool) -> Sequence[Stored]:
        """Return nodes by their keys."""
        columns = _columns(fields(vectors=vectors))
        found = self._ask(
            f"UNWIND $keys AS key MATCH (r:StackroomRow {{key: key}}) WHERE r.shelf = $shelf RETURN {columns}",
            keys=list(keys),
            shelf=shelf,
        )
        return [stored_of(row) for row in found]

    def best(
        self, shelf: str, tenant: str, form: Form, asked: Nearest | Worded, limit: int, *, vectors: bool
    ) -> Sequence[Found]:
        """Score all that is allowed, in the database."""
        matched, values = _matched(shelf, tenant, form)
        if isinstance(asked, Nearest):
            score, values["direction"] = _COSINE, asked.direction.tolist()
        else:
            score, values["numbers"] = _PRODUCT, list(asked.weights)
            values["by_number"] = {str(number): weight for number, weight in asked.weights.items()}
        columns = _columns(fields(vectors=vectors))
        found = self._ask(
            f"{matched} WITH r, {score} AS score ORDER BY score DESC LIMIT $limit RETURN score, {columns}",
            limit=limit,
            **values,
        )
        if isinstance(asked, Worded):
            return [Found(stored_of(row), row["score"]) for row in found if row["score"] > 0]
        return [
            Found(stored_of(row), 2 * row["score"] - 1 if self._from_zero else float(row["score"])) for row in found
        ]

    def remarks(self) -> tuple[Note, ...]:
        """Nothing: all is compared, and the leader is asked."""
        return ()

    # Notes

    def note(self, name: str) -> bytes | None:
        """Return a note."""
        found = self._ask("MATCH (n:StackroomNote {name: $name}) RETURN n.content AS content", name=name)
        return found[0]["content"].encode() if found else None

    def notes_of(self, prefix: str) -> Mapping[str, bytes]:
        """Return notes by the beginning of their names."""
        found = self._ask(
            "MATCH (n:StackroomNote) WHERE n.name STARTS WITH $prefix RETURN n.name AS name, n.content AS content",
            prefix=prefix,
        )
        return {note["name"]: note["content"].encode() for note in found}

    def write_note(self, name: str, content: bytes | None, expected: bytes | None) -> bool:
        """Write a note if it holds what is expected: under the node's lock, in one transaction."""
        stamp = secrets.token_hex(8)
        if expected is None:
            return content is None or self._made(name, content.decode(), stamp)
        held = (
            "MATCH (n:StackroomNote {name: $name}) SET n.stamp = $stamp WITH n WHERE n.content = $expected "
            + ("DETACH DELETE n " if content is None else "SET n.content = $content ")
            + "RETURN count(*) AS number"
        )
        values = {"name": name, "expected": expected.decode(), "stamp": stamp}
        if content is not None:
            values["content"] = content.decode()
        return bool(self._ask(held, **values)[0]["number"])

    def _made(self, name: str, content: str, stamp: str) -> bool:
        try:
            found = self._ask(
                "MERGE (n:StackroomNote {name: $name}) ON CREATE SET n.content = $content, n.made = $stamp "
                "RETURN n.made = $stamp AS is_mine",
                name=name,
                content=content,
                stamp=stamp,
            )
        except _Taken:
            return False
        return bool(found[0]["is_mine"])

    def close(self) -> None:
        """Close a driver of one's own."""
        if self._owns:
            self._driver.close()

    def _ask(self, statement: str, **values: Any) -> list[neo4j.Record]:
        """Run a statement in a transaction of its own, on the leader; the driver tries again what may be tried.

        ArcadeDB says that a node was not found when another transaction deletes it meanwhile: that is tried again, too.
        """
        for _ in range(_TRIES):
            try:
                with _errors():
                    return self._driver.execute_query(statement, values, database_=self._database).records
            except _Gone:
                continue
        raise StoreUnavailable("Neo4j did not come to an answer beside other writers; try again")


class _Gone(StoreError):
    """A node went while it was read."""


class _Taken(StoreError):
    """A name is taken already."""


@contextmanager
def _errors() -> Iterator[None]:
    """Say StoreUnavailable for what keeps the server from answering, StoreError for what it refuses; show no values."""
    try:
        yield
    except exceptions.ConstraintError:
        raise _Taken("Neo4j has such a node already") from None
    except exceptions.AuthError:
        raise StoreUnavailable("Neo4j refuses the user or the password") from None
    except (exceptions.DriverError, exceptions.TransientError, OSError) as error:
        raise StoreUnavailable(f"Neo4j does not answer ({type(error).__name__}); try again") from None
    except exceptions.Neo4jError as error:
        if error.code == _NOT_FOUND:
            raise _Gone("a node went meanwhile") from None
        kind = StoreUnavailable if error.is_retryable() else StoreError
        raise kind(f"Neo4j refused the call ({error.code})") from None


def _home(shelf: str, tenant: str) -> str:
    return f"{shelf}.{digest(tenant)}"


def _properties(shelf: str, row: Row) -> dict[str, Any]:
    return {
        **values_of(row),
        "shelf": shelf,
        "home": _home(shelf, row.tenant),
        "direction": row.direction.tolist(),
        "numbers": list(row.terms),
        "weights": list(row.terms.values()),
    }


def _matched(shelf: str, tenant: str, form: Form) -> tuple[str, dict[str, Any]]:
    """Return the statement's beginning that matches a condition's nodes, and its values."""
    values: dict[str, Any] = {}
    where = _where(form, values)
    home = {"home": _home(shelf, tenant), "tenant": tenant}
    return f"MATCH (r:StackroomRow {{home: $home}}) WHERE r.tenant = $tenant AND {where}", {**values, **home}


def _where(form: Form, values: dict[str, Any]) -> str:
    match form:
        case Holds(tokens):
            name = f"tokens{len(values)}"
            values[name] = sorted(tokens)
            return f"any(token IN r.tokens WHERE token IN ${name})"
        case HoldsAll(tokens):
            name = f"tokens{len(values)}"
            values[name] = sorted(tokens)
            return f"all(token IN ${name} WHERE token IN r.tokens)"
        case Every(parts):
            return "(" + " AND ".join(["true", *(_where(part, values) for part in parts)]) + ")"
        case Some(parts):
            return "(" + " OR ".join(["false", *(_where(part, values) for part in parts)]) + ")"
        case No(part):
            return f"(NOT {_where(part, values)})"


def _columns(names: Iterable[str]) -> str:
    return ", ".join(f"r.{name} AS {name}" for name in names)
