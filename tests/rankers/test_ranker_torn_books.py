"""Books that are torn: the ranker is fed anew, nothing but a StackroomError is raised, and no departure is lost."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.rankers.conftest import OWN, Open, found, health, rebuild, source, store_of, sync
from tests.rankers.doubles import HonestRanker, NeverForgets

from stackroom.stores.embedded._book import PATTERN, Book


def newer(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version = 9")
    connection.close()


def without_a_row(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("DELETE FROM feed")
    connection.close()


TEARS: dict[str, Callable[[Path], object]] = {
    "garbage": lambda file: file.write_bytes(b"garbage" * 1000),
    "cut": lambda file: file.write_bytes(file.read_bytes()[:5000]),
    "zeros": lambda file: file.write_bytes(file.read_bytes()[:100] + bytes(file.stat().st_size - 100)),
    "zeros behind the first page": lambda file: file.write_bytes(
        file.read_bytes()[:4096] + bytes(file.stat().st_size - 4096)
    ),
    "newer": newer,
    "without a row": without_a_row,
}
TEAR = pytest.mark.parametrize("tear", TEARS.values(), ids=TEARS)
FORGETS = pytest.mark.parametrize("forgets", [True, False])


def torn(three: Open, opened: Open, tear: Callable[[Path], object], path: Path) -> None:
    """Tear the book of a ranker that was told all; a library without it is open then."""
    library = three(HonestRanker(durable_id="one"))
    library.close()
    (book,) = (path / "library").rglob(PATTERN)
    tear(book)
    opened()


@TEAR
@pytest.mark.parametrize("first", [sync, health, rebuild, found], ids=lambda work: work.__name__)
def test_a_ranker_whose_book_is_torn_is_fed_anew(
    three: Open, opened: Open, tmp_path: Path, tear: Callable[[Path], object], first: Callable[..., object]
) -> None:
    torn(three, opened, tear, tmp_path)
    ranker = HonestRanker(durable_id="one")
    library = opened(ranker)
    first(library)
    assert sync(library).owed == 0
    assert set(ranker.holds()) == {"a#0", "b#0", "c#0"}
    assert found(library) == OWN


def test_a_book_that_is_torn_while_it_is_open_is_begun_anew(three: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    ranker = HonestRanker(durable_id="one")
    library = three(ranker)
    are_torn: list[Book] = []
    counted = Book.counted

    def fails_once(book: Book) -> int:
        if not are_torn:
            are_torn.append(book)
            book._connection.execute("DROP TABLE owed")  # noqa: SLF001 - torn from within
        return counted(book)

    monkeypatch.setattr(Book, "counted", fails_once)
    library.index_source(source("d", "apple"))
    assert sync(library).owed == 0
    assert ranker.ids[-4:] == ["a#0", "b#0", "c#0", "d#0"]


@TEAR
def test_the_doctor_tells_of_a_torn_book(
    three: Open, opened: Open, tmp_path: Path, tear: Callable[[Path], object]
) -> None:
    torn(three, opened, tear, tmp_path)
    (book,) = (tmp_path / "library").rglob(PATTERN)
    library = opened()
    (problem,) = store_of(library).problems()
    assert book.name in problem.what
    assert "torn" in problem.what
    assert store_of(library).forget_ranker(book.name) == 0
    assert store_of(library).problems() == []


@TEAR
@FORGETS
def test_a_tenant_removed_beside_a_torn_book_is_told_of(
    three: Open, opened: Open, tmp_path: Path, tear: Callable[[Path], object], *, forgets: bool
) -> None:
    torn(three, opened, tear, tmp_path)
    opened().remove_tenant("t")
    ranker = HonestRanker(durable_id="one")
    library = opened(ranker if forgets else NeverForgets(ranker))
    assert health(library).owed == 3
    assert sync(library).owed == 0
    assert ranker.forgotten == (["t"] if forgets else [])
    assert set(ranker.ids) == (set() if forgets else {"-a#0", "-b#0", "-c#0"})
    assert store_of(library).problems() == []
