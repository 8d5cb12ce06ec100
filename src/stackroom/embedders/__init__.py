"""Embedders turn passages and queries into vectors; a collection belongs to the fingerprint of one."""

from stackroom.embedders._caching import CachingEmbedder
from stackroom.embedders._fastembed import FastEmbedEmbedder
from stackroom.embedders._function import FunctionEmbedder
from stackroom.embedders._hashing import HashingEmbedder
from stackroom.embedders._local import LocalEmbedder
from stackroom.embedders._model2vec import Model2VecEmbedder
from stackroom.embedders._openai import OpenAIEmbedder
from stackroom.embedders._protocol import Embedder, Fingerprint
from stackroom.embedders._sentence_transformers import SentenceTransformersEmbedder

__all__ = [
    "CachingEmbedder",
    "Embedder",
    "FastEmbedEmbedder",
    "Fingerprint",
    "FunctionEmbedder",
    "HashingEmbedder",
    "LocalEmbedder",
    "Model2VecEmbedder",
    "OpenAIEmbedder",
    "SentenceTransformersEmbedder",
]
