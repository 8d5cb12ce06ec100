"""What a ranker has been told of one shard, and what it is still owed: kept beside the shard, or in memory.

A book follows the shard's journal. What is new is first noted as owed, and struck off when it was delivered: so what a
kill interrupts comes again. A ranker whose state dies with the process has its book in memory.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from stackroom.rankers._failures import log
from stackroom.stores.embedded._names import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

Pair: TypeAlias = tuple[str, int]
"""A source's id and a passage's index."""

PATTERN: Final = "ranker-*.db"
_NAME: Final = re.compile("ranker-[0-9a-f]{16}\\.db")

_KEPT: Final = 4
"""Books of so many states of a ranker are kept beside a shard; an older state is fed anew."""

_LATE_SECONDS: Final = 30.0
"""How long what a late call told waits for the rounds of other processes, before it is noted elsewhere."""

_VERSION: Final = 2

_TABLES: Final = """
CREATE TABLE feed (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    durable_id TEXT,                        -- names the ranker's state
    tenant TEXT NOT NULL,
    forgets INTEGER NOT NULL,               -- whether the ranker can forget a tenant at once
    position INTEGER NOT NULL DEFAULT 0,    -- in the shard's journal: all up to there was noted
    cursor INTEGER NOT NULL DEFAULT 0,      -- the last source's number that a full feed has noted
    is_due INTEGER NOT NULL,                -- the tenant is to be forgotten first
    is_filling INTEGER NOT NULL DEFAULT 1,  -- a full feed is under way
    failures INTEGER NOT NULL DEFAULT 0,    -- since the last delivery that succeeded
    last_error TEXT,
    owed_since INTEGER,                     -- microseconds since 1970, UTC; the next likewise
    next_try INTEGER,
    level INTEGER NOT NULL DEFAULT 0,       -- how often a retry has failed
    in_row INTEGER NOT NULL DEFAULT 0       -- so many passages in a row failed when they were told for the first time
);
CREATE TABLE told (
    source INTEGER PRIMARY KEY,             -- its number: its passages were noted
    source_id TEXT NOT NULL,
    passages INTEGER NOT NULL,
    places BLOB                             -- as in the shard
);
CREATE TABLE owed (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    source_id TEXT NOT NULL,
    place INTEGER NOT NULL,
    was_tried INTEGER NOT NULL DEFAULT 0,
    UNIQUE (source_id, place)
)
"""


class Noted(NamedTuple):
    """A source as the shard holds it: what is to be told of it follows from its number."""

    number: int
    source_id: str
    passages: int
    places: bytes | None

    @property
    def pairs(self) -> list[Pair]:
        """Its passages."""
        places = range(self.passages) if self.places is None else np.frombuffer(self.places, dtype="<u4").tolist()
        return [(self.source_id, place) for place in places]


class Standing(NamedTuple):
    """How far a feed is. Times are microseconds since 1970, in UTC."""

    position: int
    cursor: int
    is_due: int
    is_filling: int
    failures: int
    last_error: str | None
    owed_since: int | None
    next_try: int | None
    level: int
    in_row: int


_STANDING: Final = f"SELECT {', '.join(Standing._fields)} FROM feed"  # noqa: S608 - our own names


class Owed(NamedTuple):
    """A passage whose newest state is to be delivered."""

    sequence: int
    source_id: str
    place: int
    was_tried: bool = False

    @property
    def passage_id(self) -> str:
        """The passage's id."""
        return f"{self.source_id}#{self.place}"


_FEED: Final = "SELECT durable_id, tenant, forgets FROM feed"
_OWED: Final = "SELECT sequence, source_id, place, was_tried FROM owed"


class BookIsTorn(Exception):  # an incident, not an error: the ranker is fed anew
    """A book is not what was written."""


class Book:
    """The book of one ranker's state over one shard: in the shard's directory, or in memory without a `durable_id`."""

    def __init__(self, directory: Path, tenant_id: str, durable_id: str | None, *, forgets: bool) -> None:
        self.tenant_id = tenant_id
        self.directory = directory
        self._mutex = threading.RLock()
        self._has_struck_off = False
        self._file = None if durable_id is None else directory / file_name(durable_id)
        try:
            self._connection = self._connected(durable_id, forgets=forgets)
        except BookIsTorn:
            self.drop()
            self._connection = self._connected(durable_id, forgets=forgets)
        if durable_id is not None:
            _drop_oldest(directory)

    def _connected(self, durable_id: str | None, *, forgets: bool) -> sqlite3.Connection:
        self._connection = sqlite3.connect(self._file or ":memory:", isolation_level=None, check_same_thread=False)
        try:
            with self._at_it():
                if durable_id is not None:
                    for setting in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON"):
                        self._connection.execute(f"PRAGMA {setting}")
                self._make(durable_id, forgets=forgets)
        except BaseException:
            self._connection.close()
            raise
        return self._connection

    @contextmanager
    def _at_it(self) -> Iterator[None]:
        """Be alone at the connection; BookIsTorn when the file is not what was written."""
        with self._mutex:
            try:
                yield
            except sqlite3.Error as error:
                if _is_torn(error):
                    raise BookIsTorn from error
                raise

    def drop(self) -> None:
        """Take the file away, of a book that is torn: the next one begins with a full feed."""
        if self._file is not None:
            log.warning("the book of a vector ranker is torn, or of another version: the ranker is fed anew")
            drop_book(self._file)

    def _make(self, durable_id: str | None, *, forgets: bool) -> None:
        if self._version > _VERSION:
            raise BookIsTorn
        if self._version != _VERSION:
            self._make_tables(durable_id, forgets=forgets)
        if self._connection.execute("SELECT forgets FROM feed").fetchone() != (forgets,):  # else nobody is waited for
            self._connection.execute("UPDATE feed SET forgets = ?", (forgets,))

    def _make_tables(self, durable_id: str | None, *, forgets: bool) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        if self._version == 1:
            self._connection.execute("ALTER TABLE feed ADD COLUMN in_row INTEGER NOT NULL DEFAULT 0")
        elif not self._version:
            for statement in _TABLES.split(";\n"):
                self._connection.execute(statement)
            self._connection.execute(
                "INSERT INTO feed (one, durable_id, tenant, forgets, is_due) VALUES (1, ?, ?, ?, ?)",
                (durable_id, self.tenant_id, forgets, forgets),
            )
        self._connection.execute(f"PRAGMA user_version = {_VERSION}")
        self._connection.execute("COMMIT")

    @property
    def _version(self) -> int:
        return int(self._connection.execute("PRAGMA user_version").fetchone()[0])

    # Turns: one process at a time delivers from a book

    def begin_turn(self, seconds: float) -> bool:
        """Begin a transaction that keeps other processes from delivering; False when one is at it for so long."""
        with self._at_it():
            self._connection.execute(f"PRAGMA busy_timeout = {int(1000 * seconds)}")
            try:
                self._connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return False
            return True

    def keep(self) -> None:
        """Make durable what was done in this turn, and go on with it."""
        with self._at_it():
            self._connection.execute("COMMIT")
            self._connection.execute("PRAGMA busy_timeout = 30000")
            self._connection.execute("BEGIN IMMEDIATE")

    def end_turn(self) -> None:
        """End the turn, and make durable what was done."""
        with self._mutex, suppress(sqlite3.Error):
            self._connection.execute("COMMIT")

    # What it says

    @property
    def standing(self) -> Standing:
        """How far the feed is."""
        with self._at_it():
            found = self._connection.execute(_STANDING).fetchone()
        if found is None:
            raise BookIsTorn
        return Standing(*found)

    def look(self, most: int) -> tuple[Standing, list[Pair]]:
        """Return how far the feed is, and up to `most` of the passages owed, both of one moment."""
        with self._at_it():
            owed = self._connection.execute("SELECT source_id, place FROM owed LIMIT ?", (most,)).fetchall()
            return self.standing, owed

    def owed(self, after: int, number: int, *, tried_until: int) -> list[Owed]:
        """Return the next passages owed, in order; of those that were tried before, the ones up to a place."""
        with self._at_it():
            found = self._connection.execute(
                f"{_OWED} WHERE sequence > ? AND (was_tried = 0 OR sequence <= ?) ORDER BY sequence LIMIT ?",
                (after, tried_until, number),
            ).fetchall()
        return [Owed(*row) for row in found]

    def newest(self) -> int:
        """Return the last passage's place in the order."""
        with self._at_it():
            return int(self._connection.execute("SELECT coalesce(max(sequence), 0) FROM owed").fetchone()[0])

    def next_to_try(self) -> Owed | None:
        """Return the passage owed for longest of those that were never tried, else of those that were."""
        with self._at_it():
            found = self._connection.execute(f"{_OWED} ORDER BY was_tried, sequence LIMIT 1").fetchone()
        return None if found is None else Owed(*found)

    def told(self) -> list[Noted]:
        """Return the sources that were noted, in the order of their numbers."""
        with self._at_it():
            found = self._connection.execute("SELECT source, source_id, passages, places FROM told ORDER BY source")
            return [Noted(*row) for row in found.fetchall()]

    def counted(self) -> int:
        """Return how many passages are owed."""
        with self._at_it():
            return int(self._connection.execute("SELECT count(*) FROM owed").fetchone()[0])

    def unknown(self, numbers: Iterable[int]) -> set[int]:
        """Return the numbers of sources that were not noted yet."""
        wanted = set(numbers)
        with self._at_it():
            return {
                number
                for number in wanted
                if self._connection.execute("SELECT 1 FROM told WHERE source = ?", (number,)).fetchone() is None
            }

    # What is written in it, within a turn

    def note(self, came: Iterable[Noted], went: Iterable[int], **where: int) -> None:
        """Note as owed what sources bring and what those that went take away; say how far the feed is by that."""
        with self._at_it():
            for number in went:
                found = self._connection.execute(
                    "DELETE FROM told WHERE source = ? RETURNING source, source_id, passages, places", (number,)
                ).fetchall()
                self._owe(pair for row in found for pair in Noted(*row).pairs)
                self._has_struck_off |= bool(found)
            for source in came:
                self._connection.execute("INSERT OR REPLACE INTO told VALUES (?, ?, ?, ?)", source)
                self._owe(source.pairs)
            self.set(**where)

    def _owe(self, pairs: Iterable[Pair]) -> None:
        self._connection.executemany("INSERT OR REPLACE INTO owed (source_id, place) VALUES (?, ?)", list(pairs))

    def strike_off(self, delivered: Iterable[Owed]) -> None:
        """Strike off what was delivered."""
        with self._at_it():
            self._has_struck_off = True
            self._connection.executemany(
                "DELETE FROM owed WHERE sequence = ?", [(owed.sequence,) for owed in delivered]
            )

    def stand_back(self, failed: Iterable[Owed]) -> None:
        """Put passages that failed behind the others: they wait for a retry, and no other waits for them."""
        with self._at_it():
            for owed in failed:
                for pair in self._connection.execute(
                    "DELETE FROM owed WHERE sequence = ? RETURNING source_id, place", (owed.sequence,)
                ).fetchall():
                    self._connection.execute("INSERT INTO owed (source_id, place, was_tried) VALUES (?, ?, 1)", pair)

    def owe(self, pairs: Iterable[Pair]) -> None:
        """Note as owed what the ranker may hold in another state than the newest."""
        with self._at_it():
            self._owe(pairs)

    def owe_again(self, late: Owed, now: int, next_try: int) -> bool:
        """Note that a call that had been given up has returned, at whatever moment: what it told may be overtaken.

        False when it could not be noted. In a file it is noted also when this book was closed meanwhile, and after
        whatever round is under way in another process.
        """
        try:
            if self._file is None:
                with self._mutex:
                    _owe_again(self._connection, late, now, next_try)
            else:
                with _there(self._file, _LATE_SECONDS) as connection:
                    connection.execute("BEGIN IMMEDIATE")
                    _owe_again(connection, late, now, next_try)
                    connection.execute("COMMIT")
        except sqlite3.Error:
            return False
        return True

    def set(self, **values: object) -> None:
        """Set how far the feed is."""
        if values:
            names = ", ".join(f"{name} = ?" for name in values)
            with self._at_it():
                self._connection.execute(f"UPDATE feed SET {names}", list(values.values()))  # noqa: S608 - our own names

    def refill(self, went: Iterable[int], *, forgets: bool) -> None:
        """See that all is fed again; a ranker that cannot forget is told of each passage that went."""
        with self._at_it():
            self.note([], went)
            if not forgets:
                self._connection.execute("DELETE FROM told")
            self.set(is_due=int(forgets), is_filling=1, cursor=0, position=0)

    def clear(self) -> None:
        """Begin a full feed: the ranker holds nothing."""
        with self._at_it():
            self._has_struck_off = True
            for table in ("told", "owed"):
                self._connection.execute(f"DELETE FROM {table}")  # noqa: S608 - our own names
            self.set(is_due=0, is_filling=1, cursor=0, position=0)

    def close(self) -> None:
        """Erase what was struck off, and close the file; what uses the book from then on is refused by SQLite."""
        with self._mutex:
            with suppress(sqlite3.Error):
                if self._has_struck_off and not self._connection.in_transaction:
                    self._connection.execute("VACUUM")
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._connection.close()


def file_name(durable_id: str) -> str:
    """Return the name of the book of a state: a digest (BLAKE2b, 8 bytes) of the state's."""
    return f"ranker-{hashlib.blake2b(durable_id.encode('utf-8', 'surrogatepass'), digest_size=8).hexdigest()}.db"


def book_of(feed: str) -> str:
    """Return the name of the book of a feed, which the ledger names by its state, or by that when it was torn."""
    return feed if _NAME.fullmatch(feed) else file_name(feed)


def names_of(state: object) -> set[str]:
    """Return the names that books of a state may have, given its `durable_id` or such a name; else ValueError."""
    if not isinstance(state, str) or not state:
        raise ValueError("name the ranker by its durable_id, or as `stackroom doctor` shows it")
    return {file_name(state)} | ({state} if _NAME.fullmatch(state) else set())


def _drop_oldest(directory: Path) -> None:
    """Drop the books of states that were not fed for longest."""
    with suppress(OSError):
        books = sorted(directory.glob(PATTERN), key=lambda path: path.stat().st_mtime_ns, reverse=True)
        for old in books[_KEPT:]:
            drop_book(old)


def drop_book(file: Path) -> None:
    """Take a book away, if it is there."""
    for suffix in ("", "-wal", "-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)


def _owe_again(connection: sqlite3.Connection, late: Owed, now: int, next_try: int) -> None:
    connection.execute(
        "INSERT OR IGNORE INTO owed (source_id, place, was_tried) VALUES (?, ?, 1)", (late.source_id, late.place)
    )
    connection.execute(
        "UPDATE feed SET owed_since = coalesce(owed_since, ?), next_try = coalesce(next_try, ?), level = max(level, 1)",
        (now, next_try),
    )


@contextmanager
def _there(file: Path, seconds: float = 5.0) -> Iterator[sqlite3.Connection]:
    """Open a book that is there, and make none."""
    connection = sqlite3.connect(f"{file.as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=seconds)
    try:
        yield connection
    finally:
        connection.close()


def _is_torn(error: sqlite3.Error) -> bool:
    """Tell whether an error shows a file that is not what was written: damaged, or without our tables."""
    name = getattr(error, "sqlite_errorname", None) or ""
    return name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")) or str(error).startswith("no such ")


def torn_beside(directory: Path) -> Iterator[str]:
    """Yield the names of the books beside a shard that cannot be read whole."""
    for file in listed(directory, PATTERN):
        try:
            with _there(file) as connection:
                is_whole = connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",)
                version = connection.execute("PRAGMA user_version").fetchone()[0]
                is_whole &= version <= _VERSION and (not version or connection.execute(_FEED).fetchone() is not None)
        except sqlite3.Error as error:
            is_whole = not _is_torn(error)
        if not is_whole:
            yield file.name


class Closing(NamedTuple):
    """What a book says when its shard goes: whose it is, whether the tenant can be forgotten, and its passages."""

    durable_id: str
    tenant_id: str
    forgets: bool
    pairs: set[Pair]


def closings(directory: Path) -> Iterator[Closing | str]:
    """Read the books that lie beside a shard, for whoever takes the shard away; the name of one that is torn."""
    for file in listed(directory, PATTERN):
        yield _closing(file)


def _closing(file: Path) -> Closing | str:
    try:
        with _there(file) as connection:
            if connection.execute("PRAGMA user_version").fetchone()[0] > _VERSION:
                return file.name
            durable_id, tenant_id, forgets = connection.execute(_FEED).fetchone()
            return Closing(durable_id, tenant_id, bool(forgets), _pairs(connection))
    except (sqlite3.Error, TypeError):
        return file.name


def newest_beside(directory: Path) -> tuple[str, bool] | None:
    """Return the state whose book beside a shard was written last, and whether its ranker can forget a tenant."""
    with suppress(OSError, ValueError, sqlite3.Error, TypeError):
        newest = max(directory.glob(PATTERN), key=lambda path: path.stat().st_mtime_ns)
        with _there(newest) as connection:
            durable_id, forgets = connection.execute("SELECT durable_id, forgets FROM feed").fetchone()
            return durable_id, bool(forgets)
    return None


def _pairs(connection: sqlite3.Connection) -> set[Pair]:
    owed = connection.execute("SELECT source_id, place FROM owed").fetchall()
    told = connection.execute("SELECT source, source_id, passages, places FROM told").fetchall()
    return {*owed, *(pair for row in told for pair in Noted(*row).pairs)}


def passages_of(shard: Path) -> tuple[str, list[str]] | None:
    """Return whose shard a directory holds, and its passages; None when the shard itself cannot be read."""
    with suppress(sqlite3.Error, TypeError), _there(shard / "shard.db") as connection:
        (tenant_id,) = connection.execute("SELECT tenant FROM state").fetchone()
        sources = connection.execute("SELECT number, source_id, passages, places FROM source").fetchall()
        return tenant_id, [f"{source_id}#{place}" for row in sources for source_id, place in Noted(*row).pairs]
    return None
