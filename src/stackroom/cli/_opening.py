"""Opening the library that a command works on, with an embedder that fits it."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from stackroom import Library
from stackroom.cli._problems import Refused, WrongUsage
from stackroom.embedders import Embedder, Fingerprint, FunctionEmbedder, HashingEmbedder, LocalEmbedder
from stackroom.stores import EmbeddedStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import ArrayLike

COLLECTION: Final = "library"
"""The collection that `Library.open` opens by default."""


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
    if not makes:
        check_library_exists(path)
    with closing(EmbeddedStore(path)) as store:
        fitting = _fitting_embedder(store, embedder, embeds=embeds)
        with Library(store, COLLECTION, fitting) as library:
            yield Opened(library, store)


def check_library_exists(path: Path) -> None:
    """Refuse a place where nothing is: reading must not make a library."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        raise Refused(f"no library in {path}: make one with `stackroom index`, or say where it is with --library DIR")


def _fitting_embedder(store: EmbeddedStore, name: str | None, *, embeds: bool) -> Embedder:
    if name is not None:
        return _named_embedder(name)
    spec = store.collection(COLLECTION)
    if spec is None:
        return LocalEmbedder()
    fingerprint = Fingerprint.parse(spec.fingerprint)
    return _own_embedder(fingerprint) if embeds else _silent_embedder(fingerprint)


def _named_embedder(name: str) -> Embedder:
    kind, _, dimension = name.partition(":")
    if name == "local":
        return LocalEmbedder()
    if name == "hashing":
        return HashingEmbedder()
    if kind == "hashing" and dimension.isascii() and dimension.isdigit() and len(dimension) <= len("65536"):
        return HashingEmbedder(int(dimension))
    raise WrongUsage("--embedder must be local, hashing or hashing:DIMENSION.")


def _own_embedder(fingerprint: Fingerprint) -> Embedder:
    if fingerprint == LocalEmbedder.fingerprint:
        return LocalEmbedder()
    hashing = HashingEmbedder(fingerprint.dimension)
    if fingerprint == hashing.fingerprint:
        return hashing
    raise Refused(
        f"this library belongs to the embedder {fingerprint}, which the command line does not have: "
        "use it from Python, or search it with --mode lexical"
    )


def _silent_embedder(fingerprint: Fingerprint) -> Embedder:
    return FunctionEmbedder(_embed_nothing, id=fingerprint.id, dimension=fingerprint.dimension)


def _embed_nothing(_texts: list[str]) -> ArrayLike:
    raise Refused("this command embeds nothing")
