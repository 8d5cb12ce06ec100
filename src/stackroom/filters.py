"""Filters: questions about one record's metadata that mean the same on every store.

Write them as nodes, ``And(Eq("team", "legal"), Range("year", gte=2024))``, or as a dict,
``{"team": "legal", "year": {"$gte": 2024}}``; `matches` says what either means.
"""

from __future__ import annotations

from stackroom._filters import (
    All,
    And,
    Contains,
    Eq,
    Exists,
    Filter,
    In,
    Ne,
    Not,
    NotIn,
    Or,
    Range,
    as_dict,
    matches,
    parse,
)

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
    "as_dict",
    "matches",
    "parse",
]
