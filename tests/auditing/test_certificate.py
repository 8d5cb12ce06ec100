"""A store's certificate: what it declares, what the kit saw, and what it takes to see a fault again."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.shrinking import without_shrinking

from stackroom import CapabilityError, StoreUnavailable
from stackroom.auditing import CapabilityCheck, Certificate, certify
from stackroom.filters import Eq, Filter, Ne, Not
from stackroom.stores import EmbeddedStore, MemoryStore


class NeFindsTheMissing(MemoryStore):
    def count(self, name: str, *, where: Filter) -> int:
        return super().count(name, where=Not(Eq(where.key, where.value)) if isinstance(where, Ne) else where)


class CountsOneMore(MemoryStore):
    def count(self, *given: Any, **options: Any) -> int:
        return super().count(*given, **options) + 1


class RefusesUpdate(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.capabilities = dataclasses.replace(self.capabilities, update="refused")

    def update(self, *_given: Any, **_options: Any) -> int:
        raise CapabilityError("no update")


class Interrupted(MemoryStore):
    def count(self, *_given: Any, **_options: Any) -> int:
        raise KeyboardInterrupt


def seen(certificate: Certificate) -> dict[str, str]:
    return {check.capability: check.seen for check in certificate.capabilities}


def check_of(certificate: Certificate, capability: str) -> CapabilityCheck:
    (check,) = (check for check in certificate.capabilities if check.capability == capability)
    return check


def test_a_sound_store_is_as_declared() -> None:
    certificate = certify(MemoryStore, only="row")
    assert certificate.is_right
    assert certificate.store == "MemoryStore"
    assert certificate.tests > 50
    assert seen(certificate) == {
        **dict.fromkeys(["collections", "round trips", "hostile values", "scope and filters", "dense"], "right"),
        **dict.fromkeys(["scan and count", "replace", "delete"], "right"),
        **dict.fromkeys(["lexical", "prefix", "update", "transactions"], "native"),
        **{f"filter {node}": "native" for node in MemoryStore().capabilities.filters},
        **dict.fromkeys(["threads", "ten thousand records", "swap", "durable", "shared"], "not tested"),
        "both legs at once": "not tested",
    }


def test_what_only_some_stores_claim_is_not_claimed_by_others() -> None:
    certificate = certify(MemoryStore, only="test_durability")
    assert seen(certificate)["durable"] == "not claimed"
    assert not certificate.is_right


def test_a_refusal_is_proven_and_shown_as_refused() -> None:
    certificate = certify(RefusesUpdate, only="test_update_row_12")
    assert certificate.is_right
    assert (check_of(certificate, "update").declared, check_of(certificate, "update").seen) == ("refused", "refused")


def test_a_wrong_filter_is_named_with_what_to_look_at_and_a_reproducer() -> None:
    certificate = certify(NeFindsTheMissing, only="test_filters_rows")
    assert not certificate.is_right
    checked = seen(certificate)
    assert (checked["filter Ne"], checked["scope and filters"]) == ("WRONG", "WRONG")
    assert (checked["filter Eq"], checked["filter Contains"]) == ("native", "native")
    wrong = check_of(certificate, "filter Ne").wrong[0]
    assert wrong.test.startswith("test_filters_rows_of_the_language")
    assert wrong.looks_at.startswith("Look at the compiler")
    assert "_filters.py:" in wrong.reproducer
    assert "assert" in wrong.reproducer


def test_a_random_failure_comes_with_seed_records_question_expected_and_got() -> None:
    with without_shrinking():
        certificate = certify(CountsOneMore, only="test_scan_and_count_of_random")
    (wrong,) = check_of(certificate, "scan and count").wrong
    for part in (f"seed: {certificate.seed}", "records:", "asked:", "expected:", "got:"):
        assert part in wrong.reproducer


def test_nothing_that_ran_is_not_right() -> None:
    certificate = certify(MemoryStore, only="no such test")
    assert (certificate.tests, certificate.is_right) == (0, False)


def test_a_live_store_is_left_as_it_was(tmp_path: Path) -> None:
    from stackroom.stores import CollectionSpec

    with_library = EmbeddedStore(tmp_path / "library")
    with_library.create_collection("library", CollectionSpec(2, "m@2"))
    certificate = certify(lambda: EmbeddedStore(tmp_path / "library"), only="row_12")
    assert certificate.is_right
    assert "kit-" not in (tmp_path / "library" / "library.toml").read_text()
    assert with_library.collection("library") == CollectionSpec(2, "m@2")
    with_library.close()


def test_an_interrupt_passes_and_leaves_nothing() -> None:
    store = Interrupted()
    store.close = lambda: None  # type: ignore[method-assign] # one store for all tests, to look at afterwards
    with pytest.raises(KeyboardInterrupt):
        certify(lambda: store, only="test_filters_rows")
    assert store._collections == {}  # noqa: SLF001 - what is left of it


def test_a_store_that_cannot_be_opened_is_no_certificate() -> None:
    def unreachable() -> MemoryStore:
        raise StoreUnavailable("nobody answers")

    with pytest.raises(StoreUnavailable):
        certify(unreachable)


def test_without_the_kits_packages_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stackroom.auditing._kit_runs", None)
    with pytest.raises(ImportError, match=r"stackroom\[testing\]"):
        certify(MemoryStore)


def test_a_whole_certificate_is_right_only_when_everything_was_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    from stackroom.auditing import _certificate, _kit_runs

    one = certify(MemoryStore, only="row_20")
    assert (one.is_whole, one.is_right) == (False, True)
    tests = [_kit_runs.KitTest("test_scan_of_one", "", frozenset(), "passed")]
    monkeypatch.setattr(_kit_runs, "run_kit", lambda *_given, **_options: tests)
    whole = _certificate.certify(MemoryStore)
    assert (whole.is_whole, whole.tests, whole.is_right) == (True, 1, False)
