"""What goes wrong in LanceDB, as a store says it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import filelock

from stackroom._errors import StoreError, StoreUnavailable
from stackroom.stores.generations import ShelfIsGone

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def errors() -> Iterator[None]:
    """Say ShelfIsGone for a table that is gone, StoreUnavailable for what the files refuse; show no values."""
    try:
        yield
    except (StoreError, filelock.Timeout):
        raise
    except FileNotFoundError:
        raise ShelfIsGone from None
    except (RuntimeError, OSError, ValueError) as error:
        if "not found" in str(error).lower():
            raise ShelfIsGone from None
        raise StoreUnavailable(f"LanceDB refused the call ({type(error).__name__}); try again") from None
