"""The options that commands share. cyclopts reads these types at run time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from cyclopts import Group, Parameter
from cyclopts.validators import Number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cyclopts import Token

_SHARED = Group("Library", sort_key=9)
_NARROWING = Group("Narrowing", sort_key=5)
_SCOPE = Group("Scope", sort_key=1)

DEFAULT_LIBRARY = Path("library")

Tier: TypeAlias = Literal["hot", "warm", "cold"]


def _whole_number(_kind: type, tokens: Sequence[Token]) -> int:
    """Read an int; cyclopts would round 1.5."""
    return int(tokens[0].value)


Library: TypeAlias = Annotated[
    Path,
    Parameter(
        name="--library",
        group=_SHARED,
        env_var="STACKROOM_LIBRARY",
        metavar="DIR",
        help="The library's directory.",
    ),
]
Embedder: TypeAlias = Annotated[
    str | None,
    Parameter(
        name="--embedder",
        group=_SHARED,
        env_var="STACKROOM_EMBEDDER",
        metavar="NAME",
        show_default="the library's own; local for a new one",
        help="local, hashing or hashing:DIMENSION.",
    ),
]
Json: TypeAlias = Annotated[
    bool, Parameter(name="--json", group=_SHARED, show_default=False, help="Print one JSON document and nothing else.")
]

Tenant: TypeAlias = Annotated[
    str, Parameter(name="--tenant", group=_SCOPE, metavar="TENANT", help="The tenant; no command reaches another one.")
]
Groups: TypeAlias = Annotated[
    tuple[str, ...],
    Parameter(
        name="--group", group=_SCOPE, metavar="GROUP", help="An access group; give it several times for several groups."
    ),
]

Kinds: TypeAlias = Annotated[
    tuple[str, ...],
    Parameter(name="--kind", group=_NARROWING, metavar="KIND", show_default=False, help="Only this kind; or several."),
]
Folders: TypeAlias = Annotated[
    tuple[str, ...],
    Parameter(
        name="--folder", group=_NARROWING, metavar="FOLDER", show_default=False, help="Only this folder; or several."
    ),
]
AllTags: TypeAlias = Annotated[
    tuple[str, ...],
    Parameter(
        name="--tag",
        group=_NARROWING,
        metavar="TAG",
        show_default=False,
        help="Only with this tag; with all of several.",
    ),
]
SourceIds: TypeAlias = Annotated[
    tuple[str, ...],
    Parameter(
        name="--source", group=_NARROWING, metavar="SOURCE", show_default=False, help="Only this source; or several."
    ),
]
Tiers: TypeAlias = Annotated[
    tuple[Tier, ...],
    Parameter(name="--tier", group=_NARROWING, metavar="TIER", show_default=False, help="Only this tier; or several."),
]

SourceId: TypeAlias = Annotated[str, Parameter(name="SOURCE", help="The source's id, as `stackroom sources` lists it.")]
Number1To10000: TypeAlias = Annotated[
    int, Parameter(converter=_whole_number, validator=Number(gte=1, lte=10_000), metavar="NUMBER")
]
