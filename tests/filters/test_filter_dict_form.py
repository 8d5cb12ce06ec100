"""The dict form: which node a dict becomes, and which dict a node."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from stackroom.filters import All, And, Contains, Eq, Exists, Filter, In, Ne, Not, NotIn, Or, Range, as_dict, parse

PARSED: list[tuple[dict[str, Any], Filter]] = [
    ({"k": 1}, Eq("k", 1)),
    ({"k": {"$eq": 1}}, Eq("k", 1)),
    ({"k": {"$ne": 1}}, Ne("k", 1)),
    ({"k": {"$in": [1, "a"]}}, In("k", [1, "a"])),
    ({"k": {"$nin": []}}, NotIn("k", [])),
    ({"k": {"$all": ("a",)}}, All("k", ["a"])),
    ({"k": {"$contains": "a"}}, Contains("k", "a")),
    ({"k": {"$exists": False}}, Exists("k", False)),
    ({"k": {"$gte": 1}}, Range("k", gte=1)),
    ({"k": {"$lte": 2, "$gt": 1}}, Range("k", gt=1, lte=2)),
    ({"k": {"$ne": 5, "$lt": 9, "$exists": True, "$gt": 1}}, And(Ne("k", 5), Range("k", gt=1, lt=9), Exists("k"))),
    ({"k": {"$gt": 9, "$lt": 1}}, Range("k", gt=9, lt=1)),
    ({}, And()),
    ({"$or": []}, Or()),
    ({"$or": [{"k": 1}]}, Or(Eq("k", 1))),
    ({"$and": [{}]}, And(And())),
    ({"$and": [{"k": 1}, {"m": 1}]}, And(Eq("k", 1), Eq("m", 1))),
    ({"$and": [{"k": 1, "m": 1}]}, And(And(Eq("k", 1), Eq("m", 1)))),
    ({"$not": {}}, Not(And())),
    ({"$not": {"k": 1, "m": 1}}, Not(And(Eq("k", 1), Eq("m", 1)))),
    ({"$not": {"$not": {"k": 1}}}, Not(Not(Eq("k", 1)))),
    ({"m": 1, "$or": ({"k": 1},), "$and": [{"k": 2}]}, And(Eq("m", 1), Or(Eq("k", 1)), And(Eq("k", 2)))),
    ({"a.b c": {"$eq": "x"}}, Eq("a.b c", "x")),
]


@pytest.mark.parametrize(("written", "node"), PARSED, ids=[str(written) for written, _ in PARSED])
def test_a_dict_becomes_its_node(written: dict[str, Any], node: Filter) -> None:
    assert parse(written) == node


@pytest.mark.parametrize("node", [node for _, node in PARSED], ids=repr)
def test_a_node_survives_the_dict_form_and_json(node: Filter) -> None:
    assert parse(json.loads(json.dumps(as_dict(node)))) == node


def test_a_node_is_answered_as_it_is() -> None:
    node = Or(Eq("k", 1))
    assert parse(node) is node


def test_any_mapping_will_do() -> None:
    assert parse(MappingProxyType({"k": MappingProxyType({"$ne": 1})})) == Ne("k", 1)


@pytest.mark.parametrize(
    ("node", "written"),
    [
        (Eq("k", True), {"k": {"$eq": True}}),
        (And(), {}),
        (And(Eq("k", 1)), {"$and": [{"k": {"$eq": 1}}]}),
        (Or(), {"$or": []}),
        (Not(And()), {"$not": {}}),
        (Range("k", lt="b", gte="a"), {"k": {"$gte": "a", "$lt": "b"}}),
        (NotIn("k", (1, 1)), {"k": {"$nin": [1, 1]}}),
        (parse({"k": np.int64(1)}), {"k": {"$eq": 1}}),
    ],
    ids=repr,
)
def test_the_dict_form_is_written_in_full(node: Filter, written: dict[str, Any]) -> None:
    assert as_dict(node) == written


def test_parsing_changes_nothing_of_what_it_reads() -> None:
    written = {"$or": [{"k": {"$gt": 1, "$lt": 2}}], "m": {"$in": [1]}}
    before = json.dumps(written)
    parse(written)
    assert json.dumps(written) == before


def test_ten_thousand_values_and_a_thousand_nodes_are_read() -> None:
    parsed = parse({"$or": [{"k": {"$in": list(range(10_000))}}, *({"k": number} for number in range(1_000))]})
    assert isinstance(parsed, Or)
    assert len(parsed.filters) == 1_001
