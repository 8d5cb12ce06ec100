"""The options of index_folder, checked before anything is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from stackroom._values import unstorable_at
from stackroom.indexing._loaders import shipped_loaders
from stackroom.text._arguments import require_size

if TYPE_CHECKING:
    from stackroom.indexing._loaders import Loader


def check_folder_options(
    *,
    sizes: Mapping[str, object],
    overlap_chars: object,
    budget_chars: object,
    price: object,
    encoding: object,
    flags: Mapping[str, object],
    source_prefix: object,
) -> None:
    """Raise a ValueError, TypeError or LookupError for the first option that breaks its rule."""
    for name, size in sizes.items():
        require_size(name, size, least=1)
    require_size("overlap_chars", overlap_chars, least=0)
    if budget_chars is not None:
        require_size("budget_chars", budget_chars, least=0)
    _check_price(price)
    check_encoding(encoding)
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise TypeError(f"{name} must be True or False, not {type(flag).__name__}")
    if not isinstance(source_prefix, str):
        raise TypeError(f"source_prefix must be a string, not {type(source_prefix).__name__}")
    if unstorable_at(source_prefix) is not None:
        raise ValueError("source_prefix has NUL or a lone surrogate; no store can hold it")


def _check_price(price: object) -> None:
    if price is None:
        return
    if isinstance(price, bool) or not isinstance(price, int | float):
        raise TypeError(f"price_per_million_tokens must be a number or None, not {type(price).__name__}")
    if not math.isfinite(price) or price < 0:
        raise ValueError("price_per_million_tokens must be a finite number of at least 0")


def check_encoding(encoding: object) -> None:
    """Raise LookupError for an encoding that there is not, or that is none of text."""
    if not isinstance(encoding, str):
        raise TypeError(f"encoding must be a string, not {type(encoding).__name__}")
    with suppress(UnicodeError):
        b"a".decode(encoding)


def suffix_loaders(given: object, max_chars: int, overlap_chars: int) -> dict[str, Loader]:
    """Return the loaders that ship, by lower-cased suffix, and over them those given."""
    found = shipped_loaders(max_chars, overlap_chars)
    if given is None:
        return found
    if not isinstance(given, Mapping):
        raise TypeError(f"loaders must be a mapping of suffixes to functions, not {type(given).__name__}")
    for suffix, loader in given.items():
        if not isinstance(suffix, str):
            raise TypeError(f"a suffix in loaders must be a string, not {type(suffix).__name__}")
        if not suffix.startswith(".") or len(suffix) == 1:
            raise ValueError('a suffix in loaders begins with a dot, such as ".rst"')
        if not callable(loader):
            raise TypeError(f"a loader must be a function of bytes and an encoding, not {type(loader).__name__}")
        found[suffix.lower()] = loader
    return found
