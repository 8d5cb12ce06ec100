"""StoreConformance: all groups in one class, its fixtures, and the rule that nobody deletes a test."""

from __future__ import annotations

import inspect
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from stackroom import StoreError
from stackroom.testing._both_legs import LegsTests
from stackroom.testing._collections import CollectionTests
from stackroom.testing._deletes import DeleteTests
from stackroom.testing._dense import DenseTests
from stackroom.testing._durability import DurabilityTests
from stackroom.testing._filters import FilterTests
from stackroom.testing._hostile import HostileValueTests
from stackroom.testing._lexical import LexicalTests
from stackroom.testing._prefix import PrefixTests
from stackroom.testing._processes import ProcessTests
from stackroom.testing._records import SPEC
from stackroom.testing._replaces import ReplaceTests
from stackroom.testing._round_trips import RoundTripTests
from stackroom.testing._scale import ScaleTests
from stackroom.testing._scans import ScanTests
from stackroom.testing._shelf import Shelf
from stackroom.testing._threads import ThreadTests
from stackroom.testing._updates import UpdateTests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stackroom.stores import VectorStore

GIVEN_BY_THE_AUTHOR = frozenset({"store", "reopen"})


class StoreConformance(  # pytest begins with the last base: the kit goes from the simple to the hard
    ProcessTests,
    DurabilityTests,
    ScaleTests,
    ThreadTests,
    DeleteTests,
    UpdateTests,
    ReplaceTests,
    ScanTests,
    LegsTests,
    PrefixTests,
    LexicalTests,
    DenseTests,
    FilterTests,
    HostileValueTests,
    RoundTripTests,
    CollectionTests,
):
    """Every promise of a store, as tests. Subclass it, name the subclass `Test…`, and give it a `store` fixture.

    `store` yields an empty store and closes it. `reopen` returns a function that opens a second handle on the data of
    `store`; it is needed when the capabilities say durable or shared. A test that is overridden or missing fails the
    run, unless what stands in its place is marked `xfail` with a reason.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        touched = touched_tests(cls)
        if touched:
            raise TypeError(
                f"{cls.__name__} overrides {', '.join(touched)} of the conformance kit; take that away, or mark it "
                "with pytest.mark.xfail(reason=…) and call super()"
            )

    @pytest.fixture
    def store(self) -> Iterator[VectorStore]:
        """Stand in for the fixture that the adapter's author gives: an empty store, yielded, then closed."""
        raise NotImplementedError("give your subclass a `store` fixture that yields an empty store and then closes it")

    @pytest.fixture
    def reopen(self, store: VectorStore) -> Callable[[], VectorStore]:
        """Stand in for the fixture that authors of durable or shared stores give."""
        if store.capabilities.durable or store.capabilities.shared:
            pytest.fail(
                "this store says that it is durable or shared: give your subclass a `reopen` fixture that returns a "
                "function which opens a second handle on the data of `store`"
            )
        pytest.skip("not applicable: this store says that it is neither durable nor shared")

    @pytest.fixture
    def unused(self, store: VectorStore) -> Iterator[str]:
        """Yield a collection's name that nobody uses; what is made under it, or beside it, is dropped."""
        name = f"kit-{uuid.uuid4().hex[:12]}"
        yield name
        with suppress(StoreError):  # a test may have closed the store
            for made in (name, f"{name}.side", name.upper()):
                store.drop_collection(made)

    @pytest.fixture
    def shelf(self, store: VectorStore, unused: str) -> Shelf:
        """Return an empty collection of dimension 2."""
        store.create_collection(unused, SPEC)
        return Shelf(store, unused)

    @pytest.fixture
    def side(self, shelf: Shelf) -> Shelf:
        """Return a second one, under the name that every store allows beside the first."""
        name = f"{shelf.name}.side"
        shelf.store.create_collection(name, SPEC)
        return Shelf(shelf.store, name)

    def test_kit_is_whole(self) -> None:
        """Nothing of the adapter: no test of the kit was overridden or taken away."""
        assert touched_tests(type(self)) == []


def touched_tests(cls: type) -> list[str]:
    """Return the names of the kit's members that a subclass has changed without an xfail that says why."""
    return sorted(
        name
        for name, original in _KIT.items()
        if (there := inspect.getattr_static(cls, name, None)) is not original and not _is_expected_to_fail(there)
    )


def _is_expected_to_fail(member: object) -> bool:
    marks = getattr(member, "pytestmark", [])
    return any(mark.name == "xfail" and str(mark.kwargs.get("reason", "")).strip() for mark in marks)


def _members(cls: type) -> dict[str, object]:
    own = {name for base in cls.__mro__ if base is not object for name in vars(base) if not name.startswith("_")}
    return {name: inspect.getattr_static(cls, name) for name in own - GIVEN_BY_THE_AUTHOR}


_KIT = _members(StoreConformance)
