"""The open books of one state of a ranker: made when they are needed, closed when nobody uses them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stackroom._errors import StoreError
from stackroom.stores.embedded._book import Book

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stackroom.stores.embedded._shard import Shard


class Books:
    """The books of one ranker, by the numbers of their shards, at most `most` but for those in use or in memory.

    Whoever uses a book last closes it, when it was taken out meanwhile.
    """

    def __init__(self, durable_id: str | None, most: int, *, forgets: bool) -> None:
        self._durable_id = durable_id
        self._most = most
        self._forgets = forgets
        self._lock = threading.RLock()
        self._open: OrderedDict[int, Book] = OrderedDict()
        self._users: dict[Book, int] = {}
        self._is_closed = False

    @contextmanager
    def used(self, shard: Shard) -> Iterator[Book]:
        """Hold a shard's book open; it is made when it is not there. StoreError when all are closed."""
        book = self._taken(shard)
        try:
            yield book
        finally:
            self.give_back(book)

    def _taken(self, shard: Shard) -> Book:
        with self._lock:
            if self._is_closed:
                raise StoreError("this store is closed; open the directory again")
            book = self._open.get(shard.number)
            if book is None:
                book = Book(shard.path, shard.tenant_id, self._durable_id, forgets=self._forgets)
                self._open[shard.number] = book
            self._open.move_to_end(shard.number)
            self._users[book] = self._users.get(book, 0) + 1
            return book

    def tenants(self) -> list[tuple[int, str]]:
        """Return the numbers of the shards whose books are open, and their tenants."""
        with self._lock:
            return [(number, book.tenant_id) for number, book in self._open.items()]

    def take_out(self, is_meant: Callable[[int, Book], bool]) -> list[Book]:
        """Take books out, for nobody else to find; each is to be given back."""
        with self._lock:
            meant = {number: book for number, book in self._open.items() if is_meant(number, book)}
            for number, book in meant.items():
                del self._open[number]
                self._users[book] = self._users.get(book, 0) + 1
            return list(meant.values())

    def give_back(self, book: Book) -> None:
        """End one's use of a book."""
        with self._lock:
            self._users[book] -= 1
            if not self._users[book]:
                del self._users[book]
                if book not in self._open.values():
                    book.close()
            self._close_idle()

    def _close_idle(self) -> None:
        """Close the books used least recently, as many as there are too many; those in memory must stay."""
        if self._durable_id is None:
            return
        for number, book in list(self._open.items()):
            if len(self._open) <= self._most:
                return
            if book not in self._users:
                del self._open[number]
                book.close()

    def begin_anew(self, shard: Shard) -> None:
        """Drop the book of a shard, which is torn; unless somebody else just did."""
        for book in self.take_out(lambda number, _book: number == shard.number):
            book.drop()
            self.give_back(book)

    def close(self) -> None:
        """Close those that nobody uses, the others when their last use ends; no more are opened."""
        with self._lock:
            self._is_closed = True
        for book in self.take_out(lambda _number, _book: True):
            self.give_back(book)
