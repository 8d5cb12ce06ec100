"""A pytest plugin that takes one guard out: `STACKROOM_WITHOUT=[module, text, instead] pytest -p tests.guards.without`.

The module's source is read as it stands, the text replaced, and the result imported in its place; no file changes.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType

VARIABLE: Final = "STACKROOM_WITHOUT"


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, text: str, instead: str) -> None:
        super().__init__(name, path)
        self._text, self._instead = text, instead

    def get_code(self, _fullname: str) -> CodeType | None:
        source = Path(self.path).read_text(encoding="utf-8")
        return self.source_to_code(without(source, self._text, self._instead).encode(), self.path)


class _Finder(MetaPathFinder):
    def __init__(self, module: str, text: str, instead: str) -> None:
        self._module, self._text, self._instead = module, text, instead

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname == self._module else None
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(fullname, spec.origin, self._text, self._instead)
        return spec


def without(source: str, text: str, instead: str) -> str:
    """Return a source with the one place that holds `text` changed; ValueError when it is not there exactly once."""
    if source.count(text) != 1:
        raise ValueError(f"the guard stands {source.count(text)} times in the source, not once: {text!r}")
    return source.replace(text, instead)


def _take_out(module: str, text: str, instead: str) -> None:
    """Put the finder first; what it changes must not have been imported yet."""
    if module in sys.modules:
        raise RuntimeError(f"{module} is imported already")
    sys.meta_path.insert(0, _Finder(module, text, instead))


if VARIABLE in os.environ:  # when the plugin is imported: before any conftest, which imports what is to be changed
    _take_out(*json.loads(os.environ[VARIABLE]))
