"""The open shards of a directory: found, opened, cared for in the background, closed when idle, erased at the end."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from stackroom._errors import StackroomError, StoreError
from stackroom.stores.embedded import _derived, _writes
from stackroom.stores.embedded._book import PATTERN
from stackroom.stores.embedded._ledger import depart
from stackroom.stores.embedded._names import directory_name, listed
from stackroom.stores.embedded._postings import ListCache
from stackroom.stores.embedded._schema import SHARD_FORMAT
from stackroom.stores.embedded._shard import Shard, ShardIsGone, create_shard, format_of, is_finished, number_of
from stackroom.stores.embedded._upgrade import upgrade_shard

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from stackroom.stores.embedded._directory import Directory, Entry

_log = logging.getLogger("stackroom.stores")


class Shards:
    """The open shards of one store, at most `limit` of them but for those in use."""

    def __init__(self, directory: Directory, lock_timeout: float, limit: int) -> None:
        self._directory = directory
        self._lock_timeout = lock_timeout
        self._limit = limit
        self._lists = ListCache()
        self._lock = threading.RLock()
        self._open: OrderedDict[Path, Shard] = OrderedDict()
        self._paths: dict[int, tuple[Path, Entry]] = {}
        self._carers: dict[Path, threading.Thread] = {}
        self.is_closed = False

    def path_of(self, entry: Entry, tenant_id: str) -> Path:
        """Return the directory of a tenant's shard; it need not exist."""
        return self._directory.generation_path(entry.generation) / directory_name(tenant_id)

    def paths_of(self, entry: Entry) -> list[Path]:
        """Return the directories of a generation's shards."""
        return listed(self._directory.generation_path(entry.generation), "[!.]*")

    @contextmanager
    def used(self, path: Path, entry: Entry) -> Iterator[Shard | None]:
        """Hold a directory's shard open, or None when there is no finished one there."""
        shard = self._taken(path, entry)
        try:
            yield shard
        finally:
            if shard is not None:
                with self._lock:
                    shard.users -= 1

    def every(self, entry: Entry) -> Iterator[Shard]:
        """Yield the shards of a generation, one after the other."""
        for path in self.paths_of(entry):
            with self.used(path, entry) as shard:
                if shard is not None:
                    yield shard

    def make(self, entry: Entry, tenant_id: str, number: int) -> None:
        """Make a tenant's shard, unless somebody else just did. The caller holds the directory's lock."""
        path = self.path_of(entry, tenant_id)
        if not is_finished(path):
            self._directory.remove(path)
            create_shard(path, tenant_id, number)

    def remove_gone(self, path: Path) -> None:
        """Take the directory of a shard away whose tenant is gone, unless a new one stands there by now."""
        if path.exists() and not is_finished(path):
            self.depart([path])
        with self._directory.locked():
            if path.exists() and not is_finished(path):
                self._directory.remove(path)

    def depart(self, paths: Iterable[Path]) -> None:
        """Note in the ledger what rankers are owed of shards that are about to go; that is durable before they do."""
        with_books = [path for path in paths if listed(path, PATTERN)]
        if with_books:
            with self._directory.locked() as ledger:
                for path in with_books:
                    depart(ledger, path)

    def forget(self, shard: Shard) -> None:
        """Let a shard go whose tenant is gone, or whose generation is."""
        with self._lock:
            if self._open.get(shard.path) is shard:
                del self._open[shard.path]
        shard.close()

    def forget_at(self, path: Path) -> None:
        """Let the shard of a directory go, if it is open."""
        with self._lock:
            shard = self._open.get(path)
        if shard is not None:
            self.forget(shard)

    def forget_all(self) -> None:
        """Let all shards go that are open: some of them are no longer what stands in their place."""
        with self._lock:
            shards = list(self._open.values())
            self._open.clear()
        for shard in shards:
            shard.close()

    def forget_unnamed(self) -> None:
        """Let the shards go whose generation no collection has any more."""
        with self._lock:
            unnamed = [shard for shard in self._open.values() if not shard.is_named()]
        for shard in unnamed:
            self.forget(shard)

    def care_soon(self, entry: Entry, tenant_id: str) -> None:
        """Merge a shard's segments and number its rows anew, in a thread of its own, when that is due."""
        path = self.path_of(entry, tenant_id)
        with self._lock:
            shard = self._open.get(path)
            if self.is_closed or path in self._carers or shard is None or not shard.needs_care:
                return
            shard.needs_care = False
            carer = threading.Thread(target=self._care, args=(path, entry), name="stackroom-care", daemon=True)
            self._carers[path] = carer
            carer.start()

    def close(self) -> None:
        """Wait for what is being cared for, erase what was removed, and close everything."""
        with self._lock:
            self.is_closed = True
            carers = list(self._carers.values())
        for carer in carers:
            carer.join()
        with self._lock:
            for shard in self._open.values():
                self._paths[shard.number] = shard.path, shard.entry
                shard.close()
            self._open.clear()
        self._erase_marked()

    def _erase_marked(self) -> None:
        """Erase what was removed, one shard after the other; what cannot be erased now is at the next close."""
        try:
            marks = self._directory.marks()
            if {shard for shard, _ in marks} - self._paths.keys():
                self._find_all()
        except StackroomError as error:
            _log.warning("it could not be seen what is to be erased (%s); it will be at the next close", error)
            return
        for number in sorted({shard for shard, _ in marks}):
            try:
                self._erase(number)
                self._directory.take_back(mark for mark in marks if mark[0] == number)
            except (StackroomError, ShardIsGone) as error:
                _log.warning("removed data could not be erased from a shard (%s); it will be at the next close", error)

    def _erase(self, number: int) -> None:
        if number not in self._paths:
            return
        path, entry = self._paths[number]
        if not is_finished(path):
            self.remove_gone(path)
            return
        shard = self._opened(path, entry)
        try:
            if shard.number != number:
                return
            if _writes.end_if_empty(shard):
                self.remove_gone(path)
            else:
                _derived.erase(shard)
        finally:
            shard.close()

    def _find_all(self) -> None:
        """Look where every shard lies: some was marked by a process that has died."""
        for entry in self._directory.register().collections.values():
            for path in self.paths_of(entry):
                number = number_of(path)
                if number is not None:
                    self._paths.setdefault(number, (path, entry))

    def _taken(self, path: Path, entry: Entry) -> Shard | None:
        with self._lock:
            if self.is_closed:
                raise StoreError("this store is closed; open the directory again")
            shard = self._open.get(path)
            if shard is None:
                version = format_of(path)
                if version is None:
                    return None
                if version < SHARD_FORMAT:
                    upgrade_shard(path)
                try:
                    shard = self._open[path] = self._opened(path, entry)
                except ShardIsGone:
                    return None
            shard.users += 1
            self._open.move_to_end(path)
            self._close_idle()
            return shard

    def _opened(self, path: Path, entry: Entry) -> Shard:
        return Shard(
            path,
            entry,
            partial(self._is_named, entry),
            partial(self._directory.is_swapping, entry),
            self._directory.mark_unerased,
            self._lists,
            self._lock_timeout,
        )

    def _is_named(self, entry: Entry) -> bool:
        """Tell whether the register still names a generation: a swap or a drop may have come meanwhile."""
        there = self._directory.register().collections.values()
        return any(other.generation == entry.generation for other in there)

    def _close_idle(self) -> None:
        """Close the shards that nobody has used for longest, as many as there are too many."""
        for path, shard in list(self._open.items()):
            if len(self._open) <= self._limit:
                return
            if not shard.users:
                self._paths[shard.number] = shard.path, shard.entry
                del self._open[path]
                shard.close()

    def _care(self, path: Path, entry: Entry) -> None:
        try:
            with self.used(path, entry) as shard:
                while shard is not None and not self.is_closed and _derived.care(shard):
                    pass
        except (StackroomError, ShardIsGone) as error:
            _log.warning("a shard could not be cared for now (%s); a later write does it", type(error).__name__)
        finally:
            with self._lock:
                self._carers.pop(path, None)
