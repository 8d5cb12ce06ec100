"""Which files the paths of a command line stand for, and what each is called as a source."""

from __future__ import annotations

import os
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stackroom.cli._problems import Refused
from stackroom.indexing._loaders import LOADERS

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    """Return the files that `paths` stand for, in order; nothing is read.

    A directory stands for all its files that have a loader, hidden names and symbolic links left out; their ids are
    their paths relative to it, a single file's its name: POSIX, NFC. Refused when a path does not exist or two files
    would become one source.
    """
    given = list(paths)
    for path in given:
        if not path.exists():
            raise Refused(f"{shown_path(path)} does not exist; nothing was indexed")
    found = Found()
    for path in given:
        if path.is_dir():
            _walk(path, found)
        else:
            _take_single(path, found)
    found.files = _each_source_once(found.files)
    return found


def _walk(root: Path, found: Found) -> None:
    files: list[Path] = []

    def cannot_list(error: OSError) -> None:
        found.skip(Path(error.filename), "unreadable", f"it cannot be listed ({error.strerror})")

    for directory, folders, names in os.walk(root, onerror=cannot_list):
        folders[:] = [name for name in folders if not name.startswith(".")]
        files += [Path(directory, name) for name in names if not name.startswith(".")]
    for path in sorted(files, key=lambda file: file.relative_to(root).as_posix()):
        if path.is_symlink() or not path.is_file():
            continue
        if path.suffix.lower() in LOADERS:
            _take(path, path.relative_to(root).as_posix(), found)
        else:
            found.other_suffixes += 1


def _take_single(path: Path, found: Found) -> None:
    if path.suffix.lower() in LOADERS:
        _take(path, path.name, found)
    else:
        found.skip(path, "suffix", f"it is none of {' '.join(LOADERS)}")


def _take(path: Path, name: str, found: Found) -> None:
    size = path.stat().st_size
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
        if other.path != file.path:
            raise Refused(
                f"{shown_path(other.path)} and {shown_path(file.path)} would be one source, {file.source_id}; "
                "nothing was indexed: index the directory that holds both"
            )
    return list(first.values())
