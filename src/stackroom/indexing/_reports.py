"""What the bulk functions say: how far they are, what they embedded, what they did."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LOG: Final = logging.getLogger("stackroom.indexing")
_CHARACTERS_A_TOKEN: Final = 4
_TOKENS_OF_A_PRICE: Final = 1_000_000

Stopped: TypeAlias = Literal["cancelled", "budget", "error"]
Said = TypeVar("Said")


@dataclass(frozen=True, slots=True)
class EmbeddingReport:
    """What a call embedded: `count` vectors in `seconds`, from the first call to the embedder to its last answer.

    `model` is the fingerprint's id; `tokens` is what the embedder's counter grew by, None when it has none.
    """

    model: str
    provider: str
    input_kind: Literal["passage"]
    dimension: int
    count: int
    seconds: float
    tokens: int | None


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a call is: `done` of `total` sources, and the passages embedded and reused by then."""

    done: int
    total: int
    embedded: int
    reused: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A file that was not indexed: its source id, a word for programs, a sentence for people that shows no content."""

    source_id: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What a call did. `int(report)` is `indexed`; `ok`: nothing failed and nothing stopped it.

    Counts of sources: `new`, `changed`, `unchanged`, `rescoped` (kept as they were but for who may see them),
    `removed`, `remaining`. Of passages: `embedded`, `reused`. `characters` are those of the embedded passages; tokens
    and cost are estimates made from them.
    """

    new: int = 0
    changed: int = 0
    unchanged: int = 0
    rescoped: int = 0
    removed: int = 0
    remaining: int = 0
    embedded: int = 0
    reused: int = 0
    characters: int = 0
    failed: tuple[Failed, ...] = ()
    ignored: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    over_ceiling: int = 0
    stopped: Stopped | None = None
    dry_run: bool = False
    fingerprint: str = ""
    seconds: float = 0.0
    estimated_cost: float | None = None

    def __int__(self) -> int:
        return self.indexed

    @property
    def indexed(self) -> int:
        """Sources written."""
        return self.new + self.changed

    @property
    def passages(self) -> int:
        """Passages of the sources written."""
        return self.embedded + self.reused

    @property
    def estimated_tokens(self) -> int:
        """Tokens of the embedded passages, at four characters a token."""
        return math.ceil(self.characters / _CHARACTERS_A_TOKEN)

    @property
    def ok(self) -> bool:
        """Whether nothing failed and nothing stopped it."""
        return not self.failed and self.stopped is None


@dataclass(frozen=True, slots=True)
class ReembedReport:
    """What a re-embedding did: `passages` = `embedded` + `reused`; those reused had their new vectors before."""

    passages: int
    embedded: int
    reused: int
    seconds: float


def cost_of(characters: int, price_per_million_tokens: float | None) -> float | None:
    """Return what embedding so many characters costs, None without a price."""
    if price_per_million_tokens is None:
        return None
    return math.ceil(characters / _CHARACTERS_A_TOKEN) / _TOKENS_OF_A_PRICE * price_per_million_tokens


def say(callback: Callable[[Said], object] | None, what: Said) -> None:
    """Call back, if there is somebody to call; what the callback raises is logged and changes nothing."""
    if callback is None:
        return
    try:
        callback(what)
    except Exception:  # noqa: BLE001 - whatever a caller's function raises
        _LOG.exception("a callback failed; the indexing goes on")
