"""The files of a folder: which are taken, which are left out and why, and which cannot be looked at."""

from __future__ import annotations

import fnmatch
import os
import re
import stat
import tomllib
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

_REGISTER: Final = "# The register of a Stackroom library."
"""How the register of a library begins, also when the rest of it is torn."""


@dataclass(frozen=True, slots=True)
class FolderFile:
    """A file to index: where it is, its path relative to the folder (POSIX, NFC), its bytes."""

    path: Path
    name: str
    size: int

    @property
    def suffix(self) -> str:
        """Its suffix, in lower case."""
        return self.path.suffix.lower()


@dataclass(frozen=True, slots=True)
class Wish:
    """Which files of a folder are wanted."""

    suffixes: Collection[str]
    include: Sequence[str] | None
    exclude: Sequence[str]
    hidden: bool
    follow_symlinks: bool

    def asks_for(self) -> Callable[[str], bool]:
        """Return what tells of a name, of a file that is there or is gone, whether such a file is wanted."""
        included = None if self.include is None else [glob_matcher(glob) for glob in self.include]
        excluded = [glob_matcher(glob) for glob in self.exclude]

        def is_asked_for(name: str) -> bool:
            is_hidden = not self.hidden and any(part.startswith(".") for part in name.split("/"))
            has_loader = PurePosixPath(name).suffix.lower() in self.suffixes
            return has_loader and not is_hidden and not _is_excluded(name, included, excluded)

        return is_asked_for


def nothing(_name: str) -> bool:
    """Ask for no file."""
    return False


@dataclass(slots=True)
class Walked:
    """What a walk found: files in the order of their names, others counted by reason, names that are no text.

    `seen` are the names of all that is there, `unlisted` the directories that could not be looked into, `unreadable`
    what is to be said of those, and of files that cannot be looked at. `is_asked_for` tells of any name whether the
    walk was for files such as that, found or not.
    """

    files: list[FolderFile] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    misnamed: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    unlisted: list[str] = field(default_factory=list)
    has_loadable: bool = False
    is_asked_for: Callable[[str], bool] = nothing
    _listings: dict[Path, dict[str, list[Path]]] = field(default_factory=dict)

    def is_hidden_from(self, name: str) -> bool:
        """Tell whether a name lies under a directory that could not be listed."""
        return any(directory in {"", "."} or name.startswith(directory + "/") for directory in self.unlisted)

    def may_exist(self, root: Path, name: str) -> bool:
        """Tell whether something of this name is there, in whatever normal form, or cannot be looked for."""
        try:
            return _is_there(root / name) or self._is_spelled(root, name.split("/"))
        except OSError:
            return True

    def _is_spelled(self, directory: Path, parts: Sequence[str]) -> bool:
        """Tell whether there is a name of these parts, each of which may be spelled in several ways."""
        try:
            spellings = self._listing(directory).get(parts[0], ())
        except (FileNotFoundError, NotADirectoryError):
            return False
        return bool(spellings) and (len(parts) == 1 or any(self._is_spelled(path, parts[1:]) for path in spellings))

    def _listing(self, directory: Path) -> dict[str, list[Path]]:
        if directory not in self._listings:
            listing: dict[str, list[Path]] = {}
            with os.scandir(directory) as entries:
                for entry in entries:
                    listing.setdefault(unicodedata.normalize("NFC", entry.name), []).append(Path(entry.path))
            self._listings[directory] = listing
        return self._listings[directory]


def _is_there(path: Path) -> bool:
    """Tell whether a path is there; an OSError when that cannot be told."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def walk(root: Path, wish: Wish) -> Walked:
    """Return what there is below an existing directory; nothing is opened but directories."""
    found = Walked(is_asked_for=wish.asks_for())
    included = None if wish.include is None else [glob_matcher(glob) for glob in wish.include]
    excluded = [glob_matcher(glob) for glob in wish.exclude]
    real_root = os.path.realpath(root)
    taken: set[str] = set()
    for path in _entries(root, Path(real_root), wish, found):
        name = _name(root, path, found)
        if name is None:
            continue
        found.seen.add(name)
        status = _status(path, name, found)
        if status is None or not stat.S_ISREG(status.st_mode):
            continue
        has_loader = path.suffix.lower() in wish.suffixes
        found.has_loadable |= has_loader
        if _is_excluded(name, included, excluded):
            found.ignored["excluded"] += 1
        elif not has_loader:
            found.ignored["suffix"] += 1
        elif wish.follow_symlinks and (real := os.path.realpath(path)) in taken:
            found.ignored["symlink"] += 1
        else:
            if wish.follow_symlinks:
                taken.add(real)
            found.files.append(FolderFile(path, name, status.st_size))
    found.files.sort(key=lambda file: file.name)
    return found


def _status(path: Path, name: str, found: Walked) -> os.stat_result | None:
    """Return what the system knows of a file; None, said once a directory, when it says nothing."""
    try:
        return path.stat()
    except FileNotFoundError:  # removed just now
        pass
    except PermissionError as error:
        directory = name.rpartition("/")[0] or "."
        if directory not in found.unlisted:
            found.unlisted.append(directory)
            found.unreadable.append((directory, f"its files cannot be looked at ({error.strerror})"))
    except OSError as error:
        found.unreadable.append((name, f"it cannot be looked at ({error.strerror})"))
    return None


def _is_excluded(
    name: str, included: Sequence[Callable[[str], bool]] | None, excluded: Sequence[Callable[[str], bool]]
) -> bool:
    if any(matches(name) for matches in excluded):
        return True
    return included is not None and not any(matches(name) for matches in included)


def _name(root: Path, path: Path, found: Walked) -> str | None:
    """Return a path relative to the folder, POSIX and NFC; None for one that is no text, which is noted."""
    name = path.relative_to(root).as_posix()
    if any("\ud800" <= character <= "\udfff" for character in name):
        found.misnamed.append(os.fsencode(name).decode("utf-8", "replace"))
        return None
    return unicodedata.normalize("NFC", name)


def _entries(root: Path, real_root: Path, wish: Wish, found: Walked) -> Iterator[Path]:
    """Yield what is no directory, hidden names and links left out unless wished for; real files before links."""
    links: list[Path] = []
    visited: set[str] = set()
    for directory in _directories(root, real_root, wish, found, links, visited):
        yield from directory
    while links:
        link = links.pop(0)
        target = Path(os.path.realpath(link))
        if not wish.follow_symlinks or not target.is_relative_to(real_root) or not target.exists():
            found.ignored["symlink"] += 1
            _note_seen(root, link, found)
        elif target.is_dir():
            if os.fspath(target) in visited:
                found.ignored["symlink"] += 1
            for directory in _directories(link, real_root, wish, found, links, visited):
                yield from directory
        else:
            yield link


def _note_seen(root: Path, link: Path, found: Walked) -> None:
    name = link.relative_to(root).as_posix()
    found.seen.add(unicodedata.normalize("NFC", name))


def _directories(
    top: Path, real_root: Path, wish: Wish, found: Walked, links: list[Path], visited: set[str]
) -> Iterator[list[Path]]:
    """Yield the entries of a directory and of those below it, each once; links are put aside, libraries left out."""
    waiting = [top]
    while waiting:
        directory = waiting.pop()
        real = os.path.realpath(directory)
        if real in visited:
            continue
        visited.add(real)
        if _holds_library(directory):
            found.ignored["library"] += 1
            continue
        entries: list[Path] = []
        try:
            with os.scandir(directory) as listed:
                for entry in listed:
                    _sort_in(entry, wish, found, entries, links, waiting)
        except OSError as error:
            name = _relative(real, real_root)
            found.unlisted.append(name)
            found.unreadable.append((name, f"it cannot be listed ({error.strerror})"))
            continue
        yield sorted(entries)


def _holds_library(directory: Path) -> bool:
    """Tell whether a directory is an embedded library: what lies there is the library's own, of all its tenants."""
    try:
        written = (directory / "library.toml").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return written.startswith(_REGISTER) or {"format", "last_generation"} <= _toml(written).keys()


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError:
        return {}


def _sort_in(
    entry: os.DirEntry[str],
    wish: Wish,
    found: Walked,
    entries: list[Path],
    links: list[Path],
    waiting: list[Path],
) -> None:
    path = Path(entry.path)
    if entry.name.startswith(".") and not wish.hidden:
        found.ignored["hidden"] += 1
    elif entry.is_symlink():
        links.append(path)
    elif entry.is_dir(follow_symlinks=False):
        waiting.append(path)
    else:
        entries.append(path)


def _relative(path: str, root: Path) -> str:
    name = Path(path).relative_to(root).as_posix() if Path(path).is_relative_to(root) else "."
    return unicodedata.normalize("NFC", os.fsencode(name).decode("utf-8", "replace"))


def glob_matcher(glob: str) -> Callable[[str], bool]:
    """Return what tells whether a name matches: without `/` the last part of it, else the whole of it.

    `*` stays in one directory, `**/` spans any number of them. The time is the product of both lengths at most.
    """
    parts = [_part_matcher(part) for part in unicodedata.normalize("NFC", glob.removeprefix("./")).split("/")]
    if "/" not in glob:
        return lambda name: _match_from_start(parts, [name.rpartition("/")[2]])
    return lambda name: _match_from_start(parts, name.split("/"))


def _part_matcher(part: str) -> re.Pattern[str] | None:
    """Return the pattern of one part of a path; None is any number of directories."""
    return None if part == "**" else re.compile(fnmatch.translate(part))


def _match_from_start(parts: Sequence[re.Pattern[str] | None], names: Sequence[str]) -> bool:
    reached = {0}
    for number, part in enumerate(parts):
        if not reached:
            return False
        if part is None:
            is_last = number == len(parts) - 1
            reached = set(range(min(reached) + is_last, len(names) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(names) and part.match(names[at])}
    return len(names) in reached
