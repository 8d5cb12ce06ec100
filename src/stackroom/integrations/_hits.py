"""What every adapter shares: the check of what it is made of, and what a hit becomes elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from stackroom import _keys as keys
from stackroom._library import Library
from stackroom._model import Answer, Hit, Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

_SHOWN: Final = (keys.SOURCE, keys.INDEX, keys.KIND, keys.FOLDER, keys.TAGS, keys.TITLE)
_NAMED: Final = frozenset({"scope", "text", "top_k"})


def check_search(library: object, scope: object, top_k: int, options: Mapping[str, Any]) -> None:
    """Raise at once what the first search would: TypeError without a library or a scope, ValueError for the rest."""
    if not isinstance(library, Library):
        raise TypeError(f"library must be a stackroom.Library, not {type(library).__name__}")
    if not isinstance(scope, Scope):
        raise TypeError(f"scope must be a stackroom.Scope, made of who asks, not {type(scope).__name__}")
    taken = sorted(_NAMED & options.keys())
    if taken:
        raise ValueError(f"options may not hold {', '.join(taken)}; give them by their own arguments")
    library.search("", scope=scope, top_k=top_k, **options)  # an empty text embeds and finds nothing


def own_metadata(hit: Hit) -> dict[str, Any]:
    """Return what the caller wrote beside the passage and its source, and nothing of the library's."""
    return {key: value for key, value in hit.metadata.items() if key not in keys.DOCUMENTED}


def metadata_of(hit: Hit, answer: Answer) -> dict[str, Any]:
    """Return a hit's own metadata and, above it, where the passage stands, its score, and why the answer may be short.

    Who may read it is left out: what stands here may come before a model.
    """
    placed = {key: hit.metadata[key] for key in _SHOWN if key in hit.metadata}
    short = {} if answer.complete else {"incomplete": [note.code for note in answer.notes]}
    return {**own_metadata(hit), **placed, "score": hit.score, **short}
