"""A streaming replica to read from: that it is one of this library, and that every commit waits for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from stackroom._errors import StoreError
from stackroom.stores.postgres._connections import Begin, Database, Statement, application_name_of

if TYPE_CHECKING:
    from stackroom.stores.postgres._connections import Rows
    from stackroom.stores.postgres._names import Names

_STANDBYS: Final = re.compile(r"\s*(?:(?:(?:FIRST|ANY)\s+)?(\d+)\s*\((.*)\)|(.*))\s*", re.IGNORECASE | re.DOTALL)
"""`synchronous_standby_names`: how many of which, or names of which one is waited for."""

_NAME: Final = re.compile(r'"((?:[^"]|"")*)"|([^\s,"]+)')

_RECEIVER: Final = Statement("SELECT status, conninfo FROM pg_stat_wal_receiver")
_SENDERS: Final = Statement("SELECT application_name, state, sync_state FROM pg_stat_replication")


def check_replica(database: Database, readers: Database, names: Names) -> None:
    """Raise a StoreError unless what is read is a replica of this very library that all commits wait for.

    It must stream now, and be one of those that the primary waits for under its name, even while it is away.
    """
    library = Statement(f"SELECT identity::text FROM {names.of('library')}")
    waits = Statement("SELECT current_setting('synchronous_standby_names'), current_setting('synchronous_commit')")
    replica = Statement("SELECT pg_is_in_recovery()")
    theirs, ((follows,),), receivers = readers.run(
        Begin.READING, lambda session: session.ask(library, replica, _RECEIVER, last=True)
    )
    own, ((standbys, commits),), senders = database.run(
        Begin.READING, lambda session: session.ask(library, waits, _SENDERS, last=True)
    )
    if own != theirs or not follows:
        raise StoreError("read_dsn is no replica of this database; name a streaming replica, or leave it out")
    if not standbys.strip():
        raise StoreError("no replica is synchronous: set synchronous_standby_names, or reads would lag behind writes")
    if not waits_for_all(standbys):
        raise StoreError(
            "commits do not wait for every replica, so the one that is read may lag behind writes: let "
            "synchronous_standby_names name each (no *), and as many as it names: FIRST 2 (one, other)"
        )
    _check_is_waited_for(standbys, receivers, senders)
    if commits != "remote_apply":
        raise StoreError(
            "commits of other programs would not wait until the replica shows them: "
            "ALTER SYSTEM (or DATABASE …) SET synchronous_commit = remote_apply"
        )


def _check_is_waited_for(standbys: str, receivers: Rows, senders: Rows) -> None:
    """Raise a StoreError unless the replica that is read is itself one of those that are named."""
    if not receivers:
        raise StoreError("the replica that is read receives nothing from the primary now, so it may lag behind writes")
    ((status, conninfo),) = receivers
    if status is None or conninfo is None:
        raise StoreError(
            "which replica is read cannot be told, so not whether commits wait for it: "
            "the store's role needs GRANT pg_read_all_stats"
        )
    name = application_name_of(conninfo)
    if status != "streaming" or name.lower() not in {of.lower() for of in _named(standbys)[1]}:
        raise StoreError(
            "commits do not wait for the replica that is read, which may lag behind writes: let it stream, under an "
            "application_name (in its primary_conninfo) that synchronous_standby_names names"
        )
    ours = [rest for sender, *rest in senders if (sender or "").lower() == name.lower()]
    if len(ours) != 1:
        raise StoreError(
            "commits wait for one replica of that name, and not one alone has it: give each an application_name "
            "of its own, and let the one that is read follow the primary itself"
        )
    ((state, sync_state),) = ours
    if state != "streaming" or sync_state not in ("sync", "quorum"):
        raise StoreError("the primary does not wait for the replica that is read yet; try again when it has caught up")


def waits_for_all(standbys: str) -> bool:
    """Tell whether commits wait for every replica that `synchronous_standby_names` names, and it names each."""
    number, named = _named(standbys)
    return bool(named) and "*" not in named and number >= len(named)


def _named(standbys: str) -> tuple[int, list[str]]:
    """Return how many replicas are waited for, and which may be among them."""
    found = _STANDBYS.fullmatch(standbys)
    number, several, plain = found.groups() if found is not None else (None, None, standbys)
    names = [quoted.replace('""', '"') if quoted else bare for quoted, bare in _NAME.findall(several or plain or "")]
    return int(number or 1), names
