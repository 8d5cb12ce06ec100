"""Wherever the command line takes a library, it takes a directory, `embedded:DIR` or a DSN, and nothing by mistake."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stackroom import Library
from stackroom.embedders import HashingEmbedder

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine

SCOPE = ("--tenant", "acme", "--group", "staff")

EVERY_PLACE = pytest.mark.parametrize(
    "command",
    [
        ("index", "notes", *SCOPE, "--library", "{}"),
        ("info", "--library", "{}"),
        ("doctor", "--library", "{}"),
        ("check-store", "{}", "--only", "row_20"),
        ("copy", "{}", "another"),
        ("copy", "library", "{}"),
        ("export", "{}", "file"),
        ("eval", "{}", "notes/.queries", "notes/.qrels", *SCOPE),
    ],
    ids=lambda command: " ".join(command[:2]),
)

NO_PLACE = pytest.mark.parametrize(
    "place",
    [
        "postgresql:/localhost/s3cret",
        "postgresql+psycopg://u:s3cret@h/db",
        "sqlite:s3cret",
        "embedded:",
        "embedded: ",
        "embedded:postgresql://u:s3cret@h/db",
        "host=localhost user=s3cret",
        "Embedded:s3cret",
        "sql:",
        "sql: ",
        "embedded:sql:sqlite:///s3cret",
    ],
)


@EVERY_PLACE
@pytest.mark.parametrize("place", ["library", "embedded:library"])
def test_a_library_is_named_by_its_directory_with_or_without_a_scheme(
    stackroom: CommandLine, notes: Path, here: Path, command: tuple[str, ...], place: str
) -> None:
    stackroom.index(str(notes))
    if command[1] == "library":
        return  # copied onto itself
    ran = stackroom(*(word.format(place) for word in command))
    assert ran.code == 0, ran.err
    assert {path.name for path in here.iterdir()} <= {"notes", "library", "another", "file"}


@EVERY_PLACE
@NO_PLACE
def test_what_looks_like_a_dsn_and_is_none_is_refused_with_what_is_one(
    stackroom: CommandLine, notes: Path, here: Path, command: tuple[str, ...], place: str
) -> None:
    stackroom.index(str(notes))
    before = sorted(here.iterdir())
    ran = stackroom(*(word.format(place) for word in command))
    assert ran.code == 2
    assert "a directory (./NAME when its name has a colon), or embedded:DIRECTORY, postgresql://…" in ran.err
    assert "s3cret" not in ran.err
    assert sorted(here.iterdir()) == before


@pytest.mark.parametrize(
    "command",
    [
        ("copy", "library", "memory:"),
        ("copy", "memory:", "another"),
        ("import", "file", "memory:"),
        ("info", "--library", "memory:"),
    ],
)
def test_where_nothing_is_kept_no_library_goes(stackroom: CommandLine, notes: Path, command: tuple[str, ...]) -> None:
    stackroom.index(str(notes))
    ran = stackroom(*command)
    assert ran.code == 2
    assert "nothing is kept" in ran.err


def test_the_environment_names_a_library_in_the_same_way(
    stackroom: CommandLine, notes: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STACKROOM_LIBRARY", "embedded:mine")
    stackroom.index(str(notes))
    assert (here / "mine" / "library.toml").is_file()
    monkeypatch.setenv("STACKROOM_LIBRARY", "postgresql:/localhost/app")
    assert stackroom("info").code == 2


def test_a_directory_whose_name_has_a_colon_is_named_by_its_path(
    stackroom: CommandLine, notes: Path, here: Path
) -> None:
    assert stackroom.index(str(notes), "--library", "./b:a").code == 0
    assert (here / "b:a" / "library.toml").is_file()


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("postgresql://u:s3cret@localhost/app", "PostgresStore"),
        ("postgresql:/localhost/s3cret", "PostgresStore"),
        (Path("postgresql://u:s3cret@localhost/app"), "PostgresStore"),
        ("sql:sqlite:///s3cret", "SqlStore"),
        (Path("sql:mysql://u:s3cret@localhost/app"), "SqlStore"),
        ("embedded:s3cret", "the directory alone"),
        ("memory:", "by its class"),
        ("sqlite:///s3cret", "by its class"),
        ("dbname=app password=s3cret", "by its class"),
    ],
)
def test_opening_a_dsn_as_a_directory_is_refused_with_what_opens_it(here: Path, path: str | Path, said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        Library.open(path, embedder=HashingEmbedder(64))
    assert "s3cret" not in str(refused.value)
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("path", ["./a:b", Path("a:b"), "a b", "postgres", "sql"])
def test_a_directory_of_an_odd_name_is_opened(here: Path, path: str | Path) -> None:
    Library.open(path, embedder=HashingEmbedder(64)).close()
    assert len(list(here.iterdir())) == 1
