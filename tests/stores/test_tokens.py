"""Tokens mean what `matches` means: exactly, or more widely and never less."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from stackroom.filters import All, And, Contains, Eq, Exists, Filter, In, Ne, Not, NotIn, Or, Range, matches
from stackroom.stores import Record
from stackroom.stores._tokens import ALWAYS, NEVER, Holds, HoldsAll, No, compiled, digest, holds, tokens_of
from stackroom.testing.strategies import filters, seeded, sources


def asked(where: Filter, held: Any) -> bool:
    return holds(compiled(where).form, frozenset(tokens_of(held)))


@seeded(500)
@given(filters, sources())
def test_what_is_asked_is_what_matches_or_more(where: Filter, records: list[Record]) -> None:
    for held in (record.metadata for record in records):
        if compiled(where).is_exact:
            assert asked(where, held) == matches(where, held)
        else:
            assert asked(where, held) or not matches(where, held)


@pytest.mark.parametrize(
    ("where", "held", "expected"),
    [
        (Eq("n", 5), {"n": 5.0}, True),
        (Eq("n", 5), {"n": "5"}, False),
        (Eq("n", 1), {"n": True}, False),
        (Eq("n", -0.0), {"n": 0}, True),
        (Eq("n", 2**53 + 1), {"n": float(2**53)}, False),
        (Eq("n", 1e300), {"n": 1e300}, True),
        (Eq("l", "a"), {"l": ["b", "a"]}, True),
        (Eq("ab", "c"), {"a": "bc"}, False),
        (Eq("é", "e\u0301"), {"é": "é"}, False),
        (All("l", [1, True]), {"l": [1]}, False),
        (In("n", []), {"n": 1}, False),
        (NotIn("n", []), {"n": 1}, True),
        (NotIn("n", []), {}, False),
        (Ne("n", 1), {}, False),
        (Ne("n", 1), {"n": []}, True),
        (Exists("n", exists=False), {"n": []}, False),
        (Exists("n", exists=False), {}, True),
        (Not(Range("n", gt=5)), {"n": 7}, True),
        (Not(Contains("s", "x")), {"s": "xx"}, True),
        (And(), {}, True),
        (Or(), {}, False),
        (Not(Or(And(), Eq("n", 1))), {"n": 2}, False),
    ],
)
def test_cases(where: Filter, held: dict[str, Any], expected: bool) -> None:  # noqa: FBT001 - a table of them
    assert asked(where, held) == expected


def test_what_never_or_always_holds_is_seen() -> None:
    assert compiled(And(In("a", []), Eq("b", 1))).form == NEVER
    assert compiled(Or(Not(In("a", [])), Eq("b", 1))).form == ALWAYS
    assert compiled(Not(Range("n", gt=1))).form == ALWAYS


def test_long_filters_become_short_forms() -> None:
    wide = compiled(Or(*(Eq("k", value) for value in range(1000)))).form
    assert isinstance(wide, Holds)
    assert len(wide.tokens) == 1000
    assert isinstance(compiled(And(*(Eq("k", value) for value in range(1000)))).form, HoldsAll)
    assert isinstance(compiled(And(*(Range("k", gt=value) for value in range(1000)))).form, Holds)
    assert isinstance(compiled(And(*(Not(Eq("k", value)) for value in range(1000)))).form, No)


def test_what_lies_very_deep_is_asked_more_widely() -> None:
    deep: Filter = Eq("k", 1)
    for _ in range(20):
        deep = Or(And(deep, Exists("s")), Eq("j", 2))
    asked_for = compiled(deep)
    assert not asked_for.is_exact
    for held, expected in (({"k": 1, "s": 1}, True), ({"j": 2}, True), ({}, False), ({"k": 1}, False)):
        assert matches(deep, held) == expected
        assert holds(asked_for.form, frozenset(tokens_of(held))) or not expected
    assert holds(compiled(Not(deep)).form, frozenset(tokens_of({})))


def test_parts_of_a_digest_never_run_together() -> None:
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("a", "") != digest("a")
    assert len(digest("x" * 10**6)) == 22
