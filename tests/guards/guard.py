"""What a guard is, and the arguments that run the tests which must see it go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LIBRARY: Final = "tests/library/test_library_"
KIT: Final = "tests/stores/test_conformance.py"


@dataclass(frozen=True, slots=True)
class Guard:
    """One guard: its name, where it stands, what stands there without it, and the tests that see it go."""

    name: str
    module: str
    text: str
    instead: str
    tests: tuple[str, ...]

    def __str__(self) -> str:
        return self.name


def kit(store: str, *groups: str) -> tuple[str, ...]:
    """Return the arguments that run groups of the conformance kit on one of our stores."""
    return f"{KIT}::Test{store}", "-k", " or ".join(f"test_{group}" for group in groups)


def library(*files: str) -> tuple[str, ...]:
    """Return the arguments that run files of the Library's tests."""
    return tuple(f"{LIBRARY}{name}.py" for name in files)
