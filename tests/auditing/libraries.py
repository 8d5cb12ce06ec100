"""Libraries in use, for a leak test to look at."""

from __future__ import annotations

from typing import Any

from tests.auditing.stores import Rewrites
from tests.library.doubles import source

from stackroom import Library, Scope
from stackroom.embedders import HashingEmbedder
from stackroom.filters import Exists
from stackroom.stores import VectorStore

OWN = Scope("t", ["g"])


def library_on(store: VectorStore, **options: Any) -> Library:
    """Return a library in use: two tenants, of which one has passages in a folder and a word of every canary."""
    library = Library(store, "library", HashingEmbedder(32), **options)
    library.index_source(source("s", "a heron in the tower", "more text", folder_id="f"))
    library.index_source(source("r", "a lantern", tenant_id="u"))
    if isinstance(store, Rewrites):
        store.is_broken = True
    return library


def stored(library: Library) -> list[str]:
    """Return all that a store really holds, by tenant and id."""
    records = library._store.scan("library", where=Exists("tenantId"), limit=1000)  # noqa: SLF001 - beyond any scope
    return [f"{record.tenant_id} {record.id}" for record in records]


HELD = ["t s#0", "t s#1", "u r#0"]
