"""index_folder: dry runs, budgets, ownership, pruning, and options."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.indexing.folders import SCOPE, Folder
from tests.library.doubles import RecordingEmbedder, source

from stackroom import (
    Library,
    Scope,
    ScopeError,
    SourceError,
)
from stackroom.indexing import IndexReport, Progress, index_documents, index_folder

# Dry runs and budgets


def test_a_dry_run_says_what_the_run_will_do_and_does_nothing(folder: Folder, embedder: RecordingEmbedder) -> None:
    for name in "abc":
        folder[f"{name}.txt"] = f"text of {name}"
    folder.index()
    folder["a.txt"] = "another text"
    folder["d.txt"] = "new text"
    del folder["b.txt"]
    calls, ids = embedder.calls, folder.ids()
    told: list[Progress] = []
    dry = folder.index(dry_run=True, prune=True, on_progress=told.append, on_embedding=lambda _: pytest.fail("called"))
    assert (embedder.calls, folder.ids(), dry.dry_run) == (calls, ids, True)
    assert folder.text("a.txt") == ["text of a"]
    assert told[-1].done == told[-1].total == 3
    real = folder.index(prune=True)
    for name in ("new", "changed", "unchanged", "passages", "embedded", "reused", "characters", "removed", "remaining"):
        assert getattr(dry, name) == getattr(real, name), name
    assert (real.new, real.changed, real.unchanged, real.removed) == (1, 1, 1, 1)


def test_a_dry_run_rescopes_and_renews_nothing(folder: Folder) -> None:
    folder["a.txt"] = "one"
    folder.index()
    assert folder.index(acl_groups=["h"], dry_run=True).rescoped == 1
    assert folder.ids() == ["a.txt"]


def test_tokens_and_cost_are_estimated(folder: Folder) -> None:
    folder["a.txt"] = "x" * 1001
    dry = folder.index(dry_run=True, price_per_million_tokens=2.0)
    assert (dry.characters, dry.estimated_tokens) == (1001, 251)
    assert dry.estimated_cost == pytest.approx(251 / 1e6 * 2)
    assert folder.index(dry_run=True).estimated_cost is None
    assert folder.index(price_per_million_tokens=0).estimated_cost == 0


def test_a_budget_ends_the_run_before_the_file_that_would_break_it(folder: Folder) -> None:
    for name in "abc":
        folder[f"{name}.txt"] = name * 100
    folder.index(include="a.txt")
    del folder["a.txt"]
    folder["d.txt"] = "d" * 100
    report = folder.index(budget_chars=250, prune=True)
    assert (report.indexed, report.remaining, report.stopped, report.removed, report.ok) == (2, 1, "budget", 0, False)
    assert folder.index(budget_chars=100).stopped is None
    assert folder.index(budget_chars=0).unchanged == 3


# Ownership and pruning


def test_a_source_from_elsewhere_is_not_touched(folder: Folder) -> None:
    folder["a.txt"] = "mine"
    folder.library.index_source(source("a.txt", "theirs"))
    (failed,) = folder.index().failed
    assert failed.reason == "owned"
    assert "source_prefix=" in failed.message
    assert "corpus" not in failed.message
    assert folder.text("a.txt") == ["theirs"]
    assert folder.index(source_prefix="mine/").new == 1


def test_a_document_that_calls_itself_of_this_corpus_is_not_the_folders(folder: Folder) -> None:
    folder["b.txt"] = "mine"
    document = {"id": "a.txt", "text": "theirs", "metadata": {"corpus": "c", "path": "a.txt"}}
    index_documents(folder.library, [document], tenant_id="t", acl_groups=["g"])
    assert folder.index(corpus="c", prune=True).removed == 0
    assert folder.ids() == ["a.txt", "b.txt"]


def test_another_folder_of_the_same_names_is_told_apart(folder: Folder, tmp_path: Path) -> None:
    folder["a.txt"] = "one"
    folder.index()
    (tmp_path / "other").mkdir()
    other = Folder(tmp_path / "other", folder.library)
    other["a.txt"] = "two"
    (failed,) = other.index().failed
    assert (failed.source_id, failed.reason) == ("a.txt", "owned")
    assert "source_prefix=" in failed.message
    assert 'as corpus=, which `library.source(…).metadata["corpus"]` tells' in failed.message
    assert folder.text("a.txt") == ["one"]


def test_a_corpus_is_one_wherever_its_folder_stands_and_never_shows_the_path(folder: Folder, tmp_path: Path) -> None:
    folder["a.txt"] = "one"
    folder.index(corpus="books")
    folder.path.rename(tmp_path / "moved")
    moved = Folder(tmp_path / "moved", folder.library)
    assert moved.index(corpus="books").unchanged == 1
    moved["b.txt"] = "two"
    moved.index(source_prefix="p/")
    info = folder.library.source("p/b.txt", scope=SCOPE)
    assert info is not None
    assert str(tmp_path) not in str(info.metadata)


def test_a_deleted_file_goes_with_prune_alone(folder: Folder) -> None:
    folder["a.txt"] = "one"
    folder["b.txt"] = "two"
    folder.index()
    del folder["a.txt"]
    assert (folder.index().removed, folder.ids()) == (0, ["a.txt", "b.txt"])
    assert (folder.index(prune=True).removed, folder.ids()) == (1, ["b.txt"])


def test_pruning_one_folder_leaves_others_and_other_tenants_alone(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    other = Folder(tmp_path / "b", folder.library)
    folder["a.txt"] = "one"
    other["b.txt"] = "two"
    folder.index()
    folder.index(tenant_id="u")
    other.index()
    other["c.txt"] = "three"
    del other["b.txt"]
    assert other.index(prune=True).removed == 1
    assert folder.ids() == ["a.txt", "c.txt"]
    assert folder.ids(Scope("u", ["g"])) == ["a.txt"]


@pytest.mark.parametrize(
    "change", [{"exclude": "a.txt"}, {"include": "b.txt"}, {"include": []}, {"max_file_bytes": 4}], ids=str
)
def test_a_file_that_is_there_and_not_taken_is_not_pruned(folder: Folder, change: dict[str, Any]) -> None:
    folder["a.txt"] = "first"
    folder["b.txt"] = "2nd"
    folder.index()
    assert folder.index(prune=True, **change).removed == 0
    assert folder.ids() == ["a.txt", "b.txt"]


def test_hidden_and_linked_files_are_not_pruned(folder: Folder, tmp_path: Path) -> None:
    folder["a.txt"] = "one"
    folder[".b.txt"] = "two"
    folder[".d/c.txt"] = "three"
    folder["real/d.txt"] = "four"
    (folder.path / "l.txt").symlink_to(folder.path / "real" / "d.txt")
    assert folder.index(hidden=True).new == 4
    (folder.path / "real" / "d.txt").rename(tmp_path / "d.txt")
    (folder.path / "real" / "d.txt").symlink_to(tmp_path / "d.txt")
    assert folder.index(prune=True).removed == 0


def refusing(name: str, *, times: int) -> Callable[[Any], Any]:
    """Return a scandir that cannot list the directory of this name, so many times."""
    listed, left = os.scandir, [times]

    def scandir(path: Any) -> Any:
        if os.fspath(path).endswith(name) and left[0]:
            left[0] -= 1
            raise PermissionError(13, "Permission denied")
        return listed(path)

    return scandir


@pytest.mark.parametrize("times", [1, 9])
def test_nothing_is_pruned_below_a_directory_that_cannot_be_listed(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    folder["a.txt"] = "one"
    folder["closed/b.txt"] = "two"
    folder.index()
    del folder["closed/b.txt"]
    monkeypatch.setattr(os, "scandir", refusing("closed", times=times))
    report = folder.index(prune=True)
    assert (report.removed, [(failed.source_id, failed.reason) for failed in report.failed]) == (
        0,
        [("closed", "unreadable")],
    )


def test_nothing_is_pruned_below_a_hidden_directory_that_cannot_be_read(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder["a.txt"] = "one"
    folder[".closed/b.txt"] = "two"
    assert folder.index(hidden=True).new == 2
    del folder[".closed/b.txt"]
    monkeypatch.setattr(os, "scandir", refusing(".closed", times=9))
    assert folder.index(prune=True).removed == 0


def test_nothing_is_pruned_where_it_cannot_be_told_whether_a_file_is_there(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder["a.txt"] = "one"
    folder[".closed/b.txt"] = "two"
    assert folder.index(hidden=True).new == 2
    looked_at = os.lstat

    def lstat(path: Any) -> os.stat_result:
        if os.fspath(path).endswith("b.txt"):
            raise PermissionError(13, "Permission denied")
        return looked_at(path)

    monkeypatch.setattr(os, "lstat", lstat)
    assert folder.index(prune=True).removed == 0


def test_a_hidden_file_in_another_normal_form_is_not_pruned_and_goes_when_it_is_gone(folder: Folder) -> None:
    decomposed = ".e\u0301/u\u0308.txt"
    folder["a.txt"] = "one"
    folder[decomposed] = "two"
    folder[".\u00e9/b.txt"] = "three"
    assert folder.index(hidden=True).new == 3
    assert folder.index(prune=True).removed == 0
    del folder[decomposed]
    assert folder.index(prune=True).removed == 1
    (folder.path / ".e\u0301").rmdir()
    del folder[".\u00e9/b.txt"]
    (folder.path / ".\u00e9").rmdir()
    (folder.path / ".\u00e9").write_text("no directory")
    assert folder.index(prune=True).removed == 1
    assert folder.ids() == ["a.txt"]


def test_nothing_is_pruned_when_the_folder_holds_no_file_to_load(folder: Folder) -> None:
    folder["a.txt"] = "one"
    folder.index()
    del folder["a.txt"]
    folder["b.bin"] = "x"
    assert folder.index(prune=True).removed == 0
    assert folder.ids() == ["a.txt"]


# Options


OPTIONS: list[tuple[str, Any, type[Exception]]] = [
    *[(name, bad, ValueError) for name in ("max_file_bytes", "max_chars", "attempts") for bad in (0, -1, 1.5, True)],
    *[("overlap_chars", bad, ValueError) for bad in (-1, 1.5, None)],
    *[("budget_chars", bad, ValueError) for bad in (-1, 1.5, True)],
    *[("price_per_million_tokens", bad, ValueError) for bad in (-1, math.nan, math.inf)],
    ("price_per_million_tokens", "1", TypeError),
    ("price_per_million_tokens", True, TypeError),
    ("max_concurrency", 0, ValueError),
    ("ttl", timedelta(0), ValueError),
    ("corpus", " ", ValueError),
    ("corpus", 5, ValueError),
    ("source_prefix", 5, TypeError),
    ("source_prefix", "\x00", ValueError),
    ("encoding", "klingon", LookupError),
    ("encoding", "hex", LookupError),
    ("encoding", None, TypeError),
    ("loaders", {"rst": len}, ValueError),
    ("loaders", {".": len}, ValueError),
    ("loaders", {5: len}, TypeError),
    ("loaders", {".rst": "x"}, TypeError),
    ("loaders", [".rst"], TypeError),
    ("include", 5, TypeError),
    ("include", [5], TypeError),
    ("exclude", None, TypeError),
    ("hidden", 1, TypeError),
    ("prune", "yes", TypeError),
    ("dry_run", None, TypeError),
    ("tier", "Hot", ValueError),
    ("acl_groups", [], ScopeError),
    ("tenant_id", "", ScopeError),
    ("kind", "", SourceError),
    ("metadata", {"x": None}, SourceError),
    ("cancel", 5, TypeError),
]


@pytest.mark.parametrize(("option", "value", "error"), OPTIONS, ids=str)
def test_an_option_that_breaks_a_rule_is_refused_before_anything(
    folder: Folder, embedder: RecordingEmbedder, option: str, value: Any, error: type[Exception]
) -> None:
    folder["a.txt"] = "one"
    with pytest.raises(error):
        folder.index(**{option: value})
    assert (embedder.calls, folder.ids()) == (0, [])


def test_a_path_must_be_an_existing_directory(folder: Folder) -> None:
    folder["a.txt"] = "one"
    with pytest.raises(FileNotFoundError):
        index_folder(folder.library, folder.path / "absent", tenant_id="t", acl_groups=["g"])
    with pytest.raises(NotADirectoryError):
        index_folder(folder.library, folder.path / "a.txt", tenant_id="t", acl_groups=["g"])


@pytest.mark.parametrize("path", ["", " ", "\u200b"])
def test_a_blank_path_is_not_the_directory_where_one_stands(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    folder["a.txt"] = "one"
    monkeypatch.chdir(folder.path)
    with pytest.raises(ValueError, match="blank"):
        index_folder(folder.library, path, tenant_id="t", acl_groups=["g"])
    assert folder.ids() == []


def test_an_empty_folder_is_zeros(folder: Folder) -> None:
    report = folder.index(prune=True)
    assert dataclasses.replace(report, seconds=0.0) == IndexReport(fingerprint="recording@16")


def test_the_librarys_own_files_are_never_sources(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("word", encoding="utf-8")
    with Library.open(tmp_path / "library", embedder=RecordingEmbedder()) as library:
        folder = Folder(tmp_path, library)
        folder.index(tenant_id="another")
        report = folder.index()
        assert (folder.ids(), report.ignored["library"]) == (["a.txt"], 1)
