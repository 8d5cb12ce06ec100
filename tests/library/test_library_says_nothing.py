"""What is said in errors, notes and logs names nobody and holds no text."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.library.doubles import DropsConditions, RecordingEmbedder, RefusesLexical, source

from stackroom import EmbedderMismatch, Library, Passage, Scope, Source, StackroomError
from stackroom.embedders import HashingEmbedder
from stackroom.stores import EmbeddedStore, VectorStore

OWN = Scope("t", ["g"])


# Errors

SECRETS = {
    "tenant": "secrettenant",
    "group": "secretgroup",
    "source": "secretsource",
    "folder": "secretfolder",
    "tag": "secrettag",
    "title": "secrettitle",
    "text": "secrettext",
    "value": "secretvalue",
}
SECRET = Source(
    SECRETS["source"],
    "doc",
    SECRETS["tenant"],
    [SECRETS["group"]],
    [Passage("secrettext of somebody", {"note": SECRETS["value"]})],
    folder_id=SECRETS["folder"],
    tags=[SECRETS["tag"]],
    title=SECRETS["title"],
)


def says_nothing(error: BaseException) -> bool:
    """Tell whether an error, its notes and what the Library was told by its store keep quiet."""
    said = [str(error), repr(error), *getattr(error, "__notes__", [])]
    inner = error.__cause__ or error.__context__
    if isinstance(inner, StackroomError):
        said += [str(inner), repr(inner)]
    return "secret" not in " ".join(said).lower()


def wrong_calls() -> dict[str, Callable[[Library], object]]:
    """Return calls that fail, with what is secret in every place that is not a key."""
    scope = Scope(SECRETS["tenant"], [SECRETS["group"]])
    name, nul, long, lone = SECRETS["source"], "secret\0", "secret" * 100, "secret" + chr(0xD800)
    return {
        "tenant too long": lambda _: Scope(long, ["g"]),
        "tenant with NUL": lambda _: Scope(nul, ["g"]),
        "tenant of another type": lambda _: Scope(["secrettenant"], ["g"]),  # type: ignore[arg-type]
        "group too long": lambda _: Scope("t", [long]),
        "groups as a string": lambda _: Scope("t", "secretgroup"),
        "group with a lone surrogate": lambda _: Scope("t", [lone]),
        "source id with NUL": lambda library: library.index_source(source(nul)),
        "source id too long": lambda library: library.index_source(source(long)),
        "text with NUL": lambda _: Passage(nul),
        "metadata nested": lambda _: Passage("text", {"k": {"secret": "secretvalue"}}),  # type: ignore[dict-item]
        "expiry naive": lambda _: source("secretsource", expires_at="secret"),
        "title of another type": lambda _: source("secretsource", title=["secrettitle"]),
        "no scope": lambda library: library.search("secrettext", scope="secrettenant"),  # type: ignore[arg-type]
        "mode": lambda library: library.search("secrettext", scope=scope, mode="secret"),  # type: ignore[arg-type]
        "top_k": lambda library: library.search("secrettext", scope=scope, top_k="secret"),  # type: ignore[arg-type]
        "text surrogate": lambda library: library.search(lone, scope=scope),
        "folder with NUL": lambda library: library.search("secrettext", scope=scope, folder_id=nul),
        "source_ids as a string": lambda library: library.search("x", scope=scope, source_ids="secretsource"),
        "where value": lambda library: library.search("x", scope=scope, where={"k": {"$in": "secretvalue"}}),
        "where nested": lambda library: library.count(scope=scope, where={"k": {"$eq": ["secretvalue"]}}),
        "range of two kinds": lambda library: library.count(scope=scope, where={"k": {"$gt": 1, "$lt": "secret"}}),
        "tier": lambda library: library.count(scope=scope, tiers=["secret"]),  # type: ignore[list-item]
        "any_of": lambda library: library.search("x", scope=scope, any_of=["secretsource"]),  # type: ignore[list-item]
        "any_of scope": lambda library: library.search("x", scope=scope, any_of=[{"scope": "secret"}]),
        "cursor": lambda library: library.sources(scope=scope, after="secretsource"),
        "rescope without groups": lambda library: library.set_source_scope(
            name, tenant_id=scope.tenant_id, acl_groups=[]
        ),
        "rescope tags": lambda library: library.set_source_scope(name, tenant_id=scope.tenant_id, tags="secrettag"),
        "rescope folder": lambda library: library.set_source_scope(name, tenant_id=scope.tenant_id, folder_id=nul),
        "remove": lambda library: library.remove_source(nul, tenant_id=scope.tenant_id),
        "remove tenant": lambda library: library.remove_tenant(long),
    }


@pytest.mark.parametrize("call", wrong_calls())
def test_an_error_about_an_argument_does_not_repeat_what_was_given(library: Library, call: str) -> None:
    library.index_source(SECRET)
    with pytest.raises((StackroomError, ValueError)) as caught:
        wrong_calls()[call](library)
    assert says_nothing(caught.value), str(caught.value)


@pytest.fixture
def with_secrets(library: Library) -> Library:
    library.index_source(SECRET)
    library.index_source(source("s", "red"))
    return library


def test_a_conflict_names_nobody(with_secrets: Library, embedder: RecordingEmbedder) -> None:
    def meanwhile(_batch: int) -> None:
        embedder.before_batch = lambda _number: None
        with_secrets.set_source_scope(SECRETS["source"], tenant_id=SECRETS["tenant"], tags=["secrettag 2"])

    embedder.before_batch = meanwhile
    with pytest.raises(StackroomError) as caught:
        with_secrets.index_source(Source(SECRETS["source"], "doc", SECRETS["tenant"], [SECRETS["group"]], ["new"]))
    assert says_nothing(caught.value)


@pytest.mark.parametrize("answer", ["a failure", "too few", "no numbers", "another length", "nan"])
def test_an_embedder_that_fails_makes_no_error_that_holds_the_text(
    with_secrets: Library, embedder: RecordingEmbedder, answer: str
) -> None:
    def fail(vectors: list[list[float]]) -> object:
        if answer == "a failure":
            raise RuntimeError("cannot embed secrettext")
        wrong: dict[str, object] = {"too few": [], "no numbers": ["secrettext"], "another length": [[1.0]]}
        return wrong.get(answer, [[float("nan")] * len(vector) for vector in vectors])

    embedder.answering = fail
    with pytest.raises(StackroomError) as caught:
        with_secrets.index_source(
            Source(SECRETS["source"], "doc", SECRETS["tenant"], ["secretgroup"], ["secrettext 2"])
        )
    assert says_nothing(caught.value)


def test_a_mismatch_of_embedders_names_nobody(with_secrets: Library, store: VectorStore) -> None:
    for dimension in (16, 8):
        with pytest.raises(EmbedderMismatch) as caught:
            Library(store, "library", RecordingEmbedder(name="another", dimension=dimension))
        assert says_nothing(caught.value)
    assert with_secrets.count(scope=OWN) == 1


CALLS: dict[str, Callable[[Library], object]] = {
    "index_source": lambda library: library.index_source(SECRET),
    "set_source_scope": lambda library: library.set_source_scope("secretsource", tenant_id="secrettenant", tags=["a"]),
    "remove_source": lambda library: library.remove_source("secretsource", tenant_id="secrettenant"),
    "remove_tenant": lambda library: library.remove_tenant("secrettenant"),
    "sweep": lambda library: library.sweep(),
    "search": lambda library: library.search("secrettext", scope=Scope("secrettenant", ["secretgroup"])),
    "sources": lambda library: library.sources(scope=Scope("secrettenant", ["secretgroup"])),
    "source": lambda library: library.source("secretsource", scope=Scope("secrettenant", ["secretgroup"])),
    "passages": lambda library: library.passages("secretsource", scope=Scope("secrettenant", ["secretgroup"])),
    "count": lambda library: library.count(scope=Scope("secrettenant", ["secretgroup"])),
    "verify_embedder": lambda library: library.verify_embedder(),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_closed_store_names_nobody(with_secrets: Library, store: VectorStore, call: str) -> None:
    store.close()
    with pytest.raises(StackroomError) as caught:
        CALLS[call](with_secrets)
    assert says_nothing(caught.value)


@pytest.mark.parametrize("call", CALLS)
def test_a_shard_that_is_no_database_any_more_names_nobody(tmp_path: Path, call: str) -> None:
    with Library.open(tmp_path / "d", embedder=HashingEmbedder(8)) as library:
        library.index_source(SECRET)
    for file in (tmp_path / "d").glob("1/*/shard.db*"):
        file.write_bytes(b"no database at all " * 1000)
    with Library.open(tmp_path / "d", embedder=HashingEmbedder(8)) as library:
        with pytest.raises(StackroomError) as caught:
            CALLS[call](library)
        assert says_nothing(caught.value), str(caught.value)


def test_a_lock_that_another_holds_names_no_tenant(tmp_path: Path) -> None:
    with Library.open(tmp_path / "d", embedder=HashingEmbedder(8), lock_timeout=0.01) as library:
        library.index_source(SECRET)
        (shard,) = (tmp_path / "d").glob("1/*/shard.db")
        other = sqlite3.connect(shard, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StackroomError) as caught:
            library.set_source_scope(SECRETS["source"], tenant_id=SECRETS["tenant"], tags=["a"])
        other.close()
    assert says_nothing(caught.value), str(caught.value)


def test_a_note_names_nobody() -> None:
    library = Library(DropsConditions(), "library", HashingEmbedder(8))
    library.index_source(SECRET)
    library.index_source(source("s", "secrettext"))
    answer = library.search("secrettext", scope=OWN)
    assert answer.notes
    assert "secret" not in repr(answer.notes)


# Logs


def test_no_log_holds_a_text_or_a_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for store in (DropsConditions(), RefusesLexical(), EmbeddedStore(tmp_path / "d", lock_timeout=0.05)):
        library = Library(store, "library", HashingEmbedder(8))
        for number in range(20):
            library.index_source(SECRET)
            library.index_source(source(f"secretsource {number}", "secrettext", tenant_id=f"secrettenant {number % 3}"))
        for mode in ("hybrid", "dense"):
            library.search("secrettext", scope=OWN, mode=mode)
        for call in CALLS.values():
            call(library)
        library.close()
        store.close()
    assert any("did not pass the check" in record.getMessage() for record in caplog.records)
    for record in caplog.records:
        said = " ".join([record.getMessage(), str(record.msg), repr(record.args), str(record.exc_text or "")])
        assert "secret" not in said


def test_what_could_not_be_erased_is_logged_without_a_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    store = EmbeddedStore(tmp_path / "d", lock_timeout=0.01)
    library = Library(store, "library", HashingEmbedder(8))
    library.index_source(SECRET)
    library.index_source(Source("other", "doc", SECRETS["tenant"], ["g"], ["secrettext 2"]))
    library.remove_source(SECRETS["source"], tenant_id=SECRETS["tenant"])
    (shard,) = (tmp_path / "d").glob("1/*/shard.db")
    other = sqlite3.connect(shard, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    store.close()
    other.close()
    assert any("could not be erased" in record.getMessage() for record in caplog.records)
    assert all("secret" not in record.getMessage() for record in caplog.records)


def test_no_thread_is_named_after_anybody(tmp_path: Path) -> None:
    with Library.open(tmp_path / "d", embedder=HashingEmbedder(8)) as library:
        library.index_source(SECRET)
        library.search("secrettext", scope=Scope(SECRETS["tenant"], [SECRETS["group"]]))
        assert all("secret" not in thread.name for thread in threading.enumerate())
