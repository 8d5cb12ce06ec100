"""What an answer says of its ranker: numbers and kinds, never an id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stackroom._model import Note

if TYPE_CHECKING:
    from collections.abc import Mapping

RANKER_NOTES: Final = frozenset({"ranker_dropped", "ranker_scale", "ranker_short", "ranker_behind", "ranker_fallback"})
"""The codes; each leaves an answer complete, but for a fallback to the lexical leg or to nothing."""

SCALE: Final = Note(
    "ranker_scale", "the vector ranker's scores are no cosines; they decide nothing, hits carry the exact cosine"
)
SHORT: Final = Note(
    "ranker_short", "the vector ranker named too few passages in scope; the store's own search completed the dense leg"
)
BEHIND: Final = Note(
    "ranker_behind", "the vector ranker has much to catch up with and was not asked; the store searched by itself"
)

_TOLD: Final = {
    "duplicate": "named twice",
    "unknown": "not among what was asked for",
    "score": "without a finite score",
    "malformed": "no pair of an id and a score",
    "too_many": "beyond what was read",
}


def dropped_note(dropped: Mapping[str, int]) -> Note:
    """Return the note of what was dropped, by reason."""
    counted = ", ".join(f"{dropped[reason]} {reason} ({told})" for reason, told in _TOLD.items() if dropped[reason])
    return Note("ranker_dropped", f"items of the vector ranker's answer were dropped: {counted}")


def fallback_note(policy: str, kind: str) -> Note:
    """Return the note of a failure that was recovered."""
    done = {
        "exact": "the store searched by itself",
        "lexical": "the answer is by words alone",
        "empty": "nothing was searched",
    }[policy]
    return Note("ranker_fallback", f"the vector ranker failed with {kind}; policy {policy}: {done}")
