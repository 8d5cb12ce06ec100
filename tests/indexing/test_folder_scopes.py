"""index_folder: who may see what a folder owns, whatever became of its files."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.indexing.folders import Folder
from tests.library.doubles import HandClock, RecordingEmbedder

from stackroom import EmbedderError, Scope

OLD = Scope("t", ["g"])
NEW = Scope("t", ["h"])


def make_unloadable(folder: Folder) -> None:
    folder["b.txt"] = b"Geh\xe4lter"


def make_empty(folder: Folder) -> None:
    folder["b.txt"] = " \n"


def delete(folder: Folder) -> None:
    del folder["b.txt"]


def make_too_large(folder: Folder) -> None:
    folder["b.txt"] = "b" * 500


def make_a_link(folder: Folder) -> None:
    del folder["b.txt"]
    (folder.path / "b.txt").symlink_to(folder.path / "a.txt")


CHANGES = [make_unloadable, make_empty, delete, make_too_large, make_a_link]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_is_kept_of_a_file_that_is_not_indexed_has_the_groups_of_the_run(folder: Folder, change: Any) -> None:
    folder["a.txt"] = "one"
    folder["b.txt"] = "two"
    folder.index()
    change(folder)
    options: dict[str, Any] = {"acl_groups": ["h"], "max_file_bytes": 100}
    dry = folder.index(dry_run=True, **options)
    assert (dry.rescoped, folder.ids()) == (2, ["a.txt", "b.txt"])
    assert folder.index(**options).rescoped == 2
    assert (folder.ids(OLD), folder.ids(NEW)) == ([], ["a.txt", "b.txt"])
    assert folder.index(**options).rescoped == 0


def test_what_a_budget_leaves_out_has_the_groups_of_the_run(folder: Folder) -> None:
    for name in "abcd":
        folder[f"{name}.txt"] = name
    folder.index()
    for name in "abc":
        folder[f"{name}.txt"] = name * 100
    options: dict[str, Any] = {"acl_groups": ["h"], "budget_chars": 150}
    dry = folder.index(dry_run=True, **options)
    real = folder.index(**options)
    for report in (dry, real):
        assert (report.changed, report.rescoped, report.remaining, report.stopped) == (1, 3, 3, "budget")
    assert (folder.ids(OLD), len(folder.ids(NEW))) == ([], 4)


def test_what_an_embedder_that_is_down_leaves_out_has_the_groups_of_the_run(
    folder: Folder, embedder: RecordingEmbedder
) -> None:
    folder["a.txt"] = "one"
    folder["b.txt"] = "two"
    folder.index()
    folder["a.txt"] = "another"

    def is_down(_batch: int) -> None:
        raise EmbedderError("it is down", retryable=True, retry_after=0)

    embedder.before_batch = is_down
    with pytest.raises(EmbedderError):
        folder.index(acl_groups=["h"])
    assert (folder.ids(OLD), folder.ids(NEW)) == ([], ["a.txt", "b.txt"])


def test_folder_and_tags_follow_as_well(folder: Folder) -> None:
    folder["b.txt"] = "two"
    folder.index()
    make_unloadable(folder)
    assert folder.index(folder_id="f", tags=["x"]).rescoped == 1
    info = folder.library.source("b.txt", scope=OLD)
    assert info is not None
    assert (info.folder_id, info.tags) == ("f", ("x",))


def test_what_is_pruned_is_not_rescoped_as_well(folder: Folder) -> None:
    folder["a.txt"] = "one"
    folder["b.txt"] = "two"
    folder.index()
    del folder["b.txt"]
    for dry_run in (True, False):
        report = folder.index(acl_groups=["h"], prune=True, dry_run=dry_run)
        assert (report.removed, report.rescoped) == (1, 1)


def test_a_file_that_is_gone_still_expires(folder: Folder, clock: HandClock) -> None:
    folder["a.txt"] = "one"
    folder["b.txt"] = "two"
    folder.index(ttl=timedelta(hours=1))
    del folder["b.txt"]
    folder.index(ttl=timedelta(hours=9), acl_groups=["h"])
    clock.forward(hours=2)
    assert folder.ids(NEW) == ["a.txt"]


@pytest.mark.parametrize("option", [{"exclude": "b*"}, {"include": "a*"}, {"exclude": "b.txt"}], ids=str)
def test_files_that_another_call_asks_for_keep_their_groups(folder: Folder, option: dict[str, Any]) -> None:
    folder["a.txt"] = "one"
    folder["b.txt"] = "two"
    folder.index()
    folder.index(acl_groups=["h"], **option)
    assert folder.ids(OLD) == ["b.txt"]
    for change in (make_unloadable, delete):
        change(folder)
        folder.index(acl_groups=["h"], **option)
        assert folder.ids(OLD) == ["b.txt"]


def test_hidden_files_other_prefixes_corpora_and_tenants_keep_their_groups(folder: Folder) -> None:
    folder[".hidden.txt"] = "zero"
    folder["a.txt"] = "one"
    folder.index(hidden=True)
    folder.index(source_prefix="p/")
    folder.index(source_prefix="q/", corpus="c")
    folder.index(tenant_id="u")
    del folder["a.txt"]
    folder["b.txt"] = "two"
    assert folder.index(acl_groups=["h"]).rescoped == 1
    assert folder.ids(OLD) == [".hidden.txt", "p/a.txt", "q/a.txt"]
    assert folder.ids(Scope("u", ["g"])) == ["a.txt"]
