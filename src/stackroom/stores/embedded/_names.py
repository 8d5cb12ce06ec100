"""Tenants become directory names: no traversal, no collision, also where a file system folds case or normal forms."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_PLAIN: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_DEVICES: Final = frozenset(
    {"con", "prn", "aux", "nul"} | {f"{port}{number}" for port in ("com", "lpt") for number in range(10)}
)
_UNFIT: Final = re.compile(r"[^a-z0-9_-]+")


def directory_name(tenant_id: str) -> str:
    """Return the one directory name of a tenant: itself when that is safe everywhere, else a part of it and a digest.

    A dot stands in every digested name and in no plain one, so the two kinds never meet. Names that Windows keeps for
    devices are digested. The digest (BLAKE2b, 20 bytes) is of the tenant's UTF-8 bytes.
    """
    if _PLAIN.fullmatch(tenant_id) and tenant_id not in _DEVICES:
        return tenant_id
    readable = _UNFIT.sub("", tenant_id)[:20]
    digest = hashlib.blake2b(tenant_id.encode(), digest_size=20).hexdigest()
    return f"t{readable}.{digest}"


def listed(directory: Path, pattern: str = "*") -> list[Path]:
    """Return what lies in a directory under names of a pattern, in order; nothing when it is gone, or goes just now."""
    try:
        return sorted(directory.glob(pattern))
    except FileNotFoundError:  # a directory removed while it is looked at; whether that is told depends on the Python
        return []
