"""A directory that tests index, and what they look at afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stackroom import (
    Hit,
    Library,
    Scope,
)
from stackroom.indexing import IndexReport, index_folder

SCOPE = Scope("t", ["g"])


class Folder:
    """A directory whose files a test writes, and that is indexed for tenant t and group g unless said."""

    def __init__(self, path: Path, library: Library) -> None:
        self.path = path
        self.library = library

    def __setitem__(self, name: str, content: str | bytes) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    def __delitem__(self, name: str) -> None:
        (self.path / name).unlink()

    def index(self, **options: Any) -> IndexReport:
        given: dict[str, Any] = {"tenant_id": "t", "acl_groups": ["g"], **options}
        return index_folder(self.library, self.path, **given)

    def ids(self, scope: Scope = SCOPE) -> list[str]:
        return [info.source_id for info in self.library.sources(scope=scope, limit=10_000)]

    def text(self, source_id: str) -> list[str]:
        return [hit.text for hit in self.library.passages(source_id, scope=SCOPE)]

    def failures(self, **options: Any) -> dict[str, str]:
        return {failed.source_id: failed.reason for failed in self.index(**options).failed}


def offset(hit: Hit, key: str) -> int:
    value = hit.metadata[key]
    assert isinstance(value, int)
    return value


def counts(report: IndexReport) -> tuple[int, int, int, int]:
    return report.new, report.changed, report.unchanged, report.embedded
