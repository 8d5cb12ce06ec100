"""index_folder: what somebody else writes under the id of one of its files is neither opened nor removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.indexing.folders import Folder
from tests.library.doubles import RecordingEmbedder, nothing, source

from stackroom import Library, Scope
from stackroom.filters import And, Eq
from stackroom.stores import MemoryStore

HR, EVERYONE = Scope("t", ["hr"]), Scope("t", ["everyone"])


def two_files(path: Path, store: MemoryStore) -> Folder:
    folder = Folder(path, Library(store, "library", RecordingEmbedder()))
    folder["a.txt"], folder["z.txt"] = "one", "two"
    folder.index()
    return folder


def test_what_is_written_under_an_unchanged_files_id_meanwhile_is_not_opened(tmp_path: Path) -> None:
    store = MemoryStore()
    folder = two_files(tmp_path, store)
    library = folder.library
    folder["a.txt"] = "changed"

    def write_meanwhile(_number: int) -> None:
        embedder.before_batch = nothing
        library.index_source(source("z.txt", "salaries of all", acl_groups=["hr"]))

    embedder = RecordingEmbedder(before_batch=write_meanwhile)
    folder.library = Library(store, "library", embedder, batch_size=1)
    assert folder.index(acl_groups=["everyone"]).rescoped == 0
    assert library.passages("z.txt", scope=EVERYONE) == []
    assert [hit.text for hit in library.passages("z.txt", scope=HR)] == ["salaries of all"]


class ChangedBeforeARemoval(MemoryStore):
    """Calls back before its next removal."""

    before: Any = None

    def delete(self, *given: Any, **options: Any) -> int:
        if self.before is not None:
            before, self.before = self.before, None
            before()
        return super().delete(*given, **options)


def test_what_is_written_under_the_id_of_a_file_that_is_gone_is_not_pruned(tmp_path: Path) -> None:
    store = ChangedBeforeARemoval()
    folder = two_files(tmp_path, store)
    del folder["z.txt"]
    of_z = And(Eq("tenantId", "t"), Eq("sourceId", "z.txt"))
    store.before = lambda: store.update("library", {"aclGroups": ["hr"], "stackroom.settings": None}, where=of_z)
    assert folder.index(prune=True).removed == 0
    assert len(folder.library.passages("z.txt", scope=HR)) == 1
