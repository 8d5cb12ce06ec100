"""Embedders turn passages and queries into vectors; a collection belongs to the fingerprint of one."""

from stackroom.embedders._function import FunctionEmbedder
from stackroom.embedders._hashing import HashingEmbedder
from stackroom.embedders._local import LocalEmbedder
from stackroom.embedders._protocol import Embedder, Fingerprint

__all__ = ["Embedder", "Fingerprint", "FunctionEmbedder", "HashingEmbedder", "LocalEmbedder"]
