"""How a differential test runs: random records are put on the shelf, the store's answers judged by the slow way.

What a store answers is judged within `explained`, so that a failure prints all that it takes to see it again.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from stackroom._seeds import SEED_VARIABLE, seed_of_this_run
from stackroom.testing._records import EVERYTHING, content, place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stackroom.stores import Record
    from stackroom.testing._shelf import Shelf

_SHOWN: Final = 40
"""Records and answers that a failure prints at most; the smallest example rarely has more."""


@contextmanager
def explained(records: Sequence[Record], asked: object, expected: Sequence[object], got: object) -> Iterator[None]:
    """Judge an answer within this: a failed assertion leaves with seed, records, filter, expected and got."""
    try:
        yield
    except AssertionError as failure:
        seed = seed_of_this_run()
        failure.add_note(
            "\n".join(
                [
                    f"seed: {seed}, to draw the same again: {SEED_VARIABLE}={seed}",
                    f"records: {len(records)}",
                    *_listed(records),
                    f"asked: {asked!r}",
                    "expected:",
                    *_listed(expected),
                    "got:",
                    *_listed(got if isinstance(got, list | tuple) else [got]),
                ]
            )
        )
        raise


def _listed(items: Sequence[object]) -> list[str]:
    lines = [f"  {item!r}" for item in items[:_SHOWN]]
    return [*lines, f"  … and {len(items) - _SHOWN} more"] if len(items) > _SHOWN else lines or ["  nothing"]


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
