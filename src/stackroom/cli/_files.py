"""Which files the paths of a command line stand for, and what each is called as a source."""

from __future__ import annotations

import os
import stat
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stackroom.cli._problems import Refused
from stackroom.indexing._loaders import LOADERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_BYTES: Final = 25 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file and the id of the source that it becomes; `size` in bytes."""

    path: Path
    source_id: str
    size: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file or directory that is not indexed, and why: a word for programs, a sentence for people."""

    path: str
    reason: str
    message: str


@dataclass(slots=True)
class Found:
    """What paths stand for: files to index, what is skipped and said, and how many files have another suffix."""

    files: list[SourceFile] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    other_suffixes: int = 0

    def skip(self, path: Path, reason: str, message: str) -> None:
        """Note that a path is left out."""
        self.skipped.append(Skipped(shown_path(path), reason, message))


def shown_path(path: Path) -> str:
    """Return a path as text that can be printed, whatever bytes its name has."""
    return os.fsencode(path).decode("utf-8", "replace")


def found_files(paths: Iterable[Path]) -> Found:
    """Return the files that `paths` stand for, in order; nothing is opened but directories.

    A directory stands for all its files that have a loader, hidden names and symbolic links left out; their ids are
    their paths relative to it, a single file's its name: POSIX, NFC. What cannot be looked at, and a path that is
    neither a regular file nor a directory, is skipped. Refused when a path does not exist or two files would become
    one source.
    """
    found = Found()
    for path, status in _looked_at(paths, found):
        if stat.S_ISDIR(status.st_mode):
            _walk(path, found)
        else:
            _take_single(path, status, found)
    found.files = _each_source_once(found.files)
    return found


def _looked_at(paths: Iterable[Path], found: Found) -> list[tuple[Path, os.stat_result]]:
    looked_at = []
    for path in paths:
        try:
            looked_at.append((path, path.stat()))
        except (FileNotFoundError, NotADirectoryError):
            raise Refused(f"{shown_path(path)} does not exist; nothing was indexed") from None
        except OSError as error:
            found.skip(path, "unreadable", f"it cannot be looked at ({error.strerror})")
    return looked_at


def _walk(root: Path, found: Found) -> None:
    def cannot_list(error: OSError) -> None:
        found.skip(Path(error.filename), "unreadable", f"it cannot be listed ({error.strerror})")

    files: list[tuple[str, Path, int]] = []
    for directory, folders, names in os.walk(root, onerror=cannot_list):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for path, size in _regular_files(Path(directory), names, found):
            files.append((path.relative_to(root).as_posix(), path, size))
    for name, path, size in sorted(files):
        if path.suffix.lower() in LOADERS:
            _take(path, name, size, found)
        else:
            found.other_suffixes += 1


def _regular_files(directory: Path, names: Iterable[str], found: Found) -> Iterator[tuple[Path, int]]:
    """Yield the regular files among a directory's names with their bytes, hidden names and links left out."""
    for path in (directory / name for name in names if not name.startswith(".")):
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue  # removed just now
        except PermissionError as error:
            found.skip(directory, "unreadable", f"its files cannot be looked at ({error.strerror})")
            return
        except OSError as error:
            found.skip(path, "unreadable", f"it cannot be looked at ({error.strerror})")
            continue
        if stat.S_ISREG(status.st_mode):
            yield path, status.st_size


def _take_single(path: Path, status: os.stat_result, found: Found) -> None:
    if not stat.S_ISREG(status.st_mode):
        found.skip(path, "no_file", "it is neither a regular file nor a directory")
    elif path.suffix.lower() not in LOADERS:
        found.skip(path, "suffix", f"it is none of {' '.join(LOADERS)}")
    else:
        _take(path, path.name, status.st_size, found)


def _take(path: Path, name: str, size: int, found: Found) -> None:
    if any("\ud800" <= character <= "\udfff" for character in name):
        found.skip(path, "name", "its name is no valid Unicode; rename it")
    elif size > MAX_BYTES:
        found.skip(path, "too_large", f"it is larger than {MAX_BYTES // 1024**2} MiB; cut it")
    else:
        found.files.append(SourceFile(path, unicodedata.normalize("NFC", name), size))


def _each_source_once(files: Iterable[SourceFile]) -> list[SourceFile]:
    first: dict[str, SourceFile] = {}
    for file in files:
        other = first.setdefault(file.source_id, file)
        if other.path.resolve() != file.path.resolve():
            raise Refused(
                f"{shown_path(other.path)} and {shown_path(file.path)} would be one source, {file.source_id}; "
                "nothing was indexed: index the directory that holds both"
            )
    return list(first.values())
