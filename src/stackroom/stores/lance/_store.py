"""A library in LanceDB (extra `lance`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stackroom._packages import require_package
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
        require_package("lancedb", "lance", "LanceStore", "lancedb")
        require_package("filelock", "lance", "LanceStore", "filelock")
        from stackroom.stores.lance._engine import LanceEngine

        engine = LanceEngine(uri, lock_timeout)
        super().__init__(
            engine,
            lexical="emulated",
            exact=True,
            durable=True,
            shared=engine.is_local,
            lock_timeout=lock_timeout,
        )
