"""When what failed is tried again, and what a feed's health says of that."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stackroom.stores.embedded._book import Standing
    from stackroom.stores.embedded._turns import Report

_FIRST_WAIT: Final = 5
_LONGEST_WAIT: Final = 300
"""Seconds until what failed is tried again: 5, doubling, at most 300."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def wait_of(level: int) -> int:
    """Return the microseconds until the next try, when `level` tries have failed."""
    return 1_000_000 * min(_FIRST_WAIT << min(level - 1, 16), _LONGEST_WAIT)


def microseconds(moment: datetime) -> int:
    """Return an aware time as microseconds since 1970, in UTC."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def earliest(moments: Iterable[int | None]) -> datetime | None:
    """Return the earliest of some times, None when there is none."""
    there = [moment for moment in moments if moment is not None]
    return _EPOCH + timedelta(microseconds=min(there)) if there else None


def newest_error(tries: Sequence[Standing | Wait]) -> str | None:
    """Return the kind of the failure after which the next try is latest: the newest, as far as can be told."""
    failed = [(one.next_try or 0, one.last_error) for one in tries if one.last_error]
    return max(failed)[1] if failed else None


@dataclass(slots=True)
class Wait:
    """How tries to deliver what is owed of a tenant that is gone went, and when the next one is due."""

    failures: int = 0
    last_error: str | None = None
    owed_since: int | None = None
    next_try: int | None = None
    level: int = 0

    def is_over(self, now: int) -> bool:
        """Tell whether it is time to try again."""
        return self.next_try is None or now >= self.next_try

    def hear(self, report: Report, now: int) -> None:
        """Take in how calls went."""
        for kind in report.outcomes:
            self.failures = 0 if kind is None else self.failures + 1
        failed = [kind for kind in report.outcomes if kind is not None]
        if failed:
            self.level += 1
            self.last_error, self.owed_since = failed[-1], self.owed_since or now
            self.next_try = now + wait_of(self.level)
        elif report.outcomes:
            self.failures, self.last_error, self.owed_since, self.next_try, self.level = 0, None, None, None, 0
