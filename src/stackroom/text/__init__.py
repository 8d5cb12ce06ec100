"""Words, snippets, chunks and quotes: pure functions over str.

They read no clock, no locale and no file, keep nothing between calls, and give the same answer on every machine with
the same Unicode tables. All offsets are Python string indexes (code points), ends are exclusive.
"""

from stackroom.text._analyser import expanding_terms, index_terms, query_terms
from stackroom.text._documents import DocumentChunk, chunk_document
from stackroom.text._quotes import Quote, find_quote
from stackroom.text._snippets import Snippet, snippet_around
from stackroom.text._turns import PlacedTurn, Turn, TurnChunk, chunk_turns
from stackroom.text._words import is_blank, lexical_tokens

__all__ = [
    "DocumentChunk",
    "PlacedTurn",
    "Quote",
    "Snippet",
    "Turn",
    "TurnChunk",
    "chunk_document",
    "chunk_turns",
    "expanding_terms",
    "find_quote",
    "index_terms",
    "is_blank",
    "lexical_tokens",
    "query_terms",
    "snippet_around",
]
