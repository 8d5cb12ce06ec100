"""A library in Qdrant (extra `qdrant`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stackroom._packages import require_package
from stackroom.stores.generations import GenerationStore
from stackroom.stores.generations._store import LOCK_SECONDS

if TYPE_CHECKING:
    from qdrant_client import QdrantClient


class QdrantStore(GenerationStore):
    """A store in Qdrant: 1.16 or newer, or a client in local mode.

    A client given is used, and left open unless `close_client` says otherwise. `prefix` ("stackroom") begins the names
    of all that the store makes, so that several libraries share a server. All that is allowed is compared (`exact`),
    unless `exact_limit` is given: above so many allowed passages Qdrant's index is walked, and the answer says so
    (`scan_limit`). In local mode one process holds the data, and nothing is promised of a crash: it is for development.
    """

    def __init__(
        self,
        client: QdrantClient,
        *,
        prefix: str | None = None,
        exact_limit: int | None = None,
        lock_timeout: float = LOCK_SECONDS,
        close_client: bool = False,
    ) -> None:
        require_package("qdrant_client", "qdrant", "QdrantStore", "qdrant-client")
        from stackroom.stores.qdrant._engine import PREFIX, QdrantEngine

        engine = QdrantEngine(client, prefix=prefix or PREFIX, exact_limit=exact_limit, owns=close_client)
        is_server = not engine.is_local
        super().__init__(
            engine,
            lexical="native",
            exact=exact_limit is None,
            durable=is_server,
            shared=is_server,
            lock_timeout=lock_timeout,
        )
