"""The tree of errors is as the public surface says."""

from __future__ import annotations

import pytest

import stackroom
from stackroom.embedders import Fingerprint
from stackroom.filters import Eq
from stackroom.stores import MemoryStore

TREE: dict[str, str] = {
    "ScopeError": "StackroomError",
    "SourceError": "StackroomError",
    "FilterError": "StackroomError",
    "EmbedderError": "StackroomError",
    "StoreError": "StackroomError",
    "RankerError": "StackroomError",
    "IndexingCancelled": "StackroomError",
    "UnsupportedFilter": "FilterError",
    "EmbedderMismatch": "EmbedderError",
    "CapabilityError": "StoreError",
    "Conflict": "StoreError",
    "StoreUnavailable": "StoreError",
}
CALLERS_MISTAKES = {"ScopeError", "SourceError", "FilterError", "UnsupportedFilter"}


def error(name: str) -> type[Exception]:
    found = getattr(stackroom, name)
    assert isinstance(found, type)
    assert issubclass(found, Exception)
    return found


@pytest.mark.parametrize(("name", "parent"), TREE.items())
def test_each_error_stands_directly_under_its_parent(name: str, parent: str) -> None:
    assert error(parent) in error(name).__bases__


@pytest.mark.parametrize("name", TREE)
def test_only_callers_mistakes_are_value_errors(name: str) -> None:
    assert issubclass(error(name), ValueError) is (name in CALLERS_MISTAKES)


def test_the_root_is_a_plain_exception() -> None:
    assert error("StackroomError").__bases__ == (Exception,)


def test_every_public_error_is_in_the_tree() -> None:
    public = {name for name in stackroom.__all__ if isinstance(getattr(stackroom, name), type)}
    errors = {name for name in public if issubclass(getattr(stackroom, name), BaseException)} - {"InputCeilingWarning"}
    assert errors == {"StackroomError", *TREE}


def test_the_error_of_an_unknown_collection_is_a_lookup_error_too() -> None:
    with pytest.raises(stackroom.StoreError) as caught:
        MemoryStore().count("none", where=Eq("tenantId", "t"))
    assert isinstance(caught.value, LookupError)


def test_an_unsupported_filter_names_the_node_and_the_key() -> None:
    refused = stackroom.UnsupportedFilter("Ne", "year")
    assert (refused.operator, refused.key) == ("Ne", "year")
    assert stackroom.UnsupportedFilter("Not").key is None


def test_an_embedder_error_says_whether_to_try_again() -> None:
    plain = stackroom.EmbedderError("busy")
    assert (plain.retryable, plain.retry_after, plain.status) == (False, None, None)
    assert str(plain) == "busy"
    told = stackroom.EmbedderError("busy", retryable=True, retry_after=2.5, status=429)
    assert (told.retryable, told.retry_after, told.status) == (True, 2.5, 429)


def test_a_mismatch_keeps_both_fingerprints() -> None:
    stored, given = Fingerprint("a", 2), Fingerprint("b", 2)
    mismatch = stackroom.EmbedderMismatch("another", stored=stored, given=given, problem="id")
    assert (mismatch.stored, mismatch.given, mismatch.problem) == (stored, given, "id")
