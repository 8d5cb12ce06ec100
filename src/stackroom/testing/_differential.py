"""How a differential test runs: random records are put on the shelf, the store's answers judged by the slow way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stackroom.testing._records import EVERYTHING, content, place

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stackroom.stores import Record
    from stackroom.testing._shelf import Shelf


def filled(shelf: Shelf, sources: Iterable[Iterable[Record]]) -> list[Record]:
    """Empty the shelf, put the sources there, and return their records in the order of a scan."""
    shelf.delete(EVERYTHING)
    records = sorted((of for of_source in sources for of in of_source), key=place)
    shelf.put(*records)
    return records


def check_state(shelf: Shelf, expected: Iterable[Record]) -> None:
    """Fail unless the shelf holds exactly these records, to the type of every value and the bit of every vector."""
    found = shelf.state()
    wanted = sorted(expected, key=place)
    assert [place(of) for of in found] == [place(of) for of in wanted]
    for is_there, should_be in zip(found, wanted, strict=True):
        assert content(is_there) == content(should_be)
        check_vector(is_there, should_be)


def check_vector(found: Record, expected: Record) -> None:
    """Fail unless two records have the same vector, bit for bit."""
    assert found.vector is not None, "a scan with vectors=True left a vector out"
    assert expected.vector is not None
    assert found.vector.dtype == expected.vector.dtype
    assert found.vector.tobytes() == expected.vector.tobytes(), "a vector did not come back bit for bit"
