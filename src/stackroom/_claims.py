"""Sources that are being embedded in this process, and the removals that must not be undone by them.

A version that replaces another is told by the store's versions when it comes too late. A first version replaces
nothing, so within a process its writer holds a claim, and a removal revokes the claims on what it removed.
"""

from __future__ import annotations

import threading
import weakref
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from stackroom._commits import hearing_of_the_commit
from stackroom._errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from stackroom.stores import VectorStore


@dataclass(slots=True, eq=False)
class Claim:
    """One writer's work on one source, from its look at the old version to the end of its write."""

    tenant_id: str
    source_id: str
    is_revoked: bool = False


@dataclass(slots=True, eq=False, weakref_slot=True)
class Claims:
    """The claims on one collection. Writes of a tenant share; a removal there runs alone. Tenants never wait.

    Either ends when the store says that it has committed: nobody waits for what the store does then.
    """

    _changed: threading.Condition = field(default_factory=threading.Condition)
    _held: set[Claim] = field(default_factory=set)
    _writing: dict[str, int] = field(default_factory=dict)
    _removing: set[str] = field(default_factory=set)

    @contextmanager
    def claim(self, tenant_id: str, source_id: str) -> Iterator[Claim]:
        """Hold a claim on a source while its new version is prepared and written."""
        held = self.take(tenant_id, source_id)
        try:
            yield held
        finally:
            self.drop(held)

    def take(self, tenant_id: str, source_id: str) -> Claim:
        """Begin to hold a claim on a source; whoever takes it drops it."""
        held = Claim(tenant_id, source_id)
        with self._changed:
            self._held.add(held)
        return held

    def drop(self, claim: Claim) -> None:
        """Hold a claim no longer."""
        with self._changed:
            self._held.discard(claim)

    @contextmanager
    def writing(self, *claims: Claim) -> Iterator[None]:
        """Write what was claimed, of one tenant; Conflict when a removal of any has returned since its claim began."""
        tenant_id = claims[0].tenant_id
        with self._changed:
            self._changed.wait_for(lambda: tenant_id not in self._removing)
            if any(claim.is_revoked for claim in claims):
                raise Conflict("this source was removed while its new version was being embedded; nothing was written")
            self._writing[tenant_id] = self._writing.get(tenant_id, 0) + 1
        with _ending_at_the_commit(partial(self._has_written, tenant_id)):
            yield

    def _has_written(self, tenant_id: str) -> None:
        with self._changed:
            self._writing[tenant_id] -= 1
            if not self._writing[tenant_id]:
                del self._writing[tenant_id]
            self._changed.notify_all()

    @contextmanager
    def removing(self, tenant_id: str, source_id: str | None = None) -> Iterator[None]:
        """Remove a source (or the whole tenant) while no write of the tenant runs, then revoke the claims on it."""
        with self._changed:
            self._changed.wait_for(lambda: tenant_id not in self._removing)
            self._removing.add(tenant_id)
            self._changed.wait_for(lambda: tenant_id not in self._writing)
        with _ending_at_the_commit(partial(self._has_removed, tenant_id, source_id)):
            yield

    def _has_removed(self, tenant_id: str, source_id: str | None) -> None:
        with self._changed:
            for claim in self._held:
                if claim.tenant_id == tenant_id and source_id in (None, claim.source_id):
                    claim.is_revoked = True
            self._removing.discard(tenant_id)
            self._changed.notify_all()


@contextmanager
def _ending_at_the_commit(end: Callable[[], object]) -> Iterator[None]:
    """Call `end` once: when the store has committed, as a ranker's hook that it calls then may write, or at the end."""
    ends = [end]

    def end_once() -> None:
        if ends:
            ends.pop()()

    try:
        with hearing_of_the_commit(end_once):
            yield
    finally:
        end_once()


_registry: weakref.WeakValueDictionary[tuple[Hashable, str], Claims] = weakref.WeakValueDictionary()
_registry_lock = threading.Lock()


def claims_of(store: VectorStore, collection: str) -> Claims:
    """Return the claims that all Libraries of this process share over one collection of one store.

    Stores are one when they are one object, or say so by an equal `stands_on`: what several handles have in common,
    such as a directory. Libraries keep their claims alive; with the last of them they are forgotten.
    """
    key = getattr(store, "stands_on", None) or id(store), collection
    with _registry_lock:
        return _registry.setdefault(key, Claims())
