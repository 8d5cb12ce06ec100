"""The conformance kit that any store must pass, for authors of adapters: `pip install "stackroom[testing]"`.

Subclass `StoreConformance` in a test module, give it a `store` fixture, and run pytest. `strategies` draws the records
and filters of its differential tests. `docs/testing-a-store.md` tells more.
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
            *("_shelf", "_updates", "_conformance"),
        )
    )
)

from stackroom.testing._conformance import StoreConformance  # noqa: E402 - after its asserts are to be rewritten

__all__ = ["StoreConformance"]
