"""A DSN names every store; what is wrong with one is said without what it holds."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stackroom import StoreUnavailable
from stackroom.stores import LanceStore
from stackroom.stores._addresses import parted
from stackroom.stores._dsn import lacks_its_file, names_a_database, open_database, open_store
from stackroom.stores._options import NoLibrary


@pytest.mark.parametrize(
    "wrong",
    [
        "qdrant://",
        "qdrant:",
        "qdrant://s3cret@host?colour=s3cret",
        "qdrant://s3cret@host:notaport",
        "qdrant://s3cret@host?tls=perhaps",
        "qdrant://s3cret@host?prefix=a&prefix=b",
        "neo4j:",
        "neo4j://",
        "neo4j://user:s3cret#1@host",
        "bolt://user:s3cret@host?manage_schema=0",
        "lance:",
        "lance: ",
        "milvus://s3cret@host",
    ],
)
def test_what_is_no_dsn_is_refused_and_not_shown(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"DSN|behind the colon") as caught:
        open_store(wrong)
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("dsn", ["qdrant://s3cret@127.0.0.1:1?timeout=1", "bolt://u:s3cret@127.0.0.1:1"])
def test_a_server_that_does_not_answer_is_unavailable(dsn: str) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        open_store(dsn)
    assert "s3cret" not in str(caught.value)


def test_names_and_passwords_are_escaped() -> None:
    address = parted("neo4j://us%40er:p%2Fw%23@host:7687/da%20ta?manage_schema=true", {"manage_schema": str})
    assert (address.user, address.password, address.host, address.port, address.path) == (
        "us@er",
        "p/w#",
        "host",
        7687,
        "da ta",
    )


@pytest.mark.parametrize("scheme", ["lance", "qdrant"])
def test_a_directory_that_is_not_there_is_not_made_by_what_only_reads(tmp_path: Path, scheme: str) -> None:
    dsn = f"{scheme}:{tmp_path}/nowhere"
    assert lacks_its_file(dsn)
    with pytest.raises(NoLibrary):
        open_database(dsn, manage_schema=False)
    assert not (tmp_path / "nowhere").exists()


def test_a_directory_of_lancedb_is_opened(tmp_path: Path) -> None:
    store = open_store(f"lance:{tmp_path}/there")
    assert isinstance(store, LanceStore)
    store.close()
    assert not lacks_its_file(f"lance:{tmp_path}/there")


def test_what_names_a_database_is_known() -> None:
    for dsn in (
        "postgresql://h",
        "sql:sqlite:///x",
        "qdrant://h",
        "qdrant:dir",
        "neo4j+s://h",
        "bolt://h",
        "lance:dir",
    ):
        assert names_a_database(dsn)
    for other in (
        "library",
        "embedded:library",
        "postgresql:/h",
        "sql: ",
        "lance: ",
        "qdrant:",
        "neo4j:dir",
        "memory:",
    ):
        assert not names_a_database(other)


@pytest.mark.parametrize(
    ("module", "dsn", "extra"),
    [
        ("qdrant_client", "qdrant:there", "qdrant"),
        ("neo4j", "bolt://user@host", "neo4j"),
        ("lancedb", "lance:there", "lance"),
        ("filelock", "lance:there", "lance"),
    ],
)
def test_a_package_that_is_missing_is_named_with_the_pip_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, dsn: str, extra: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf'pip install "stackroom\[{extra}\]"'):
        open_store(dsn)
    assert list(tmp_path.iterdir()) == []
