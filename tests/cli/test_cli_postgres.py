"""A library in a database, named by its DSN."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.cli.conftest import CommandLine
from tests.postgres_room import Room

from stackroom.embedders import HashingEmbedder
from stackroom.stores import CollectionSpec
from stackroom.stores.postgres import schema_sql


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


def test_the_dsn_names_schema_and_prefix(stackroom: CommandLine, dsn: str, notes: Path) -> None:
    for options, sources in (("schema=one", 2), ("schema=one&prefix=other_", 1), ("prefix=third_", 0)):
        place = f"{dsn}&{options}&lock_timeout=2.5"
        files = sorted(str(file) for file in notes.iterdir() if not file.name.startswith("."))[:sources]
        for file in files:
            indexed = stackroom.index(file, "--library", place)
            assert indexed.code == 0, indexed.err
        ran = stackroom("info", "--json", "--library", place)
        assert (ran.json["source_count"] == sources) if sources else ran.code == 1
    with psycopg.connect(dsn) as connection:
        found = connection.execute(
            "SELECT schemaname, tablename FROM pg_tables WHERE tablename LIKE '%\\_collections' ORDER BY 1, 2"
        ).fetchall()
    assert found == [("one", "other_collections"), ("one", "stackroom_collections")]


def test_the_dsn_names_row_level_security(stackroom: CommandLine, room: Room, dsn: str, notes: Path) -> None:
    spec = CollectionSpec(64, str(HashingEmbedder(64).fingerprint))
    role = f"app_{room.schema}"
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN".encode())
        try:
            owner.execute(schema_sql("library", spec, row_level_security=True, role=role).encode())
            place = dsn.replace("user=postgres", f"user={role}") + "&row_level_security=true"
            indexed = stackroom.index(str(notes), "--library", place)
            assert indexed.code == 0, indexed.err
            about = stackroom("info", "--json", "--library", place)
            assert about.code == 0, about.err
            assert about.json["source_count"] == 2
            unaware = stackroom("info", "--library", place.replace("true", "false"))
            assert "row_level_security=true in the DSN" in unaware.err
        finally:
            owner.execute(f"DROP OWNED BY {role}".encode())
            owner.execute(f"DROP ROLE {role}".encode())


WRONG = {
    "schema=Upper-s3cret": "schema",
    "prefix=": "prefix",
    "lock_timeout=s3cret": "lock_timeout",
    "lock_timeout=-1": "lock_timeout",
    "pool_size=1.5": "pool_size",
    "exact_limit=many": "exact_limit",
    "exact_limit=999": "exact_limit",
    "row_level_security=s3cret": "row_level_security",
    "manage_schema=1": "manage_schema",
    "row_level_security=true&manage_schema=true": "manage_schema",
    "schema=a&schema=b": "schema",
    "shema=s3cret": "shema",
    "sslmod=s3cret": "unknown; Stackroom's are schema, prefix,",
    "s3cret": "unknown",
    "pa&s3cret=@x": "unknown",
}


@pytest.mark.parametrize("options", WRONG)
def test_a_wrong_option_in_the_dsn_is_named_and_its_value_not_shown(
    stackroom: CommandLine, dsn: str, options: str
) -> None:
    for command in (["info", "--library"], ["check-store"]):
        ran = stackroom(*command, f"{dsn}&{options}")
        assert ran.code == 1
        assert WRONG[options] in ran.err
        assert "s3cret" not in ran.err


def test_the_drivers_own_options_pass_as_they_are(stackroom: CommandLine, dsn: str) -> None:
    place = f"{dsn}&application_name=a%26b&schema=%6fne"
    assert stackroom("check-store", place, "--only", "row_12", "--json").json["is_right"]
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT to_regclass('one.stackroom_collections') IS NULL").fetchone() == (False,)


def test_a_library_in_a_database_is_tested_for_leaks_and_moved_to_another_embedder(
    stackroom: CommandLine, dsn: str, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stackroom.index(str(notes))
    leak_test = stackroom("leak-test", "--json")
    assert leak_test.code == 0, leak_test.err
    verified = stackroom("verify-embedder")
    assert verified.code == 0, verified.err
    moved = stackroom("reembed", "hashing:32")
    assert moved.code == 0, moved.err
    monkeypatch.delenv("STACKROOM_EMBEDDER")
    assert stackroom.found("budget")
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT name FROM stackroom_collections").fetchall() == [("library",)]


@pytest.mark.parametrize("command", [("reembed", "hashing:32"), ("leak-test",)], ids=lambda command: command[0])
def test_what_makes_collections_makes_no_library(stackroom: CommandLine, dsn: str, command: tuple[str, ...]) -> None:
    ran = stackroom(*command)
    assert ran.code == 1
    assert "no library in this database" in ran.err
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'stackroom%'").fetchone() == (0,)


def test_a_library_in_a_database_is_measured(stackroom: CommandLine, dsn: str, notes: Path) -> None:
    stackroom.index(str(notes))
    ran = stackroom("eval", dsn, "notes/.queries", "notes/.qrels", "--tenant", "acme", "--group", "staff")
    assert ran.code == 0, ran.err
    assert "1.000" in ran.out


def test_a_library_is_copied_into_a_database_and_out_of_it(stackroom: CommandLine, dsn: str, notes: Path) -> None:
    stackroom.index(str(notes), "--library", "here")
    assert stackroom("copy", dsn, "out").code == 1
    with psycopg.connect(dsn) as connection:  # what reads from a database makes no tables there
        assert connection.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'stackroom%'").fetchone() == (0,)
    assert not Path("out").exists()
    for origin, target in (("here", dsn), (dsn, "out")):
        ran = stackroom("copy", origin, target)
        assert ran.code == 0, ran.err
    assert stackroom.found("budget", "--library", "out") == stackroom.found("budget")


@pytest.mark.parametrize("name", ["hashing:99999", "openai:m"])
def test_an_embedder_that_cannot_be_had_leaves_no_tables_behind(
    stackroom: CommandLine, dsn: str, notes: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert stackroom.index(str(notes), "--embedder", name).code == 1
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'stackroom%'").fetchone() == (0,)


def test_a_database_that_does_not_exist_is_among_the_suspects(stackroom: CommandLine, dsn: str) -> None:
    ran = stackroom("info", "--library", dsn.replace("postgresql:///cli_", "postgresql:///none_"))
    assert ran.code == 1
    assert "the database's name" in ran.err
