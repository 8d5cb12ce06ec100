"""The packages that run models, as the tests of their embedders know them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from tests.embedders import sentence_transformers_double as double
from tests.embedders import tiny_models

from stackroom.embedders import FastEmbedEmbedder, Model2VecEmbedder, SentenceTransformersEmbedder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEXTS = ["red fox", "", " ", "😀", "blue whale hello world", "fox " * 300, "unheard of", "a\n\nb", "日本語"]


@dataclass(frozen=True)
class Package:
    """One package: its embedder, the name of its module, and how to save a model of its own."""

    embedder: Callable[..., Any]
    module: str
    extra: str
    save: Callable[..., Path]
    id: str = ""
    max_input_chars: int = tiny_models.MAX_TOKENS * 4
    options: dict[str, Any] = field(default_factory=dict)


MODEL2VEC = Package(
    Model2VecEmbedder,
    "model2vec",
    "model2vec",
    tiny_models.model2vec_folder,
    max_input_chars=1_000_000,
)
FASTEMBED = Package(FastEmbedEmbedder, "fastembed", "fastembed", tiny_models.fastembed_folder, id=";pooling=mean")
DOUBLE = Package(SentenceTransformersEmbedder, "sentence_transformers", "sentence-transformers", double.saved)
SENTENCE_TRANSFORMERS = Package(
    SentenceTransformersEmbedder,
    "sentence_transformers",
    "sentence-transformers",
    tiny_models.sentence_transformers_folder,
    options={"device": "cpu"},
)
PACKAGES = {
    "model2vec": MODEL2VEC,
    "fastembed": FASTEMBED,
    "sentence-transformers-double": DOUBLE,
    "sentence-transformers": SENTENCE_TRANSFORMERS,
}
TRANSFORMERS = [name for name, package in PACKAGES.items() if package is not MODEL2VEC]
"""Those that take prompts, and pad the texts of a pass."""


def cosine(one: Any, other: Any) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))
