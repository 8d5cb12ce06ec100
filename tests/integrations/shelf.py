"""A small library that the adapters are tried on: three sources of the bakers, one of the millers."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from stackroom import Library, Note, Source
from stackroom.embedders import HashingEmbedder
from stackroom.stores import MemoryStore


def a_library() -> Library:
    library = Library(MemoryStore(), "library", HashingEmbedder(64))
    for name, text in (("rye", "rye bread"), ("oat", "oat bread"), ("malt", "bread of malt")):
        library.index_source(Source(name, "recipe", "acme", ["bakers"], [text], title=name.title(), tags=["dough"]))
    library.index_source(Source("secret", "recipe", "acme", ["millers"], ["secret bread"]))
    return library


def incomplete(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every answer of a library say that it may lag."""
    search = library.search

    def short(*arguments: Any, **options: Any) -> Any:
        return dataclasses.replace(
            search(*arguments, **options), complete=False, notes=(Note("lagging", "a write may not be seen yet"),)
        )

    monkeypatch.setattr(library, "search", short)
