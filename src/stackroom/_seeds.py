"""The seed that the random tests of the conformance kit draw with."""

from __future__ import annotations

import os
from typing import Final

SEED_VARIABLE: Final = "STACKROOM_KIT_SEED"
_USUAL_SEED: Final = 20240501


def seed_of_this_run() -> int:
    """Return the environment's STACKROOM_KIT_SEED, or always the same; ValueError when it is no whole number."""
    given = os.environ.get(SEED_VARIABLE) or str(_USUAL_SEED)
    if not (given.isascii() and given.isdigit()):
        raise ValueError(f"{SEED_VARIABLE} must be a whole number of at least 0, in digits")
    return int(given)
