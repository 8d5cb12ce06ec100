"""The text package stands alone and exports what it promises."""

from __future__ import annotations

import ast
from pathlib import Path

import stackroom.text

SURFACE = """
    lexical_tokens snippet_around Snippet Turn TurnChunk PlacedTurn chunk_turns DocumentChunk chunk_document Quote
    find_quote index_terms query_terms expanding_terms is_blank
"""


def imported_modules(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}


def test_its_surface_is_what_is_documented() -> None:
    assert sorted(stackroom.text.__all__) == sorted(SURFACE.split())
    assert all(hasattr(stackroom.text, name) for name in stackroom.text.__all__)


def test_it_imports_nothing_else_of_the_package_and_nothing_that_is_installed() -> None:
    folder = Path(stackroom.text.__file__).parent
    modules = {name for path in folder.glob("*.py") for name in imported_modules(path)}
    ours = {name for name in modules if name.startswith("stackroom")}
    assert all(name.startswith("stackroom.text.") for name in ours)
    assert modules - ours <= {
        *("__future__", "collections.abc", "dataclasses", "itertools", "operator", "re", "typing", "unicodedata"),
    }
