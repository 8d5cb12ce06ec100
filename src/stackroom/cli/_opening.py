"""Opening the library that a command works on, with an embedder that fits it."""

from __future__ import annotations

import os
import re
import tomllib
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from stackroom import Library, StoreError
from stackroom.cli._problems import Refused
from stackroom.embedders import (
    Embedder,
    FastEmbedEmbedder,
    Fingerprint,
    FunctionEmbedder,
    HashingEmbedder,
    LocalEmbedder,
    Model2VecEmbedder,
    OpenAIEmbedder,
    SentenceTransformersEmbedder,
)
from stackroom.embedders._door import check_embedder
from stackroom.stores import EmbeddedStore, MemoryStore, PostgresStore, SqlStore
from stackroom.stores._dsn import lacks_its_file, open_database
from stackroom.stores._options import NoLibrary
from stackroom.stores.embedded._directory import FORMAT
from stackroom.stores.generations import GenerationStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike

COLLECTION: Final = "library"
"""The collection that `Library.open` opens by default."""

_FORMATS: Final = range(1, FORMAT + 1)

_PACKAGES: Final = ("sentence-transformers", "fastembed", "model2vec")
_OF_A_FOLDER: Final = re.compile(r"sha256=[0-9a-f]+(?:;pooling=[a-z_]+)?")

AnyStore: TypeAlias = EmbeddedStore | PostgresStore | SqlStore | GenerationStore


@dataclass(frozen=True, slots=True)
class Opened:
    """An open library and the store it stands on."""

    library: Library
    store: AnyStore


@contextmanager
def opened(
    place: Path | str,
    embedder: str | None,
    *,
    embeds: bool = False,
    makes: bool = False,
    makes_collections: bool = False,
) -> Iterator[Opened]:
    """Open the library in a directory, or in the database of a DSN; Refused when there is none, unless one is made.

    `makes_collections`: the command makes collections of its own beside the library.

    Without an embedder's name the library's own is taken, known by its fingerprint, and the local one for a new
    library. A command that embeds nothing works on any library, whatever its embedder.
    """
    is_there = _is_there(place) if makes else has_library(place)
    if not is_there and not makes:
        raise Refused(_no_library(place))
    if not is_there:  # first: one that cannot be had leaves no new directory, and no tables
        check_embedder(named_embedder(embedder or "local"))
    with closing(_store(place, makes=makes, makes_collections=makes_collections)) as store:
        if embedder is None:
            fitting = _own_embedder_of(store, place, embeds=embeds, makes=makes)
        else:
            _check_can_be_its_own(store, embedder)
            fitting = named_embedder(embedder)
        with Library(store, COLLECTION, fitting) as library:
            yield Opened(library, store)


def _store(place: Path | str, *, makes: bool, makes_collections: bool) -> AnyStore:
    if makes:
        return _made(place)
    store = store_that_holds(place, COLLECTION)
    if not isinstance(store, PostgresStore) or not makes_collections:
        return store
    store.close()  # it runs no DDL, and its collections are tables
    return _made(place)


def _is_there(place: Path | str) -> bool:
    """Tell whether a library is there; True, too, for what cannot be read: opening it says what is wrong."""
    try:
        store_that_holds(place, COLLECTION).close()
    except Refused:
        return False
    except StoreError:
        return True
    return True


def _made(place: Path | str) -> AnyStore:
    return open_database(place) if isinstance(place, str) else EmbeddedStore(place)


def store_that_holds(place: Path | str, collection: str) -> AnyStore:
    """Open a store that has a collection; Refused when it has not, and then no directory and no tables are made."""
    if isinstance(place, str):
        with suppress(NoLibrary):
            return _if_it_holds(open_database(place, manage_schema=False), place, collection)
    elif has_library(place, collection):
        return _if_it_holds(EmbeddedStore(place), place, collection)
    raise Refused(_no_library(place, collection))


def _if_it_holds(store: AnyStore, place: Path | str, collection: str) -> AnyStore:
    try:
        if store.collection(collection) is not None:
            return store
    except BaseException:
        store.close()
        raise
    store.close()
    raise Refused(_no_library(place, collection))


def dsn_of(place: Path | str) -> str:
    """Return the DSN of a place."""
    return place if isinstance(place, str) else f"embedded:{place}"


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


def check_is_there(place: Path | str) -> None:
    """Refuse a directory without a library, or a DSN of an SQLite file that is not there: opening it would make one."""
    if isinstance(place, Path):
        check_is_directory_with_library(place)
    elif lacks_its_file(place):
        raise Refused("there is no SQLite file, or no directory, of this name")


def has_library(place: Path | str, collection: str = COLLECTION) -> bool:
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
    return not is_readable or collection in collections


def _no_library(place: Path | str, collection: str = COLLECTION) -> str:
    where = "this database" if isinstance(place, str) else place
    if collection != COLLECTION:
        return f"no collection {collection} in {where}: name one that is there"
    return f"no library in {where}: make one with `stackroom index`, or name the directory or the DSN of one"


def _own_embedder_of(store: AnyStore, place: Path | str, *, embeds: bool, makes: bool) -> Embedder:
    spec = store.collection(COLLECTION)
    if spec is None and makes:
        return LocalEmbedder()
    if spec is None:  # dropped just now
        raise Refused(_no_library(place))
    fingerprint = Fingerprint.parse(spec.fingerprint)
    return _own_embedder(fingerprint) if embeds else _silent_embedder(fingerprint)


def _check_can_be_its_own(store: AnyStore, name: str) -> None:
    """Refuse the embedder of another kind or model before its server, key or package is asked for."""
    spec = store.collection(COLLECTION)
    kind, _, model = name.partition(":")
    if spec is None or kind not in {"openai", *_PACKAGES}:
        return
    fingerprint = Fingerprint.parse(spec.fingerprint)
    its_kind, _, its_model = fingerprint.id.partition(":")
    if its_kind != kind or (kind == "openai" and its_model != model):
        raise Refused(another_embedder(fingerprint, name))


def another_embedder(stored: Fingerprint, given: object) -> str:
    """Say that a library belongs to another embedder than the one that was given, and what to do."""
    return (
        f"this library belongs to the embedder {stored}, not to {given}: leave --embedder and STACKROOM_EMBEDDER away, "
        "so that the library's own is taken, or index into a new --library"
    )


def named_embedder(name: str) -> Embedder:
    """Make the embedder of a name that `--embedder` takes."""
    kind, _, detail = name.partition(":")
    if kind == "local":
        return LocalEmbedder()
    if kind == "openai":
        return _openai(detail)
    if kind in _PACKAGES:
        return _of_a_package(kind, detail)
    return HashingEmbedder(int(detail)) if detail else HashingEmbedder()


def _openai(model: str, dimension: int | None = None) -> OpenAIEmbedder:
    return OpenAIEmbedder(model, base_url=os.environ.get("OPENAI_BASE_URL"), dimension=dimension)


def _of_a_package(kind: str, model: str, dimension: int | None = None) -> Embedder:
    """Make the embedder of a package that runs models; `model` is a folder, a name, or of some a name@revision."""
    if kind == "fastembed":
        return FastEmbedEmbedder(model, dimension=dimension)
    if kind == "model2vec":
        return Model2VecEmbedder(model, dimension=dimension)
    name, at, revision = (model, "", "") if Path(model).is_dir() else model.partition("@")
    return SentenceTransformersEmbedder(name, revision=revision if at else None, dimension=dimension)


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
    if kind in _PACKAGES and _OF_A_FOLDER.fullmatch(model):
        raise Refused(
            f"this library belongs to the embedder {fingerprint}, a model in a folder: say where it is, "
            f"with --embedder {kind}:FOLDER or in STACKROOM_EMBEDDER"
        )
    if kind in _PACKAGES and ";" not in model:
        return _of_a_package(kind, model, fingerprint.dimension)
    raise Refused(
        f"this library belongs to the embedder {fingerprint}, which the command line does not have: "
        "use it from Python; what embeds nothing works here: listings, removals, `stackroom search --mode lexical`"
    )


def _silent_embedder(fingerprint: Fingerprint) -> Embedder:
    return FunctionEmbedder(_embed_nothing, id=fingerprint.id, dimension=fingerprint.dimension)


def _embed_nothing(_texts: list[str]) -> ArrayLike:
    raise Refused("this command embeds nothing")
