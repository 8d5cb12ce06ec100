"""Embedders turn passages and queries into vectors; a collection belongs to the fingerprint of one."""

from stackroom.embedders._caching import CachingEmbedder
from stackroom.embedders._function import FunctionEmbedder
from stackroom.embedders._hashing import HashingEmbedder
from stackroom.embedders._local import LocalEmbedder
from stackroom.embedders._openai import OpenAIEmbedder
from stackroom.embedders._protocol import Embedder, Fingerprint

__all__ = [
    "CachingEmbedder",
    "Embedder",
    "Fingerprint",
    "FunctionEmbedder",
    "HashingEmbedder",
    "LocalEmbedder",
    "OpenAIEmbedder",
]
