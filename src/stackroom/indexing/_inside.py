"""What the bulk functions need of a Library beyond its public methods, in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stackroom._library import Library
from stackroom._writing import Prepared
from stackroom.indexing._calls import Calls, Patience

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from stackroom._cancel import CancelToken
    from stackroom._errors import Conflict
    from stackroom._model import Source
    from stackroom._writing import Writing
    from stackroom.embedders import Embedder
    from stackroom.embedders._door import EmbedderLimits, Gate
    from stackroom.indexing._engine import Job
    from stackroom.stores import VectorStore


@dataclass(frozen=True, slots=True)
class Inside:
    """The parts of a Library."""

    library: Library
    store: VectorStore
    collection: str
    embedder: Embedder
    limits: EmbedderLimits
    gate: Gate
    batch_size: int
    writing: Writing
    time: Callable[[], datetime]

    @property
    def batch(self) -> int:
        """The most texts of one call."""
        most = self.limits.max_batch
        return self.batch_size if most is None else min(most, self.batch_size)

    def calls(self, width: int, cancel: CancelToken | None, patience: Patience) -> Calls:
        """Return a way to embed several batches at a time."""
        return Calls(self.embedder, self.limits, self.gate, width, cancel, patience)

    def write(self, jobs: list[Job[Source]]) -> list[int | Conflict]:
        """Write sources whose vectors are all there; see `Writing.write`."""
        prepared = [Prepared(job.source, job.whole_vectors, job.stored, job.claim, job.own) for job in jobs]
        return self.writing.write(prepared)

    def let_go(self, job: Job[Source]) -> None:
        """Hold no claim for a job any longer."""
        self.writing.claims.drop(job.claim)


def inside(library: Library) -> Inside:
    """Return the parts of a Library; a TypeError for anything else."""
    if not isinstance(library, Library):
        raise TypeError(
            f"library must be a Library, not {type(library).__name__}; beside an event loop, run this with a Library "
            "in a worker thread"
        )
    return Inside(
        library,
        library._store,  # noqa: SLF001 - this module is how the bulk functions see inside
        library._collection,  # noqa: SLF001
        library._embedder,  # noqa: SLF001
        library._limits,  # noqa: SLF001
        library._gate,  # noqa: SLF001
        library._batch_size,  # noqa: SLF001
        library._writing,  # noqa: SLF001
        library._time,  # noqa: SLF001
    )
