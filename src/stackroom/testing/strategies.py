"""Hypothesis strategies for records, filters, patches and queries: small pools of hostile values, so that they meet.

Filters and records draw from the same keys and values, hence a random filter often matches some of them and not all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st

from stackroom._seeds import seed_of_this_run
from stackroom.filters import All, And, Contains, Eq, Exists, Filter, In, Ne, Not, NotIn, Or, Range
from stackroom.stores import LexicalQuery, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypothesis.strategies import SearchStrategy
    from numpy.typing import NDArray

T = TypeVar("T")
Test = TypeVar("Test", bound="Callable[..., None]")

TENANTS = ("t", "T", "t ", "é", "e\u0301", "../t", "t'; --", "𝒕\U0001f600", "\ufffd")
_FEW_TENANTS = ("t", "t", "T", "é", "e\u0301")
SOURCES = ("a", "A", "a!", "a ", "a#1", "é", "e\u0301", "%", "CON", "\r\n", "\ufffd", "\U0001f600", "\u202eabc")
STRINGS = (
    *("", "a", "A", "ab", "b", "5", "1", "true", "null", "50%", "a_b", "a\\b", "a*", " a", "a ", "ａ", "é", "e\u0301"),
    *("Z", "ß", "ss", "\ufffd", "\U0001f600", "'; DROP TABLE t; --", '"', "\n", "\u200b", "2024-05-01", "ı", "\ufeff"),
)
NUMBERS = (0, -0.0, 1, 1.0, 5, 5.0, -1, 0.5, 0.1, 2**53, 2**53 + 1, float(2**53), 2**63 - 1, -(2**63), 1e300, 5e-324)
COMMON = (1, True, "1", 1.0, 0, False, "a", "A", "a%b", "axb", 2**53 + 1, float(2**53), "é", "e\u0301")
"""Values that a store which confuses kinds, numbers, case or forms takes for one another."""
OWN_KEYS = ("k", "K", "k ", "a.b", "'; --", "é", "e\u0301", "tags ", "Index", "$.k", '"k"', "m")
FILTERABLE_OWN_KEYS = tuple(key for key in OWN_KEYS if not key.startswith("$"))
LIBRARY_KEYS = ("stackroom.expiresAt", "stackroom.tier", "stackroom.any")
LABELS = ("q3", "Q3", "plan", "é", "e\u0301", "a b", "%", "")
WORDS = (
    *("red", "fox", "foxes", "runs", "re", "s", "Q3's", "STRASSE", "straße", "budget:", "café", "cafe\u0301", "x²"),
    *(
        "東京都",
        "京",
        "ภาษา",
        "हिन्दी",
        "I\u0307stanbul",
        "don’t",
        "a\u00adb",
        "1,200",
        "OR",
        '"red',
        "re*",
        "-fox",
        "%",
    ),
)

_any_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4)


def _mostly(common: Sequence[T], rare: SearchStrategy[T]) -> SearchStrategy[T]:
    """Return a strategy that draws from the common values four times in five, so that records and questions meet."""
    return st.integers(0, 4).flatmap(lambda number: rare if number == 4 else st.sampled_from(common))


strings: SearchStrategy[str] = _mostly(STRINGS, _any_text)
numbers: SearchStrategy[int | float] = _mostly(
    NUMBERS, st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
scalars: SearchStrategy[str | int | float | bool] = _mostly(COMMON, strings | numbers)
values: SearchStrategy[Any] = scalars | st.lists(scalars, max_size=4)

COMMON_TEXTS = ("red", "red fox", "fox red", "red red foxes", "red 京", "s re")
COMMON_QUERIES = ("red", "red fox", "fox", "red runs", "Q3's red")
BEGINNINGS = ("r", "re", "fo", "s", "1", "京", "東", "q", "ca", "stra", "x s", "re s", "Q3's")

texts: SearchStrategy[str] = _mostly(
    COMMON_TEXTS, st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join) | _any_text
)
_questions = st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join) | _any_text
_match = st.sampled_from(("any", "all"))
queries: SearchStrategy[LexicalQuery] = st.builds(
    LexicalQuery, _mostly(COMMON_QUERIES, _questions), match=_match, prefix=st.just(value=False)
)
prefix_queries: SearchStrategy[LexicalQuery] = st.builds(
    LexicalQuery, _mostly(BEGINNINGS, _questions), match=_match, prefix=st.just(value=True)
)


def vectors(dimension: int) -> SearchStrategy[NDArray[np.float32]]:
    """Return vectors that are not all zeros: few directions, so that many are equal, and numbers of every size."""
    few = st.sampled_from((0.0, 1.0, -1.0, 0.5, 2.0))
    sizes = st.sampled_from((1.0, 1.0, 1e30, 1e-30, 3.0))
    drawn = st.tuples(st.lists(few, min_size=dimension, max_size=dimension), sizes)
    return drawn.map(lambda pair: np.asarray(pair[0], dtype=np.float32) * np.float32(pair[1])).filter(np.any)


_own_keys = _mostly(("k", "K", "a.b"), st.sampled_from(OWN_KEYS))
_own_metadata = st.dictionaries(_own_keys, values, max_size=4)
_labels = st.lists(st.sampled_from(LABELS), max_size=3)
source_metadata: SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.sampled_from(("document", "meeting", "")),
        "status": st.sampled_from(("active", "draft")),
        "folderId": strings,
        "title": strings,
        "aclGroups": _labels,
        "tags": _labels,
        "stackroom.expiresAt": st.sampled_from((0, 5, 2**53 + 1)),
        "stackroom.tier": st.sampled_from(("hot", "cold")),
        "stackroom.any": values,
    },
)


@st.composite
def sources(draw: st.DrawFn, dimension: int = 3) -> list[Record]:
    """Return the records of one source: of one tenant, alike in every source key, each index once."""
    of_source = draw(source_metadata)
    identity = {"tenantId": draw(st.sampled_from(_FEW_TENANTS)), "sourceId": draw(st.sampled_from(SOURCES))}
    indexes = draw(st.lists(st.sampled_from((0, 1, 2, 3, 10, 2**31 - 1)), min_size=1, max_size=4, unique=True))
    return [
        Record(
            draw(texts),
            draw(vectors(dimension)),
            {**draw(_own_metadata), **of_source, **identity, "index": index},
        )
        for index in indexes
    ]


def libraries(dimension: int = 3) -> SearchStrategy[list[list[Record]]]:
    """Return the records of several sources of several tenants, a list a source."""
    return st.lists(
        sources(dimension), max_size=6, unique_by=lambda records: (records[0].tenant_id, records[0].source_id)
    )


def _ranges(keys: SearchStrategy[str], bounds: SearchStrategy[Any]) -> SearchStrategy[Filter]:
    sides = st.dictionaries(st.sampled_from(("gt", "gte", "lt", "lte")), bounds, min_size=1, max_size=2)
    return st.builds(lambda key, given: Range(key, **given), keys, sides)


def _leaves(keys: SearchStrategy[str]) -> SearchStrategy[Filter]:
    several = st.lists(scalars, max_size=4)
    return (
        st.builds(Eq, keys, scalars)
        | st.builds(Ne, keys, scalars)
        | st.builds(In, keys, several)
        | st.builds(NotIn, keys, several)
        | st.builds(All, keys, st.lists(scalars, min_size=1, max_size=2))
        | st.builds(Contains, keys, scalars.filter(lambda value: value != ""))
        | _ranges(keys, strings)
        | _ranges(keys, numbers)
        | st.builds(Exists, keys, st.booleans())
    )


tenants: SearchStrategy[Filter] = st.builds(Eq, st.just("tenantId"), st.sampled_from(_FEW_TENANTS))
"""Filters that name one tenant."""
tenant_leaves: SearchStrategy[Filter] = tenants | st.builds(
    In, st.just("tenantId"), st.lists(st.sampled_from(_FEW_TENANTS), max_size=3)
)
_labelled = st.sampled_from(("aclGroups", "tags"))
_source_leaves = (
    tenant_leaves
    | st.builds(In, st.just("sourceId"), st.lists(st.sampled_from(SOURCES), max_size=4))
    | _ranges(st.just("sourceId"), st.sampled_from(SOURCES))
    | st.builds(In, _labelled, st.lists(st.sampled_from(LABELS), max_size=3))
    | st.builds(All, _labelled, st.lists(st.sampled_from(LABELS), min_size=1, max_size=2))
    | st.builds(Eq, st.just("kind"), st.sampled_from(("document", "meeting", "")))
    | st.builds(Exists, st.sampled_from(("folderId", "title", *LIBRARY_KEYS)), st.booleans())
    | _ranges(st.just("stackroom.expiresAt"), st.sampled_from((0, 1, 5, 2**53)))
    | _leaves(st.sampled_from(("folderId", "title", "status", "stackroom.any")))
)
_own_leaves = _leaves(_mostly(("k", "K", "a.b"), st.sampled_from(FILTERABLE_OWN_KEYS))) | _ranges(
    st.just("index"), st.sampled_from((0, 1, 2.5, 10))
)


def _combined(members: SearchStrategy[Filter]) -> SearchStrategy[Filter]:
    several = st.lists(members, max_size=3)
    return (
        several.map(lambda filters: And(*filters)) | several.map(lambda filters: Or(*filters)) | st.builds(Not, members)
    )


filters: SearchStrategy[Filter] = st.recursive(_source_leaves | _own_leaves, _combined, max_leaves=6)
scopes: SearchStrategy[Filter] = st.builds(
    And, tenant_leaves, st.builds(In, st.just("aclGroups"), st.lists(st.sampled_from(LABELS), min_size=1, max_size=3))
)
"""What a Library asks: a tenant and groups."""
source_filters: SearchStrategy[Filter] = st.recursive(_source_leaves, _combined, max_leaves=4)
"""Filters that name source keys alone, so that an update of a source key may stand on them."""

_patched_own = st.dictionaries(_own_keys, st.none() | values, max_size=3)
_patched_source = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.none() | strings,
        "title": st.none() | strings,
        "tags": st.none() | _labels,
        "stackroom.any": st.none() | values,
    },
)
patches: SearchStrategy[dict[str, Any]] = st.builds(
    lambda own, of_source: {**own, **of_source}, _patched_own, _patched_source
)
own_patches: SearchStrategy[dict[str, Any]] = _patched_own.filter(bool)


def seeded(examples: int) -> Callable[[Test], Test]:
    """Return the decorator of a random test: the same examples on every machine unless seeded otherwise; no files."""
    how = settings(
        max_examples=examples,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    return lambda test: seed(seed_of_this_run())(how(test))
