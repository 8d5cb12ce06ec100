"""A streaming replica to read from: that it is one of this library, and that every commit waits for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from stackroom._errors import StoreError
from stackroom.stores.postgres._connections import Begin, Database, Statement

if TYPE_CHECKING:
    from stackroom.stores.postgres._names import Names

_STANDBYS: Final = re.compile(r"\s*(?:(?:(?:FIRST|ANY)\s+)?(\d+)\s*\((.*)\)|(.*))\s*", re.IGNORECASE | re.DOTALL)
"""`synchronous_standby_names`: how many of which, or names of which one is waited for."""


def check_replica(database: Database, readers: Database, names: Names) -> None:
    """Raise a StoreError unless what is read is a replica of this very library that all commits wait for."""
    library = Statement(f"SELECT identity::text FROM {names.of('library')}")
    waits = Statement(
        "SELECT current_setting('synchronous_standby_names'), current_setting('synchronous_commit'), "
        "(SELECT count(*) FROM pg_stat_replication)"
    )
    replica = Statement("SELECT pg_is_in_recovery()")
    own, ((standbys, commits, connected),) = database.run(
        Begin.READING, lambda session: session.ask(library, waits, last=True)
    )
    theirs, ((follows,),) = readers.run(Begin.READING, lambda session: session.ask(library, replica, last=True))
    if own != theirs or not follows:
        raise StoreError("read_dsn is no replica of this database; name a streaming replica, or leave it out")
    if not standbys.strip():
        raise StoreError("no replica is synchronous: set synchronous_standby_names, or reads would lag behind writes")
    if not waits_for_all(standbys, connected):
        raise StoreError(
            "commits do not wait for every replica, so the one that is read may lag behind writes: let "
            "synchronous_standby_names name all that are connected, and as many as it names: FIRST 2 (one, other)"
        )
    if commits != "remote_apply":
        raise StoreError(
            "commits of other programs would not wait until the replica shows them: "
            "ALTER SYSTEM (or DATABASE …) SET synchronous_commit = remote_apply"
        )


def waits_for_all(standbys: str, connected: int) -> bool:
    """Tell whether commits wait for every replica that `synchronous_standby_names` names and that is connected."""
    found = _STANDBYS.fullmatch(standbys)
    number, several, plain = found.groups() if found is not None else (None, None, standbys)
    named = [name.strip().strip('"') for name in (several or plain or "").split(",")]
    listed = 0 if "*" in named else len(named)
    return int(number or 1) >= max(listed, connected)
