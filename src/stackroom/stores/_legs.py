"""An optional method of a store: both legs of a search in one call, of one state.

::

    def legs(self, name: str, asked: LegsQuery, choose: Choose, *, fingerprint: str) -> list[Record]

The store hands what both legs found to `choose`, as keys of its own and scores, takes back the keys that it picked, and
returns their records whole, in the same order, from the same state. So only what is shown is read, and what is shown is
judged by the Library as everywhere. A Library uses the method where there is one, and else asks `dense` and `lexical`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stackroom._filters import Filter
    from stackroom._model import Note
    from stackroom.stores._protocol import LexicalQuery


Ranked: TypeAlias = Sequence[tuple[Hashable, float]]
"""Keys of records and their scores, best first."""

Choose: TypeAlias = "Callable[[Rankings], list[Hashable]]"


@dataclass(frozen=True, slots=True)
class LegsQuery:
    """What both legs are asked within one tenant. Without a vector there is no dense leg, without words no lexical one.

    `across`: what only one leg finds is scored by the other as well.
    """

    vector: NDArray[np.float32] | None
    words: LexicalQuery | None
    where: Filter
    limit: int
    across: bool


@dataclass(frozen=True, slots=True)
class Rankings:
    """What the legs found, best first, and what each scored afterwards of that which only the other had found.

    A key stands for a record as long as `choose` looks at it; `id_of` answers the record's id. `notes` are for the
    answer: a ranker's, or the store's own (`scan_limit`, `lagging`), as in `Matches.notes`. `instead` says that a
    ranker failed and what is to be answered without the dense leg: what the lexical leg finds alone, or nothing.
    """

    id_of: Callable[[Hashable], str]
    dense: Ranked = ()
    lexical: Ranked = ()
    dense_across: Ranked = ()
    lexical_across: Ranked = ()
    notes: tuple[Note, ...] = ()
    instead: str | None = None


def answers_legs(store: type) -> bool:
    """Tell whether a store has the method `legs`, and it speaks for its `dense` and `lexical` of today.

    A subclass that changed one of those is asked leg by leg.
    """
    places = {
        name: next((place for place, kind in enumerate(store.__mro__) if name in vars(kind)), None)
        for name in ("legs", "dense", "lexical")
    }
    legs = places.pop("legs")
    return legs is not None and all(place is not None and place >= legs for place in places.values())
