"""Words, snippets, chunks and quotes: pure functions over str."""

from stackroom.text._words import is_blank, lexical_tokens

__all__ = ["is_blank", "lexical_tokens"]
