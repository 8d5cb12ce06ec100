"""What a caller learns of others beside the answers: nothing, by scores, orders, ways through or cursors."""

from __future__ import annotations

import base64
import json
import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.library.doubles import HandClock, RecordingEmbedder, source

from stackroom import RRF, Answer, Library, Scope, Source, Weighted
from stackroom.embedders import HashingEmbedder
from stackroom.stores import EmbeddedStore, MemoryStore, VectorStore
from stackroom.stores.embedded import _shard

MODES: list[Any] = ["hybrid", "lexical", "dense"]
OWN = Scope("t", ["g"])
OTHERS = ("u", "T", "t ", "tt", "é")


@contextmanager
def each_store() -> Iterator[list[VectorStore]]:
    with tempfile.TemporaryDirectory() as directory:
        stores: list[VectorStore] = [
            MemoryStore(),
            EmbeddedStore(directory),
            EmbeddedStore(directory + "/x", exact=True),
        ]
        yield stores
        for store in stores:
            store.close()


# Scores, orders and cursors

WORDS = st.lists(st.sampled_from(["red", "fox", "foxes", "blue", "den", "犬小屋"]), min_size=1, max_size=6).map(
    " ".join
)
OTHER_TENANTS = st.sampled_from(OTHERS)
SOURCE_IDS = st.sampled_from(["s0", "s1", "s2", "zz"])
WRITES: st.SearchStrategy[tuple[str, str, str, list[str]]] = st.one_of(
    st.tuples(st.just("index"), OTHER_TENANTS, SOURCE_IDS, st.lists(WORDS, min_size=1, max_size=8)),
    st.tuples(st.just("expire"), OTHER_TENANTS, SOURCE_IDS, st.lists(WORDS, min_size=1, max_size=3)),
    st.tuples(st.just("rescope"), OTHER_TENANTS, SOURCE_IDS, st.just([])),
    st.tuples(st.just("remove"), OTHER_TENANTS, SOURCE_IDS, st.just([])),
    st.tuples(st.just("remove tenant"), OTHER_TENANTS, SOURCE_IDS, st.just([])),
)


def write(library: Library, what: str, tenant_id: str, source_id: str, texts: list[str]) -> None:
    if what == "rescope":
        library.set_source_scope(source_id, tenant_id=tenant_id, acl_groups=["h", "g"], folder_id="f")
    elif what == "remove":
        library.remove_source(source_id, tenant_id=tenant_id)
    elif what == "remove tenant":
        library.remove_tenant(tenant_id)
    else:
        expires_at = HandClock().now if what == "expire" else None
        library.index_source(Source(source_id, "doc", tenant_id, ["g"], texts, folder_id="f", expires_at=expires_at))


def all_that_is_shown(library: Library) -> list[Any]:
    """Return every answer a caller gets, to the bit."""
    searches: list[Answer] = [
        library.search(text, scope=OWN, mode=mode, top_k=top_k, prefix=prefix, fusion=fusion, folder_id=folder)
        for text in ("red fox", "fo", "犬")
        for mode in MODES
        for top_k, prefix, fusion, folder in ((3, False, RRF(), None), (50, True, Weighted(0.4), "f"))
    ]
    pages, after = [], None
    while True:
        page = library.sources(scope=OWN, limit=2, after=after)
        pages.append((page.items, page.next))
        after = page.next
        if after is None:
            break
    single = [(library.source(name, scope=OWN), library.passages(name, scope=OWN)) for name in ("s0", "s1", "zz")]
    return [searches, pages, single, library.count(scope=OWN), library.count(scope=OWN, folder_id="f")]


@settings(max_examples=12)
@given(
    own=st.lists(st.lists(WORDS, min_size=1, max_size=3), min_size=1, max_size=4),
    writes=st.lists(WRITES, min_size=1, max_size=8),
)
def test_no_write_of_another_tenant_moves_a_score_an_order_or_a_cursor(
    own: list[list[str]], writes: list[tuple[str, str, str, list[str]]]
) -> None:
    with each_store() as stores:
        for store in stores:
            library = Library(store, "library", HashingEmbedder(16), clock=HandClock())
            for number, texts in enumerate(own):
                library.index_source(source(f"s{number}", *texts, folder_id="f" if number % 2 else None))
            before = all_that_is_shown(library)
            for one in writes:
                write(library, *one)
            assert all_that_is_shown(library) == before, type(store).__name__


@pytest.mark.parametrize("mode", MODES)
def test_a_tenant_full_of_the_same_words_moves_no_score(library: Library, mode: Any) -> None:
    library.index_source(source("s", "red fox"))
    library.index_source(source("r", "blue den"))
    before = library.search("red den", scope=OWN, mode=mode)
    for number in range(60):
        library.index_source(source("s", *["red fox den"] * 3, tenant_id=f"u{number % 3}"))
    assert library.search("red den", scope=OWN, mode=mode) == before


# One path for what is absent and what is not visible


class Recorder(MemoryStore):
    """Writes down each call with its question; ids are told apart by their place alone."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        method = super().__getattribute__(name)
        if name not in {"replace", "update", "delete", "dense", "lexical", "scan", "count"}:
            return method

        def recorded(*given: Any, **asked: Any) -> Any:
            self.asked.append(f"{name} {given[1:]} {asked}")
            return method(*given, **asked)

        return recorded


ABSENT, OTHER_TENANTS_OWN, OTHER_GROUPS, EXPIRED = "id-absent", "id-foreig", "id-hidden", "id-expire"
LOOKS: dict[str, Callable[[Library, str], object]] = {
    "source": lambda library, name: library.source(name, scope=OWN),
    "passages": lambda library, name: library.passages(name, scope=OWN),
    "sources": lambda library, name: list(library.sources(scope=OWN, source_ids=[name])),
    "count": lambda library, name: library.count(scope=OWN, source_ids=[name]),
    **{
        f"search {mode}": lambda library, name, mode=mode: list(  # type: ignore[misc] # a lambda's default
            library.search("red", scope=OWN, mode=mode, source_ids=[name])
        )
        for mode in MODES
    },
    "search any_of": lambda library, name: list(library.search("red", scope=OWN, any_of=[{"source_ids": [name]}])),
}
WRITE_CALLS: dict[str, Callable[[Library, str], object]] = {
    "set_source_scope": lambda library, name: library.set_source_scope(name, tenant_id="t", acl_groups=["g"]),
    "remove_source": lambda library, name: library.remove_source(name, tenant_id="t"),
}


def with_hidden_sources(store: VectorStore) -> Library:
    clock = HandClock()
    library = Library(store, "library", HashingEmbedder(8), clock=clock)
    library.index_source(source("mine", "red fox"))
    library.index_source(source(OTHER_TENANTS_OWN, "red fox", tenant_id="u"))
    library.index_source(source(OTHER_GROUPS, "red fox", acl_groups=["h"]))
    library.index_source(source(EXPIRED, "red fox", expires_at=clock.now - timedelta(days=1)))
    return library


@pytest.mark.parametrize("look", [*LOOKS, *WRITE_CALLS])
def test_the_absent_and_the_invisible_are_asked_of_the_store_by_the_same_calls(look: str) -> None:
    store = Recorder()
    library = with_hidden_sources(store)
    invisible = (OTHER_TENANTS_OWN, OTHER_GROUPS, EXPIRED) if look in LOOKS else (OTHER_TENANTS_OWN,)
    seen, answers = [], []
    for name in (ABSENT, *invisible):
        store.asked.clear()
        answers.append((LOOKS | WRITE_CALLS)[look](library, name))
        # The legs of a hybrid search run side by side, so their order is nobody's.
        seen.append(sorted(re.sub(r"array\([^)]*\)", "…", asked.replace(name, "ID")) for asked in store.asked))
    assert seen[0]
    assert all(calls == seen[0] for calls in seen)
    assert all(answer == answers[0] and not answer for answer in answers)


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement that SQLite runs, its values taken out."""
    seen: list[str] = []
    connect = _shard.connect

    def traced(*given: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*given, **options)
        connection.set_trace_callback(lambda statement: seen.append(re.sub(r"'[^']*'|\b\d+\b", "?", statement)))
        return connection

    monkeypatch.setattr(_shard, "connect", traced)
    return seen


@pytest.mark.parametrize("look", [*LOOKS, *WRITE_CALLS])
def test_the_absent_and_the_invisible_run_the_same_statements(tmp_path: Path, statements: list[str], look: str) -> None:
    store = EmbeddedStore(tmp_path / "d")
    library = with_hidden_sources(store)
    invisible = (OTHER_TENANTS_OWN, OTHER_GROUPS, EXPIRED) if look in LOOKS else (OTHER_TENANTS_OWN,)
    call = (LOOKS | WRITE_CALLS)[look]
    call(library, ABSENT)
    ran, answers = [], []
    for name in (ABSENT, *invisible):
        statements.clear()
        answers.append(call(library, name))
        ran.append(list(statements))
    store.close()
    assert ran[0]
    assert all(run == ran[0] for run in ran), ran
    assert all(answer == answers[0] and not answer for answer in answers)


@pytest.mark.parametrize("look", LOOKS)
def test_an_unknown_tenant_is_answered_as_a_known_one_without_the_right_groups(library: Library, look: str) -> None:
    library.index_source(source("s", "red fox", acl_groups=["h"]))
    unknown = Library(library._store, "library", RecordingEmbedder())  # noqa: SLF001 - the same store
    known = LOOKS[look](library, "s")
    library.remove_tenant("t")
    assert LOOKS[look](unknown, "s") == known


# Cursors


@pytest.fixture
def listed(library: Library) -> Library:
    for tenant_id in ("t", "u"):
        for name in ("a", "b", "c"):
            library.index_source(source(name, tenant_id=tenant_id, acl_groups=["g", "h"], folder_id="f"))
    return library


@pytest.mark.parametrize(
    ("scope", "narrowing"),
    [
        (Scope("u", ["g"]), {}),
        (Scope("T", ["g"]), {}),
        (Scope("t", ["h"]), {}),
        (Scope("t", ["g", "h"]), {}),
        (OWN, {"folder_id": "f"}),
        (OWN, {"folder_ids": ["f"]}),
        (OWN, {"kinds": ["doc"]}),
        (OWN, {"where": {"kind": "doc"}}),
        (OWN, {"source_ids": ["a", "b", "c"]}),
    ],
    ids=str,
)
def test_a_cursor_of_another_scope_or_narrowing_is_refused_both_ways(
    listed: Library, scope: Scope, narrowing: dict[str, Any]
) -> None:
    own = listed.sources(scope=OWN, limit=1).next
    others = listed.sources(scope=scope, limit=1, **narrowing).next
    with pytest.raises(ValueError, match="cursor"):
        listed.sources(scope=scope, after=own, **narrowing)
    if others is not None:
        with pytest.raises(ValueError, match="cursor"):
            listed.sources(scope=OWN, after=others)


def forged(cursor: str) -> dict[str, str]:
    """Return what somebody could make of a cursor."""
    source_id, seal = json.loads(base64.urlsafe_b64decode(cursor))
    again = {
        "another source": [source_id + "!", seal],
        "no seal": [source_id],
        "an empty seal": [source_id, ""],
        "a seal of zeros": [source_id, "0" * len(seal)],
        "upper case": [source_id, seal.upper()],
        "a third part": [source_id, seal, "t"],
    }
    made = {how: base64.urlsafe_b64encode(json.dumps(parts).encode()).decode() for how, parts in again.items()}
    made |= {f"{length} characters of it": cursor[:length] for length in (1, 4, len(cursor) // 2, len(cursor) - 1)}
    return made | {
        "spaces": f" {cursor}",
        "a tail": f"{cursor}====",
        "twice": cursor * 2,
        "unpadded": cursor.rstrip("=") + "A",
    }


def test_a_cursor_that_was_forged_or_cut_is_refused_and_the_error_shows_nothing_of_it(listed: Library) -> None:
    cursor = listed.sources(scope=OWN, limit=1).next
    for how, after in forged(cursor).items():
        with pytest.raises(ValueError, match="cursor") as caught:
            listed.sources(scope=OWN, after=after)
        assert after not in str(caught.value), how
    assert [info.source_id for info in listed.sources(scope=OWN, after=cursor)] == ["b", "c"]


def test_a_cursor_shows_no_more_than_the_source_it_stands_behind(listed: Library) -> None:
    listed.index_source(source("a", tenant_id="secrettenant", acl_groups=["secretgroup"], folder_id="secretfolder"))
    listed.index_source(source("b", tenant_id="secrettenant", acl_groups=["secretgroup"], folder_id="secretfolder"))
    cursor = listed.sources(scope=Scope("secrettenant", ["secretgroup"]), folder_id="secretfolder", limit=1).next
    assert b"secret" not in base64.urlsafe_b64decode(cursor)
