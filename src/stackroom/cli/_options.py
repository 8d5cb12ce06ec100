"""The options that commands share. cyclopts reads these types at run time."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from cyclopts import Group, Parameter

from stackroom.cli._problems import WrongUsage
from stackroom.stores._dsn import FORMS, looks_like_dsn, names_a_database
from stackroom.text import is_blank

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cyclopts import Token

_SHARED = Group("Library", sort_key=9)
_NARROWING = Group("Narrowing", sort_key=5)
_SCOPE = Group("Scope", sort_key=1)

_DIGITS = re.compile(r"[0-9]{1,9}")
_HIGHEST_NUMBER = 10_000
_EMBEDDER = re.compile(
    r"local|hashing(?::[0-9]{1,5})?|openai:\S+|(?:sentence-transformers|fastembed|model2vec):\S(?:.*\S)?"
)
_EMBEDDERS = (
    "local, hashing, hashing:DIMENSION, openai:MODEL, sentence-transformers:MODEL, fastembed:MODEL or model2vec:MODEL, "
    "the last three with a model's name or its folder"
)

_EMBEDDED = "embedded:"
_MEMORY = "memory:"

DEFAULT_LIBRARY = Path("library")

Tier: TypeAlias = Literal["hot", "warm", "cold"]


def not_blank(what: str) -> Callable[[type, str | Iterable[str] | None], None]:
    """Return a validator that refuses a blank text, alone or among several, as wrong usage of `what`."""

    def check(_kind: type, given: str | Iterable[str] | None) -> None:
        texts = [given] if isinstance(given, str) else given or ()
        if any(is_blank(text) for text in texts):
            raise WrongUsage(f"{what} is empty.")

    return check


def _number_1_to_10000(_kind: type, tokens: Sequence[Token]) -> int:
    """Read a whole number; cyclopts would round 1.5, and int() reads 1_0."""
    token = tokens[0]
    if _DIGITS.fullmatch(token.value) and 1 <= int(token.value) <= _HIGHEST_NUMBER:
        return int(token.value)
    raise WrongUsage(f"{token.keyword} takes a whole number of 1 to {_HIGHEST_NUMBER:,}.")


def _whole_number(_kind: type, tokens: Sequence[Token]) -> int:
    """Read a whole number of at least 0; cyclopts would round 1.5, and int() reads 1_0."""
    token = tokens[0]
    if not re.fullmatch(r"[0-9]{1,15}", token.value):
        raise WrongUsage(f"{token.keyword} takes a whole number of at least 0.")
    return int(token.value)


def _name_of_embedder(_kind: type, name: str | None) -> None:
    if name is not None and not _EMBEDDER.fullmatch(name):
        raise WrongUsage(f"--embedder must be {_EMBEDDERS}.")


def _place_of(what: str, *, may_be_memory: bool = False) -> Callable[[type, Sequence[Token]], Path | str]:
    """Return a converter that reads a directory's path, also behind `embedded:`, or another DSN, which stays a str.

    What looks like a DSN and is none is refused, lest a directory be made of that name. It may hold a secret, which
    must not come back in an error.
    """

    def read(_kind: type, tokens: Sequence[Token]) -> Path | str:
        given = tokens[0].value
        not_blank(what)(str, given)  # an empty one would be where the reader stands
        if names_a_database(given) or (may_be_memory and given == _MEMORY):
            return given
        if given == _MEMORY:
            raise WrongUsage(f"{what} cannot be memory:, where nothing is kept; {_what_it_takes(what)}")
        directory = given.removeprefix(_EMBEDDED)
        if is_blank(directory) or looks_like_dsn(directory):
            raise WrongUsage(f"{_what_it_takes(what)} This looks like a DSN and is none of them.")
        return Path(directory)

    return read


def _what_it_takes(what: str) -> str:
    return f"{what} takes a directory (./NAME when its name has a colon), or {FORMS}."


def _narrowing(name: str, help_text: str) -> Parameter:
    """Return an option that may be given several times and takes sources away."""
    return Parameter(
        name=f"--{name}",
        group=_NARROWING,
        metavar=name.upper(),
        validator=not_blank(f"--{name}"),
        show_default=False,
        help=help_text,
    )


def _library(help_text: str) -> Parameter:
    return Parameter(
        name="--library",
        group=_SHARED,
        env_var="STACKROOM_LIBRARY",
        metavar="DIR",
        converter=_place_of("--library"),
        help=help_text,
    )


def store(name: str, help_text: str, *, may_be_memory: bool = False) -> Parameter:
    """Return an argument that names where a library stands."""
    return Parameter(name=name, converter=_place_of(name, may_be_memory=may_be_memory), help=help_text)


Library: TypeAlias = Annotated[
    Path | str,
    _library("The library's directory, or a database: postgresql://…, sql:URL, qdrant://…, neo4j://… or lance:DIR."),
]
LibraryInDirectory: TypeAlias = Annotated[Path | str, _library("The library's directory.")]
Embedder: TypeAlias = Annotated[
    str | None,
    Parameter(
        name="--embedder",
        group=_SHARED,
        env_var="STACKROOM_EMBEDDER",
        metavar="NAME",
        validator=_name_of_embedder,
        show_default="the library's own; local for a new one",
        help=f"The embedder: {_EMBEDDERS}.",
    ),
]
NewEmbedder: TypeAlias = Annotated[
    str,
    Parameter(
        name="EMBEDDER",
        validator=_name_of_embedder,
        help=f"The new embedder: {_EMBEDDERS}.",
    ),
]
Json: TypeAlias = Annotated[
    bool, Parameter(name="--json", group=_SHARED, show_default=False, help="Print one JSON document and nothing else.")
]

Tenant: TypeAlias = Annotated[
    str,
    Parameter(
        name="--tenant",
        group=_SCOPE,
        metavar="TENANT",
        validator=not_blank("--tenant"),
        help="The tenant; no command reaches another one.",
    ),
]
Groups: TypeAlias = Annotated[
    tuple[str, ...],
    Parameter(
        name="--group",
        group=_SCOPE,
        metavar="GROUP",
        validator=not_blank("--group"),
        help="An access group; give it several times for several groups.",
    ),
]

Kinds: TypeAlias = Annotated[
    tuple[str, ...],
    _narrowing("kind", "Only sources of this kind; given several times, of any of these kinds."),
]
Folders: TypeAlias = Annotated[
    tuple[str, ...],
    _narrowing("folder", "Only sources in this folder; given several times, in any of these folders."),
]
AllTags: TypeAlias = Annotated[
    tuple[str, ...],
    _narrowing("tag", "Only sources with this tag; given several times, with all of these tags."),
]
SourceIds: TypeAlias = Annotated[
    tuple[str, ...],
    _narrowing("source", "Only the source of this id; given several times, any of these sources."),
]
Tiers: TypeAlias = Annotated[
    tuple[Tier, ...],
    Parameter(
        name="--tier",
        group=_NARROWING,
        metavar="TIER",
        show_default=False,
        help="Only sources of this tier; given several times, of any of these tiers.",
    ),
]

SourceId: TypeAlias = Annotated[
    str,
    Parameter(name="SOURCE", validator=not_blank("SOURCE"), help="The source's id, as `stackroom sources` lists it."),
]
FolderToFileIn: TypeAlias = Annotated[
    str | None, Parameter(name="--folder", metavar="FOLDER", validator=not_blank("--folder"), show_default=False)
]
TagsToGive: TypeAlias = Annotated[
    tuple[str, ...], Parameter(name="--tag", metavar="TAG", validator=not_blank("--tag"), show_default=False)
]
Number1To10000: TypeAlias = Annotated[int, Parameter(converter=_number_1_to_10000, metavar="NUMBER")]
WholeNumber: TypeAlias = Annotated[int, Parameter(converter=_whole_number)]
