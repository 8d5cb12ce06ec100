"""A library in a database, named by its DSN."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.cli.conftest import CommandLine
from tests.postgres_room import Room


@pytest.fixture
def dsn(room: Room, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A database of the test's own: the command line takes the schema `public`."""
    name = f"cli_{room.schema}"
    room.ask(f"CREATE DATABASE {name}")
    where = psycopg.conninfo.make_conninfo(room.dsn, dbname=name)
    parts = psycopg.conninfo.conninfo_to_dict(where)
    parts["host"] = parts.get("host") or "localhost"
    url = f"postgresql:///{name}?" + "&".join(f"{key}={value}" for key, value in parts.items() if key != "dbname")
    monkeypatch.setenv("STACKROOM_LIBRARY", url)
    yield url
    room.ask(f"DROP DATABASE {name} WITH (FORCE)")


def test_the_commands_work_on_a_database(stackroom: CommandLine, dsn: str, notes: Path) -> None:
    indexed = stackroom.index(str(notes))
    assert indexed.code == 0, indexed.err
    assert stackroom.found("budget")
    assert stackroom.found("budget", group="nobody") == []
    listed = stackroom("sources", "--tenant", "acme", "--group", "staff", "--json").json
    assert len(listed["sources"]) == 2
    source = listed["sources"][0]["source_id"]
    assert stackroom("rescope", source, "--tenant", "acme", "--group", "board").code == 0
    assert stackroom("remove", source, "--tenant", "acme").code == 0
    about = stackroom("info", "--tenants", "--json").json
    assert (about["tenant_count"], about["source_count"]) == (1, 1)
    assert "acme" in stackroom("info", "--tenant", "acme").out
    assert stackroom("remove-tenant", "acme", "--yes").code == 0
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT name FROM stackroom_collections").fetchall() == [("library",)]


def test_a_database_without_a_library_is_refused_and_gets_no_tables(stackroom: CommandLine, dsn: str) -> None:
    ran = stackroom("search", "red", "--tenant", "acme", "--group", "staff")
    assert ran.code == 1
    assert "no library in this database" in ran.err
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'stackroom%'").fetchone() == (0,)


@pytest.mark.parametrize("command", ["doctor", "compact"])
def test_what_looks_after_directories_says_so(stackroom: CommandLine, dsn: str, command: str) -> None:
    del dsn
    ran = stackroom(command)
    assert ran.code == 1
    assert "database" in ran.err


def test_a_database_that_cannot_be_reached_is_one_line_without_its_secrets(stackroom: CommandLine) -> None:
    ran = stackroom(
        "search", "red", "--tenant", "a", "--group", "g", "--library", "postgresql://u:Zq7pass@127.0.0.1:1/x"
    )
    assert ran.code == 1
    assert "Zq7pass" not in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    "place", ["host=127.0.0.1 password=s3cret", "POSTGRESQL://u:s3cret@h/db", "postgresql+psycopg://u:s3cret@h/db"]
)
def test_what_is_nearly_a_dsn_is_refused_without_its_secret_and_makes_no_directory(
    stackroom: CommandLine, notes: Path, here: Path, place: str
) -> None:
    for command in (["info"], ["index", str(notes), "--tenant", "acme", "--group", "staff"]):
        ran = stackroom(*command, "--library", place)
        assert ran.code == 2
        assert "s3cret" not in ran.err + ran.out
    assert [path.name for path in here.iterdir()] == ["notes"]
