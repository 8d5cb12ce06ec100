"""CachingEmbedder: keeps another embedder's vectors in one SQLite file."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stackroom.embedders import _door
from stackroom.embedders._vector_file import VectorFile

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stackroom._cancel import CancelToken
    from stackroom.embedders._protocol import Embedder, Fingerprint

_PASSAGE: Final = "passage"
_QUERY: Final = "query"
_OPTIONAL: Final = frozenset({"max_batch", "max_concurrency", "provider", "tokens_used"})


class CachingEmbedder:
    """Embeds with `embedder` what it has not embedded before, and keeps each vector in the SQLite file `path`.

    It has the wrapped one's fingerprint and limits. A vector is found again by fingerprint, by whether the text was a
    passage or a query, and by the SHA-256 of the text, which is not stored itself. A call passes on only what is not
    there, in order, each distinct text once; what the wrapped one answers is kept when it has passed the door.

    Threads and processes may share a file; they open it one after the other, by an empty file `<name>.lock` beside it.
    One that is torn, or is no such file, is put aside as `<name>.bad` with a warning. A file that can no longer be
    written to (a full disk, say) costs the keeping, not the vectors: that is logged.

    EmbedderError: the file cannot be opened for writing from the beginning; or the embedder's methods are coroutine
    functions, also for an AsyncLibrary, since the file is read and written by threads. Give it one with plain methods.
    """

    def __init__(self, embedder: Embedder, path: str | os.PathLike[str]) -> None:
        _door.check_methods(embedder)
        self._embedder = embedder
        self._file = VectorFile(path)

    def __getattr__(self, name: str) -> Any:
        """Have the optional members that the wrapped embedder has."""
        if name in _OPTIONAL:
            return getattr(self._embedder, name)
        raise AttributeError(f"CachingEmbedder has no {name}")

    @property
    def fingerprint(self) -> Fingerprint:
        """The wrapped embedder's."""
        return self._embedder.fingerprint

    @property
    def max_input_chars(self) -> int | None:
        """The wrapped embedder's."""
        return self._embedder.max_input_chars

    def embed_passages(self, texts: Sequence[str], *, cancel: CancelToken | None = None) -> NDArray[np.float32]:
        """Return the vectors of stored texts, shape (n, dimension); the wrapped one is asked for the missing ones."""
        fingerprint = self.fingerprint
        digests = {text: _digest(text) for text in texts}
        found = self._file.get(str(fingerprint), _PASSAGE, list(digests.values()), fingerprint.dimension)
        missing = [text for text, digest in digests.items() if digest not in found]
        new = _door.embed_passages(self._embedder, missing, fingerprint.dimension, cancel=cancel)
        fresh = {digests[text]: vector for text, vector in zip(missing, new, strict=True)}
        self._file.put(str(fingerprint), _PASSAGE, fresh)
        every = found | fresh
        rows = [every[digests[text]] for text in texts]
        return np.stack(rows) if rows else np.empty((0, fingerprint.dimension), dtype=np.float32)

    def embed_query(self, text: str, *, cancel: CancelToken | None = None) -> NDArray[np.float32]:
        """Return the vector of a search's text, shape (dimension,); the wrapped one is asked when it is not there."""
        fingerprint, digest = self.fingerprint, _digest(text)
        found = self._file.get(str(fingerprint), _QUERY, [digest], fingerprint.dimension)
        if digest not in found:
            found[digest] = _door.embed_query(self._embedder, text, fingerprint.dimension, cancel=cancel)
            self._file.put(str(fingerprint), _QUERY, found)
        return found[digest]

    def close(self) -> None:
        """Close the file, not the wrapped embedder; the next call opens it again."""
        self._file.close()


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
