"""DSNs of stores over other people's clients: `scheme://user:password@host:port/path?options`, or `scheme:DIRECTORY`.

What is wrong is said without any of what was given, which may hold a password or a key.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from stackroom._packages import require_package
from stackroom.stores._options import NoLibrary
from stackroom.stores.lance import LanceStore
from stackroom.stores.neo4j import Neo4jStore
from stackroom.stores.qdrant import QdrantStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from qdrant_client import QdrantClient

    from stackroom.stores.generations import GenerationStore


class Opener(Protocol):
    """Opens the store of a DSN, given with what stands behind its scheme."""

    def __call__(self, dsn: str, rest: str, /, *, makes: bool = True) -> GenerationStore:
        """Open it; without `makes` nothing is made, and NoLibrary may say that there is none."""
        ...


TRUTHS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Address:
    """A DSN, parted."""

    scheme: str
    user: str | None
    password: str | None
    host: str
    port: int | None
    path: str
    options: dict[str, Any]


def parted(dsn: str, options: Mapping[str, Callable[[str], Any]]) -> Address:
    """Part a DSN; ValueError when it has no host, or an option that is unknown, twice there, or of another type."""
    try:
        split = urlsplit(dsn)
        port = split.port
    except ValueError:
        raise ValueError("the DSN cannot be read: escape what is no letter or digit in names and passwords") from None
    if not split.hostname or split.fragment:
        raise ValueError("the DSN names no host, or holds a # that is not escaped (%23)")
    found: dict[str, Any] = {}
    for name, value in parse_qsl(split.query, keep_blank_values=True):
        if name not in options or name in found:
            raise ValueError(f"an option in the DSN is unknown, or there twice; there are {', '.join(options)}")
        try:
            found[name] = options[name](value)
        except (ValueError, KeyError):
            raise ValueError(f"in the DSN, {name} has a value that it cannot have") from None
    return Address(
        split.scheme,
        None if split.username is None else unquote(split.username),
        None if split.password is None else unquote(split.password),
        split.hostname,
        port,
        unquote(split.path.removeprefix("/")),
        found,
    )


def open_qdrant(dsn: str, rest: str, *, makes: bool = True) -> QdrantStore:
    """Open `qdrant://[KEY@]HOST[:PORT]`, or `qdrant:DIRECTORY` in the client's local mode.

    Without `makes` nothing is made: NoLibrary when there is none.
    """
    require_package("qdrant_client", "qdrant", "QdrantStore", "qdrant-client")
    from qdrant_client import QdrantClient

    if not rest.startswith("//"):
        if not rest.strip():
            raise ValueError("qdrant: wants a directory behind the colon, or //HOST")
        if not makes:
            _check_is_there(rest)
        return QdrantStore(QdrantClient(path=rest), close_client=True)
    address = parted(
        dsn, {"prefix": str, "tls": TRUTHS.__getitem__, "exact_limit": int, "lock_timeout": float, "timeout": int}
    )
    options = dict(address.options)
    client = QdrantClient(
        host=address.host,
        port=address.port or 6333,
        https=options.pop("tls", address.user is not None),
        api_key=address.user,
        timeout=options.pop("timeout", 60),
        check_compatibility=False,
    )
    if not makes:
        _check_has_notes(client, options.get("prefix") or "stackroom")
    return QdrantStore(client, close_client=True, **options)


def _check_has_notes(client: QdrantClient, prefix: str) -> None:
    from stackroom.stores.qdrant._engine import has_notes

    try:
        if has_notes(client, prefix):
            return
    except BaseException:
        client.close()
        raise
    client.close()
    raise NoLibrary("there is no library of Stackroom's in this Qdrant")


def _check_is_there(directory: str) -> None:
    if not Path(directory).is_dir():
        raise NoLibrary("there is no directory of this name")


def open_neo4j(dsn: str, _rest: str, *, makes: bool = True) -> Neo4jStore:
    """Open `neo4j://USER:PASSWORD@HOST[:PORT][/DATABASE]`, or with another scheme of the driver's."""
    require_package("neo4j", "neo4j", "Neo4jStore", "the driver of Neo4j")
    import neo4j

    address = parted(dsn, {"manage_schema": TRUTHS.__getitem__, "lock_timeout": float})
    port = "" if address.port is None else f":{address.port}"
    auth = None if address.user is None else (address.user, address.password or "")
    driver = neo4j.GraphDatabase.driver(f"{address.scheme}://{address.host}{port}", auth=auth)
    options = {"manage_schema": makes, **address.options}
    try:
        return Neo4jStore(driver, database=address.path or None, close_driver=True, **options)
    except BaseException:
        driver.close()
        raise


def open_lance(_dsn: str, rest: str, *, makes: bool = True) -> LanceStore:
    """Open `lance:DIRECTORY`, or `lance:` and a URI. Without `makes` no directory is made."""
    if not rest.strip():
        raise ValueError("lance: wants a directory or a URI behind the colon, such as lance:library")
    if not makes and "://" not in rest:
        _check_is_there(rest)
    return LanceStore(rest)


OPENERS: Final[Mapping[str, Opener]] = {
    "qdrant": open_qdrant,
    "neo4j": open_neo4j,
    "neo4j+s": open_neo4j,
    "bolt": open_neo4j,
    "bolt+s": open_neo4j,
    "lance": open_lance,
}
