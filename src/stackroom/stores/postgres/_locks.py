"""The locks of writers, and how long one waits for another.

A write that names its sources holds each of them, and shares the tenant with other such writes; any other has the
tenant alone. All share the collection with everything but a swap or drop.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from stackroom import _keys as keys
from stackroom._filters import Filter, named_values
from stackroom.stores.postgres._connections import Rows, Statement
from stackroom.stores.postgres._transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stackroom.stores.postgres._names import Names

_MOST_LOCKS: Final = 32
"""A write that names more sources takes the tenant alone: the server's room for locks is shared by all."""


class LocksAreTaken(Exception):
    """Somebody else is writing there; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Lock:
    """An advisory lock, kept until the transaction ends; shared with those who share it, too."""

    key: int
    shared: bool

    def statement(self, *, waits: bool) -> Statement:
        """Return the statement that takes it; when it does not wait, it answers whether it could."""
        name = f"pg_{'' if waits else 'try_'}advisory_xact_lock{'_shared' if self.shared else ''}"
        return Statement(f"SELECT {name}(%(key)s)", {"key": self.key})


@dataclass(slots=True)
class Patience:
    """How many seconds a write may yet wait for others, over all its locks and tries."""

    left: float

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time within as spent."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.left -= time.monotonic() - began


@dataclass(slots=True)
class WriteTransaction(Transaction):
    """A transaction that took its locks first; LocksAreTaken when it does not wait and one was not to be had.

    What took until then is taken from `patience`. `to_forget` are numbers of words to forget afterwards.
    """

    patience: Patience = field(default_factory=lambda: Patience(0))
    to_forget: list[int] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)

    def opened(self, rows: Sequence[Rows]) -> None:
        """See that every lock was taken."""
        self.patience.left -= time.monotonic() - self._began
        if any(row == (False,) for answer in rows for row in answer):
            raise LocksAreTaken


def locks(names: Names, collection: str, tenant_id: str, where: Filter, sources: Iterable[str] = ()) -> list[Lock]:
    """Return the locks of a write within one tenant, in the order in which everybody takes them."""
    taken = [Lock(names.key("collection", collection), shared=True)]
    named = named_values(where, keys.SOURCE)
    if named is None or len(named := named | set(sources)) > _MOST_LOCKS:
        return [*taken, Lock(tenant_lock(names, collection, tenant_id), shared=False)]
    of_sources = sorted(names.key("source", collection, tenant_id, source_id) for source_id in named)
    shared = Lock(tenant_lock(names, collection, tenant_id), shared=True)
    return [*taken, shared, *(Lock(key, shared=False) for key in of_sources)]


def tenant_lock(names: Names, collection: str, tenant_id: str) -> int:
    return names.key("tenant", collection, tenant_id)


def opening(taken: Iterable[Lock], seconds: float, *, waits: bool = True) -> list[Statement]:
    """Return the statements that take locks, waiting for them and for what comes later so many seconds in all."""
    found = []
    for lock in taken:
        found += [_left_of(seconds), lock.statement(waits=waits)] if waits else [lock.statement(waits=False)]
    return [*found, _left_of(seconds)]


def _left_of(seconds: float) -> Statement:
    """Return the statement that lets the transaction wait for what is left of so many seconds since its begin."""
    sql = (
        "SELECT set_config('lock_timeout', greatest(1, ceil(1000 * (%(seconds)s::float8 - "
        "extract(epoch FROM clock_timestamp() - now())::float8)))::bigint || 'ms', true)"
    )
    return Statement(sql, {"seconds": seconds})
