"""What an audit found: by door and mode, and in all."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Leak:
    """One thing that a caller was shown and had no right to: by which door, and what the two were. It names nobody."""

    door: str
    mode: str | None
    caller: str
    what: str


@dataclass(frozen=True, slots=True)
class DoorReport:
    """What came through one door in one mode (None where a door has no modes).

    `calls`: how often it was tried. `expected`: how many canaries the callers had a right to; `found`: how many of
    these came. `shown`: all that came; `leaked`: how much of it the caller had no right to. `dropped`: what the store
    answered and the check took out. `is_refused`: the store cannot do this and said so.
    """

    door: str
    mode: str | None
    calls: int
    expected: int
    found: int
    shown: int
    leaked: int
    dropped: int
    is_refused: bool

    @property
    def recall(self) -> float | None:
        """The share of what was expected that was found, 0…1; None when nothing was expected."""
        return _share(self.found, self.expected)

    @property
    def leak_rate(self) -> float:
        """The share of what was shown that leaked, 0…1; 0 when nothing was shown."""
        return _share(self.leaked, self.shown) or 0.0


@dataclass(frozen=True, slots=True)
class LeakReport:
    """What a leak test found.

    `doors`: all doors and modes, in the order tried. `canaries` passages were planted, and `callers` came. `leaks`: the
    first of what leaked. `problems`: why it is not green, in words; none of them, and nothing else, makes it green.
    """

    doors: tuple[DoorReport, ...]
    canaries: int
    callers: int
    leaks: tuple[Leak, ...]
    problems: tuple[str, ...]

    @property
    def is_green(self) -> bool:
        """True when all was checked, everything rightful was found, nothing else, and all was cleaned up."""
        return not self.problems

    @property
    def calls(self) -> int:
        """How many calls were made."""
        return sum(door.calls for door in self.doors)

    @property
    def leaked(self) -> int:
        """How much leaked."""
        return sum(door.leaked for door in self.doors)

    @property
    def dropped(self) -> int:
        """How much the store leaked that the check took out."""
        return sum(door.dropped for door in self.doors)

    @property
    def leak_rate(self) -> float:
        """The share of all that was shown that leaked, 0…1; 0 when nothing was shown."""
        return _share(self.leaked, sum(door.shown for door in self.doors)) or 0.0

    @property
    def recall(self) -> float:
        """The share of all that was expected that was found, 0…1; 0 when nothing was expected."""
        return _share(sum(door.found for door in self.doors), sum(door.expected for door in self.doors)) or 0.0


def problems_of(doors: tuple[DoorReport, ...], *, is_late: bool = False) -> list[str]:
    """Return what the doors show to be wrong, in words; when it was too late, nothing missing is wrong.

    Of a door that a store refused at times, all that did come through counts.
    """
    tried = [door for door in doors if not door.is_refused]
    untried = [_name(door) for door in tried if not door.calls]
    blind = [_name(door) for door in tried if door.calls and not door.expected]
    found: list[tuple[object, str]] = [
        (not any(door.calls for door in tried), "nothing was checked"),
        (untried, f"not checked: {', '.join(untried)}"),
        (blind, f"nothing was expected, so that nothing found says nothing: {', '.join(blind)}"),
        (leaked := sum(door.leaked for door in doors), f"{leaked} passages or sources leaked"),
        (
            dropped := sum(door.dropped for door in doors),
            f"the check dropped {dropped} hits: the store leaks, and only the second lock held",
        ),
        (
            missing := 0 if is_late else sum(door.expected - door.found for door in doors),
            f"{missing} that callers may see were not found: what hides everything leaks nothing either",
        ),
    ]
    return [problem for is_there, problem in found if is_there]


def _name(door: DoorReport) -> str:
    return door.door if door.mode is None else f"{door.door} ({door.mode})"


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
