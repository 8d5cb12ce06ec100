"""Guards of a copy: nothing is mixed, nothing is called copied that is not the same, nothing of others is removed."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_COPY: Final = "stackroom.copying._copy"
_TESTS: Final = "tests/copying/test_copying.py"

COPYING: Final = (
    Guard(
        "embedders are not mixed by a copy",
        _COPY,
        "if there is not None and there != spec:",
        "if there is not None and there != spec and there == spec:",
        (_TESTS, "-k", "embedders_are_not_mixed and memory"),
    ),
    Guard(
        "a copy is the same bit by bit",
        _COPY,
        "np.array_equal(one.vector.view(np.uint32), other.vector.view(np.uint32))",
        "len(one.vector) == len(other.vector)",
        (_TESTS, "-k", "copy_that_is_none"),
    ),
    Guard(
        "a copy is counted",
        _COPY,
        "if self.target.count(tenant_id) != number:",
        "if self.target.count(tenant_id) < 0:",
        (_TESTS, "-k", "copy_that_is_none"),
    ),
    Guard(
        "what only the target has stays",
        _COPY,
        "if only_there and not (self.prune or self._began_empty):",
        "if only_there and not (self.prune or only_there):",
        (_TESTS, "-k", "stood_there_before and memory"),
    ),
    Guard(
        "an unfinished export is refused",
        "stackroom.copying._file",
        'if file._about().get("complete") != "yes":',
        "if not file._about():",
        (_TESTS, "-k", "not_finished"),
    ),
)
