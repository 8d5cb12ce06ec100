"""One tree of errors.

::

    StackroomError
    ├── ScopeError         (ValueError)   a tenant or a group that cannot be one
    ├── SourceError        (ValueError)   a source, passage, metadata or expiry that cannot be stored
    ├── FilterError        (ValueError)   a filter or narrowing that cannot be asked
    │   └── UnsupportedFilter             the store cannot answer this node exactly, so it refuses
    ├── EmbedderError                     the embedder failed, or answered what no vector may be
    │   └── EmbedderMismatch              the collection belongs to another embedder
    ├── StoreError                        the store refuses; of an unknown collection also a LookupError
    │   ├── CapabilityError               the store cannot do this at all
    │   ├── Conflict                      somebody else wrote in between; nothing was changed
    │   └── StoreUnavailable              the database does not answer, or its disk does not take the write
    ├── RankerError                       a plugged-in ranker failed and the policy is to raise
    └── IndexingCancelled                 a bulk run was cancelled

Messages name kinds, numbers and positions. They never hold a text, a vector, or another tenant's names.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from stackroom.embedders import Fingerprint
    from stackroom.indexing import IndexReport, ReembedReport


class StackroomError(Exception):
    """The root of everything that Stackroom raises on its own account.

    ``report``: of an error that ended a call of ``stackroom.indexing``, what the call had done by then; else None.
    """

    report: IndexReport | ReembedReport | None = None


class ScopeError(StackroomError, ValueError):
    """A tenant or access group is empty, blank, too long, or not a string."""


class SourceError(StackroomError, ValueError):
    """A source, one of its passages, or its metadata cannot be stored as given."""


class FilterError(StackroomError, ValueError):
    """A filter or narrowing breaks a rule of the filter language; the message says where."""


class UnsupportedFilter(FilterError):
    """The store cannot answer this filter exactly and refuses it before anything is read or written.

    ``operator`` is the node's class name, ``key`` the metadata key it asks about, or None.
    """

    def __init__(self, operator: str, key: str | None = None) -> None:
        """Name the node that is refused."""
        super().__init__(
            f"this store cannot answer {operator} exactly; ask without it, or use a store whose capabilities include it"
        )
        self.operator = operator
        self.key = key

    def __reduce__(self) -> tuple[type[UnsupportedFilter], tuple[str, str | None]]:
        """Be the same error in another process."""
        return type(self), (self.operator, self.key)


class EmbedderError(StackroomError):
    """An embedder failed or answered something that is no vector; what was stored before is untouched.

    ``retryable`` says that the same call may succeed later, ``retry_after`` after how many seconds (when the
    provider named a time), ``status`` the HTTP status of the provider's answer, if there was one.
    """

    def __init__(
        self, message: str, *, retryable: bool = False, retry_after: float | None = None, status: int | None = None
    ) -> None:
        """Keep what a caller needs to decide whether to try again."""
        super().__init__(message)
        self.retryable = retryable
        self.retry_after = retry_after
        self.status = status


class EmbedderMismatch(EmbedderError):
    """The collection belongs to another embedder; nothing was embedded, read or written.

    ``problem`` is "dimension", "id", or "vectors" (same fingerprint, yet the vectors differ).
    """

    def __init__(
        self,
        message: str,
        *,
        stored: Fingerprint,
        given: Fingerprint,
        problem: Literal["dimension", "id", "vectors"],
    ) -> None:
        """Keep both fingerprints."""
        super().__init__(message)
        self.stored = stored
        self.given = given
        self.problem = problem

    def __reduce__(self) -> tuple[object, ...]:
        """Be the same error in another process."""
        again = functools.partial(type(self), str(self), stored=self.stored, given=self.given, problem=self.problem)
        return again, ()


class StoreError(StackroomError):
    """A store refuses or fails."""


class UnknownCollection(StoreError, LookupError):
    """The store has no collection of this name."""

    def __init__(self, name: str) -> None:
        """Name the collection that was asked for."""
        super().__init__(f"there is no collection {name!r} in this store; make it with create_collection first")
        self.name = name

    def __reduce__(self) -> tuple[type[UnknownCollection], tuple[str]]:
        """Be the same error in another process."""
        return type(self), (self.name,)


class CapabilityError(StoreError):
    """The store cannot do this at all; its ``capabilities`` say what it can."""


class Conflict(StoreError):
    """Somebody else wrote in between, or the write would split a source. Nothing was changed; try again anew."""


class StoreUnavailable(StoreError):
    """The database does not answer, is held by another writer, or cannot take the write. Old versions stand."""


class RankerError(StackroomError):
    """A plugged-in vector ranker failed. ``kind`` is the name of its exception's class, and all that is told."""

    def __init__(self, kind: str) -> None:
        """Keep the kind of failure and nothing else of it."""
        super().__init__(f"the vector ranker failed with {kind}; see ranker_health() and the ranker's own logs")
        self.kind = kind

    def __reduce__(self) -> tuple[type[RankerError], tuple[str]]:
        """Be the same error in another process."""
        return type(self), (self.kind,)


class IndexingCancelled(StackroomError):
    """A bulk run was cancelled; what had been embedded by then is written. Run it again to go on."""


class InputCeilingWarning(UserWarning):
    """Some texts are longer than what the embedder's vectors cover; nothing was cut or refused."""
