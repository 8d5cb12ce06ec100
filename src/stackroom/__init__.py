"""Stackroom: sources over any vector store. A search reads only what its scope may see."""

import importlib
import typing

if typing.TYPE_CHECKING:
    from stackroom._async import AsyncLibrary
    from stackroom._errors import (
        CapabilityError,
        Conflict,
        EmbedderError,
        EmbedderMismatch,
        FilterError,
        IndexingCancelled,
        InputCeilingWarning,
        RankerError,
        ScopeError,
        SourceError,
        StackroomError,
        StoreError,
        StoreUnavailable,
        UnsupportedFilter,
    )
    from stackroom._fusion import RRF, Fusion, Weighted
    from stackroom._library import Library
    from stackroom._model import Answer, Hit, Indexed, Narrowing, Note, Page, Passage, Scope, Source, SourceInfo
    from stackroom._values import MetadataValue
    from stackroom.text import (
        DocumentChunk,
        PlacedTurn,
        Quote,
        Snippet,
        Turn,
        TurnChunk,
        chunk_document,
        chunk_turns,
        find_quote,
        lexical_tokens,
        snippet_around,
    )

__all__ = [
    "RRF",
    "Answer",
    "AsyncLibrary",
    "CapabilityError",
    "Conflict",
    "DocumentChunk",
    "EmbedderError",
    "EmbedderMismatch",
    "FilterError",
    "Fusion",
    "Hit",
    "Indexed",
    "IndexingCancelled",
    "InputCeilingWarning",
    "Library",
    "MetadataValue",
    "Narrowing",
    "Note",
    "Page",
    "Passage",
    "PlacedTurn",
    "Quote",
    "RankerError",
    "Scope",
    "ScopeError",
    "Snippet",
    "Source",
    "SourceError",
    "SourceInfo",
    "StackroomError",
    "StoreError",
    "StoreUnavailable",
    "Turn",
    "TurnChunk",
    "UnsupportedFilter",
    "Weighted",
    "chunk_document",
    "chunk_turns",
    "find_quote",
    "lexical_tokens",
    "snippet_around",
]

_HOMES = {
    "stackroom._async": "AsyncLibrary",
    "stackroom._errors": (
        "CapabilityError Conflict EmbedderError EmbedderMismatch FilterError IndexingCancelled "
        "InputCeilingWarning RankerError ScopeError SourceError StackroomError StoreError StoreUnavailable "
        "UnsupportedFilter"
    ),
    "stackroom._fusion": "RRF Fusion Weighted",
    "stackroom._library": "Library",
    "stackroom._model": "Answer Hit Indexed Narrowing Note Page Passage Scope Source SourceInfo",
    "stackroom._values": "MetadataValue",
    "stackroom.text": (
        "DocumentChunk PlacedTurn Quote Snippet Turn TurnChunk chunk_document chunk_turns find_quote "
        "lexical_tokens snippet_around"
    ),
}
"""Where the names are made. They are imported when they are first asked for, so that the command line, which lies
in this package, can mind an interrupt before anything large is loaded."""

_MODULES = frozenset({"embedders", "filters", "indexing", "rankers", "stores", "testing", "text"})

if not typing.TYPE_CHECKING:  # or any name would be one of this module

    def __getattr__(name: str) -> object:
        """Import a name of the public surface."""
        home = next((home for home, names in _HOMES.items() if name in names.split()), None)
        if home is not None:
            found = getattr(importlib.import_module(home), name)
        elif name in _MODULES:
            found = importlib.import_module(f"{__name__}.{name}")
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        """Name the public surface."""
        return sorted({*globals(), *__all__, *_MODULES})
