"""What an auditor needs of a Library beyond any scope: this module alone reaches into one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from stackroom import Library
    from stackroom._reading import Reading


def reading_of(library: Library) -> Reading:
    """Return what reads the library's collection in its store, whoever may see what is there."""
    return library._reading  # noqa: SLF001 - an operator's view has no scope


def time_of(library: Library) -> datetime:
    """Return the time by the library's clock, which expiry goes by."""
    return library._time()  # noqa: SLF001 - nothing else tells the library's time
