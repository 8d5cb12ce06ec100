"""The hour that canaries live, by a library's clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from stackroom.auditing._canaries import LIFETIME
from stackroom.auditing._inside import time_of

if TYPE_CHECKING:
    from stackroom import Library

_TOO_LATE = "the canaries expired while the test ran: the library's clock moved by an hour; try it again"
_BACK = "the library's clock went back while the test ran: what has expired may have shown again, rightly"


@dataclass(slots=True)
class Hour:
    """The time from the planting of canaries to their expiry, and whether a library's clock kept within it."""

    library: Library
    begin: datetime
    is_late: bool = False
    went_back: bool = False

    @classmethod
    def begun(cls, library: Library) -> Hour:
        """Return the hour that begins now; a ValueError for a clock that is too near to the end of all time."""
        now = time_of(library)
        try:
            for moment in (now - LIFETIME - timedelta(days=1), now + LIFETIME + timedelta(days=1)):
                moment.astimezone(UTC)
        except OverflowError:
            raise ValueError(
                "the library's clock is at the edge of the years 1 to 9999, where nothing can expire: set it right"
            ) from None
        return cls(library, now)

    def is_on(self) -> bool:
        """Look at the clock; tell whether it is still the same hour."""
        now = time_of(self.library)
        self.is_late |= now >= self.begin + LIFETIME
        self.went_back |= now < self.begin
        return not (self.is_late or self.went_back)

    def problems(self) -> list[str]:
        """Return what was wrong with the clock, in words."""
        return [said for is_so, said in ((self.is_late, _TOO_LATE), (self.went_back, _BACK)) if is_so]
