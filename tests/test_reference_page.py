"""docs/reference.md names all that is public."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import stackroom
from stackroom import Library, auditing, copying, embedders, evaluation, filters, indexing, rankers, stores, testing
from stackroom import _keys as keys
from stackroom._search import Notes
from stackroom.rankers._notes import RANKER_NOTES

PAGE = (Path(__file__).parent.parent / "docs" / "reference.md").read_text(encoding="utf-8")
CODE = " ".join(re.findall(r"`([^`\n]+)`", PAGE))
METHODS = [name for name, member in inspect.getmembers(Library, inspect.isroutine) if not name.startswith("_")]


def stands_on_the_page(name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", CODE) is not None


@pytest.mark.parametrize("name", stackroom.__all__)
def test_every_public_name_stands_on_the_page(name: str) -> None:
    assert stands_on_the_page(name)


@pytest.mark.parametrize(
    "module",
    [auditing, copying, embedders, evaluation, filters, indexing, rankers, stores, testing],
    ids=lambda module: str(module.__name__),
)
def test_every_name_of_the_further_modules_stands_on_the_page(module: object) -> None:
    names: list[str] = getattr(module, "__all__")  # noqa: B009 - a module as an object has no such attribute for mypy
    assert [name for name in names if not stands_on_the_page(name)] == []


@pytest.mark.parametrize("name", METHODS)
def test_every_method_of_a_library_stands_on_the_page_with_its_arguments(name: str) -> None:
    narrowing = {"kinds", "folder_id", "folder_ids", "tags", "source_ids", "tiers", "where"}
    (call,) = re.findall(rf"^\| `(?:Library\.)?{name}\(([^`]*)\)` \|", PAGE, re.MULTILINE)
    given = set(re.findall(r"\w+(?=[=,]|$)", call.replace("NARROWING", ", ".join(sorted(narrowing)))))
    assert set(inspect.signature(getattr(Library, name)).parameters) - {"self"} - given == set()


@pytest.mark.parametrize("code", [*Notes.MESSAGES, *sorted(RANKER_NOTES), "dropped_by_check"])
def test_every_note_says_whether_its_answer_is_complete(code: str) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("|") and f"`{code}`" in line)
    assert row.endswith("| True |" if code in Notes.COMPLETE else "| **False** |")


@pytest.mark.parametrize("key", [*sorted(keys.DOCUMENTED), keys.OWN])
def test_every_reserved_key_stands_on_the_page(key: str) -> None:
    assert f"`{key}`" in PAGE
