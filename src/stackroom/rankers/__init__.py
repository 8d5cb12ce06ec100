"""Rankers: nearest-neighbour indexes of others, plugged into the embedded store, and those that ship."""

from stackroom.rankers._exact import ExactRanker
from stackroom.rankers._protocol import Ranked, RankerFallback, RankerHealth, VectorRanker

__all__ = ["ExactRanker", "Ranked", "RankerFallback", "RankerHealth", "VectorRanker"]
