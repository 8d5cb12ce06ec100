"""The conformance kits that any store and any ranker must pass, for their authors: `pip install "stackroom[testing]"`.

Subclass `StoreConformance` in a test module, give it a `store` fixture, and run pytest; `RankerConformance` likewise
takes a `ranker`. `strategies` draws the records and filters of the differential tests. `docs/testing-a-store.md` and
`docs/rankers.md` tell more.
"""

from __future__ import annotations

try:
    import hypothesis as _hypothesis  # noqa: F401 - only asked whether it is there
    import pytest
except ImportError as missing:
    raise ImportError('the conformance kit needs pytest and hypothesis: pip install "stackroom[testing]"') from missing

pytest.register_assert_rewrite(
    *(
        f"stackroom.testing.{module}"
        for module in (
            *(
                "_both_legs",
                "_children",
                "_collections",
                "_deletes",
                "_dense",
                "_differential",
                "_durability",
                "_filters",
                "_hostile",
                "_lexical",
            ),
            *(
                "_oracle",
                "_prefix",
                "_processes",
                "_records",
                "_refusals",
                "_replaces",
                "_round_trips",
                "_scale",
                "_scans",
                "_threads",
            ),
            *("_shelf", "_updates", "_conformance", "_asking_rankers", "_ranker_writes", "_rankers"),
        )
    )
)

from stackroom.testing._conformance import StoreConformance  # noqa: E402 - after its asserts are to be rewritten
from stackroom.testing._rankers import RankerConformance  # noqa: E402 - likewise

__all__ = ["RankerConformance", "StoreConformance"]
