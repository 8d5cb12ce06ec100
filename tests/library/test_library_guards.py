"""Guards that nothing else would miss: each test here goes red when one of them is taken out."""

from __future__ import annotations

import copy
import json
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.library.doubles import HandClock, RecordingEmbedder, source

from stackroom import (
    EmbedderError,
    EmbedderMismatch,
    Library,
    Passage,
    RankerError,
    Scope,
    SourceError,
    StackroomError,
    StoreError,
    UnsupportedFilter,
)
from stackroom.embedders import Fingerprint, HashingEmbedder
from stackroom.filters import And, Eq, Exists
from stackroom.stores import CollectionSpec, EmbeddedStore, MemoryStore, Record, VectorStore
from stackroom.stores._legs import Choose, LegsQuery, Rankings

SCOPE = Scope("t", ["g"])


class AnswersLegs(MemoryStore):
    """A store that answers both legs at once, and then hands out something else than what was chosen."""

    def __init__(self) -> None:
        super().__init__()
        self.change: Callable[[list[Record]], list[Record]] = list

    def dense(self, *arguments: Any, **options: Any) -> Any:
        return super().dense(*arguments, **options)

    def lexical(self, *arguments: Any, **options: Any) -> Any:
        return super().lexical(*arguments, **options)

    def legs(self, name: str, asked: LegsQuery, choose: Choose, *, fingerprint: str) -> list[Record]:
        assert asked.vector is not None
        assert fingerprint
        found = {match.id: match for match in super().dense(name, asked.vector, where=asked.where, limit=asked.limit)}
        chosen = choose(Rankings(str, dense=[(key, match.score) for key, match in found.items()]))
        return self.change([found[str(key)].record for key in chosen])


@pytest.mark.parametrize("wrong", ["another tenant's", "another's id", "out of scope"])
def test_what_a_store_reads_whole_after_the_choice_is_checked_as_well(wrong: str) -> None:
    store = AnswersLegs()
    library = Library(store, "library", HashingEmbedder(8))
    library.index_source(source("a", "apple"))
    library.index_source(source("b", "apple"))
    library.index_source(source("a", "secret", tenant_id="u"))
    library.index_source(source("h", "secret", acl_groups=["h"]))
    where = {
        "another tenant's": And(Eq("tenantId", "u"), Eq("sourceId", "a")),
        "another's id": And(Eq("tenantId", "t"), Eq("sourceId", "b")),
        "out of scope": Eq("sourceId", "h"),
    }[wrong]
    foreign = store.scan("library", where=where, limit=1)[0]
    store.change = lambda records: [foreign if record.source_id == "a" else record for record in records]
    answer = library.search("apple", scope=SCOPE, mode="dense")
    assert [hit.id for hit in answer] == ["b#0"]
    assert not answer.complete
    assert [note.code for note in answer.notes] == ["dropped_by_check"]


@pytest.fixture(params=["same dimension", "another dimension"])
def swapped(
    request: pytest.FixtureRequest, store: VectorStore
) -> tuple[Library, RecordingEmbedder, Callable[[], None]]:
    """Return a Library of the old embedder, and what moves its collection to a new one."""
    dimension = 16 if request.param == "same dimension" else 8
    old = RecordingEmbedder()
    library = Library(store, "library", old)
    library.index_source(source("s", "red fox"))

    def swap() -> None:
        side = Library(store, "library.side", RecordingEmbedder(name="new", dimension=dimension))
        side.index_source(source("s", "red fox"))
        store.swap("library", "library.side")
        old.batches.clear()

    return library, old, swap


@pytest.mark.parametrize("mode", ["dense", "hybrid"])
def test_a_search_with_the_old_embedder_is_refused_after_a_switch(
    swapped: tuple[Library, RecordingEmbedder, Callable[[], None]], mode: Any
) -> None:
    library, _, swap = swapped
    swap()
    with pytest.raises(EmbedderMismatch):
        library.search("red", scope=SCOPE, mode=mode)
    assert [hit.id for hit in library.search("red", scope=SCOPE, mode="lexical")] == ["s#0"]


def test_a_write_with_the_old_embedder_is_refused_after_a_switch_before_it_embeds(
    swapped: tuple[Library, RecordingEmbedder, Callable[[], None]],
) -> None:
    library, old, swap = swapped
    swap()
    with pytest.raises(EmbedderMismatch):
        library.index_source(source("new", "blue fox"))
    with pytest.raises(EmbedderMismatch):
        library.verify_embedder()
    assert old.batches == []


def test_what_was_embedded_before_a_switch_is_not_written_after_it(
    swapped: tuple[Library, RecordingEmbedder, Callable[[], None]],
) -> None:
    library, old, swap = swapped
    old.before_batch = lambda _: swap()
    with pytest.raises(EmbedderMismatch):
        library.index_source(source("new", "blue fox"))
    assert library.count(scope=SCOPE) == 1


@pytest.mark.parametrize("fingerprint", ["bge", "no dimension@", "recording@16x"])
def test_a_collection_whose_fingerprint_is_none_of_ours_belongs_to_another_embedder(
    store: VectorStore, fingerprint: str
) -> None:
    store.create_collection("library", CollectionSpec(16, fingerprint))
    with pytest.raises(EmbedderMismatch) as caught:
        Library(store, "library", RecordingEmbedder())
    assert caught.value.problem == "id"


def test_a_collection_of_another_length_than_its_fingerprint_says_is_refused(store: VectorStore) -> None:
    store.create_collection("library", CollectionSpec(3, "recording@16"))
    with pytest.raises(EmbedderMismatch) as caught:
        Library(store, "library", RecordingEmbedder())
    assert caught.value.problem == "dimension"


class Narrow(RecordingEmbedder):
    """Bears one call at a time, and notices more."""

    max_concurrency = 1

    def __init__(self) -> None:
        super().__init__()
        self.inside = 0
        self.most = 0

    def embed_query(self, text: str) -> Any:
        self.inside += 1
        self.most = max(self.most, self.inside)
        threading.Event().wait(0.002)
        answer = super().embed_query(text)
        self.inside -= 1
        return answer


def test_an_embedder_is_called_by_no_more_threads_than_it_bears() -> None:
    embedder = Narrow()
    libraries = [Library(MemoryStore(), "library", embedder) for _ in range(2)]
    for library in libraries:
        library.index_source(source("s", "red"))
    threads = [
        threading.Thread(target=library.search, args=("red",), kwargs={"scope": SCOPE}) for library in libraries * 4
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(embedder.queries) == 8
    assert embedder.most == 1


def test_a_cursor_belongs_to_its_collection(store: VectorStore) -> None:
    one, other = (Library(store, name, RecordingEmbedder()) for name in ("one", "other"))
    for library in (one, other):
        for source_id in ("a", "b"):
            library.index_source(source(source_id))
    cursor = one.sources(scope=SCOPE, limit=1).next
    with pytest.raises(ValueError, match="cursor"):
        other.sources(scope=SCOPE, limit=1, after=cursor)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"kinds": ["doc", "z"]}, {"kinds": ["z", "doc"]}),
        ({}, {"kinds": [], "tags": (), "tiers": [], "where": {}}),
        ({"source_ids": ["a", "b"]}, {"source_ids": ("b", "a")}),
    ],
)
def test_a_cursor_serves_the_same_narrowing_however_it_is_written(
    library: Library, one: dict[str, Any], other: dict[str, Any]
) -> None:
    for source_id in ("a", "b"):
        library.index_source(source(source_id))
    cursor = library.sources(scope=SCOPE, limit=1, **one).next
    assert [info.source_id for info in library.sources(scope=SCOPE, limit=1, after=cursor, **other)] == ["b"]


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 0},
        {"fusion": 3},
        {"collection": "../x"},
        {"embedder": 3},
        {"clock": 3},
        {"exact": 1},
        {"what": 1},
    ],
)
def test_open_makes_nothing_when_an_argument_is_wrong(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises((ValueError, EmbedderError, TypeError)):
        Library.open(tmp_path / "new", **{"embedder": HashingEmbedder(8), **options})
    assert not (tmp_path / "new").exists()


def test_a_clock_without_a_time_zone_is_named(library: Library, clock: HandClock) -> None:
    clock.now = clock.now.replace(tzinfo=None)
    with pytest.raises(ValueError, match="clock"):
        library.search("red", scope=SCOPE)


def test_what_is_not_an_embedder_is_told_how_to_become_one() -> None:
    for wrong in (None, "local", lambda texts: texts):
        with pytest.raises(EmbedderError, match="FunctionEmbedder"):
            Library(MemoryStore(), "library", wrong)  # type: ignore[arg-type] # that is the test


def test_metadata_is_read_only_and_can_be_written_as_json_copied_and_pickled(library: Library) -> None:
    library.index_source(source("s", Passage("red", {"colours": ["red"]})))
    (hit,) = library.search("red", scope=SCOPE)
    held: Any = hit.metadata
    for change in (lambda: held.update(a=1), lambda: held.pop("colours"), held.clear):
        with pytest.raises(TypeError, match="read-only"):
            change()
    assert json.loads(json.dumps(hit.metadata))["colours"] == ["red"]
    for twin in (copy.deepcopy(hit), pickle.loads(pickle.dumps(hit))):  # noqa: S301 - our own bytes
        assert twin == hit


def test_a_list_made_unstorable_after_the_check_is_refused_before_anything_is_embedded(
    library: Library, embedder: RecordingEmbedder
) -> None:
    passage = Passage("red", {"colours": ["red"]})
    held: Any = passage.metadata["colours"]
    held.append({"nested": 1})
    with pytest.raises(SourceError):
        library.index_source(source("s", passage))
    assert embedder.calls == 0


def test_errors_are_the_same_in_another_process() -> None:
    mismatch = EmbedderMismatch("m", stored=Fingerprint("a", 1), given=Fingerprint("b", 1), problem="id")
    with pytest.raises(StoreError) as unknown:
        MemoryStore().count("c", where=Eq("a", 1))
    errors: list[StackroomError] = [
        mismatch,
        unknown.value,
        UnsupportedFilter("Ne", "k"),
        RankerError("OSError"),
        EmbedderError("e", retryable=True, retry_after=2.0, status=503),
        SourceError("s"),
    ]
    for error in errors:
        twin = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)


class MixesTenants(MemoryStore):
    """Scans all tenants, whichever was named."""

    is_broken = False

    def scan(self, name: str, **asked: Any) -> Any:
        return super().scan(name, **(asked | {"where": Exists("tenantId")} if self.is_broken else asked))


def test_a_listing_of_a_store_that_mixes_tenants_ends() -> None:
    store = MixesTenants()
    library = Library(store, "library", HashingEmbedder(8))
    for tenant_id in ("u", "v", "w"):
        library.index_source(source("s", "one", "two", tenant_id=tenant_id))
    store.is_broken = True
    with pytest.raises(StoreError, match="would not end"):
        library.sources(scope=SCOPE, limit=2)


def test_a_register_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "library.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(StoreError, match=r"library\.toml"):
        EmbeddedStore(tmp_path)
