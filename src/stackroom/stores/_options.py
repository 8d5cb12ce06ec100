"""What a store of a database is told at its making, and how long what it keeps may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stackroom import _keys as keys
from stackroom._errors import StoreError
from stackroom.stores import _door

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stackroom._values import MetadataValue

_LONGEST: Final = 512
"""Characters of an id, kind, folder, group or tag: what fits into a key of an index, whatever the characters."""

_INDEXED: Final = frozenset({keys.TENANT, keys.SOURCE, keys.KIND, keys.FOLDER, keys.GROUPS, keys.TAGS})

_LONG: Final = 86_400

_MOST: Final = 2**31
"""More rows than any answer holds, and few enough for the database to count."""


class NoLibrary(StoreError):
    """There are no tables of ours, and none are to be made."""


def check_flags(**flags: object) -> None:
    """Raise a ValueError for a flag that is no bool."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be True or False, not {type(value).__name__}")


def check_seconds(name: str, value: object, *, least: float) -> None:
    """Raise a ValueError for what is no number of seconds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < _LONG:
        raise ValueError(f"{name} must be a number of seconds of {least} to {_LONG:,}")


def check_lengths(metadata: Mapping[str, MetadataValue | None]) -> None:
    """Refuse what does not fit into the key of an index, whatever its characters are."""
    for key in _INDEXED & metadata.keys():
        value = metadata[key]
        if any(len(str(item)) > _LONGEST for item in (value if isinstance(value, list) else [value])):
            raise ValueError(f"{key} is longer than {_LONGEST} characters, more than this store keeps")


def check_limit(limit: object) -> int:
    """Return a limit that the database can count to and that cuts off the same; ValueError when it is none."""
    return min(_door.check_limit(limit), _MOST)
