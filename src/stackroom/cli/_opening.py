"""Opening the library that a command works on, with an embedder that fits it."""

from __future__ import annotations

import os
import tomllib
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stackroom import Library
from stackroom.cli._problems import Refused
from stackroom.embedders import (
    Embedder,
    Fingerprint,
    FunctionEmbedder,
    HashingEmbedder,
    LocalEmbedder,
    OpenAIEmbedder,
)
from stackroom.stores import EmbeddedStore, MemoryStore, PostgresStore
from stackroom.stores.embedded._directory import FORMAT
from stackroom.stores.postgres._register import NoLibrary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike

COLLECTION: Final = "library"
"""The collection that `Library.open` opens by default."""

_EMBEDDED: Final = "embedded:"
_SQLITE: Final = "sql:sqlite:///"

_FORMATS: Final = range(1, FORMAT + 1)


@dataclass(frozen=True, slots=True)
class Opened:
    """An open library and the store it stands on."""

    library: Library
    store: EmbeddedStore | PostgresStore


@contextmanager
def opened(place: Path | str, embedder: str | None, *, embeds: bool = False, makes: bool = False) -> Iterator[Opened]:
    """Open the library in a directory, or in the database of a DSN; Refused when there is none, unless one is made.

    Without an embedder's name the library's own is taken, known by its fingerprint, and the local one for a new
    library. A command that embeds nothing works on any library, whatever its embedder.
    """
    is_there = has_library(place)
    if not is_there and not makes:
        raise Refused(_no_library(place))
    # Before the store: an embedder that cannot be had must leave no new directory behind.
    asked_for = None if is_there and embedder is None else named_embedder(embedder or "local")
    with closing(_store(place, makes=makes)) as store:
        fitting = asked_for or _own_embedder_of(store, place, embeds=embeds, makes=makes)
        with Library(store, COLLECTION, fitting) as library:
            yield Opened(library, store)


def _store(place: Path | str, *, makes: bool) -> EmbeddedStore | PostgresStore:
    """Open a store; a database without a library is Refused unless one is to be made, and gets no tables."""
    if not isinstance(place, str):
        return EmbeddedStore(place)
    with suppress(NoLibrary):
        store = PostgresStore(place, manage_schema=makes)
        if makes or store.collection(COLLECTION) is not None:
            return store
        store.close()
    raise Refused(_no_library(place))


@contextmanager
def opened_to_index(place: Path | str, embedder: str | None, *, writes: bool) -> Iterator[Library]:
    """Open the library to index into, made when missing.

    Without `writes` nothing is to be written or embedded: where there is none, one in memory stands for it.
    """
    if writes or has_library(place):
        with opened(place, embedder, embeds=writes, makes=writes) as there:
            yield there.library
        return
    with Library(MemoryStore(), COLLECTION, named_embedder(embedder or "local")) as nowhere:
        yield nowhere


def check_is_directory_with_library(place: Path | str) -> Path:
    """Return the directory when a library is there, else refuse: only indexing makes one. Nothing there is touched."""
    if isinstance(place, str):
        raise Refused("this looks after libraries in directories; a database is looked after by its own tools")
    if not has_library(place):
        raise Refused(_no_library(place))
    return place


def check_is_there(dsn: str) -> None:
    """Refuse a store's DSN that names a directory without a library, or no file: opening it would make one."""
    if dsn.startswith(_EMBEDDED):
        check_is_directory_with_library(Path(dsn.removeprefix(_EMBEDDED)))
    if dsn.startswith(_SQLITE) and not Path(dsn.removeprefix(_SQLITE).partition("?")[0]).exists():
        raise Refused("there is no SQLite file of this name")


def has_library(place: Path | str) -> bool:
    """Tell whether there is a library in a directory, touching nothing there; of a database only opening it tells.

    True, too, when its register cannot be read: opening it says what is wrong.
    """
    if isinstance(place, str):
        return True
    try:
        written = tomllib.loads((place / "library.toml").read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except ValueError:
        return True
    collections = written.get("collections", {})
    is_readable = written.get("format") in _FORMATS and isinstance(collections, dict)
    return not is_readable or COLLECTION in collections


def _no_library(place: Path | str) -> str:
    where = "this database" if isinstance(place, str) else place
    return f"no library in {where}: make one with `stackroom index`, or say where it is with --library DIR"


def _own_embedder_of(store: EmbeddedStore | PostgresStore, place: Path | str, *, embeds: bool, makes: bool) -> Embedder:
    spec = store.collection(COLLECTION)
    if spec is None and makes:
        return LocalEmbedder()
    if spec is None:  # dropped just now
        raise Refused(_no_library(place))
    fingerprint = Fingerprint.parse(spec.fingerprint)
    return _own_embedder(fingerprint) if embeds else _silent_embedder(fingerprint)


def named_embedder(name: str) -> Embedder:
    """Make the embedder of a name that `--embedder` takes."""
    kind, _, detail = name.partition(":")
    if kind == "local":
        return LocalEmbedder()
    if kind == "openai":
        return _openai(detail)
    return HashingEmbedder(int(detail)) if detail else HashingEmbedder()


def _openai(model: str, dimension: int | None = None) -> OpenAIEmbedder:
    return OpenAIEmbedder(model, base_url=os.environ.get("OPENAI_BASE_URL"), dimension=dimension)


def _own_embedder(fingerprint: Fingerprint) -> Embedder:
    if fingerprint == LocalEmbedder.fingerprint:
        return LocalEmbedder()
    hashing = HashingEmbedder(fingerprint.dimension)
    if fingerprint == hashing.fingerprint:
        return hashing
    kind, _, model = fingerprint.id.partition(":")
    if kind == "openai" and model:
        usual = _openai(model)
        return usual if usual.fingerprint == fingerprint else _openai(model, fingerprint.dimension)
    raise Refused(
        f"this library belongs to the embedder {fingerprint}, which the command line does not have: "
        "use it from Python, or search it with --mode lexical"
    )


def _silent_embedder(fingerprint: Fingerprint) -> Embedder:
    return FunctionEmbedder(_embed_nothing, id=fingerprint.id, dimension=fingerprint.dimension)


def _embed_nothing(_texts: list[str]) -> ArrayLike:
    raise Refused("this command embeds nothing")
