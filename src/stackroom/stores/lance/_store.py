"""A library in LanceDB (extra `lance`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stackroom.stores._protocol import MAX_DIMENSION, Capabilities, all_filters
from stackroom.stores.generations import GenerationStore
from stackroom.stores.generations._store import LOCK_SECONDS

if TYPE_CHECKING:
    import os


class LanceStore(GenerationStore):
    """A store in LanceDB's files: a directory (made when missing), or a URI such as ``s3://bucket/library``.

    Every dense search compares all that is allowed, without an index: exact. Words are ranked here, among the rows that
    hold them. A directory may be open in several processes, whose writers wait for a lock on a file in it; to a URI
    only one process at a time may write. What was removed lies in old versions of the files, of which those older
    than ten minutes are erased when the store is closed.
    """

    def __init__(self, uri: str | os.PathLike[str], *, lock_timeout: float = LOCK_SECONDS) -> None:
        try:
            from stackroom.stores.lance._engine import LanceEngine
        except ImportError as missing:
            raise ImportError('LanceStore needs lancedb: pip install "stackroom[lance]"') from missing
        engine = LanceEngine(uri, lock_timeout)
        super().__init__(
            engine,
            Capabilities(
                lexical="emulated",
                prefix="refused",
                update="emulated",
                transactions="emulated",
                swap="emulated",
                filters={**all_filters(), "Range": "emulated", "Contains": "emulated"},
                exact=True,
                durable=True,
                shared=engine.is_local,
                max_dimension=MAX_DIMENSION,
            ),
            lock_timeout=lock_timeout,
        )
