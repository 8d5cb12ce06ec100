"""The exact answer or a refusal: what a store declares refused is proven to raise, not skipped."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import pytest

from stackroom import CapabilityError, UnsupportedFilter
from stackroom._filters import nodes
from stackroom.stores import LexicalQuery
from stackroom.testing._records import SPEC, record, tenant

if TYPE_CHECKING:
    from collections.abc import Callable

    from stackroom.filters import Filter
    from stackroom.testing._shelf import Shelf

Refusable: TypeAlias = Literal["lexical", "prefix", "update", "swap"]

MANDATORY_NODES: Final = ("Eq", "In", "All", "Range", "Exists", "And", "Or")
REFUSABLE_NODES: Final = ("Ne", "NotIn", "Contains", "Not")


def is_refused(shelf: Shelf, what: Refusable) -> bool:
    """Tell whether the store declares that it refuses something; without lexical there is no prefix either."""
    declared = shelf.store.capabilities
    return getattr(declared, what) == "refused" or (what == "prefix" and declared.lexical == "refused")


def prove_refused(shelf: Shelf, what: Refusable) -> None:
    """Fail unless the call raises CapabilityError and leaves everything as it was."""
    shelf.put(record("a#0", "red", k=1))
    before = shelf.state()
    with pytest.raises(CapabilityError):
        _ask(shelf, what)
    assert shelf.state() == before


def _ask(shelf: Shelf, what: Refusable) -> None:
    if what == "lexical":
        shelf.lexical("red")
    elif what == "prefix":
        shelf.lexical(LexicalQuery("re", prefix=True))
    elif what == "update":
        shelf.update({"k": 2}, tenant())
    else:
        side = f"{shelf.name}.side"
        shelf.store.create_collection(side, SPEC)
        try:
            shelf.store.swap(shelf.name, side)
        finally:
            shelf.store.drop_collection(side)


def unless_refused(what: Refusable) -> Callable[[Any], Any]:
    """Return a decorator of a test, or of a class of tests: where the store refuses `what`, the refusal is proven.

    Every test so decorated has a parameter `shelf`.
    """

    def decorated(test: Any) -> Any:
        if isinstance(test, type):
            for name, member in list(vars(test).items()):
                if name.startswith("test_"):
                    setattr(test, name, decorated(member))
            return test

        @functools.wraps(test)
        def proven_or_run(self: object, *args: Any, **kwargs: Any) -> None:
            shelf = kwargs["shelf"]
            if is_refused(shelf, what):
                prove_refused(shelf, what)
            else:
                test(self, *args, **kwargs)

        return proven_or_run

    return decorated


def refused_nodes(shelf: Shelf, where: Filter) -> set[str]:
    """Return the names of the nodes in `where` that the store declares refused."""
    declared = shelf.store.capabilities.filters
    return {name for node in nodes(where) if declared.get(name := type(node).__name__, "refused") == "refused"}


def is_proven_refused(shelf: Shelf, where: Filter, call: Callable[[], object]) -> bool:
    """Return False when the store refuses no node of `where`; else prove that `call` refuses it, changing nothing."""
    refused = refused_nodes(shelf, where)
    if not refused:
        return False
    before = shelf.state()
    with pytest.raises(UnsupportedFilter) as raised:
        call()
    assert raised.value.operator in refused
    assert shelf.state() == before
    return True
