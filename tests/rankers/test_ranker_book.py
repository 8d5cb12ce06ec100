"""The book of what a ranker was told: what is struck off is erased, and states that nobody feeds are dropped."""

from __future__ import annotations

import random
from pathlib import Path

from stackroom.stores.embedded._book import PATTERN, Book, Noted


def struck_off(book: Book) -> None:
    book.strike_off(book.owed(0, 1_000_000, tried_until=0))


def test_pieces_that_sqlite_leaves_behind_are_erased_at_closing(tmp_path: Path) -> None:
    chance = random.Random(0)
    names = [f"{'secret' if n % 3 else 'other'}-{n}-{'x' * chance.randrange(200)}" for n in range(3000)]
    order = chance.sample(range(3000), 3000)
    book = Book(tmp_path, "t", "one", forgets=True)
    for first in range(0, 3000, 50):
        assert book.begin_turn(1)
        book.note([Noted(n + 1, names[n], 1, None) for n in order[first : first + 50]], [], position=first)
        struck_off(book)
        book.end_turn()
    for first in range(0, 3000, 50):
        assert book.begin_turn(1)
        book.note([], [n + 1 for n in order[first : first + 50] if n % 3], position=first)
        struck_off(book)
        book.end_turn()
    book.close()
    held = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"other-0" in held
    assert b"secret-" not in held


def test_the_books_of_the_last_four_states_are_kept(tmp_path: Path) -> None:
    for state in "abcdef":
        Book(tmp_path, "t", state, forgets=True).close()
    assert len(list(tmp_path.glob(PATTERN))) == 4
    kept = Book(tmp_path, "t", "f", forgets=False)
    assert kept.begin_turn(1)
    kept.set(position=7)
    kept.end_turn()
    kept.close()
    again = Book(tmp_path, "t", "f", forgets=False)
    assert again.standing.position == 7
    again.close()
