"""The kit by capability: what is declared refused is proven, what is held back is excused, what is claimed is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from stackroom import CapabilityError, Note, UnsupportedFilter
from stackroom._filters import check_supported
from stackroom.filters import Eq, Filter
from stackroom.stores import Capabilities, Match, Matches, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

REFUSING_GROUPS = ("collections", "filters", "dense", "lexical", "prefix", "scan", "update", "delete")


class ClaimsToRefuse(MemoryStore):
    """Declares refused what it does all the same."""

    def __init__(self, *refused: str) -> None:
        super().__init__()
        self.capabilities = refusing(self.capabilities, *refused)


class Refuses(ClaimsToRefuse):
    """Declares refused what may be, and refuses it."""

    def __init__(self) -> None:
        super().__init__("lexical", "prefix", "update", "swap", "Ne", "NotIn", "Contains", "Not")

    def update(self, *_given: Any, **_options: Any) -> int:
        raise CapabilityError("no update")

    def lexical(self, *_given: Any, **_options: Any) -> list[Match]:
        raise CapabilityError("no words")

    def swap(self, *_given: Any, **_options: Any) -> None:
        raise CapabilityError("no swap")

    def _held(self, name: str) -> Any:
        return super()._held(name)


def _checked(method: str) -> Callable[..., Any]:
    right = getattr(MemoryStore, method)

    def call(self: MemoryStore, *given: Any, where: Any, **options: Any) -> Any:
        if isinstance(where, Filter):
            check_supported(where, self.capabilities.filters)
        return right(self, *given, where=where, **options)

    return call


for _method in ("replace", "delete", "dense", "scan", "count"):
    setattr(Refuses, _method, _checked(_method))


class RefusesLate(Refuses):
    def delete(self, name: str, *, where: Filter) -> int:
        try:
            return super().delete(name, where=where)
        except UnsupportedFilter:
            super().delete(name, where=Eq("sourceId", "a"))
            raise


class HoldsBack(MemoryStore):
    """Answers two matches at most, and says so."""

    def dense(self, *given: Any, **options: Any) -> list[Match]:
        return held_back(super().dense(*given, **options))

    def lexical(self, *given: Any, **options: Any) -> list[Match]:
        return held_back(super().lexical(*given, **options))


class HoldsBackTheWrong(MemoryStore):
    """Says that it holds back, and scores wrongly what it answers."""

    def dense(self, *given: Any, **options: Any) -> list[Match]:
        found = held_back(super().dense(*given, **options))
        return Matches([Match(match.record, match.score / 2) for match in found], getattr(found, "notes", ()))


class HoldsBackSilently(MemoryStore):
    """Answers two matches at most, and says nothing."""

    def dense(self, *given: Any, **options: Any) -> list[Match]:
        return super().dense(*given, **options)[:2]


def held_back(found: list[Match]) -> list[Match]:
    return found if len(found) <= 2 else Matches(found[:2], [Note("scan_limit", "the engine gave up")])


class Forgets(MemoryStore):
    """Says that it is durable and shared; its `reopen` opens another one."""

    def __init__(self) -> None:
        super().__init__()
        self.capabilities = refusing(self.capabilities, durable=True)


def refusing(here: Capabilities, *refused: str, durable: bool = False) -> Capabilities:
    """Return capabilities that declare some things refused, and perhaps durability."""
    named = {name: "refused" if name in refused else getattr(here, name) for name in ("lexical", "prefix", "update")}
    filters = {node: "refused" if node in refused else support for node, support in here.filters.items()}
    swap: Any = "refused" if "swap" in refused else here.swap
    return Capabilities(
        transactions=here.transactions,
        swap=swap,
        filters=filters,
        exact=True,
        durable=durable,
        shared=durable,
        **named,  # type: ignore[arg-type] # supports by name
    )


SOUND: dict[str, tuple[Callable[[], MemoryStore], tuple[str, ...]]] = {
    "Refuses": (Refuses, REFUSING_GROUPS),
    "HoldsBack": (HoldsBack, ("dense", "lexical", "prefix", "round_trips", "delete")),
}

FALSE: dict[str, tuple[Callable[[], MemoryStore], tuple[str, ...]]] = {
    "HoldsBackTheWrong": (HoldsBackTheWrong, ("dense",)),
    "HoldsBackSilently": (HoldsBackSilently, ("dense",)),
    "RefusesLate": (RefusesLate, ("filters",)),
    "Forgets": (Forgets, ("durability",)),
    "SeesNothingOfOthers": (Forgets, ("processes",)),
    "ClaimsToRefuseWords": (lambda: ClaimsToRefuse("lexical"), ("lexical",)),
    "ClaimsToRefusePrefixes": (lambda: ClaimsToRefuse("prefix"), ("prefix",)),
    "ClaimsToRefuseUpdates": (lambda: ClaimsToRefuse("update"), ("update",)),
    "ClaimsToRefuseSwaps": (lambda: ClaimsToRefuse("swap"), ("collections",)),
    "ClaimsToRefuseNe": (lambda: ClaimsToRefuse("Ne"), ("filters",)),
    "RefusesWhatNoStoreMay": (lambda: ClaimsToRefuse("In"), ("collections",)),
}


@pytest.fixture(scope="module")
def outcomes(run_kits: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    return run_kits({**SOUND, **FALSE})


@pytest.mark.parametrize("name", SOUND)
def test_the_kit_is_green_on_a_store_that_says_what_it_lacks(outcomes: dict[str, Any], name: str) -> None:
    ran, failed = outcomes[name]
    assert not failed
    assert len(ran) > 100


@pytest.mark.parametrize("name", FALSE)
def test_the_kit_turns_red_on_a_store_that_says_what_is_not_so(outcomes: dict[str, Any], name: str) -> None:
    _, failed = outcomes[name]
    assert len(failed) == 1
