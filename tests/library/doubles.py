"""What the tests of Library put in the place of the world: embedders that tell, a clock, and stores that do wrong."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from stackroom import Note, Source, UnsupportedFilter
from stackroom.embedders import Fingerprint, HashingEmbedder
from stackroom.filters import And, Eq, Filter, Ne, Not, Or
from stackroom.stores import LexicalQuery, Match, Matches, MemoryStore, Page, Record

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from numpy.typing import ArrayLike

    from stackroom import MetadataValue
    from stackroom.stores import Cursor

T = TypeVar("T")
Vectors: TypeAlias = list[list[float]]

PATIENCE = 20.0
"""Seconds after which a thread that should have ended is taken to hang; no test waits for it when all is well."""


def nothing(_number: int) -> None:
    """Do nothing before a batch."""


def source(source_id: str = "s", *passages: Any, **fields: Any) -> Source:
    """Return a source of tenant t and group g, unless said."""
    given: dict[str, Any] = {"kind": "doc", "tenant_id": "t", "acl_groups": ["g"], **fields}
    return Source(source_id, passages=passages or ("some text",), **given)


class RecordingEmbedder:
    """Knows what it was asked. Texts in `vectors` have the vectors given there, others those of their words."""

    max_input_chars: int | None = None

    def __init__(
        self,
        vectors: Mapping[str, Sequence[float]] | None = None,
        *,
        name: str = "recording",
        dimension: int = 16,
        before_batch: Callable[[int], None] = nothing,
        answering: Callable[[Vectors], object] = lambda vectors: vectors,
    ) -> None:
        self.vectors = dict(vectors or {})
        self.fingerprint = Fingerprint(name, len(next(iter(self.vectors.values()), range(dimension))))
        self.before_batch = before_batch
        self.answering = answering
        self.batches: list[Any] = []
        self.queries: list[str] = []

    @property
    def calls(self) -> int:
        return len(self.batches) + len(self.queries)

    @property
    def texts(self) -> list[str]:
        return [text for batch in self.batches for text in batch]

    def embed_passages(self, texts: Sequence[str]) -> Any:
        self.batches.append(texts)
        self.before_batch(len(self.batches))
        return self.answering([self.vector(text) for text in texts])

    def embed_query(self, text: str) -> ArrayLike:
        self.queries.append(text)
        return self.vector(text)

    def vector(self, text: str) -> list[float]:
        if text in self.vectors:
            return list(self.vectors[text])
        words = HashingEmbedder(self.fingerprint.dimension).embed_query(text)
        return [float(number) for number in words]


class HandClock:
    """Tells the time that was set."""

    def __init__(self) -> None:
        self.now = datetime(2024, 5, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def forward(self, **by: int) -> datetime:
        self.now += timedelta(**by)
        return self.now


def in_thread(work: Callable[[], T]) -> T:
    """Do something in another thread and wait for it; a failure there is one here, and so is hanging."""
    done: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:  # noqa: BLE001 - handed over to the waiting thread
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    if failed:
        raise failed[0]
    assert done, "the other thread hangs: it waits for what it must not wait for"
    return done[0]


class RecordingStore(MemoryStore):
    """Knows which questions and writes came, and with which limit."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, int | None]] = []

    def names(self) -> list[str]:
        return [name for name, _ in self.asked]

    def limits(self, leg: str) -> list[int | None]:
        return [limit for name, limit in self.asked if name == leg]

    def dense(
        self, name: str, vector: ArrayLike, *, where: Filter, limit: int, fingerprint: str | None = None
    ) -> list[Match]:
        self.asked.append(("dense", limit))
        return super().dense(name, vector, where=where, limit=limit, fingerprint=fingerprint)

    def lexical(self, name: str, query: LexicalQuery, *, where: Filter, limit: int) -> list[Match]:
        self.asked.append(("lexical", limit))
        return super().lexical(name, query, where=where, limit=limit)

    def scan(
        self, name: str, *, where: Filter, after: Cursor | None = None, limit: int, vectors: bool = False
    ) -> Page[Record]:
        self.asked.append(("scan", limit))
        return super().scan(name, where=where, after=after, limit=limit, vectors=vectors)

    def count(self, name: str, *, where: Filter) -> int:
        self.asked.append(("count", None))
        return super().count(name, where=where)

    def replace(
        self,
        name: str,
        records: Iterable[Record],
        *,
        where: Filter,
        expect: AbstractSet[int] | None = None,
        fingerprint: str | None = None,
    ) -> int:
        self.asked.append(("replace", None))
        return super().replace(name, records, where=where, expect=expect, fingerprint=fingerprint)

    def update(self, name: str, patch: Mapping[str, MetadataValue | None], *, where: Filter) -> int:
        self.asked.append(("update", None))
        return super().update(name, patch, where=where)

    def delete(self, name: str, *, where: Filter) -> int:
        self.asked.append(("delete", None))
        return super().delete(name, where=where)


class LegStore(MemoryStore):
    """A store whose two legs go through `leg`, where what is wrong with it is done."""

    def leg(self, ask: Callable[[Filter], list[Match]], where: Filter) -> list[Match]:
        return ask(where)

    def dense(
        self, name: str, vector: ArrayLike, *, where: Filter, limit: int, fingerprint: str | None = None
    ) -> list[Match]:
        ask = super().dense
        return self.leg(lambda within: ask(name, vector, where=within, limit=limit, fingerprint=fingerprint), where)

    def lexical(self, name: str, query: LexicalQuery, *, where: Filter, limit: int) -> list[Match]:
        ask = super().lexical
        return self.leg(lambda within: ask(name, query, where=within, limit=limit), where)


class DropsConditions(LegStore):
    """Answers what nobody asked for: other tenants, other groups, other folders, expired ones."""

    def leg(self, ask: Callable[[Filter], list[Match]], where: Filter) -> list[Match]:  # noqa: ARG002 - that is the fault
        return ask(And())


class RepeatsRows(LegStore):
    """Answers each row twice."""

    def leg(self, ask: Callable[[Filter], list[Match]], where: Filter) -> list[Match]:
        return [match for match in ask(where) for _ in range(2)]


class AnswersFewer(LegStore):
    """Answers one row of each leg and says why."""

    code = "scan_limit"

    def leg(self, ask: Callable[[Filter], list[Match]], where: Filter) -> list[Match]:
        return Matches(ask(where)[:1], [Note(self.code, "the engine gave up early")])


class CallsHook(LegStore):
    """Answers rightly, one call after the other, and lets a test do something before the n-th call (from 1)."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[int], None] = nothing
        self.calls = 0
        self.dense_saw: list[set[str]] = []
        self._turn = threading.RLock()

    def leg(self, ask: Callable[[Filter], list[Match]], where: Filter) -> list[Match]:
        with self._turn:
            self.calls += 1
            self.before(self.calls)
            return ask(where)

    def dense(
        self, name: str, vector: ArrayLike, *, where: Filter, limit: int, fingerprint: str | None = None
    ) -> list[Match]:
        found = super().dense(name, vector, where=where, limit=limit, fingerprint=fingerprint)
        self.dense_saw.append({match.record.text for match in found})
        return found


class RefusesLexical(RecordingStore):
    """Has no lexical leg."""

    def __init__(self) -> None:
        super().__init__()
        self.capabilities = dataclasses.replace(self.capabilities, lexical="refused", prefix="refused")


class RefusesPrefix(RecordingStore):
    """Has a lexical leg that knows whole words only."""

    def __init__(self) -> None:
        super().__init__()
        self.capabilities = dataclasses.replace(self.capabilities, prefix="refused")


class RefusesNe(RecordingStore):
    """Cannot answer Ne."""

    def __init__(self) -> None:
        super().__init__()
        filters = {**self.capabilities.filters, "Ne": "refused"}
        self.capabilities = dataclasses.replace(self.capabilities, filters=filters)

    def count(self, name: str, *, where: Filter) -> int:
        if _holds_ne(where):
            raise UnsupportedFilter("Ne")
        return super().count(name, where=where)


def _holds_ne(where: Filter) -> bool:
    members = where.filters if isinstance(where, And | Or) else (where.filter,) if isinstance(where, Not) else ()
    return isinstance(where, Ne) or any(_holds_ne(member) for member in members)


class BlocksTenant(MemoryStore):
    """Stays within the replace of one tenant until it is let go."""

    def __init__(self, tenant_id: str) -> None:
        super().__init__()
        self.is_within = threading.Event()
        self.may_go = threading.Event()
        self._tenant = Eq("tenantId", tenant_id)

    def replace(
        self,
        name: str,
        records: Iterable[Record],
        *,
        where: Filter,
        expect: AbstractSet[int] | None = None,
        fingerprint: str | None = None,
    ) -> int:
        if isinstance(where, And) and self._tenant in where.filters:
            self.is_within.set()
            assert self.may_go.wait(PATIENCE)
        return super().replace(name, records, where=where, expect=expect, fingerprint=fingerprint)
