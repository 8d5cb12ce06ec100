"""LocalEmbedder: the small real model that the package wordllama carries, without network.

The model's two files are read directly: importing wordllama costs a quarter of a second, configures logging, and
loads an HTTP client that is never used.
"""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from stackroom._errors import EmbedderError
from stackroom.embedders._protocol import Fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from tokenizers import Tokenizer

# The model of WordLlama.load() with its defaults, from wordllama 0.4.0. The digests prove that the id tells the truth.
_DIMENSION = 256
_FINGERPRINT = Fingerprint("local:wordllama-l2-supercat-256:mean-v1", _DIMENSION)
_WEIGHTS_FILE = "weights/l2_supercat_256.safetensors"
_WEIGHTS_SHA256 = "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"
_WEIGHTS_OFFSET = 96  # of the one tensor in this very file: an 8-byte length and 88 bytes of header come before it
_TOKENIZER_FILE = "tokenizers/l2_supercat_tokenizer_config.json"
_TOKENIZER_SHA256 = "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68"
_OTHER_MODEL = (
    f"the installed wordllama does not carry the model of {_FINGERPRINT}; "
    'install the one it came from: pip install --force-reinstall "wordllama==0.4.0.post1"'
)

# A character has at most four tokens, and a token's row is 1 KiB: 16 MiB are gathered at a time, whatever the text.
_PIECE_CHARS = 4096


class LocalEmbedder:
    """Embeds by the mean of a text's token vectors (WordLlama, 256 dimensions), offline; queries as passages.

    ImportError, with the pip line that helps, when the packages of the extra `local` are missing. The model is read
    on first use, once a process. A text of any length counts to its end, in bounded memory. A text without any token,
    which only the empty one is, has the vector of a single space. A text has the same vector alone or in a batch, in
    every thread and process. EmbedderError when the installed package carries other weights or another tokenizer than
    the fingerprint names.
    """

    __slots__ = ()

    fingerprint: ClassVar[Fingerprint] = _FINGERPRINT
    max_input_chars: ClassVar[int] = 1_000_000
    max_concurrency: ClassVar[int] = 1
    provider: ClassVar[str] = "local"

    def __init__(self) -> None:
        _package_folder()

    def __repr__(self) -> str:
        return "LocalEmbedder()"

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the mean token vector of each text, not scaled, shape (n, 256)."""
        model = _model()
        vectors = np.empty((len(texts), _DIMENSION), dtype=np.float32)
        for row, text in enumerate(texts):
            vectors[row] = model.mean_vector(text)
        return vectors

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the mean token vector of a text, not scaled, shape (256,)."""
        return _model().mean_vector(text)


@dataclass(frozen=True, slots=True)
class _StaticModel:
    """A tokenizer, and the vector of each of its tokens: float32, shape (tokens, 256)."""

    tokenizer: Tokenizer
    token_vectors: NDArray[np.float32]

    def mean_vector(self, text: str) -> NDArray[np.float32]:
        """Return the mean of the text's token vectors, repeats included, summed in float64."""
        total = np.zeros(_DIMENSION, dtype=np.float64)
        tokens = 0
        for piece in _pieces(text):
            ids = self.tokenizer.encode(piece, add_special_tokens=False).ids
            total += self.token_vectors[ids].sum(axis=0, dtype=np.float64) if ids else 0.0
            tokens += len(ids)
        return (total / tokens).astype(np.float32) if tokens else self.mean_vector(" ")


def _pieces(text: str) -> Iterator[str]:
    """Cut a long text at spaces, which are dropped, or behind a fixed length where there is none.

    The tokenizer puts a space before every text, and no token reaches over the start of a word: between words that
    single spaces separate, pieces have just the tokens of the whole.
    """
    start = 0
    while len(text) - start > _PIECE_CHARS:
        space = text.rfind(" ", start + 1, start + _PIECE_CHARS)
        end = start + _PIECE_CHARS if space < 0 else space
        yield text[start:end]
        start = end if space < 0 else space + 1
    yield text[start:]


_loading = threading.Lock()


def _model() -> _StaticModel:
    """Return the process's model, read by the first who asks while the others wait."""
    with _loading:
        return _read_model()


@functools.cache
def _read_model() -> _StaticModel:
    from tokenizers import Tokenizer

    folder = _package_folder()
    weights = _verified(folder / _WEIGHTS_FILE, _WEIGHTS_SHA256)
    tokenizer = _verified(folder / _TOKENIZER_FILE, _TOKENIZER_SHA256, is_text=True)
    token_vectors = np.frombuffer(weights, dtype="<f2", offset=_WEIGHTS_OFFSET).reshape(-1, _DIMENSION)
    return _StaticModel(Tokenizer.from_str(tokenizer.decode("utf-8")), token_vectors.astype(np.float32))


def _verified(path: Path, digest: str, *, is_text: bool = False) -> bytes:
    """Return a file's bytes if they are the model's; a text file may have been written with Windows's line ends."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise EmbedderError(_OTHER_MODEL) from error
    if is_text:
        content = content.replace(b"\r\n", b"\n")
    if sha256(content).hexdigest() != digest:
        raise EmbedderError(_OTHER_MODEL)
    return content


def _package_folder() -> Path:
    """Find where wordllama is installed, without importing it; ImportError when a package is missing."""
    _folder_of("tokenizers")
    return _folder_of("wordllama")


def _folder_of(package: str) -> Path:
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f'LocalEmbedder needs the package {package}: pip install "stackroom[local]"', name=package)
    return Path(spec.submodule_search_locations[0])
