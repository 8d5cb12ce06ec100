"""Libraries that older code wrote are opened and go on."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from stackroom import Library, Scope, Source
from stackroom.embedders import HashingEmbedder
from stackroom.stores.embedded._directory import FORMAT

FIXTURES = Path(__file__).parent / "fixtures"
OLDER = sorted(FIXTURES.glob("library-format-*.zip"))
ACME = Scope("acme", ["everyone", "board"])


def test_there_is_a_library_of_every_older_format() -> None:
    assert [path.stem for path in OLDER] == [f"library-format-{number}" for number in range(1, FORMAT)]


@pytest.mark.parametrize("older", OLDER, ids=lambda path: path.stem)
def test_a_library_of_an_older_format_is_opened_whole_and_goes_on(older: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(older).extractall(tmp_path)
    for _ in range(2):  # upgraded at the first opening, of this format at the second
        with Library.open(tmp_path, embedder=HashingEmbedder(16)) as library:
            assert [info.source_id for info in library.sources(scope=ACME)] == ["menu", "plan"]
            info = library.source("menu", scope=ACME)
            assert info is not None
            assert (info.title, info.tags, info.metadata, info.tier) == ("Menu", ("food",), {"year": 2026}, "hot")
            assert info.created_at.year == 2026
            assert [hit.text for hit in library.passages("menu", scope=ACME)] == ["Rye bread and buns.", "東京のパン"]
            assert library.count(scope=ACME, where={"hot": True}) == 1
            for mode in ("lexical", "dense", "hybrid"):
                found = library.search("second bakery May", scope=ACME, mode=mode, top_k=1)
                assert [hit.id for hit in found] == ["plan#0"]
            assert [hit.id for hit in library.search("東京", scope=ACME, mode="lexical")] == ["menu#1"]
            other = Scope("Überbäcker / ..", ["everyone"])
            assert [hit.text for hit in library.passages("menu", scope=other)] == ["Pretzels."]
            assert library.verify_embedder() > 0.999
    with Library.open(tmp_path, embedder=HashingEmbedder(16)) as library:
        done = library.index_source(Source("plan", "doc", "acme", ["board"], ["The oven is paid for.", "New words."]))
        assert (done.replaced, done.reused) == (2, 1)
        assert library.remove_source("menu", tenant_id="acme") == 2
    held = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"Rye bread" not in held
    assert b"second bakery" not in held
