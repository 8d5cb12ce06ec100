"""The filter language: nodes, the dict form, the reference evaluator, and what stores ask about a filter's shape."""

from __future__ import annotations

from stackroom._filters.evaluator import matches
from stackroom._filters.nodes import All, And, Contains, Eq, Exists, Filter, In, Ne, Not, NotIn, Or, Range
from stackroom._filters.parser import as_dict, parse
from stackroom._filters.scalars import ScalarKey, scalar_key
from stackroom._filters.shape import check_supported, conjuncts, leaves, named_values, never, nodes

__all__ = [
    "All",
    "And",
    "Contains",
    "Eq",
    "Exists",
    "Filter",
    "In",
    "Ne",
    "Not",
    "NotIn",
    "Or",
    "Range",
    "ScalarKey",
    "as_dict",
    "check_supported",
    "conjuncts",
    "leaves",
    "matches",
    "named_values",
    "never",
    "nodes",
    "parse",
    "scalar_key",
]
