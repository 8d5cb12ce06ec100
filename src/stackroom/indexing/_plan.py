"""What is to be done with a file: it is as it was, it is to be written, it holds no text, or it cannot be read."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from stackroom._errors import SourceError
from stackroom._model import Passage, Source
from stackroom._values import unstorable_at
from stackroom.indexing._loaders import LOADERS, Loaded, Loader, UndecodableText, is_own_refusal, own_title, passages_of
from stackroom.indexing._reports import Failed
from stackroom.indexing._stored import CONTENT_HASH, CORPUS, PATH, Head

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stackroom.indexing._walk import FolderFile

_LOADING: Final = 2
"""Grows when the same file would be loaded or split otherwise, so that folders are indexed anew."""


@dataclass(frozen=True, slots=True)
class Unchanged:
    """A file whose stored source is of the same bytes, loaded and split alike."""

    source_id: str
    head: Head


@dataclass(frozen=True, slots=True)
class Empty:
    """A file that holds no text; `is_stored`: an earlier version of it did."""

    name: str
    is_stored: bool


@dataclass(frozen=True, slots=True)
class ToWrite:
    """A file as the source that is to be written, and the digest of how it was made."""

    source: Source
    settings: str


Entry: TypeAlias = Unchanged | Empty | ToWrite | Failed


@dataclass(frozen=True, slots=True)
class Words:
    """What the caller calls the options that a message advises."""

    corpus: str = "corpus="
    source_prefix: str = "source_prefix="
    encoding: str = "encoding="
    shown_by: str = '`library.source(…).metadata["corpus"]`'
    """Where the corpus of a source can be read."""


@dataclass(frozen=True, slots=True)
class Planner:
    """Compares files with what is stored and loads those that differ. `model` has what all sources share."""

    model: Source
    corpus: str
    prefix: str
    encoding: str
    max_file_bytes: int
    loaders: Mapping[str, Loader]
    max_chars: int
    overlap_chars: int
    title: str | None = None
    """A title for every source; None: each file's own."""
    words: Words = Words()

    def source_id(self, file: FolderFile) -> str:
        """Return the id of a file's source."""
        return self.prefix + file.name

    def entry(self, file: FolderFile, head: Head | None) -> Entry:
        """Return what is to be done with a file, given what is stored under its id."""
        source_id = self.source_id(file)
        data = self._bytes(file)
        if isinstance(data, Failed):
            return data
        if head is not None and not head.belongs_to(self.corpus):
            return Failed(source_id, "owned", self._advice_on_another_owner(head))
        digest, settings = hashlib.sha256(data).hexdigest(), self._settings(file.suffix)
        if head is not None and head.own(CONTENT_HASH) == digest and head.settings == settings:
            return Unchanged(source_id, head)
        loaded = self._loaded(file, data, digest, settings)
        return Empty(file.name, head is not None) if loaded is None else loaded

    def _advice_on_another_owner(self, head: Head) -> str:
        words = self.words
        own_ids = f"give a {words.source_prefix} that sets this folder's ids apart"
        if not head.is_of_a_folder:
            return f"a source of this id comes from elsewhere, from no folder, and is not touched: {own_ids}"
        return (
            f"a source of this id comes from elsewhere and is not touched: {own_ids}; or, if this is its folder and "
            f"was moved or renamed, give the corpus that it has as {words.corpus}, which {words.shown_by} tells"
        )

    def is_same(self, written: ToWrite, head: Head | None) -> bool:
        """Tell whether what is stored is what was to be written: another run was quicker."""
        return (
            head is not None
            and head.belongs_to(self.corpus)
            and head.own(CONTENT_HASH) == written.source.metadata[CONTENT_HASH]
            and head.settings == written.settings
        )

    def _bytes(self, file: FolderFile) -> bytes | Failed:
        source_id = self.source_id(file)
        too_large = Failed(source_id, "too_large", f"it is larger than {_size(self.max_file_bytes)}; cut it")
        if file.size > self.max_file_bytes:
            return too_large
        try:
            with file.path.open("rb") as opened:
                data = opened.read(self.max_file_bytes + 1)
        except OSError as error:
            return Failed(source_id, "unreadable", f"it cannot be read ({error.strerror or type(error).__name__})")
        return too_large if len(data) > self.max_file_bytes else data

    def _loaded(self, file: FolderFile, data: bytes, digest: str, settings: str) -> ToWrite | Failed | None:
        """Return the source of a file; None when it holds no text."""
        loaded = self._load(file, data)
        if isinstance(loaded, Failed):
            return loaded
        passages, title = loaded
        if not passages:
            return None
        try:
            return ToWrite(self._source(file, passages, title, digest), settings)
        except SourceError as error:
            return Failed(self.source_id(file), "name", f"it cannot be a source: {error}")

    def _source(self, file: FolderFile, passages: Sequence[Passage], title: str | None, digest: str) -> Source:
        given: dict[str, Any] = {name: getattr(self.model, name) for name in _SHARED}
        given["metadata"] = {**self.model.metadata, PATH: file.name, CORPUS: self.corpus, CONTENT_HASH: digest}
        own_name = file.name.rpartition("/")[2]
        return Source(source_id=self.source_id(file), passages=passages, title=self.title or title or own_name, **given)

    def _load(self, file: FolderFile, data: bytes) -> tuple[list[Passage], str | None] | Failed:
        source_id = self.source_id(file)
        loader = self.loaders[file.suffix]
        try:
            loaded = _checked(loader(data, self.encoding))
            return passages_of(loaded, max_chars=self.max_chars, overlap_chars=self.overlap_chars), own_title(loaded)
        except ImportError as error:
            return Failed(source_id, "missing_dependency", str(error) if self._ships(file.suffix) else "see its loader")
        except UndecodableText as error:
            advice = f": if it is in another one, give that as {self.words.encoding}" if error.is_of_encoding else ""
            return Failed(source_id, "encoding", f"{error}{advice}")
        except Exception as error:  # noqa: BLE001 - a loader reads what anybody wrote, and may be anybody's
            if self._ships(file.suffix) and isinstance(error, SourceError):
                return Failed(source_id, "encoding", str(error))
            is_ours = self._ships(file.suffix) and is_own_refusal(error)
            return Failed(source_id, "loader", str(error) if is_ours else f"its loader failed ({type(error).__name__})")

    def _ships(self, suffix: str) -> bool:
        return _name_of(self.loaders[suffix]) == _name_of(LOADERS.get(suffix))

    def _settings(self, suffix: str) -> str:
        """Return a digest of all that makes the same bytes another source."""
        how = [
            _LOADING,
            suffix,
            _name_of(self.loaders[suffix]),
            self.max_chars,
            self.overlap_chars,
            self.encoding,
            self.model.kind,
            self.model.tier,
            sorted(self.model.metadata.items()),
            self.title,
        ]
        return hashlib.blake2b(json.dumps(how).encode(), digest_size=16).hexdigest()


_SHARED: Final = ("tenant_id", "acl_groups", "kind", "folder_id", "tags", "tier", "expires_at")


def _size(count: int) -> str:
    return f"{count // 1024**2} MiB" if count % 1024**2 == 0 else f"{count:,} bytes"


def _checked(loaded: object) -> Loaded:
    if not isinstance(loaded, Loaded) or not isinstance(loaded.text, str) or not isinstance(loaded.title, str | None):
        raise TypeError("a loader answers a Loaded")
    if loaded.passages is not None:
        passages = list(loaded.passages)
        if not all(isinstance(passage, Passage) for passage in passages):
            raise TypeError("a Loaded holds Passages")
        return replace(loaded, passages=passages)
    if (at := unstorable_at(loaded.text)) is not None:
        raise UndecodableText(f"character {at} is NUL or half a character: it is no text, or text in another encoding")
    return loaded


def _name_of(loader: object) -> str:
    """Return what a loader is known by, the same in every process: parts that were given beforehand belong to it."""
    function = getattr(loader, "func", loader)
    name = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__qualname__)}"
    given = [_name_of(part) for part in getattr(loader, "args", ())]
    return " ".join([name, *given])
