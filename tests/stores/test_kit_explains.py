"""What a failure of the kit prints: all that it takes to see it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackroom.stores import Match, MemoryStore
from stackroom.testing import strategies

if TYPE_CHECKING:
    from collections.abc import Callable


class ScoresHalf(MemoryStore):
    def dense(self, *given: Any, **options: Any) -> list[Match]:
        return [Match(match.record, match.score / 2) for match in super().dense(*given, **options)]


class CountsOneMore(MemoryStore):
    def count(self, *given: Any, **options: Any) -> int:
        return super().count(*given, **options) + 1


@pytest.mark.parametrize(
    ("store", "group"), [(ScoresHalf, "dense_random"), (CountsOneMore, "scan_and_count_of_random")]
)
def test_a_random_failure_prints_seed_records_filter_expected_and_got(
    run_kits: Callable[..., Any], store: type[MemoryStore], group: str
) -> None:
    _, failed = run_kits({"Broken": (store, (group,))})["Broken"]
    (report,) = failed
    for part in ("seed: 20240501", "STACKROOM_KIT_SEED=", "records: ", "asked: ", "expected:", "got:"):
        assert part in report, report


@pytest.mark.parametrize(("seed", "draws_alike"), [("20240501", True), ("7", False)])
def test_the_seed_decides_what_is_drawn(monkeypatch: pytest.MonkeyPatch, seed: str, *, draws_alike: bool) -> None:
    def drawn() -> list[int]:
        numbers: list[int] = []

        @strategies.seeded(20)
        @given(st.integers())
        def draw(number: int) -> None:
            numbers.append(number)

        draw()
        return numbers

    usual = drawn()
    assert drawn() == usual
    monkeypatch.setenv("STACKROOM_KIT_SEED", seed)
    assert (drawn() == usual) is draws_alike
