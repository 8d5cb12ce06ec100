"""The head of a tenant: one note that says which of its rows count, and who is writing.

A write stages its rows under a number that no reader takes, and moves the head once: from then on the new rows count
and the older ones of the sources that it touched do not. Whatever a dead writer leaves, the head tells what to pass
over, and the next writer what to sweep.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from stackroom.stores._tokens import ALWAYS, Form, digest, negation
from stackroom.stores.generations._rows import going, of_generation

if TYPE_CHECKING:
    from stackroom.stores.generations._engine import Engine

Phase = Literal["idle", "staged", "committed"]


@dataclass(frozen=True, slots=True)
class Head:
    """Where a tenant stands: the number of its last write, how far that is, what it replaces, and a lease.

    `sources` are those whose older rows no longer count, of a committed write. `until` is when the holder's lease ends,
    in seconds since 1970.
    """

    tenant: str
    number: int = 0
    phase: Phase = "idle"
    sources: tuple[str, ...] = ()
    holder: str = ""
    until: float = 0.0

    @property
    def state(self) -> tuple[int, Phase]:
        """What readers look at before and after."""
        return self.number, self.phase

    @property
    def counts(self) -> Form:
        """Return the condition of the rows that count, beside that of the tenant."""
        passed_over = self.abandoned
        return ALWAYS if passed_over is None else negation(passed_over)

    @property
    def abandoned(self) -> Form | None:
        """Return the condition of the rows that readers pass over and that go with the write's end, or None."""
        if self.phase == "staged":
            return of_generation(self.number)
        return going(self.sources, self.number) if self.phase == "committed" else None

    def begun(self, number: int, holder: str, until: float) -> Head:
        """Return the head of a write that begins."""
        return Head(self.tenant, number, "staged", (), holder, until)

    def committed(self, sources: tuple[str, ...]) -> Head:
        """Return the head from which on a write counts."""
        return replace(self, phase="committed", sources=sources)

    def ended(self) -> Head:
        """Return the head when nothing is under way."""
        return Head(self.tenant, self.number)


_PREFIX: Final = "head."


def prefix(shelf: str) -> str:
    """Return how the names of a shelf's heads begin."""
    return f"{_PREFIX}{shelf}."


def name_of(shelf: str, tenant_id: str) -> str:
    """Return the name of the note of a tenant's head."""
    return prefix(shelf) + digest(tenant_id)


def read(content: bytes) -> Head:
    """Return the head that a note holds."""
    held: dict[str, Any] = json.loads(content)
    return Head(**{**held, "sources": tuple(held["sources"])})


def written(head: Head) -> bytes:
    """Return the content of a head's note."""
    return json.dumps({name: getattr(head, name) for name in Head.__slots__}, ensure_ascii=False).encode()


def head_of(engine: Engine, shelf: str, tenant_id: str) -> Head:
    """Return a tenant's head as it is now."""
    content = engine.note(name_of(shelf, tenant_id))
    return Head(tenant_id) if content is None else read(content)


def heads_of(engine: Engine, shelf: str) -> dict[str, Head]:
    """Return the heads of all tenants that were ever written, as they are now, in the order of tenants."""
    heads = [read(content) for content in engine.notes_of(prefix(shelf)).values()]
    return {head.tenant: head for head in sorted(heads, key=lambda head: head.tenant)}


def tenants_of(engine: Engine, shelf: str) -> list[str]:
    """Return the tenants that were ever written, in order."""
    return list(heads_of(engine, shelf))
