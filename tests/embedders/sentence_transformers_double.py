"""Stands for the package sentence-transformers where PyTorch is not installed: a recorded contract.

It has the calls that SentenceTransformersEmbedder makes and nothing else. Whatever is tested with it is tested with the
package as well where that is installed (6.2.0 and 5.0.0 when it was written), so the two cannot part unseen.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

DIMENSION: Final = 16
PROMPTS: Final = {"query": "query : ", "document": "passage : "}
MAX_TOKENS: Final = 32


def saved(folder: Path, seed: int = 7) -> Path:
    """Save a model of the double; another `seed` is another model."""
    folder.mkdir(parents=True)
    (folder / "modules.json").write_text(json.dumps({"seed": seed}), encoding="utf-8")
    (folder / "README.md").write_text("A model card.", encoding="utf-8")
    return folder


class SentenceTransformer:
    """Answers the mean of vectors drawn for a text's words, as long as it is told."""

    def __init__(
        self,
        model_name_or_path: str,
        *,
        device: str | None = None,
        revision: str | None = None,
        local_files_only: bool = False,
        truncate_dim: int | None = None,
    ) -> None:
        folder = _found(model_name_or_path, revision or "main", local_files_only=local_files_only)
        self._seed = json.loads((folder / "modules.json").read_text(encoding="utf-8"))["seed"]
        self._truncate_dim = truncate_dim
        self.device = device
        self.max_seq_length = MAX_TOKENS

    def encode_document(
        self,
        inputs: list[str],
        /,
        *,
        prompt: str | None = None,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
    ) -> NDArray[np.float32]:
        assert show_progress_bar is False
        return self._encoded(inputs, PROMPTS["document"] if prompt is None else prompt, batch_size)

    def encode_query(
        self,
        inputs: list[str],
        /,
        *,
        prompt: str | None = None,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
    ) -> NDArray[np.float32]:
        assert show_progress_bar is False
        return self._encoded(inputs, PROMPTS["query"] if prompt is None else prompt, batch_size)

    def _encoded(self, inputs: list[str], prompt: str, batch_size: int) -> NDArray[np.float32]:
        assert type(inputs) is list
        assert batch_size > 0
        return np.stack([self._vector(prompt + text)[: self._truncate_dim] for text in inputs])

    def _vector(self, text: str) -> NDArray[np.float32]:
        words = ["[CLS]", *text.split(), "[SEP]"][:MAX_TOKENS]
        seeds = [int.from_bytes(sha256(f"{self._seed}{word}".encode()).digest()[:8], "little") for word in words]
        drawn = [np.random.default_rng(seed).normal(size=DIMENSION) for seed in seeds]
        vector: NDArray[np.float32] = np.mean(drawn, axis=0).astype(np.float32)
        return vector


def _found(name: str, revision: str, *, local_files_only: bool) -> Path:
    if Path(name).is_dir():
        return Path(name)
    cache = Path(os.environ["SENTENCE_TRANSFORMERS_HOME"]) / f"models--{name.replace('/', '--')}"
    if not local_files_only or not cache.is_dir():
        raise OSError("no network in tests")
    reference = cache / "refs" / revision
    return cache / "snapshots" / (reference.read_text(encoding="utf-8") if reference.exists() else revision)


def package() -> ModuleType:
    """Return the package, to be put into sys.modules."""
    module = ModuleType("sentence_transformers")
    module.__spec__ = ModuleSpec("sentence_transformers", None)
    vars(module)["SentenceTransformer"] = SentenceTransformer
    return module
