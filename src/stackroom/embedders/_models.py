"""What embedders of models from a hub or a folder share: names, ids, loading once, and vectors of unknown words.

A hub's name is part of a fingerprint's id as it stands. A folder is known by a digest of its files, never by its path
or name, so that a copy of it is the same model on every machine.
"""

from __future__ import annotations

import os
import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import file_digest, sha256
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import numpy as np

from stackroom._errors import EmbedderError
from stackroom.embedders._hashing import slot_of
from stackroom.embedders._protocol import Fingerprint, limit_problem
from stackroom.text import is_blank

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

Made = TypeVar("Made")

PROBE: Final = "dimension"
"""The text whose vector tells a model's dimension."""

_HUB_NAME = re.compile(r"[a-z0-9][\w.-]{0,95}(?:/[a-z0-9][\w.-]{0,95})?", re.ASCII | re.IGNORECASE)
_REVISION = re.compile(r"[a-z0-9][\w./-]{0,63}", re.ASCII | re.IGNORECASE)
_DIGEST_CHARS = 32

# About what a token of English covers, with the space behind it; of Chinese and Japanese it is one or two.
_CHARS_PER_TOKEN = 4

# Tokenizers without a limit say 10^30.
_MOST_TOKENS = 10_000_000


@dataclass(frozen=True, slots=True)
class ModelPlace:
    """Where a model is: a name on a hub, with a revision or not, or a folder."""

    given: str
    revision: str | None = None
    is_folder: bool = False

    @classmethod
    def of(cls, model: str | os.PathLike[str], revision: str | None = None) -> ModelPlace:
        """Read what a caller gave: an existing folder, else the name of a model on the hub.

        ValueError: it is blank, an address, or no revision is one. EmbedderError: it is a path, and no folder is there.
        """
        given = _text_of(model)
        if revision is not None and not (isinstance(revision, str) and _REVISION.fullmatch(revision)):
            raise ValueError("revision must be the name of a branch, a tag or a commit of the model")
        if os.path.isdir(given):  # noqa: PTH112 - Path.is_dir raises where a name is too long for a path
            if revision is not None:
                raise ValueError("a folder has no revisions; leave revision away")
            return cls(str(Path(given).absolute()), is_folder=True)
        if isinstance(model, str) and _HUB_NAME.fullmatch(given):
            return cls(given, revision)
        raise EmbedderError(f"there is no folder {given!r}; save the model there, or give the model's name on the hub")

    def __str__(self) -> str:
        if self.is_folder:
            return f"the folder {self.given}"
        return self.given if self.revision is None else f"{self.given}@{self.revision}"

    def id(self, prefix: str, *details: str | None) -> str:
        """Return a fingerprint's id: the prefix, the name or a digest of the folder's files, and what else counts."""
        name = f"sha256={_digest_of(Path(self.given))}" if self.is_folder else str(self)
        return ";".join([f"{prefix}:{name}", *(detail for detail in details if detail is not None)])


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model as its package loaded it, what it is known by, and how long a text may be."""

    model: Any
    fingerprint: Fingerprint
    max_input_chars: int | None


class Once(Generic[Made]):
    """Makes a thing when it is first asked for, once, while others who ask wait; a failure is tried anew."""

    def __init__(self, make: Callable[[], Made]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: Made | None = None

    def __call__(self) -> Made:
        """Return the thing."""
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made


@contextmanager
def loading(place: ModelPlace, package: str) -> Iterator[None]:
    """Turn whatever a package raises while it loads a model into an EmbedderError that says what to do.

    Its own words stay in ``__cause__``: they may hold a hub's address with what only its user should see.
    """
    try:
        yield
    except EmbedderError:
        raise
    except ImportError as error:
        raise EmbedderError(f"{package} cannot load {place}, since a package is missing: {error}") from error
    except Exception as error:
        what_to_do = (
            f"save it there in the format of {package}"
            if place.is_folder
            else "check the name; without network it must be in the hub's cache, so load it once with network, or give "
            "the folder that holds it"
        )
        raise EmbedderError(f"{package} cannot load {place} ({type(error).__name__}): {what_to_do}") from error


def fingerprint_of(id_: str, learned: int, asked: int | None) -> Fingerprint:
    """Return the fingerprint of a model whose vectors have `learned` components.

    EmbedderError when `asked` components cannot be had, because the model has fewer.
    """
    if asked is not None and learned != asked:
        raise EmbedderError(f"the model has {learned} dimensions, so its vectors cannot be cut to dimension={asked}")
    return Fingerprint(id_, learned)


def chars_of(tokens: object) -> int | None:
    """Return about how many characters a model's limit covers; None when it has none that means one."""
    return tokens * _CHARS_PER_TOKEN if isinstance(tokens, int) and 1 <= tokens <= _MOST_TOKENS else None


def with_directions(vectors: NDArray[Any], texts: Sequence[str]) -> NDArray[np.float32]:
    """Give a text that the model knows no word of, whose vector is all zeros, one of its own.

    It is that of HashingEmbedder for a text without words: 1 at the slot of the text's hash, 0 elsewhere. Zeros would
    have no direction, and so the whole source would be refused.
    """
    rows = np.array(vectors, dtype=np.float32)
    for row in np.flatnonzero(~rows.any(axis=1)).tolist():
        rows[row, slot_of(texts[row], rows.shape[1])] = 1.0
    return rows


def check_options(
    *,
    id: str | None,  # noqa: A002 - named as the callers' option
    dimension: int | None = None,
    prompts: tuple[str | None, str | None] = (None, None),
    **limits: object,
) -> None:
    """Refuse with ValueError an id or a dimension that no fingerprint has, a prompt that is no str, a wrong limit."""
    Fingerprint("any" if id is None else id, 1 if dimension is None else dimension)
    for name, prompt in zip(("query_prompt", "passage_prompt"), prompts, strict=True):
        if prompt is not None and not isinstance(prompt, str):
            raise ValueError(f"{name} must be a str, not {type(prompt).__name__}")
    for name, value in limits.items():
        problem = limit_problem(name, value)
        if problem is not None:
            raise ValueError(problem)


def prompts_id(query: str | None, passage: str | None) -> str | None:
    """Return how an id names prompts that were given; they may be long, so by a digest. None: the model's own."""
    if query is None and passage is None:
        return None
    return f"prompts={sha256(dumps([query, passage]).encode()).hexdigest()[:16]}"


def _text_of(model: object) -> str:
    if not isinstance(model, str | os.PathLike):
        raise ValueError(f"model must be the name of a model or a folder, not {type(model).__name__}")
    given = os.fspath(model)
    if not isinstance(given, str) or is_blank(given):
        raise ValueError("model must be the name of a model on the hub, such as org/name, or a folder that holds one")
    if "://" in given:  # which may hold a password
        raise ValueError("model must be a name or a folder, no address")
    return given


def _digest_of(folder: Path) -> str:
    """Return a digest of a folder's files: their paths below it and what is in them.

    Hidden files and Markdown are left out: they hold what a download or an author notes about a model, and change no
    vector. Everything else counts, so that a model that differs is never taken for the same.
    """
    digest = sha256()
    for name, path in sorted((path.relative_to(folder).as_posix(), path) for path in folder.rglob("*")):
        if (
            path.is_file()
            and path.suffix.lower() != ".md"
            and not any(part.startswith(".") for part in name.split("/"))
        ):
            with path.open("rb") as file:
                digest.update(f"{file_digest(file, 'sha256').hexdigest()} {name}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:_DIGEST_CHARS]
