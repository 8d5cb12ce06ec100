"""The library's directory: which collections there are, in which generation, and the lock over all of it.

``library.toml`` is replaced whole, never changed in place; a call looks whether it is still the file it knew. The lock
is a write transaction on ``ledger.db``, which also counts the shards ever made, so that no version comes twice.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import sqlite3
import threading
import tomllib
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from stackroom._errors import Conflict, StoreError, StoreUnavailable, UnknownCollection
from stackroom._files import write_whole
from stackroom.stores._protocol import CollectionSpec
from stackroom.stores.embedded._book import PATTERN
from stackroom.stores.embedded._holders import HOST, Holder
from stackroom.stores.embedded._ledger import depart
from stackroom.stores.embedded._names import listed
from stackroom.text._arguments import is_whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

FORMAT: Final = 2
"""The format that this code writes. It brings older ones to it and refuses newer ones."""

LOCK_SECONDS: Final = 30.0
"""How long a write waits for another writer before it gives up."""

_TRIES: Final = 10
"""How often a directory is erased that others add to."""

_TOML: Final = "library.toml"
_LEDGER: Final = "ledger.db"
_HOLDER: Final = "ledger.json"
_BEGUN: Final = re.compile(r"ledger\.json|ledger\.db(-wal|-shm|-journal)?|library\.toml\.new")
_HEADER: Final = "# The register of a Stackroom library. Stackroom keeps it; change nothing here by hand.\n"


Mark: TypeAlias = tuple[int, int]
"""That a shard, by its number, may hold removed data, left by one handle on the directory."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A collection as the register names it: what it holds, and the directory of its shards."""

    spec: CollectionSpec
    generation: int


@dataclass(frozen=True, slots=True)
class Register:
    """What ``library.toml`` says. `last_generation` is the highest number ever given; none is given twice."""

    collections: Mapping[str, Entry] = field(default_factory=dict)
    last_generation: int = 0
    format: int = FORMAT

    def entry(self, name: str) -> Entry:
        """Return a collection's entry; StoreError (a LookupError) when there is none."""
        if name not in self.collections:
            raise UnknownCollection(name)
        return self.collections[name]

    def with_collection(self, name: str, spec: CollectionSpec) -> Register:
        """Return the register with one more collection, in a generation of its own."""
        generation = self.last_generation + 1
        return Register({**self.collections, name: Entry(spec, generation)}, generation)

    def without(self, name: str) -> Register:
        """Return the register without a collection."""
        kept = {other: entry for other, entry in self.collections.items() if other != name}
        return Register(kept, self.last_generation)

    def moved(self, side: str, name: str) -> Register:
        """Return the register in which the collection `side` has the name `name`, and no other."""
        return Register({**self.without(side).collections, name: self.entry(side)}, self.last_generation)


@contextmanager
def database_errors() -> Iterator[None]:
    """Say StoreUnavailable for what SQLite or the file system refuses: a full disk, no permission, a held lock."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreUnavailable(_advice(error)) from error
    except OSError as error:
        raise StoreUnavailable(
            f"the library's directory cannot be used ({error.strerror or type(error).__name__})"
        ) from error


def _advice(error: sqlite3.Error) -> str:
    name = getattr(error, "sqlite_errorname", None) or type(error).__name__
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return "another writer has held the lock for too long; try again, or raise lock_timeout"
    if name.startswith("SQLITE_FULL"):
        return "the disk is full: nothing was changed; make room and try again"
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")):
        return "the library's files cannot be opened (read-only, no permission, too many open); nothing was changed"
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return "a shard's database is damaged: `stackroom doctor` says which; restore it from a backup"
    return f"the library's database refused the call ({name}: {error}); nothing was changed"


class Directory:
    """A library's directory, made when it is missing or empty. StoreError when it is something else."""

    def __init__(
        self, path: str | os.PathLike[str], lock_timeout: float, upgrade_shard: Callable[[Path], None]
    ) -> None:
        self.path = Path(path).absolute()
        self._mutex = threading.RLock()
        self._register_lock = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self._register = Register()
        self._lock_timeout = lock_timeout
        self._holder = Holder(self.path / _HOLDER)
        self._handle = secrets.randbits(62)
        with database_errors():
            self._check()
            self.path.mkdir(parents=True, exist_ok=True)
            self._ledger = sqlite3.connect(
                self.path / _LEDGER, isolation_level=None, check_same_thread=False, timeout=lock_timeout
            )
        try:
            self._make_ready(upgrade_shard)
        except BaseException:
            self._ledger.close()
            raise

    @property
    def ledger(self) -> Path:
        """The ledger's file."""
        return self.path / _LEDGER

    def _make_ready(self, upgrade_shard: Callable[[Path], None]) -> None:
        """Make what is missing, bring an older library to this format, erase what a crash left; else wait for none."""
        if not (self.path / _TOML).exists() or self.register().format < FORMAT:
            with self.locked() as ledger:
                ledger.execute("CREATE TABLE IF NOT EXISTS shard (number INTEGER PRIMARY KEY AUTOINCREMENT)")
                ledger.execute(
                    "CREATE TABLE IF NOT EXISTS unerased"
                    " (shard INTEGER, process INTEGER, host TEXT, handle INTEGER, PRIMARY KEY (shard, handle))"
                )
                if not (self.path / _TOML).exists():
                    self._write(Register())
                if self.register().format < FORMAT:
                    self._upgrade(upgrade_shard)
        if self.orphans():
            self.clear()

    def _check(self) -> None:
        """Look before anything is touched: a library, an empty place, or a refusal that says what it is."""
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise StoreError("the path given is a file; a library is a directory: name a new or an empty one")
        if (self.path / _TOML).exists():
            self.register()
        elif any(not _BEGUN.fullmatch(entry.name) for entry in self.path.iterdir()):
            raise StoreError(
                f"this directory is not empty and no Stackroom library (it has no {_TOML}); nothing was touched: "
                "name a new or an empty directory"
            )

    def register(self) -> Register:
        """Return what ``library.toml`` says now; it is read again only when it is another file."""
        with database_errors():
            status = (self.path / _TOML).stat()
            seen = (status.st_mtime_ns, status.st_ino, status.st_size)
            with self._register_lock:
                if seen != self._seen:
                    self._register = _parsed((self.path / _TOML).read_bytes())
                    self._seen = seen
                return self._register

    @contextmanager
    def locked(self) -> Iterator[sqlite3.Connection]:
        """Hold the lock over the whole directory, against other threads and other processes."""
        with self._mutex, database_errors():
            self._begin()
            try:
                yield self._ledger
            except BaseException:
                self._ledger.execute("ROLLBACK")
                raise
            self._ledger.execute("COMMIT")

    def _begin(self) -> None:
        try:
            self._ledger.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
                raise StoreUnavailable(
                    f"{self._holder.name()} has held the library's lock for over {self._lock_timeout:g} s; try again"
                ) from error
            raise
        self._holder.sign()

    def _upgrade(self, upgrade_shard: Callable[[Path], None]) -> None:
        """Bring an older library to this format. Begun and killed, it goes on at the next opening."""
        old = self.register()
        for entry in old.collections.values():
            for shard in listed(self.generation_path(entry.generation)):
                upgrade_shard(shard)
        self._write(Register(old.collections, old.last_generation))

    def create(self, name: str, spec: CollectionSpec) -> None:
        """Make a collection, or find an equal one; Conflict when it is there with another spec."""
        there = self.register().collections.get(name)
        if there is None:
            with self.locked():
                there = self.register().collections.get(name)
                if there is None:
                    self._write(self.register().with_collection(name, spec))
                    return
        if there.spec != spec:
            raise Conflict(f"collection {name!r} exists with another dimension or fingerprint; choose another name")

    def rewrite(self, register: Register) -> None:
        """Replace the register whole. Call it while locked; then sweep what it no longer names."""
        self._write(register)

    @contextmanager
    def swapping(self, *entries: Entry) -> Iterator[None]:
        """Let nobody begin to write in some generations until this is left. Call it while locked.

        Whoever is in the midst of a write ends it, so wait for each shard once.
        """
        marks = {self._swap_mark(entry) for entry in entries}
        try:
            for mark in marks:
                mark.touch()
            yield
        finally:
            for mark in marks:
                mark.unlink(missing_ok=True)

    def is_swapping(self, entry: Entry) -> bool:
        """Tell whether a swap of a generation is under way, or a process has died in one."""
        return self._swap_mark(entry).exists()

    def await_swap(self, entry: Entry) -> None:
        """Wait for the end of a swap, and take away the mark of one that a process has died in."""
        with self.locked():
            self._swap_mark(entry).unlink(missing_ok=True)

    def _swap_mark(self, entry: Entry) -> Path:
        return self.path / f"{entry.generation}.swapping"

    def next_shard_number(self) -> int:
        """Return a number that no shard of this library ever had: it is spent before it is used."""
        with self.locked() as ledger:
            number = ledger.execute("INSERT INTO shard DEFAULT VALUES").lastrowid
            ledger.execute("DELETE FROM shard")
        return int(number or 0)

    def mark_unerased(self, shard: int) -> None:
        """Note that this handle may leave removed data in a shard's files."""
        with self.locked() as ledger:
            mark = (shard, os.getpid(), HOST, self._handle)
            ledger.execute("INSERT OR IGNORE INTO unerased VALUES (?, ?, ?, ?)", mark)

    def marks(self) -> list[Mark]:
        """Return the marks that this handle has made, or a process of this host that has died since."""
        with self._mutex, database_errors():
            every = self._ledger.execute("SELECT shard, handle, process, host FROM unerased").fetchall()
        return [
            (shard, handle)
            for shard, handle, process, host in every
            if handle == self._handle or (host == HOST and not _lives(process))
        ]

    def take_back(self, marks: Iterable[Mark]) -> None:
        """Take back marks of shards that hold nothing removed any more; others that came meanwhile stay."""
        with self.locked() as ledger:
            ledger.executemany("DELETE FROM unerased WHERE shard = ? AND handle = ?", list(marks))

    def generation_path(self, generation: int) -> Path:
        """Return the directory of a generation's shards; it need not exist."""
        return self.path / str(generation)

    def remove(self, shard: Path) -> None:
        """Take a shard's directory away at once for everybody, then erase it. Call it while locked."""
        with database_errors():
            gone = shard.with_name(f".removed-{shard.name}")
            _erase(gone)
            if shard.exists():
                shard.rename(gone)
                _erase(gone)

    def orphans(self) -> list[tuple[Path, str]]:
        """Return what nothing names any more: generations and shards that a swap, a drop or a crash has left."""
        live = {str(entry.generation) for entry in self.register().collections.values()}
        found = []
        for path in self.path.iterdir():
            if path.name.isdecimal() and path.name not in live:
                found.append((path, "a generation that no collection has"))
            elif path.name in live:
                found += [(left, "what is left of a tenant removed, or begun") for left in listed(path, ".*")]
        return found

    def clear(self) -> None:
        """Erase what nothing names any more; what rankers are owed of it stands durable in the ledger before."""
        with self.locked() as ledger:
            for path, _ in self.orphans():
                for shard in {book.parent for book in path.rglob(PATTERN)}:
                    depart(ledger, shard)
        with self.locked():
            self.sweep()

    def sweep(self) -> None:
        """Erase what nothing names any more. Call it while locked."""
        for path, _ in self.orphans():
            shutil.rmtree(path, ignore_errors=True)

    def close(self) -> None:
        """Close the ledger."""
        with self._mutex:
            self._ledger.close()
            self._holder.close()

    def _write(self, register: Register) -> None:
        write_whole(self.path / _TOML, _written(register).encode())


def _lives(process: int) -> bool:
    """Tell whether a process of this host is still there."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _erase(directory: Path) -> None:
    """Erase a directory that was moved away, also while one who is just opening it makes another file there."""
    for _ in range(_TRIES):
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
    shutil.rmtree(directory)


def _parsed(stored: bytes) -> Register:
    try:
        written = tomllib.loads(stored.decode())
        number = written["format"]
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError) as error:
        raise StoreError(f"{_TOML} cannot be read: it is torn or not ours; restore it from a backup") from error
    if not is_whole_number(number) or not 1 <= number <= FORMAT:
        raise StoreError(
            f"this library has format {number}; this Stackroom reads up to {FORMAT}: upgrade stackroom to open it"
        )
    try:
        collections = {name: _entry(of_name) for name, of_name in written.get("collections", {}).items()}
        return Register(collections, int(written["last_generation"]), number)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(f"{_TOML} lacks what format {number} has; restore it from a backup") from error


def _entry(written: Mapping[str, Any]) -> Entry:
    spec = CollectionSpec(written["dimension"], written["fingerprint"], written["metric"])
    return Entry(spec, int(written["generation"]))


def _written(register: Register) -> str:
    lines = [_HEADER, f"format = {FORMAT}", f"last_generation = {register.last_generation}"]
    for name, entry in sorted(register.collections.items()):
        lines += [
            "",
            f"[collections.{_quoted(name)}]",
            f"generation = {entry.generation}",
            f"dimension = {entry.spec.dimension}",
            f"fingerprint = {_quoted(entry.spec.fingerprint)}",
            f"metric = {_quoted(entry.spec.metric)}",
        ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Return a TOML basic string: JSON's escapes are TOML's, but for U+007F."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
