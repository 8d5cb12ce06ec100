"""Which files the paths of a command line stand for, and what each is called as a source."""

from __future__ import annotations

import os
import stat
import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from stackroom.cli._problems import Refused
from stackroom.indexing._loaders import LOADERS
from stackroom.indexing._walk import FolderFile, Walked, Wish, walk

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


EVERY_FILE: Final = Wish(LOADERS.keys(), include=None, exclude=(), hidden=False, follow_symlinks=False)
"""All that have a loader, hidden names and symbolic links left out."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file or directory that is not indexed, and why: a word for programs, a sentence for people."""

    path: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Place:
    """A directory and what was found there, or one file that was given by itself and the directory it stands in."""

    root: Path
    walked: Walked
    is_directory: bool


@dataclass(slots=True)
class Found:
    """What paths stand for: places to index, and what is skipped and said."""

    places: list[Place] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    @property
    def roots(self) -> int:
        """In how many directories the files are."""
        return len({place.root.resolve() for place in self.places})

    @property
    def files(self) -> int:
        """How many files there are to index."""
        return sum(len(place.walked.files) for place in self.places)

    @property
    def says_something(self) -> bool:
        """Whether there is a file to index, or one that is not to be said."""
        unsaid = [place for place in self.places if place.walked.unreadable or place.walked.misnamed]
        return bool(self.files or self.skipped or unsaid)

    def skip(self, path: Path, reason: str, message: str) -> None:
        """Note that a path is left out."""
        self.skipped.append(Skipped(shown_path(path), reason, message))


def shown_path(path: Path) -> str:
    """Return a path as text that can be printed, whatever bytes its name has."""
    return os.fsencode(path).decode("utf-8", "replace")


def found_files(paths: Iterable[Path], wish: Wish = EVERY_FILE) -> Found:
    """Return the files that `paths` stand for, in order; nothing is opened but directories.

    A directory stands for those of its files that `wish` wants; their ids are their paths relative to it, a single
    file's its name: POSIX, NFC. What cannot be looked at, and a path that is
    neither a regular file nor a directory, is skipped. Refused when a path does not exist or two files would become
    one source.
    """
    found = Found()
    for path, status in _looked_at(paths, found):
        if stat.S_ISDIR(status.st_mode):
            found.places.append(Place(path, walk(path, wish), is_directory=True))
        else:
            _take_single(path, status, found)
    _take_each_source_once(found.places)
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


def _take_single(path: Path, status: os.stat_result, found: Found) -> None:
    if not stat.S_ISREG(status.st_mode):
        found.skip(path, "no_file", "it is neither a regular file nor a directory")
    elif path.suffix.lower() not in LOADERS:
        found.skip(path, "suffix", f"it is none of {' '.join(LOADERS)}")
    elif any("\ud800" <= character <= "\udfff" for character in path.name):
        found.skip(path, "name", "its name is no valid Unicode; rename it")
    else:
        name = unicodedata.normalize("NFC", path.name)
        file = FolderFile(path, name, status.st_size)
        walked = Walked(files=[file], has_loadable=True, is_asked_for=name.__eq__)
        found.places.append(Place(path.parent, walked, is_directory=False))


def _take_each_source_once(places: list[Place]) -> None:
    first: dict[str, FolderFile] = {}
    roots: set[Path] = set()
    for place in list(places):
        if place.is_directory and place.root.resolve() in roots:
            places.remove(place)
            continue
        if place.is_directory:
            roots.add(place.root.resolve())
        kept = []
        for file in place.walked.files:
            other = first.setdefault(file.name, file)
            if other is file:
                kept.append(file)
            elif other.path.resolve() != file.path.resolve():
                raise Refused(
                    f"{shown_path(other.path)} and {shown_path(file.path)} would be one source, {file.name}; "
                    "nothing was indexed: index the directory that holds both, or one of them with --source-prefix"
                )
        place.walked.files[:] = kept
        if not kept and not place.is_directory:
            places.remove(place)
