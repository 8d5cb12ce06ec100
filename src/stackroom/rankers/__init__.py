"""Rankers: nearest-neighbour indexes of others, plugged into the embedded store, and those that ship."""

from stackroom.rankers._exact import ExactRanker
from stackroom.rankers._faiss import FaissRanker
from stackroom.rankers._hnsw import HnswRanker
from stackroom.rankers._protocol import Ranked, RankerFallback, RankerHealth, VectorRanker
from stackroom.rankers._sqlite_vec import SqliteVecRanker
from stackroom.rankers._usearch import UsearchRanker

__all__ = [
    "ExactRanker",
    "FaissRanker",
    "HnswRanker",
    "Ranked",
    "RankerFallback",
    "RankerHealth",
    "SqliteVecRanker",
    "UsearchRanker",
    "VectorRanker",
]
