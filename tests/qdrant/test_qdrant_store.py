"""What the kit cannot know of the store in Qdrant: options, limits, whose client it is, what it says of errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from qdrant_client import QdrantClient
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse
from tests.qdrant.edge_client import EdgeClient

from stackroom import Library, Scope, Source, StoreError, StoreUnavailable
from stackroom.embedders import HashingEmbedder
from stackroom.filters import Eq
from stackroom.stores import CollectionSpec, LexicalQuery, QdrantStore, Record
from stackroom.stores._dsn import open_store
from stackroom.stores._tokens import NEVER, Every, Holds, No, Some
from stackroom.stores.qdrant._engine import QdrantEngine, condition

BOARD = Scope("acme", ["board"])


@pytest.fixture
def client() -> Iterator[QdrantClient]:
    made = QdrantClient(":memory:")
    yield made
    made.close()


def record(index: int, text: str = "red") -> Record:
    return Record(text, [1, index], {"tenantId": "t", "sourceId": "a", "index": index})


def test_a_library_in_local_mode_finds_replaces_rescopes_and_removes(client: QdrantClient) -> None:
    library = Library(QdrantStore(client), "library", HashingEmbedder(64))
    library.index_source(Source("plan", "doc", "acme", ["board"], ["the second bakery", "in May"]))
    assert {hit.id for hit in library.search("bakery", scope=BOARD)} == {"plan#0", "plan#1"}
    assert library.index_source(Source("plan", "doc", "acme", ["board"], ["a third bakery"])).replaced == 2
    assert library.set_source_scope("plan", tenant_id="acme", acl_groups=["staff"]) == 1
    assert len(library.search("bakery", scope=BOARD)) == 0
    assert library.remove_source("plan", tenant_id="acme") == 1


def test_libraries_with_different_prefixes_share_nothing(client: QdrantClient) -> None:
    one, other = QdrantStore(client, prefix="one"), QdrantStore(client, prefix="other")
    one.create_collection("c", CollectionSpec(2, "m"))
    assert other.collection("c") is None
    with pytest.raises(ValueError, match="prefix"):
        QdrantStore(client, prefix="no/such")


def test_a_client_given_is_left_open_unless_it_is_given_away(client: QdrantClient) -> None:
    QdrantStore(client).close()
    assert QdrantStore(client).collection("c") is None
    QdrantStore(client, close_client=True).close()
    with pytest.raises(RuntimeError):
        client.get_collections()


@pytest.mark.parametrize("wrong", [{"exact_limit": -1}, {"exact_limit": True}, {"prefix": " "}])
def test_wrong_options_are_refused(client: QdrantClient, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        QdrantStore(client, **wrong)
    with pytest.raises(TypeError, match="QdrantClient"):
        QdrantStore("http://localhost")  # type: ignore[arg-type]


def test_an_answer_of_the_index_says_so_and_others_do_not() -> None:
    store = QdrantStore(EdgeClient(), exact_limit=5, close_client=True)
    assert not store.capabilities.exact
    store.create_collection("c", CollectionSpec(2, "m"))
    store.replace("c", [record(index) for index in range(20)], where=Eq("tenantId", "t"))
    walked = store.dense("c", [1, 0], where=Eq("tenantId", "t"), limit=3)
    assert [note.code for note in getattr(walked, "notes", ())] == ["scan_limit"]
    few = store.dense("c", [1, 0], where=Eq("index", 3), limit=3)
    assert not getattr(few, "notes", ())
    assert not getattr(store.lexical("c", LexicalQuery("red"), where=Eq("tenantId", "t"), limit=3), "notes", ())
    store.close()


def test_an_older_server_is_refused() -> None:
    class Old(EdgeClient):
        def info(self) -> Any:
            return type("Info", (), {"version": "1.15.4"})()

    with pytest.raises(StoreError, match=r"1\.16"):
        QdrantStore(Old())


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (UnexpectedResponse(503, "s3cret", b"s3cret", httpx.Headers()), StoreUnavailable),
        (UnexpectedResponse(400, "s3cret", b"s3cret", httpx.Headers()), StoreError),
        (ResponseHandlingException(OSError("s3cret")), StoreUnavailable),
        (httpx.ConnectError("s3cret"), StoreUnavailable),
        (TimeoutError("s3cret"), StoreUnavailable),
    ],
)
def test_errors_say_no_values(
    client: QdrantClient, monkeypatch: pytest.MonkeyPatch, raised: Exception, kind: type[StoreError]
) -> None:
    store = QdrantStore(client)
    store.create_collection("c", CollectionSpec(2, "m"))

    def fail(*_: Any, **__: Any) -> Any:
        raise raised

    monkeypatch.setattr(client, "retrieve", fail)
    with pytest.raises(StoreError) as caught:
        store.count("c", where=Eq("tenantId", "t"))
    assert type(caught.value) is kind
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_two_writers_of_a_note_cannot_both_have_their_way() -> None:
    client = EdgeClient()
    one: Any = QdrantEngine(client)
    other: Any = QdrantEngine(client)
    assert one.write_note("n", b"1", None)
    assert not other.write_note("n", b"2", None)
    read = other._noted("n")  # noqa: SLF001 - the moment between its look and its write is what is tried

    def late(name: str) -> Any:
        del other._noted  # noqa: SLF001
        assert one.write_note("n", b"3", b"1")
        return read if name == "n" else None

    other._noted = late  # noqa: SLF001
    assert not other.write_note("n", b"4", b"1")
    assert one.note("n") == b"3"
    assert one.write_note("n", None, b"3")
    assert one.note("n") is None
    client.close()


@pytest.mark.parametrize("empty", [NEVER, Some(()), Every(()), Holds(frozenset()), No(Every(()))])
def test_a_condition_without_parts_is_never_sent(empty: Any) -> None:
    with pytest.raises(AssertionError, match="match everything"):
        condition(empty)


@pytest.mark.filterwarnings("ignore:Local mode is not recommended:UserWarning")
def test_a_directory_is_a_dsn(tmp_path: Path) -> None:
    store = open_store(f"qdrant:{tmp_path}/local")
    Library(store, "library", HashingEmbedder(8)).index_source(Source("a", "doc", "acme", ["board"], ["red"]))
    store.close()
    again = open_store(f"qdrant:{tmp_path}/local")
    assert again.count("library", where=Eq("tenantId", "acme")) == 1
    again.close()
