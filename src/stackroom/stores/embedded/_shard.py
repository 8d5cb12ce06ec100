"""One tenant's shard: its SQLite file, which is the truth, and the followers that make it quick to search.

A read runs in one transaction and looks at one state. A write is one transaction, which appends to the journal the
numbers of the sources it touched; readers of this and other processes catch up from there at their next call.
"""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar

from stackroom._errors import StoreError, StoreUnavailable
from stackroom._files import sync_directory
from stackroom.stores.embedded._catalogue import Catalogue
from stackroom.stores.embedded._directory import Entry, database_errors
from stackroom.stores.embedded._holders import Holder
from stackroom.stores.embedded._postings import ListCache, Postings
from stackroom.stores.embedded._schema import SHARD_FORMAT, State, make_tables, state_of
from stackroom.stores.embedded._vectors import Numbering, RowsFile, Snapshot, Vectors

if TYPE_CHECKING:
    from pathlib import Path


FILE: Final = "shard.db"
HOLDER: Final = "writer.json"

_CHECKPOINT_MILLISECONDS: Final = 2000
"""How long erasing waits for readers, before it leaves the rest to the next close."""

_LOOKS: Final = 10
"""How often a file that is just being made or removed is looked at."""

_IDLE_READERS: Final = 2
"""Connections kept open for the next readers; more are opened while more read at once."""

_VOCABULARY: Final = 200_000
"""Words whose numbers are kept for the next write."""

T = TypeVar("T")


class ShardIsGone(Exception):
    """The tenant was removed, perhaps by another process; this file is no longer its shard."""


class ShardIsClosed(Exception):
    """A swap is under way: nothing may be written until it has ended."""


@dataclass(slots=True)
class Followers:
    """What follows one numbering of a shard's rows in memory; throwing it away loses nothing."""

    layout: int
    catalogue: Catalogue
    postings: Postings
    vectors: Vectors
    state: State

    def dense(self, reader: sqlite3.Connection) -> Snapshot:
        """Return the vectors and codes as of the state."""
        return self.vectors.follow(reader, self.state.coded, self.state.rows)

    def lexical(self, reader: sqlite3.Connection) -> Postings:
        """Return the postings as of the state."""
        self.postings.follow(reader, self.state.segmented, self.state.rows)
        return self.postings


Look: TypeAlias = Callable[[sqlite3.Connection, Followers], T]


class Shard:
    """The open shard of one tenant. `path` is its directory; it must hold a finished file (`create_shard`).

    `is_named` tells whether the library still names the generation that the shard is of, `is_swapping` whether a swap
    of it is under way; `mark` notes beside the shards that one of a number may hold removed data. `lock_timeout` is how
    many seconds a write waits for another process's.
    """

    def __init__(
        self,
        path: Path,
        entry: Entry,
        is_named: Callable[[], bool],
        is_swapping: Callable[[], bool],
        mark: Callable[[int], None],
        lists: ListCache,
        lock_timeout: float,
    ) -> None:
        self.path = path
        self.entry = entry
        self.dimension = entry.spec.dimension
        self.is_named = is_named
        self._is_swapping = is_swapping
        self._mark = mark
        self.vocabulary: dict[str, int] = {}
        self.users = 0
        self.needs_care = False
        self.has_unerased = False
        self._vocabulary_of = -1
        self._lists = lists
        self._lock_timeout = lock_timeout
        self._write_lock = threading.Lock()
        self._follow_lock = threading.RLock()
        self._pool_lock = threading.Lock()
        self._readers: list[sqlite3.Connection] = []
        self._writer: sqlite3.Connection | None = None
        self._rows_file: tuple[int, RowsFile] | None = None
        self._followers: Followers | None = None
        self._holder = Holder(path / HOLDER)
        self._is_closed = False
        try:
            self._inode = (path / FILE).stat().st_ino
        except FileNotFoundError:
            raise ShardIsGone from None
        with database_errors(), self._telling_that_it_went():
            reader = self._borrow()
            self.tenant_id, self.number = reader.execute("SELECT tenant, number FROM state").fetchone()
            self._give_back(reader)

    @contextmanager
    def reading(self, look: Look[T]) -> Iterator[tuple[sqlite3.Connection, T]]:
        """Read one state in one transaction; `look` is asked of followers that are just as far, under their lock.

        SideFileIsTorn when `look` needs a side file that is not whole: `derive` it anew.
        """
        with database_errors(), self._telling_that_it_went():
            reader = self._borrow()
            try:
                yield reader, self._looked(reader, look)
            finally:
                with suppress(sqlite3.Error):
                    reader.execute("ROLLBACK")
                self._give_back(reader)

    def is_there(self) -> bool:
        """Tell whether this is the tenant's shard still; also of one that was closed meanwhile."""
        try:
            with database_errors(), self._telling_that_it_went():
                reader = self._borrow()
                try:
                    self._state(reader)
                finally:
                    self._give_back(reader)
        except ShardIsGone:
            return False
        return True

    @contextmanager
    def writing(self, look: Look[T]) -> Iterator[tuple[sqlite3.Connection, T]]:
        """Write in one transaction: committed at the end, rolled back when anything is raised.

        `look` is asked of the followers as of the transaction's begin. Its own writes they hear of afterwards.
        """
        with self._write_lock, database_errors(), self._telling_that_it_went():
            writer = self._writing_connection()
            self._begin(writer)
            try:
                state = self._state(writer)
                if state.vocabulary != self._vocabulary_of or len(self.vocabulary) > _VOCABULARY:
                    self.vocabulary, self._vocabulary_of = {}, state.vocabulary
                with self._follow_lock:
                    looked = look(writer, self._follow(writer, state))
                yield writer, looked
                writer.execute("COMMIT")
            except BaseException:
                self.vocabulary = {}  # it may name words that were rolled back
                with suppress(sqlite3.Error):
                    writer.execute("ROLLBACK")
                raise

    @contextmanager
    def changing(self, look: Look[T]) -> Iterator[tuple[sqlite3.Connection, T]]:
        """Write what the caller gave, as `writing` does; ShardIsClosed, with nothing written, while a swap goes on.

        The mark is looked for before the name: a swap that ends in between has taken the name away by then.
        """
        with self.writing(look) as found:
            if self._is_swapping():
                raise ShardIsClosed
            if not self.is_named():
                raise ShardIsGone
            yield found

    def settled_versions(self) -> set[int]:
        """Wait for the write that is under way, if one is, and return the versions of all sources."""
        with self._write_lock, database_errors(), self._telling_that_it_went():
            writer = self._writing_connection()
            self._begin(writer)
            try:
                self._state(writer)
                return {version for (version,) in writer.execute("SELECT version FROM source")}
            finally:
                writer.execute("ROLLBACK")

    def numbering(self, layout: int) -> Numbering:
        """Return what names the side files of one numbering of the rows."""
        return self.number, layout

    def expect_removals(self) -> None:
        """Note, beside the shards, that this one may come to hold removed data, unless that stands there already.

        Called before a write transaction, never in one: it takes the library's lock.
        """
        if not self.has_unerased:
            self._mark(self.number)
            self.has_unerased = True

    def rows_file(self, layout: int) -> RowsFile:
        """Return the file of the vectors, to be written; only within `writing`."""
        if self._rows_file is None or self._rows_file[0] != layout:
            self._close_rows_file()
            self._rows_file = layout, RowsFile(self.path, self.numbering(layout), self.dimension)
        return self._rows_file[1]

    def vacuum(self, removals: int) -> None:
        """Write the database's file anew, and note that so many removals have been erased from it."""
        with self._write_lock, database_errors():
            writer = self._writing_connection()
            writer.execute("VACUUM")
            writer.execute(f"PRAGMA busy_timeout = {_CHECKPOINT_MILLISECONDS}")
            is_busy, _, _ = writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if is_busy:
                raise StoreUnavailable("another process reads a shard, so what was removed still stands in its log")
            writer.execute("UPDATE state SET scrubbed = ?", (removals,))

    def close(self) -> None:
        """Close the file."""
        with self._write_lock:
            self._is_closed = True
            self._close_rows_file()
            with self._pool_lock:
                readers, self._readers = self._readers, []
            for connection in [*readers, *([] if self._writer is None else [self._writer])]:
                connection.close()
            self._holder.close()
            self._writer = self._followers = None

    # Connections

    @contextmanager
    def _telling_that_it_went(self) -> Iterator[None]:
        """Say ShardIsGone for what SQLite makes of a file that was moved away or made anew."""
        try:
            yield
        except sqlite3.Error:
            with suppress(FileNotFoundError):
                if (self.path / FILE).stat().st_ino == self._inode:
                    raise
            raise ShardIsGone from None

    def _begin(self, writer: sqlite3.Connection) -> None:
        """Begin a write transaction, and say who holds it; StoreUnavailable names who holds it for too long."""
        try:
            writer.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
                raise StoreUnavailable(
                    f"{self._holder.name()} has held the writer's lock of this tenant's shard "
                    f"for over {self._lock_timeout:g} s; try again"
                ) from error
            raise
        self._holder.sign()

    def _borrow(self) -> sqlite3.Connection:
        with self._pool_lock:
            if self._readers:
                return self._readers.pop()
        return self._connected()

    def _connected(self) -> sqlite3.Connection:
        try:
            return connect(self.path / FILE, timeout=self._lock_timeout)
        except sqlite3.OperationalError:
            if (self.path / FILE).exists():
                raise
            raise ShardIsGone from None

    def _give_back(self, reader: sqlite3.Connection) -> None:
        with self._pool_lock:
            if not self._is_closed and len(self._readers) < _IDLE_READERS:
                self._readers.append(reader)
                return
        reader.close()

    def _writing_connection(self) -> sqlite3.Connection:
        if self._is_closed:
            raise ShardIsGone
        if self._writer is None:
            self._writer = self._connected()
        return self._writer

    def _close_rows_file(self) -> None:
        if self._rows_file is not None:
            self._rows_file[1].close()
            self._rows_file = None

    # Following

    def _looked(self, reader: sqlite3.Connection, look: Look[T]) -> T:
        """Begin a transaction and look at followers of just its state; when they are ahead of it, begin again."""
        while True:
            reader.execute("BEGIN")
            state = self._state(reader)
            with self._follow_lock:
                known = self._followers
                if known is None or known.state.position <= state.position:
                    return look(reader, self._follow(reader, state))
            reader.execute("ROLLBACK")

    def _state(self, connection: sqlite3.Connection) -> State:
        """Return where the shard stands; the file may be another tenant's by now, or about to go."""
        state = state_of(connection)
        if state.is_gone or state.number != self.number or not self.is_named():
            raise ShardIsGone
        return state

    def _follow(self, reader: sqlite3.Connection, state: State) -> Followers:
        followers = self._followers
        if (
            followers is None
            or followers.layout != state.layout
            or not followers.catalogue.follow(reader, state.position, state.rows)
        ):
            followers = Followers(
                state.layout,
                Catalogue(),
                Postings(self.numbering(state.layout), self._lists),
                Vectors(self.path, self.numbering(state.layout), self.dimension),
                state,
            )
            followers.catalogue.follow(reader, state.position, state.rows)
        followers.state = state
        self._followers = followers
        return followers


def create_shard(path: Path, tenant_id: str, number: int) -> None:
    """Make a tenant's shard in a directory, whole or not at all. The caller holds the library's lock.

    It is made under another name, so that nobody opens a file whose tables are still to come.
    """
    begun = path.with_name(f".begun-{path.name}")
    shutil.rmtree(begun, ignore_errors=True)
    begun.mkdir(parents=True)
    connection = connect(begun / FILE, mode="rwc")
    try:
        connection.execute("BEGIN IMMEDIATE")
        make_tables(connection, tenant_id, number)
        connection.execute("COMMIT")
    finally:
        connection.close()
    sync_directory(begun)
    begun.rename(path)
    sync_directory(path.parent)


def format_of(path: Path) -> int | None:
    """Return the format of the shard in a directory; None when there is none that is finished, or its tenant is gone.

    StoreError when it is newer than this Stackroom reads, StoreUnavailable when it is damaged. A file that is just
    being made or removed is looked at again.
    """
    for _ in range(_LOOKS):
        with suppress(sqlite3.Error, FileNotFoundError):
            return _format_of(path)
        if not (path / FILE).exists():
            return None
    with database_errors():
        return _format_of(path)


def _format_of(path: Path) -> int | None:
    if not (path / FILE).exists():
        return None
    connection = connect(path / FILE)
    try:
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version > SHARD_FORMAT:
            raise StoreError(f"a shard has format {version}, newer than the {SHARD_FORMAT} that this Stackroom reads")
        is_there = version and not connection.execute("SELECT is_gone FROM state").fetchone()[0]
        return version if is_there else None
    finally:
        connection.close()


def is_finished(path: Path) -> bool:
    """Tell whether a directory holds a shard of this format: made to its end, and its tenant not removed."""
    return format_of(path) == SHARD_FORMAT


def number_of(path: Path) -> int | None:
    """Return the number of the shard in a directory, also of one whose tenant is gone; None when there is none."""
    with suppress(sqlite3.Error, FileNotFoundError, TypeError):
        connection = connect(path / FILE)
        try:
            return int(connection.execute("SELECT number FROM state").fetchone()[0])
        finally:
            connection.close()
    return None


def connect(file: Path, mode: Literal["rw", "rwc"] = "rw", timeout: float = 30.0) -> sqlite3.Connection:
    """Open a shard's file; only "rwc" makes it."""
    connection = sqlite3.connect(
        f"{file.as_uri()}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False, timeout=timeout
    )
    try:
        if mode == "rwc":
            connection.execute("PRAGMA journal_mode = WAL")  # it stands in the file from then on
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")
    except BaseException:
        connection.close()
        raise
    return connection
