"""Packages of extras: looked for before they are needed, and named with the line that installs them."""

from __future__ import annotations

from importlib.util import find_spec


def require_package(module: str, extra: str, who: str, package: str | None = None) -> None:
    """Find a package without importing it, which may take seconds; ImportError with the pip line when it is missing.

    `package` is how people know it, when that is not the extra's name.
    """
    try:
        found = find_spec(module)
    except (ImportError, ValueError):
        found = None
    if found is None:
        needed = package or f"the package {extra}"
        raise ImportError(f'{who} needs {needed}: pip install "stackroom[{extra}]"', name=module)
