"""What an embedder is, and the fingerprint it is known by."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence  # noqa: TC003 - typing.get_type_hints(Embedder) must find it
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from numpy.typing import ArrayLike  # noqa: TC002 - typing.get_type_hints(Embedder) must find it

from stackroom._values import unstorable_at
from stackroom.text import is_blank
from stackroom.text._arguments import is_whole_number

MAX_DIMENSION = 65_536
MAX_ID_CHARS = 200


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The name of everything that changes vectors (model, revision, pooling, prompts, quantisation) and their length.

    ``id`` is not blank, holds no control characters and no lone surrogates, and has at most 200 characters;
    ``dimension`` is an int of 1 to 65,536. Anything else is a ValueError. Where a server stands is no part of the id.
    """

    id: str
    dimension: int

    def __post_init__(self) -> None:
        problem = _id_problem(self.id) or _dimension_problem(self.dimension)
        if problem is not None:
            raise ValueError(f"a fingerprint's {problem}")

    def __str__(self) -> str:
        return f"{self.id}@{self.dimension}"

    @classmethod
    def parse(cls, text: str) -> Fingerprint:
        """Read what ``str`` wrote, splitting at the last ``@``; a ValueError says that it is no fingerprint."""
        if not isinstance(text, str):
            raise ValueError(f"a fingerprint is read from a str, not {type(text).__name__}")
        name, at, digits = text.rpartition("@")
        if not at or not (digits.isascii() and digits.isdigit()):
            raise ValueError('a fingerprint is written "<id>@<dimension>", the dimension in ASCII digits')
        return cls(name, int(digits))


def _id_problem(name: object) -> str | None:
    if not isinstance(name, str):
        return f"id must be a str, not {type(name).__name__}"
    if is_blank(name):
        return "id must not be blank: name the model and all that changes its vectors"
    if len(name) > MAX_ID_CHARS:
        return f"id must have at most {MAX_ID_CHARS} characters, not {len(name)}"
    if unstorable_at(name) is not None or any(unicodedata.category(char) == "Cc" for char in name):
        return "id must not hold control characters or lone surrogates"
    return None


def _dimension_problem(dimension: object) -> str | None:
    if not is_whole_number(dimension):
        return f"dimension must be an int, not {type(dimension).__name__}"
    if not 1 <= dimension <= MAX_DIMENSION:
        return f"dimension must be from 1 to {MAX_DIMENSION}"
    return None


def limit_problem(name: str, value: object) -> str | None:
    """Say why a value is no limit (None, or an int of at least 1, no bool), or None when it is one."""
    if value is None or (is_whole_number(value) and value >= 1):
        return None
    if is_whole_number(value):
        return f"{name} must be at least 1; use None where there is no limit"
    return f"{name} must be None or an int of at least 1, not of type {type(value).__name__}"


@runtime_checkable
class Embedder(Protocol):
    """What turns texts into vectors. Structural: a class with these members is one, whatever it derives from.

    Four optional members are looked at when present:

    * ``max_batch: int | None``: the most texts of one call; the caller's batch size is lowered to it.
    * ``max_concurrency: int | None``: how many calls at a time it bears; absent or None: no limit of its own.
    * ``provider: str``: for reports; "custom" when absent.
    * ``tokens_used: int``: a counter that only grows; reports show its difference.

    Both methods may take a keyword parameter ``cancel``. It receives the caller's CancelToken, and is left out when
    the caller has none, so give it the default None. Unless ``max_concurrency`` is 1, calls come from several threads.
    """

    @property
    def fingerprint(self) -> Fingerprint:
        """What vectors of this embedder are known by. Read once, and never changes."""

    @property
    def max_input_chars(self) -> int | None:
        """The longest text that its vectors cover whole, in characters; None: not declared."""

    def embed_passages(self, texts: Sequence[str]) -> ArrayLike:
        """Return the vectors of stored texts, shape (n, dimension). `texts` is a tuple of at least one."""

    def embed_query(self, text: str) -> ArrayLike:
        """Return the vector of a search's text, shape (dimension,)."""
