"""Every method keeps every kind of condition, whether the database judges it or `matches` does: a table of both."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stackroom import MetadataValue
from stackroom.filters import All, And, Contains, Eq, Exists, Filter, In, Ne, Not, NotIn, Or, Range, matches
from stackroom.stores import CollectionSpec, LexicalQuery, Record, SqlStore

SOURCES: dict[str, dict[str, MetadataValue]] = {
    "plan": {"aclGroups": ["board"], "tags": ["draft"], "kind": "doc", "folderId": "f", "stackroom.tier": "hot"},
    "menu": {"aclGroups": ["staff"], "tags": ["board"], "kind": "doc", "title": "The menu"},
    "talk": {"aclGroups": ["board", "staff"], "kind": "meeting", "folderId": "f ", "stackroom.expiresAt": 10},
    "bare": {},
}


def records() -> list[Record]:
    """Two tenants with the same sources, three passages each, with words and keys of their own."""
    return [
        Record(
            f"red {tenant} {source} {index}",
            [1, index],
            {**metadata, "tenantId": tenant, "sourceId": source, "index": index, "year": 2020 + index},
        )
        for tenant in ("t", "u")
        for source, metadata in SOURCES.items()
        for index in range(3)
    ]


WHERES: dict[str, Filter] = {
    "a tenant": And(),
    "a group": In("aclGroups", ["board"]),
    "a group that is nobody's": In("aclGroups", ["draft"]),
    "a tag": All("tags", ["board"]),
    "two groups": All("aclGroups", ["staff", "board"]),
    "a kind": Eq("kind", "doc"),
    "another kind": Ne("kind", "doc"),
    "no kind": Exists("kind", exists=False),
    "a folder": In("folderId", ["f", "g"]),
    "no folder of these": NotIn("folderId", ["f"]),
    "a source": Eq("sourceId", "plan"),
    "sources by order": Range("sourceId", gte="menu", lt="plan"),
    "not expired": Or(Exists("stackroom.expiresAt", exists=False), Range("stackroom.expiresAt", gt=10)),
    "a passage": Eq("index", 1),
    "passages by order": And(Eq("sourceId", "talk"), Range("index", gt=0)),
    "a passage or a kind": Or(Eq("index", 2), Eq("kind", "meeting")),
    "another passage": Not(In("index", [0, 1])),
    "a key of the source that has no column": Eq("stackroom.tier", "hot"),
    "a part of a title": Contains("title", "menu"),
    "a key of the passage": Eq("year", 2021),
    "a key of the passage by order": Range("year", gte=2021.5),
    "a key of the passage in a group": And(In("aclGroups", ["staff"]), Eq("year", 2020)),
    "branches, of which one is judged": Or(And(Eq("kind", "doc"), Eq("year", 2020)), Eq("folderId", "f ")),
    "branches, of which one may be anywhere": Or(Eq("kind", "meeting"), Eq("year", 2022)),
    "the opposite of what is judged": Not(Or(Eq("kind", "doc"), Eq("year", 2022))),
    "a key that nobody has": Exists("none"),
    "no branch at all": Or(),
    "another tenant": Eq("tenantId", "u"),
}


@pytest.fixture
def store(opened: Callable[..., SqlStore]) -> SqlStore:
    made = opened()
    made.create_collection("c", CollectionSpec(2, "m"))
    for tenant in ("t", "u"):
        made.replace("c", [of for of in records() if of.tenant_id == tenant], where=Eq("tenantId", tenant))
    return made


def test_reads_keep_their_condition(store: SqlStore) -> None:
    for name, condition in WHERES.items():
        where = And(Eq("tenantId", "t"), condition)
        expected = sorted((of.source_id, of.index) for of in records() if matches(where, of.metadata))
        assert store.count("c", where=where) == len(expected), name
        found = [
            [*store.scan("c", where=where, limit=100)],
            [match.record for match in store.dense("c", [1, 1], where=where, limit=100)],
            [match.record for match in store.lexical("c", LexicalQuery("red"), where=where, limit=100)],
        ]
        for answer in found:
            assert {of.tenant_id for of in answer} <= {"t"}, name
            assert sorted((of.source_id, of.index) for of in answer) == expected, name


def test_pages_keep_their_condition(store: SqlStore) -> None:
    for name, condition in WHERES.items():
        where = Or(And(Eq("tenantId", "t"), condition), And(Eq("tenantId", "u"), Eq("index", 0)))
        expected = sorted((of.tenant_id, of.source_id, of.index) for of in records() if matches(where, of.metadata))
        page = store.scan("c", where=where, limit=2)
        found = [*page]
        while page.next is not None:
            page = store.scan("c", where=where, limit=2, after=page.next)
            found += page
        assert [(of.tenant_id, of.source_id, of.index) for of in found] == expected, name


@pytest.mark.parametrize("name", WHERES)
def test_writes_keep_their_condition(store: SqlStore, name: str) -> None:
    where = And(Eq("tenantId", "t"), WHERES[name])
    meant = {(of.tenant_id, of.id) for of in records() if matches(where, of.metadata)}
    assert store.update("c", {"mark": True}, where=where) == len(meant)
    marked = store.scan("c", where=Eq("mark", True), limit=100)
    assert {(of.tenant_id, of.id) for of in marked} == meant
    assert store.delete("c", where=where) == len(meant)
    left = {(of.tenant_id, of.id) for of in store.scan("c", where=And(), limit=100)}
    assert left == {(of.tenant_id, of.id) for of in records()} - meant
    words = {(of.record.tenant_id, of.id) for of in store.lexical("c", LexicalQuery("red"), where=And(), limit=100)}
    assert words == left
