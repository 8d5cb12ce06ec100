"""Running the conformance kit from within a program, and noting what each of its tests came to."""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import pytest

from stackroom._filters import nodes, parse
from stackroom.filters import Filter

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from stackroom.stores import VectorStore

Outcome: TypeAlias = Literal["passed", "failed", "skipped"]

_MODULE: Final = "test_stackroom_kit"
_NO_OTHER_PLUGINS: Final = "PYTEST_DISABLE_PLUGIN_AUTOLOAD"
_ASKS_OF_PYTEST: Final = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS", _NO_OTHER_PLUGINS)
_PLUGINS_OFF: Final = ("cacheprovider", "faulthandler", "terminal")

_TESTS: Final = """\
import pytest

from stackroom.testing import StoreConformance


class TestStore(StoreConformance):
    @pytest.fixture
    def store(self, opened_store):
        return opened_store

    @pytest.fixture
    def reopen(self, store, open_again):
        return open_again
"""


@dataclass(frozen=True, slots=True)
class KitTest:
    """One test of the kit that has run: `filters` are the nodes that it is about, where it is about certain ones."""

    name: str
    looks_at: str
    filters: frozenset[str]
    outcome: Outcome
    failure: str = ""


def run_tests(source: str, plugin: object) -> int:
    """Run a test module, given as its text, in a pytest session that prints nothing; return its exit code."""
    with tempfile.TemporaryDirectory(prefix="stackroom-kit-") as directory:
        folder = Path(directory)
        (folder / f"{_MODULE}.py").write_text(source, encoding="utf-8")
        (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        quiet = [f"-pno:{name}" for name in _PLUGINS_OFF]
        options = [f"--rootdir={folder}", "--import-mode=importlib", "--capture=no", *quiet]
        # What the environment asks of other runs would choose among our tests, or load what they do not need.
        kept = {name: os.environ.pop(name) for name in _ASKS_OF_PYTEST if name in os.environ}
        os.environ[_NO_OTHER_PLUGINS] = "1"  # they are for other tests, and some say so
        try:
            return int(pytest.main([str(folder), *options], plugins=[plugin]))
        finally:
            del os.environ[_NO_OTHER_PLUGINS]
            os.environ.update(kept)
            sys.modules.pop(_MODULE, None)  # or the next run would be of this module again


def run_kit(
    open_store: Callable[[], VectorStore], *, only: str | None, on_progress: Callable[[int, int], object]
) -> list[KitTest]:
    """Run the kit, or the tests whose names hold `only`, on the store that is opened anew for each test.

    KeyboardInterrupt passes once the test at hand has dropped its collections.
    """
    watch = _Watch(open_store, only, on_progress)
    code = run_tests(_TESTS, watch)
    if watch.was_interrupted:
        raise KeyboardInterrupt
    if code not in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED}:
        raise RuntimeError("the conformance kit could not be run; is the extra stackroom[testing] whole?")
    return list(watch.done.values())


@dataclass(slots=True)
class _Watch:
    """A pytest plugin: gives the tests their store, and notes what they came to."""

    open_store: Callable[[], VectorStore]
    only: str | None
    on_progress: Callable[[int, int], object]
    asked: int = 0
    was_interrupted: bool = False
    done: dict[str, KitTest] = field(default_factory=dict)

    @pytest.fixture
    def opened_store(self) -> Iterator[VectorStore]:
        store = self.open_store()
        yield store
        store.close()

    @pytest.fixture
    def open_again(self) -> Callable[[], VectorStore]:
        return self.open_store

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if self.only is None or self.only in item.name]
        self.asked = len(items)

    def pytest_keyboard_interrupt(self) -> None:
        self.was_interrupted = True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        known = self.done.get(item.name)
        if report.when == "call" or not report.passed:
            self._note(item, report.outcome, call, known)
        if report.when == "teardown":
            self.on_progress(len(self.done), self.asked)
        return report

    def _note(self, item: pytest.Item, outcome: Outcome, call: pytest.CallInfo[None], known: KitTest | None) -> None:
        if known is not None and known.outcome == "failed":
            return
        failure = _failure(call.excinfo) if outcome == "failed" and call.excinfo is not None else ""
        function: Any = getattr(item, "function", None)
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        looks_at = " ".join((function.__doc__ or "").split())
        self.done[item.name] = KitTest(item.name, looks_at, _filters_of(parameters), outcome, failure)


def _failure(raised: pytest.ExceptionInfo[BaseException]) -> str:
    """Return the statement that failed, what it said, and what the kit and hypothesis noted beside it."""
    entry = raised.traceback[-1]
    lines = [f"{Path(entry.path).name}:{entry.lineno + 1}: {str(entry.statement).strip()}"]
    lines.append(f"{raised.type.__name__}: {raised.value}")
    return "\n".join([*lines, *getattr(raised.value, "__notes__", ())])


def _filters_of(parameters: Mapping[str, object]) -> frozenset[str]:
    """Return the names of the filter nodes that a test's parameters hold."""
    found: set[str] = set()
    for value in parameters.values():
        if isinstance(value, Filter):
            found.update(type(node).__name__ for node in nodes(value))
    form, node = parameters.get("form"), parameters.get("node")
    if isinstance(form, dict):
        found.update(type(part).__name__ for part in nodes(parse(form)))
    if isinstance(node, str):
        found.add(node)
    return frozenset(found)
