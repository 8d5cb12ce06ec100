"""Scan: all that matches, in order, page by page, once each, whatever is written meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackroom.filters import And, Eq, Filter
from stackroom.stores import CollectionSpec, Cursor, Page, Record, VectorStore
from stackroom.testing import strategies
from stackroom.testing._differential import explained, filled
from stackroom.testing._oracle import matching
from stackroom.testing._records import EVERYTHING, Place, place, record, source, tenant
from stackroom.testing._refusals import is_proven_refused, is_refused
from stackroom.testing._shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Iterator

CURSORS = [
    Cursor("", "", -1),
    Cursor("t", "", 0),
    Cursor("t", "a", 2),
    Cursor("t", "a", 3),
    Cursor("t", "a!", 10**12),
    Cursor("t", "b", 0),
    Cursor("t\x01", "", 0),
    Cursor("u", "a", -(2**40)),
    Cursor("\U0010ffff", "", 0),
]


class ScanTests:
    """What holds of records in order."""

    def test_scan_row_17_goes_by_tenant_source_and_index(self, shelf: Shelf) -> None:
        """Look at ORDER BY: tenants and sources as strings by code point, indexes as numbers."""
        shelf.put(record("a!#0"), *(record(f"a#{index}") for index in (10, 0, 2)), record("A#0"))
        assert shelf.ids() == ["A#0", "a#0", "a#2", "a#10", "a!#0"]
        shelf.put(record("z#0", tenant="T"), record("A#0", tenant="é"), record("a#2147483647"))
        assert [place(of) for of in shelf.scan()] == sorted(place(of) for of in shelf.scan())
        assert shelf.ids()[0] == "z#0"

    def test_scan_order_is_that_of_code_points(self, shelf: Shelf) -> None:
        """Look at collations, and at UTF-16: U+FFFD comes before U+1F600, capitals before small letters."""
        names = ["\U0001f600", "\ufffd", "é", "e\u0301", "z", "Z", "a", "_", " ", "ß", "ss"]
        shelf.put(*(record(f"{name}#0") for name in names), *(record("a#0", tenant=name) for name in names))
        assert [of.source_id for of in shelf.scan(tenant())] == sorted(names)
        assert [of.tenant_id for of in shelf.scan(Eq("sourceId", "a"))] == sorted([*names, "t"])

    @pytest.mark.parametrize(("limit", "sizes"), [(5, [5]), (2, [2, 2, 1]), (1, [1] * 5), (4, [4, 1]), (6, [5])])
    def test_scan_row_18_pages_end_when_nothing_is_left(self, shelf: Shelf, limit: int, sizes: list[int]) -> None:
        """Look at `next`: None exactly when no further record matched, else the place of the page's last record."""
        shelf.put(*(record(f"s{number}#0", k=number) for number in range(5)), record("x#0", tenant="u"))
        pages = list(_pages(shelf, tenant(), limit))
        assert [len(page) for page in pages] == sizes
        assert all(isinstance(page, Page) for page in pages)
        for page in pages[:-1]:
            assert page.next == Cursor(*place(page[-1]))
        assert pages[-1].next is None
        assert [of.source_id for page in pages for of in page] == ["s0", "s1", "s2", "s3", "s4"]

    def test_scan_pages_are_full_however_rare_matches_are(self, shelf: Shelf) -> None:
        """Look at filtering behind the database's own limit: a page ends early only when nothing is left."""
        shelf.put(*(record(f"s{number:03}#0", k=number % 50) for number in range(300)))
        pages = list(_pages(shelf, And(tenant(), Eq("k", 49)), 2))
        assert [len(page) for page in pages] == [2, 2, 2]

    @pytest.mark.parametrize("after", CURSORS)
    def test_scan_begins_strictly_behind_any_place(self, shelf: Shelf, after: Cursor) -> None:
        """Look at `after`: a place in the order, compared as a whole, that names a record or none."""
        shelf.put(*(record(f"a#{index}") for index in (0, 2, 10)), record("a!#0"), record("a#0", tenant="u"))
        records = shelf.state()
        expected = [place(of) for of in records if place(of) > (after.tenant_id, after.source_id, after.index)]
        assert [place(of) for of in shelf.scan(after=after)] == expected

    def test_scan_within_a_scope_takes_a_cursor_of_another(self, shelf: Shelf) -> None:
        """Look at `after` of another tenant: it is a place in the order, no permission and no filter."""
        shelf.put(record("a#0"), record("a#0", tenant="u"))
        assert shelf.scan(tenant(), after=Cursor("a", "z", 9)).items[0].tenant_id == "t"
        assert len(shelf.scan(tenant(), after=Cursor("u", "", 0))) == 0

    def test_scan_over_pages_gives_what_stays_exactly_once(self, shelf: Shelf) -> None:
        """Look at offsets: records removed, moved or added between two pages shift none of those that stay."""
        names = [f"s{number:02}" for number in range(20)]
        shelf.put(*(record(f"{name}#{index}") for name in names for index in (0, 1)))
        staying = {name for name in names if int(name[1:]) % 4}
        seen: list[Place] = []
        after: Cursor | None = None
        for turn in range(100):
            page = shelf.scan(tenant(), 3, after)
            seen += [place(of) for of in page]
            after = page.next
            if after is None:
                break
            shelf.delete(And(tenant(), Eq("sourceId", names[4 * (turn % 5)])))
            shelf.put(record(f"r{turn}#0"), record(f"s{turn:02}x#0"))
            if not is_refused(shelf, "update"):
                shelf.update({"k": turn}, source(names[(turn + 1) % 20]))
        assert len(seen) == len(set(seen))
        assert seen == sorted(seen)
        assert {at for at in seen if at[1] in staying} == {("t", name, index) for name in staying for index in (0, 1)}

    def test_scan_goes_on_behind_a_record_that_is_gone(self, shelf: Shelf) -> None:
        """Look at `after` when its record was removed: the page begins at the next one all the same."""
        shelf.put(*(record(f"s{number}#0") for number in range(4)))
        first = shelf.scan(limit=2)
        shelf.delete(source("s1"))
        assert [of.id for of in shelf.scan(after=first.next)] == ["s2#0", "s3#0"]

    @pytest.mark.parametrize("limit", [0, -1, True, False, 2.0, "2", None])
    def test_scan_refuses_what_is_no_limit(self, shelf: Shelf, limit: Any) -> None:
        """Look at the check of `limit`: an int of at least 1, and True is none."""
        shelf.put(record("a#0"))
        with pytest.raises(ValueError, match=r"."):
            shelf.scan(limit=limit)

    def test_scan_reads_what_its_filter_allows_and_nothing_else(self, shelf: Shelf) -> None:
        """Look at where the filter stands, on every page."""
        shelf.put(*(record(f"s{number}#0", tenant=owner) for number in range(4) for owner in ("t", "u")))
        assert {of.tenant_id for page in _pages(shelf, tenant("u"), 1) for of in page} == {"u"}

    def test_scan_and_count_of_nothing(self, shelf: Shelf) -> None:
        """Look at empty answers: an empty page without a next, and 0."""
        page = shelf.scan()
        assert (len(page), page.next, shelf.count()) == (0, None, 0)
        shelf.put(record("a#0"))
        assert (len(shelf.scan(tenant("u"))), shelf.count(tenant("u"))) == (0, 0)

    def test_scan_and_count_of_random_records_agree_with_matches(self, store: VectorStore, unused: str) -> None:
        """Look at filter, order, pages and `next` together, and at count."""
        store.create_collection(unused, CollectionSpec(3, "m@3"))
        shelf = Shelf(store, unused)

        @strategies.seeded(20)
        @given(
            sources=strategies.libraries(),
            where=st.just(EVERYTHING) | strategies.scopes | strategies.filters,
            limit=st.integers(1, 5),
        )
        def agree(sources: list[list[Record]], where: Filter, limit: int) -> None:
            records = filled(shelf, sources)
            if is_proven_refused(shelf, where, lambda: shelf.scan(where)):
                return
            expected = [place(of) for of in matching(records, where)]
            pages = list(_pages(shelf, where, limit))
            with explained(records, (where, limit), expected, [[place(of) for of in page] for page in pages]):
                assert [place(of) for page in pages for of in page] == expected
                assert len(pages) == max(1, -(-len(expected) // limit))
                assert all(len(page) == limit for page in pages[:-1])
            with explained(records, where, [len(expected)], number := shelf.count(where)):
                assert number == len(expected)

        agree()


def _pages(shelf: Shelf, where: Filter, limit: int) -> Iterator[Page[Record]]:
    page = shelf.scan(where, limit)
    yield page
    while page.next is not None:
        page = shelf.scan(where, limit, page.next)
        yield page
