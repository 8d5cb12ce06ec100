"""Failures as they are met: to make an example small takes nearly all of the time, where it is not what is tested."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from hypothesis import Phase, settings

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def without_shrinking() -> Iterator[None]:
    """Take the first example that fails, meanwhile."""
    usual = settings.get_current_profile_name()
    settings.register_profile("no shrinking", settings.default, phases=[Phase.explicit, Phase.generate])
    settings.load_profile("no shrinking")
    try:
        yield
    finally:
        settings.load_profile(usual)
