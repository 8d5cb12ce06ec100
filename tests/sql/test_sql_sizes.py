"""Sizes: a dense search of too much is refused before it reads a vector, and everything else is served."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sqlalchemy as sa

from stackroom import CapabilityError, Library, Passage, Scope, Source, StoreError
from stackroom.embedders import HashingEmbedder
from stackroom.filters import And, Contains, Eq, In
from stackroom.stores import CollectionSpec, LexicalQuery, Record, SqlStore

TENANT = Eq("tenantId", "t")


def filled(store: SqlStore, number: int = 1_002) -> SqlStore:
    """Put as many passages into the store, half of them in the group "even"."""
    store.create_collection("c", CollectionSpec(2, "m"))
    records = [
        Record(
            "red",
            [1, at],
            {
                "tenantId": "t",
                "sourceId": f"s{at // 2}",
                "index": at % 2,
                "aclGroups": [("even", "odd")[at // 2 % 2]],
                "n": at,
            },
        )
        for at in range(number)
    ]
    store.replace("c", records, where=TENANT)
    return store


def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that every statement is added to that is run from now on."""
    seen: list[str] = []
    run = sa.Connection.execute

    def watched(self: sa.Connection, statement: object, *given: object, **options: object) -> object:
        seen.append(str(statement))
        return run(self, statement, *given, **options)  # type: ignore[call-overload] # passed on as it is

    monkeypatch.setattr(sa.Connection, "execute", watched)
    return seen


def test_more_allowed_passages_than_max_rows_are_refused_before_a_vector_is_read(
    opened: Callable[..., SqlStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(opened(max_rows=1_000))
    seen = statements(monkeypatch)
    with pytest.raises(CapabilityError, match=r"1,002 passages.*max_rows=1,000.*narrow"):
        store.dense("c", [1, 0], where=TENANT, limit=3)
    assert not any("vectors" in statement for statement in seen)


def test_a_narrower_scope_in_a_large_tenant_is_served(opened: Callable[..., SqlStore]) -> None:
    store = filled(opened(max_rows=1_000))
    where = And(TENANT, In("aclGroups", ["odd"]))
    assert len(store.dense("c", [1, 0], where=where, limit=2_000)) == 500


def test_what_matches_alone_can_judge_does_not_make_a_scope_small(opened: Callable[..., SqlStore]) -> None:
    store = filled(opened(max_rows=1_000))
    with pytest.raises(CapabilityError, match="1,002"):
        store.dense("c", [1, 0], where=And(TENANT, Eq("n", 5)), limit=3)


def test_all_that_reads_no_vectors_is_served_whatever_the_size(opened: Callable[..., SqlStore]) -> None:
    store = filled(opened(max_rows=1_000))
    assert store.count("c", where=TENANT) == 1_002
    assert len(store.lexical("c", LexicalQuery("red"), where=TENANT, limit=2_000)) == 1_002
    assert len(store.scan("c", where=TENANT, limit=2_000, vectors=True)) == 1_002
    assert store.update("c", {"title": "T"}, where=TENANT) == 1_002
    assert store.delete("c", where=TENANT) == 1_002


@pytest.mark.parametrize("most", [1_002, None])
def test_as_many_as_max_rows_are_served(opened: Callable[..., SqlStore], most: int | None) -> None:
    store = filled(opened(max_rows=most))
    assert len(store.dense("c", [1, 0], where=TENANT, limit=2_000)) == 1_002


def test_a_librarys_search_beyond_the_size_says_so_and_its_lexical_one_is_served(
    opened: Callable[..., SqlStore],
) -> None:
    library = Library(opened(max_rows=1_000), "library", HashingEmbedder(8))
    for number in range(11):
        library.index_source(Source(f"s{number}", "doc", "t", ["g"], [Passage("red fox")] * 100))
    scope = Scope("t", ["g"])
    for mode in ("hybrid", "dense"):
        with pytest.raises(StoreError, match="max_rows"):
            library.search("red", scope=scope, mode=mode)
    assert len(library.search("red", scope=scope, mode="lexical")) == 10
    assert len(library.search("red", scope=scope, source_ids=["s1"])) == 10


def test_rare_conditions_are_judged_in_python_and_exact(opened: Callable[..., SqlStore]) -> None:
    store = filled(opened(), 400)
    assert store.count("c", where=And(TENANT, Contains("sourceId", "s1"))) == 2 * (1 + 10 + 100)
    assert store.count("c", where=And(TENANT, In("n", [3, 5, 400]))) == 2
