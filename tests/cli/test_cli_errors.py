"""Whatever goes wrong is one line on stderr, with what to do, and an exit code that is not 0."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from stackroom import Library, Source
from stackroom.embedders import FunctionEmbedder, HashingEmbedder
from stackroom.stores import CollectionSpec, EmbeddedStore

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import CommandLine

SCOPE = ("--tenant", "acme", "--group", "staff")


@pytest.mark.parametrize(
    "command",
    [
        ("serch", "x"),
        ("search", "x", "--tenant", "acme"),
        ("search", *SCOPE),
        ("search", "x", *SCOPE, "--mode", "fuzzy"),
        ("search", "x", *SCOPE, "--unknown"),
        ("search", "x", "y", *SCOPE),
        ("search", "x", *SCOPE, "--tier", "Hot"),
        ("index", *SCOPE),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(stackroom: CommandLine, command: tuple[str, ...]) -> None:
    ran = stackroom(*command)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("stackroom: ")
    assert ran.err.count("\n") == 1


def test_wrong_usage_names_the_help_of_the_command(stackroom: CommandLine) -> None:
    assert stackroom("show", "x").err.endswith("See: stackroom show --help\n")
    assert stackroom("shwo", "x").err.endswith("See: stackroom --help\n")


ALL_BUT_INDEX = pytest.mark.parametrize(
    "command",
    [
        ("search", "x", *SCOPE),
        ("search", "x", *SCOPE, "--mode", "lexical", "--embedder", "hashing"),
        ("sources", *SCOPE),
        ("show", "x", *SCOPE),
        ("rescope", "x", "--tenant", "acme", "--no-tags"),
        ("remove", "x", "--tenant", "acme"),
        ("remove-tenant", "acme", "--yes"),
        ("info",),
        ("doctor",),
        ("compact",),
    ],
    ids=lambda command: command[0],
)


@ALL_BUT_INDEX
@pytest.mark.parametrize("is_there", [True, False], ids=["an empty directory", "no directory"])
def test_only_index_makes_a_library(
    stackroom: CommandLine, here: Path, command: tuple[str, ...], *, is_there: bool
) -> None:
    if is_there:
        (here / "library").mkdir()
    ran = stackroom(*command)
    assert ran.code == 1
    assert "no library in library: make one with `stackroom index`" in ran.err
    assert (here / "library").exists() is is_there
    assert not list(here.glob("library/*"))


def contents(directory: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in directory.rglob("*")}


@ALL_BUT_INDEX
@pytest.mark.parametrize("others", [(), ("another",)], ids=["no collection", "another collection"])
def test_only_index_makes_the_collection_in_a_store_that_has_none_of_its_name(
    stackroom: CommandLine, here: Path, command: tuple[str, ...], others: tuple[str, ...]
) -> None:
    with closing(EmbeddedStore(here / "library")) as store:
        for name in others:
            store.create_collection(name, CollectionSpec(4, "mine@4"))
    before = contents(here)
    ran = stackroom(*command)
    assert ran.code == 1
    assert "no library in library: make one with `stackroom index`" in ran.err
    assert contents(here) == before
    Library.open(here / "library", embedder=HashingEmbedder()).close()


def test_index_makes_the_collection_in_a_store_that_has_none(stackroom: CommandLine, notes: Path, here: Path) -> None:
    EmbeddedStore(here / "library").close()
    assert stackroom.index(str(notes)).code == 0
    assert stackroom.found("budget")


@pytest.mark.parametrize("register", ["format = [", "format = 2\n[collections.library]\n", "\xff"])
def test_a_register_that_cannot_be_read_is_said_and_not_touched(
    stackroom: CommandLine, here: Path, register: str
) -> None:
    (here / "library").mkdir()
    (here / "library" / "library.toml").write_text(register, encoding="latin-1")
    before = contents(here)
    ran = stackroom("info")
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert contents(here) == before


def test_a_foreign_directory_is_refused_and_not_touched(stackroom: CommandLine, notes: Path) -> None:
    before = sorted(notes.rglob("*"))
    for ran in (stackroom.index("notes", "--library", "notes"), stackroom("info", "--library", "notes")):
        assert ran.code == 1
        assert ran.err.count("\n") == 1
    assert sorted(notes.rglob("*")) == before


def test_a_library_of_a_newer_format_is_refused(stackroom: CommandLine, notes: Path, here: Path) -> None:
    stackroom.index(str(notes))
    (here / "library" / "library.toml").write_text("format = 999\n", encoding="utf-8")
    ran = stackroom("info")
    assert ran.code == 1
    assert "format 999" in ran.err


def test_another_embedder_is_refused_with_what_to_do(stackroom: CommandLine, notes: Path) -> None:
    stackroom.index(str(notes))
    ran = stackroom("search", "x", *SCOPE, "--embedder", "hashing:32")
    assert ran.code == 1
    assert "belongs to the embedder hashing-v1@64, not to hashing-v1@32: leave --embedder" in ran.err
    assert "or index into a new --library" in ran.err
    assert "stackroom.indexing" not in ran.err


@pytest.mark.parametrize("name", ["openai:m", "fastembed:m", "sentence-transformers:m", "model2vec:m"])
def test_an_embedder_of_another_kind_is_refused_before_its_key_or_package_is_asked_for(
    stackroom: CommandLine, notes: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    stackroom.index(str(notes))
    for command in (("search", "x", *SCOPE), ("index", "notes", *SCOPE), ("sources", *SCOPE)):
        ran = stackroom(*command, "--embedder", name)
        assert ran.code == 1
        assert f"belongs to the embedder hashing-v1@64, not to {name}: leave --embedder" in ran.err


def test_words_without_quotes_are_told_to_get_some(stackroom: CommandLine) -> None:
    ran = stackroom("search", "holiday", "please", *SCOPE)
    assert ran.code == 2
    assert "between quotes" in ran.err


def test_a_cursor_that_is_none_is_said_in_the_words_of_the_command_line(stackroom: CommandLine, notes: Path) -> None:
    stackroom.index(str(notes))
    ran = stackroom("sources", *SCOPE, "--after", "garbage")
    assert ran.code == 1
    assert "without --after" in ran.err


def test_the_librarys_own_embedder_is_taken_when_none_is_named(
    stackroom: CommandLine, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stackroom.index(str(notes))
    monkeypatch.delenv("STACKROOM_EMBEDDER")
    assert stackroom.search("spring budget")["hits"][0]["id"] == "budget.md#0"
    assert stackroom.index(str(notes)).code == 0


def test_a_library_of_a_foreign_embedder_is_listed_and_searched_by_words(
    stackroom: CommandLine, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STACKROOM_EMBEDDER")
    mine = FunctionEmbedder(lambda texts: [[1.0, 2.0] for _ in texts], id="mine", dimension=2)
    with Library.open(here / "library", embedder=mine) as library:
        library.index_source(Source("a", "document", "acme", ["staff"], ["red fox"]))
    assert stackroom.found("fox", "--mode", "lexical") == ["a#0"]
    assert "a" in stackroom("sources", *SCOPE).out
    (here / "notes").mkdir()
    (here / "notes" / "a.md").write_text("red")
    for command in (
        ("search", "fox", *SCOPE),
        ("index", "notes", *SCOPE),
        ("verify-embedder",),
        ("leak-test",),
    ):
        ran = stackroom(*command)
        assert ran.code == 1
        assert "use it from Python; what embeds nothing works here" in ran.err
        assert "`stackroom search --mode lexical`" in ran.err


@pytest.mark.parametrize(
    "name", ["", "openai", "hashing:", "hashing:x", "hashing:٣", "local:3", "model2vec", "fastembed: ", "bert:m"]
)
def test_an_unknown_embedder_is_wrong_usage(stackroom: CommandLine, notes: Path, name: str) -> None:
    assert stackroom.index(str(notes), "--embedder", name).code == 2
    assert stackroom.index("letter.pdf", "--embedder", name).code == 2


def test_an_embedder_that_cannot_be_had_leaves_no_library_behind(
    stackroom: CommandLine, notes: Path, here: Path
) -> None:
    assert stackroom.index(str(notes), "--embedder", "hashing:99999").code == 1
    assert not (here / "library").exists()


@pytest.mark.parametrize("blank", ["", " ", "\u200b"])
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("search", "x", "--group=g", "--tenant={}"), "--tenant"),
        (("search", "x", "--group={}", "--tenant=t"), "--group"),
        (("search", "x", "--group=g", "--group={}", "--tenant=t"), "--group"),
        (("search", "x", "--group=g", "--tenant=t", "--folder={}"), "--folder"),
        (("sources", "--group=g", "--tenant={}"), "--tenant"),
        (("show", "{}", "--group=g", "--tenant=t"), "SOURCE"),
        (("rescope", "x", "--tenant=t", "--group={}"), "--group"),
        (("remove", "x", "--tenant={}"), "--tenant"),
        (("remove-tenant", "{}", "--yes"), "TENANT"),
        (("info", "--tenant={}"), "--tenant"),
        (("info", "--library={}"), "--library"),
    ],
)
def test_a_blank_name_is_wrong_usage(
    stackroom: CommandLine, notes: Path, command: tuple[str, ...], said: str, blank: str
) -> None:
    stackroom.index(str(notes))
    ran = stackroom(*(word.format(blank) for word in command))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"stackroom: {said} is empty. See: stackroom {command[0]} --help")


def test_a_name_that_is_too_long_is_refused(stackroom: CommandLine, notes: Path) -> None:
    ran = stackroom.index(str(notes), tenant="t" * 513)
    assert ran.code == 1
    assert "tenant_id" in ran.err


def test_text_that_is_no_unicode_is_refused(stackroom: CommandLine, notes: Path) -> None:
    stackroom.index(str(notes))
    ran = stackroom("search", "\udcff", *SCOPE)
    assert ran.code == 1
    assert ran.err.count("\n") == 1
