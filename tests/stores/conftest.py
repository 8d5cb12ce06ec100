"""How the kit is tested: kits of deliberately broken stores run in a pytest session of their own, in this process."""

from __future__ import annotations

import sys
from collections import defaultdict
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from tests.shrinking import without_shrinking

from stackroom.auditing._kit_runs import run_tests
from stackroom.testing import StoreConformance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from stackroom.stores import VectorStore

Outcome: TypeAlias = tuple[set[str], set[str]]
"""The names of the tests of one kit that ran, and of those that failed."""

_MODULE = "kits_under_test"


class _Watch:
    """Keeps of each kit the groups asked for, leaves a kit at its first failure, and notes what happened."""

    def __init__(self, groups: Mapping[str, tuple[str, ...]]) -> None:
        self._groups = groups
        self.ran: dict[str, set[str]] = defaultdict(set)
        self.failed: dict[str, set[str]] = defaultdict(set)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if self._is_asked_for(item)]
        items.sort(key=lambda item: (_kit(item.nodeid), "random" in item.name))

    def _is_asked_for(self, item: pytest.Item) -> bool:
        return item.name.startswith(tuple(f"test_{group}_" for group in self._groups[_kit(item.nodeid)]))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if self.failed[_kit(item.nodeid)]:
            pytest.skip("this kit has failed already")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        kit, name = _kit(report.nodeid), report.nodeid.rpartition("::")[2]
        if report.when == "call" and not report.skipped:
            self.ran[kit].add(name)
        if report.failed:
            self.failed[kit].add(f"{name} ({report.when}): {report.longreprtext[-60_000:]}")


def _kit(nodeid: str) -> str:
    return nodeid.split("::")[1].removeprefix("Test")


def _kit_of(name: str, make: Callable[[], VectorStore]) -> type[StoreConformance]:
    @pytest.fixture
    def store(self: StoreConformance) -> Iterator[VectorStore]:
        del self
        made = make()
        yield made
        made.close()

    @pytest.fixture
    def reopen(self: StoreConformance, store: VectorStore) -> Callable[[], VectorStore]:
        del self, store
        return make

    return type(f"Test{name}", (StoreConformance,), {"store": store, "reopen": reopen})


@pytest.fixture(scope="session")
def run_kits() -> Callable[..., dict[str, Outcome]]:
    """Return a function: kits by name, each how its store is made and which groups are run → their outcomes."""

    def run(kits: Mapping[str, tuple[Callable[[], Any], tuple[str, ...]]]) -> dict[str, Outcome]:
        module = ModuleType(_MODULE)
        vars(module).update({f"Test{name}": _kit_of(name, make) for name, (make, _) in kits.items()})
        watch = _Watch({name: groups for name, (_, groups) in kits.items()})
        sys.modules[_MODULE] = module
        try:
            with without_shrinking():
                run_tests(f"from {_MODULE} import *\n", watch)
        finally:
            del sys.modules[_MODULE]
        return {name: (watch.ran[name], watch.failed[name]) for name in kits}

    return run
