"""An optional method of a store: both legs of a search in one call, of one state.

::

    def legs(self, name: str, asked: LegsQuery, choose: Callable[[Legs], list[Record]], *, fingerprint: str)
        -> list[Record]

The store hands what both legs found to `choose`, takes back the records that it picked, and returns those whole, in the
same order, from the same state. What `choose` is shown needs no text, only what `asked.where` judges. A Library uses
the method where there is one, and else asks `dense` and `lexical`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stackroom._filters import Filter
    from stackroom.stores._protocol import LexicalQuery, Match


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
class Legs:
    """What the legs found, best first, and what each scored afterwards of that which only the other had found."""

    dense: list[Match] = field(default_factory=list)
    lexical: list[Match] = field(default_factory=list)
    dense_across: list[Match] = field(default_factory=list)
    lexical_across: list[Match] = field(default_factory=list)

    @property
    def lists(self) -> tuple[list[Match], list[Match], list[Match], list[Match]]:
        """All four lists, those of the dense leg first."""
        return self.dense, self.dense_across, self.lexical, self.lexical_across
