"""A store's certificate: what it declares, and what the conformance kit saw of it."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from stackroom._seeds import seed_of_this_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stackroom.auditing._kit_runs import KitTest
    from stackroom.stores import Capabilities, Support, VectorStore

Seen: TypeAlias = Literal["native", "emulated", "refused", "right", "not claimed", "not tested", "WRONG"]

_REQUIRED: Final[dict[str, tuple[str, ...]]] = {
    "collections": ("collections",),
    "round trips": ("round_trips",),
    "hostile values": ("hostile",),
    "scope and filters": ("filters",),
    "dense": ("dense",),
    "both legs at once": ("legs",),
    "scan and count": ("scan",),
    "replace": ("replace",),
    "delete": ("delete",),
    "threads": ("threads",),
    "ten thousand records": ("scale",),
}
"""What no store may refuse, and the groups of tests that prove it."""

_DECLARED: Final[dict[str, tuple[str, ...]]] = {
    "lexical": ("lexical",),
    "prefix": ("prefix",),
    "update": ("update",),
    "transactions": ("replace", "threads"),
}
_CLAIMED: Final[dict[str, tuple[str, ...]]] = {"durable": ("durability",), "shared": ("processes",)}


@dataclass(frozen=True, slots=True)
class Wrong:
    """A test that a store fails: its name, what to look at in the adapter, and what it takes to see it again."""

    test: str
    looks_at: str
    reproducer: str


@dataclass(frozen=True, slots=True)
class CapabilityCheck:
    """One capability: what the store declares of it, what was seen, and the tests that say so.

    `declared` is None for what is not declared. `seen` is what is declared (or "right") when every test passed, "WRONG"
    when one failed, "not claimed" when the tests apply to stores only that claim it, and "not tested" when none ran.
    """

    capability: str
    declared: Support | None
    seen: Seen
    passed: int
    wrong: tuple[Wrong, ...] = ()


@dataclass(frozen=True, slots=True)
class Certificate:
    """What the conformance kit saw of a store. `is_whole` unless only some of its tests were asked for."""

    store: str
    seed: int
    seconds: float
    tests: int
    is_whole: bool
    capabilities: tuple[CapabilityCheck, ...]

    @property
    def is_right(self) -> bool:
        """Tell whether every capability that was tested is as declared: each of them, when the certificate is whole."""
        seen = [check.seen for check in self.capabilities]
        return self.tests > 0 and "WRONG" not in seen and not (self.is_whole and "not tested" in seen)


def certify(
    open_store: Callable[[], VectorStore],
    *,
    only: str | None = None,
    on_progress: Callable[[int, int], object] = lambda _done, _asked: None,
) -> Certificate:
    """Run the conformance kit on a live store and return what it saw.

    `open_store` opens a handle on the same store each time it is called; every test gets one of its own and closes it.
    The kit makes collections named `kit-…`, drops them again, and touches no other. `only` keeps the tests whose names
    hold it. `on_progress` hears how many tests are done, of how many. What opening raises passes through, before any
    test; ImportError says what to install when the kit's packages are missing.
    """
    with closing(open_store()) as store:
        declared, name = store.capabilities, type(store).__name__
    try:
        from stackroom.auditing._kit_runs import run_kit
    except ImportError as missing:
        raise ImportError(
            'the conformance kit needs pytest and hypothesis: pip install "stackroom[testing]"'
        ) from missing
    seed, begun = seed_of_this_run(), time.monotonic()
    tests = run_kit(open_store, only=only, on_progress=on_progress)
    checks = tuple(_checks(tests, declared))
    ran = sum(test.outcome != "skipped" for test in tests)
    return Certificate(name, seed, time.monotonic() - begun, ran, only is None, checks)


def _checks(tests: Sequence[KitTest], declared: Capabilities) -> Iterator[CapabilityCheck]:
    for capability, groups in _REQUIRED.items():
        yield _check(capability, None, [test for test in tests if _group_of(test) in groups])
    for capability, groups in _DECLARED.items():
        yield _check(capability, getattr(declared, capability), [test for test in tests if _group_of(test) in groups])
    yield _check("swap", declared.swap, [test for test in tests if "swap" in test.name])
    for node, support in declared.filters.items():
        yield _check(f"filter {node}", support, [test for test in tests if node in test.filters])
    for capability, groups in _CLAIMED.items():
        claimed: Support | None = "native" if getattr(declared, capability) else None
        yield _check(capability, claimed, [test for test in tests if _group_of(test) in groups])


def _check(capability: str, declared: Support | None, tests: Sequence[KitTest]) -> CapabilityCheck:
    outcomes = Counter[str](test.outcome for test in tests)
    wrong = tuple(Wrong(test.name, test.looks_at, test.failure) for test in tests if test.outcome == "failed")
    return CapabilityCheck(capability, declared, _seen(declared, outcomes), outcomes["passed"], wrong)


def _seen(declared: Support | None, outcomes: Counter[str]) -> Seen:
    if outcomes["failed"]:
        return "WRONG"
    if not outcomes["passed"]:
        return "not claimed" if outcomes["skipped"] else "not tested"
    return "right" if declared is None else declared


def _group_of(test: KitTest) -> str:
    """Return the group that a test's name begins with."""
    words = test.name.removeprefix("test_")
    known = {group for groups in (*_REQUIRED.values(), *_DECLARED.values(), *_CLAIMED.values()) for group in groups}
    return next((group for group in known if words.startswith(f"{group}_")), "")
