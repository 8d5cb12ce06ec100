"""Writers at once: one wins whole, the late one is told (case 29), and tenants do not wait for each other."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.library.doubles import PATIENCE, BlocksTenant, HandClock, RecordingEmbedder, in_thread, source

from stackroom import Conflict, Indexed, Library, Scope, Source
from stackroom.stores import EmbeddedStore, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stackroom.filters import Filter
    from stackroom.stores import VectorStore

MODES: list[Any] = ["lexical", "dense", "hybrid"]
SCOPE = Scope("t", ["g"])
WIDE = Scope("t", ["g", "h"])


def texts_of(library: Library, source_id: str = "s") -> list[str]:
    return [hit.text for hit in library.passages(source_id, scope=WIDE)]


@pytest.fixture
def other(store: VectorStore, clock: HandClock) -> Library:
    """Return a second Library over the same store."""
    return Library(store, "library", RecordingEmbedder(), clock=clock)


def meanwhile(embedder: RecordingEmbedder, work: Callable[[], object]) -> None:
    """Let something be done, to its end and in another thread, while the next source is being embedded."""

    def before_batch(number: int) -> None:
        if number == len(embedder.batches):
            embedder.before_batch = lambda _number: None
            in_thread(lambda: (work(),))

    embedder.before_batch = before_batch


CHANGES: list[Any] = [
    pytest.param(lambda library, _clock: library.index_source(source("s", "theirs")), ["theirs"], id="replaced"),
    pytest.param(
        lambda library, _clock: library.index_source(source("s", "old one", "old two")),
        ["old one", "old two"],
        id="replaced by the same",
    ),
    pytest.param(
        lambda library, _clock: library.set_source_scope("s", tenant_id="t", acl_groups=["h"]),
        ["old one", "old two"],
        id="re-scoped",
    ),
    pytest.param(lambda library, _clock: library.remove_source("s", tenant_id="t"), [], id="removed"),
    pytest.param(lambda library, _clock: library.remove_tenant("t"), [], id="removed with its tenant"),
    pytest.param(lambda library, _clock: library.index_source(Source("s", "doc", "t", ["g"], [])), [], id="emptied"),
    pytest.param(lambda library, clock: (clock.forward(days=2), library.sweep()), [], id="swept"),
    pytest.param(
        lambda library, _clock: (
            library.remove_source("s", tenant_id="t"),
            library.index_source(source("s", "theirs")),
        ),
        ["theirs"],
        id="removed and made anew",
    ),
]


@pytest.mark.parametrize(("change", "then"), CHANGES)
def test_case_29_a_writer_that_comes_late_is_told_and_writes_nothing(
    library: Library,
    other: Library,
    embedder: RecordingEmbedder,
    clock: HandClock,
    change: Callable[[Library, HandClock], object],
    then: list[str],
) -> None:
    tomorrow = clock.now.replace(day=clock.now.day + 1)
    library.index_source(source("s", "old one", "old two", expires_at=tomorrow))
    meanwhile(embedder, lambda: change(other, clock))
    with pytest.raises(Conflict):
        library.index_source(source("s", "mine", "old one"))
    assert texts_of(library) == then
    assert library.count(scope=WIDE) == len(then)
    assert library.search("mine", scope=WIDE, mode="lexical").hits == ()


def test_groups_that_were_revoked_do_not_come_back(
    library: Library, other: Library, embedder: RecordingEmbedder
) -> None:
    library.index_source(source("s", "old"))
    meanwhile(embedder, lambda: other.set_source_scope("s", tenant_id="t", acl_groups=["h"]))
    with pytest.raises(Conflict):
        library.index_source(source("s", "new"))
    assert library.count(scope=SCOPE) == 0


def test_a_late_writer_may_try_again(library: Library, other: Library, embedder: RecordingEmbedder) -> None:
    library.index_source(source("s", "old"))
    meanwhile(embedder, lambda: other.index_source(source("s", "theirs", "also theirs")))
    with pytest.raises(Conflict):
        library.index_source(source("s", "new"))
    assert library.index_source(source("s", "new")) == Indexed(1, 2, 1, 0)


@pytest.mark.parametrize(
    ("change", "then"),
    [
        pytest.param(lambda library: library.index_source(source("s", "theirs")), ["theirs"], id="written"),
        pytest.param(lambda library: library.remove_source("s", tenant_id="t"), [], id="removed"),
        pytest.param(lambda library: library.remove_tenant("t"), [], id="removed with its tenant"),
        pytest.param(lambda library: library.index_source(Source("s", "doc", "t", ["g"], [])), [], id="emptied"),
        pytest.param(
            lambda library: (library.index_source(source("s", "theirs")), library.remove_source("s", tenant_id="t")),
            [],
            id="written and removed",
        ),
    ],
)
@pytest.mark.parametrize("by", ["the same library", "another library"])
def test_a_first_version_that_comes_late_is_not_written(
    library: Library,
    other: Library,
    embedder: RecordingEmbedder,
    change: Callable[[Library], object],
    then: list[str],
    by: str,
) -> None:
    library.index_source(source("beside", "kept", tenant_id="u"))
    meanwhile(embedder, lambda: change(library if by == "the same library" else other))
    with pytest.raises(Conflict):
        library.index_source(source("s", "mine"))
    assert texts_of(library) == then
    assert library.count(scope=Scope("u", ["g"])) == 1
    assert library.index_source(source("s", "mine")).passages == 1
    assert texts_of(library) == ["mine"]


@pytest.mark.parametrize("removal", ["remove_source", "remove_tenant"])
def test_a_first_version_is_not_written_after_a_removal_through_another_handle_of_the_directory(
    tmp_path: Path, removal: str
) -> None:
    embedder = RecordingEmbedder()
    with (
        Library.open(tmp_path / "d", embedder=embedder) as one,
        Library.open(tmp_path / "d", embedder=RecordingEmbedder()) as two,
    ):
        meanwhile(
            embedder,
            lambda: two.remove_tenant("t") if removal == "remove_tenant" else two.remove_source("s", tenant_id="t"),
        )
        with pytest.raises(Conflict):
            one.index_source(source("s", "mine"))
        assert two.count(scope=SCOPE) == 0


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda library: library.remove_source("r", tenant_id="t"), id="another source removed"),
        pytest.param(lambda library: library.remove_source("s", tenant_id="u"), id="the id of another tenant removed"),
        pytest.param(lambda library: library.remove_tenant("u"), id="another tenant removed"),
        pytest.param(
            lambda library: library.index_source(source("s", "x", tenant_id="u")), id="another tenant's written"
        ),
        pytest.param(lambda library: library.index_source(source("r", "x")), id="another source written"),
        pytest.param(lambda library: library.set_source_scope("r", tenant_id="t", tags=["n"]), id="another re-scoped"),
        pytest.param(
            lambda library: library.set_source_scope("s", tenant_id="u", tags=["n"]), id="another's re-scoped"
        ),
        pytest.param(lambda library: library.sweep(), id="nothing of it swept"),
        pytest.param(lambda library: library.search("text", scope=SCOPE), id="searched"),
        pytest.param(lambda library: library.set_source_scope("s", tenant_id="t"), id="nothing given"),
    ],
)
@pytest.mark.parametrize("is_first", [True, False], ids=["first version", "replacement"])
def test_other_work_does_not_disturb_a_writer(
    library: Library,
    other: Library,
    embedder: RecordingEmbedder,
    change: Callable[[Library], object],
    *,
    is_first: bool,
) -> None:
    library.index_source(source("r", "text"))
    library.index_source(source("s", "text", tenant_id="u"))
    if not is_first:
        library.index_source(source("s", "old"))
    meanwhile(embedder, lambda: change(other))
    assert library.index_source(source("s", "mine")) == Indexed(1, 0 if is_first else 1, 1, 0)
    assert texts_of(library) == ["mine"]


def test_the_old_version_is_read_whole_while_the_new_one_is_embedded(
    library: Library, other: Library, embedder: RecordingEmbedder
) -> None:
    seen: list[Any] = []
    library.index_source(source("s", "old one", "old two"))

    def read() -> None:
        seen.append(texts_of(other))
        seen.append(sorted(hit.text for hit in other.search("old new", scope=SCOPE)))
        seen.append(other.count(scope=SCOPE))

    meanwhile(embedder, read)
    library.index_source(source("s", "new one", "new two", "new three"))
    assert seen == [["old one", "old two"], ["old one", "old two"], 2]


def test_a_tenants_write_does_not_wait_for_anothers() -> None:
    store = BlocksTenant("t")
    library = Library(store, "library", RecordingEmbedder())
    library.index_source(source("old", "text", tenant_id="u"))
    stuck = threading.Thread(target=lambda: library.index_source(source("s", "text")), daemon=True)
    stuck.start()
    assert store.is_within.wait(PATIENCE)

    def work() -> list[int]:
        return [
            library.index_source(source("s", "text", "more", tenant_id="u")).passages,
            library.set_source_scope("s", tenant_id="u", tags=["n"]),
            library.remove_source("old", tenant_id="u"),
            len(library.search("text", scope=Scope("u", ["g"]))),
            library.remove_tenant("u"),
        ]

    try:
        assert in_thread(work) == [2, 2, 1, 2, 2]
    finally:
        store.may_go.set()
        stuck.join(PATIENCE)
    assert library.count(scope=SCOPE) == 1


@pytest.mark.parametrize("removal", ["remove_source", "remove_tenant"])
def test_a_removal_that_meets_a_write_leaves_nothing_behind(removal: str) -> None:
    store = BlocksTenant("t")
    library = Library(store, "library", RecordingEmbedder())
    ended: list[str] = []

    def write() -> None:
        try:
            library.index_source(source("s", "text"))
        except Conflict:
            ended.append("conflict")

    def remove() -> None:
        if removal == "remove_source":
            library.remove_source("s", tenant_id="t")
        else:
            library.remove_tenant("t")
        ended.append("removed")

    threads = [threading.Thread(target=write, daemon=True), threading.Thread(target=remove, daemon=True)]
    threads[0].start()
    assert store.is_within.wait(PATIENCE)
    threads[1].start()
    store.may_go.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert "removed" in ended
    assert library.count(scope=SCOPE) == 0


class RemovesSlowly(MemoryStore):
    """Stays within a delete until a write of the tenant has come in between, or does not come."""

    def __init__(self) -> None:
        super().__init__()
        self.has_deleted = threading.Event()
        self.is_replacing = threading.Event()

    def delete(self, name: str, *, where: Filter) -> int:
        went = super().delete(name, where=where)
        self.has_deleted.set()
        self.is_replacing.wait(0.2)
        return went

    def replace(self, *given: Any, **options: Any) -> int:
        self.is_replacing.set()
        return super().replace(*given, **options)


@pytest.mark.parametrize("removal", ["remove_source", "remove_tenant"])
def test_a_first_version_that_meets_a_removal_waits_for_its_end_and_is_not_written(removal: str) -> None:
    store, is_embedding = RemovesSlowly(), threading.Event()

    def embed_until_deleted(_batch: int) -> None:
        is_embedding.set()
        store.has_deleted.wait(PATIENCE)

    library = Library(store, "library", RecordingEmbedder(before_batch=embed_until_deleted))
    ended: list[type[BaseException]] = []

    def write() -> None:
        try:
            library.index_source(source("s", "text"))
        except Conflict as error:
            ended.append(type(error))

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    assert is_embedding.wait(PATIENCE)
    if removal == "remove_source":
        library.remove_source("s", tenant_id="t")
    else:
        library.remove_tenant("t")
    thread.join(PATIENCE)
    assert ended == [Conflict]
    assert library.count(scope=SCOPE) == 0


def test_of_writers_at_once_one_wins_whole_and_the_others_are_told(store: VectorStore) -> None:
    libraries = [Library(store, "library", RecordingEmbedder()) for _ in range(4)]
    start = threading.Barrier(4)
    outcomes: list[Indexed | None] = []

    def write(number: int) -> None:
        start.wait(PATIENCE)
        try:
            outcomes.append(
                libraries[number].index_source(source("s", *[f"by {number} part {part}" for part in "abc"]))
            )
        except Conflict:
            outcomes.append(None)

    threads = [threading.Thread(target=write, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(outcomes) == 4
    assert any(outcomes)
    texts = texts_of(libraries[0])
    assert len(texts) == 3
    assert len({text.split()[1] for text in texts}) == 1


def test_readers_see_whole_versions_while_a_source_is_replaced(library: Library, other: Library) -> None:
    library.index_source(source("s", "version 0 a", "version 0 b"))
    is_done = threading.Event()

    def write() -> bool:
        try:
            for number in range(1, 26):
                library.index_source(source("s", *[f"version {number} {part}" for part in "abc"[: 2 + number % 2]]))
        finally:
            is_done.set()
        return True

    def whole(texts: list[str]) -> bool:
        numbers = {int(text.split()[1]) for text in texts}
        return len(numbers) == 1 and len(texts) == 2 + max(numbers) % 2

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    while not is_done.is_set():
        assert whole(texts_of(other))
        for mode in MODES:
            answer = other.search("version", scope=SCOPE, mode=mode)
            if answer.complete:
                assert whole([hit.text for hit in answer])
        assert other.count(scope=SCOPE) in {2, 3}
    writer.join(PATIENCE)
    assert whole(texts_of(other))


def test_a_library_may_be_searched_by_many_threads(library: Library) -> None:
    for number in range(10):
        library.index_source(source(f"s{number}", f"text {number}"))
    alone = [hit.id for hit in library.search("text 3", scope=SCOPE)]
    found: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: found.append([hit.id for hit in library.search("text 3", scope=SCOPE)]))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert found == [alone] * 8


def test_another_directory_is_another_library(tmp_path: Path) -> None:
    stores = [EmbeddedStore(tmp_path / name) for name in "ab"]
    embedder = RecordingEmbedder()
    one, two = Library(stores[0], "library", embedder), Library(stores[1], "library", RecordingEmbedder())
    meanwhile(embedder, lambda: two.remove_tenant("t"))
    assert one.index_source(source("s", "mine")).passages == 1
    for store in stores:
        store.close()
