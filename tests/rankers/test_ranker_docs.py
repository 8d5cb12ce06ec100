"""The adapter that docs/rankers.md shows passes the kit as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from stackroom.testing import RankerConformance

PAGE = (Path(__file__).parents[2] / "docs" / "rankers.md").read_text(encoding="utf-8")
(ADAPTER,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "class HalfRanker:" in block]


class TestHalfRanker(RankerConformance):
    @pytest.fixture
    def ranker(self) -> Any:
        namespace: dict[str, Any] = {}
        exec(ADAPTER, namespace)  # noqa: S102 - our own page
        return namespace["HalfRanker"]()


def test_it_is_about_forty_lines() -> None:
    assert len(ADAPTER.strip().splitlines()) <= 45
