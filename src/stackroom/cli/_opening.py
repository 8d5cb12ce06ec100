"""Opening the library that a command works on, with an embedder that fits it."""

from __future__ import annotations

import os
import tomllib
from contextlib import closing, contextmanager
from dataclasses import dataclass
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
from stackroom.stores import EmbeddedStore, MemoryStore
from stackroom.stores.embedded._directory import FORMAT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import ArrayLike

COLLECTION: Final = "library"
"""The collection that `Library.open` opens by default."""

_FORMATS: Final = range(1, FORMAT + 1)


@dataclass(frozen=True, slots=True)
class Opened:
    """An open library and the store it stands on."""

    library: Library
    store: EmbeddedStore


@contextmanager
def opened(path: Path, embedder: str | None, *, embeds: bool = False, makes: bool = False) -> Iterator[Opened]:
    """Open the library in `path`; Refused when there is none, unless the command `makes` one.

    Without an embedder's name the library's own is taken, known by its fingerprint, and the local one for a new
    library. A command that embeds nothing works on any library, whatever its embedder.
    """
    is_there = has_library(path)
    if not is_there and not makes:
        raise Refused(_no_library(path))
    # Before the store: an embedder that cannot be had must leave no new directory behind.
    asked_for = None if is_there and embedder is None else named_embedder(embedder or "local")
    with closing(EmbeddedStore(path)) as store:
        fitting = asked_for or _own_embedder_of(store, path, embeds=embeds)
        with Library(store, COLLECTION, fitting) as library:
            yield Opened(library, store)


@contextmanager
def opened_to_index(path: Path, embedder: str | None, *, writes: bool) -> Iterator[Library]:
    """Open the library to index into, made when missing.

    Without `writes` nothing is to be written or embedded: where there is none, one in memory stands for it.
    """
    if writes or has_library(path):
        with opened(path, embedder, embeds=writes, makes=writes) as there:
            yield there.library
        return
    with Library(MemoryStore(), COLLECTION, named_embedder(embedder or "local")) as nowhere:
        yield nowhere


def check_library_exists(path: Path) -> None:
    """Refuse a place where no library is: only indexing makes one. Nothing there is touched."""
    if not has_library(path):
        raise Refused(_no_library(path))


def has_library(path: Path) -> bool:
    """Tell whether there is a library in a directory, touching nothing there.

    True, too, when its register cannot be read: opening it says what is wrong.
    """
    try:
        written = tomllib.loads((path / "library.toml").read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except ValueError:
        return True
    collections = written.get("collections", {})
    is_readable = written.get("format") in _FORMATS and isinstance(collections, dict)
    return not is_readable or COLLECTION in collections


def _no_library(path: Path) -> str:
    return f"no library in {path}: make one with `stackroom index`, or say where it is with --library DIR"


def _own_embedder_of(store: EmbeddedStore, path: Path, *, embeds: bool) -> Embedder:
    spec = store.collection(COLLECTION)
    if spec is None:  # dropped just now
        raise Refused(_no_library(path))
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
