"""Runs the command line in this process, in an empty directory, with an embedder that needs no model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from stackroom.cli import main
from stackroom.cli._examples import NOTES

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class CommandLine:
    """Call it with a command's arguments; options that every test shares are added."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> Ran:
        self._capsys.readouterr()
        code = main(arguments)
        captured = self._capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    def index(self, *arguments: str, group: str = "staff", tenant: str = "acme") -> Ran:
        return self("index", *arguments, "--tenant", tenant, "--group", group)

    def search(self, text: str, *arguments: str, group: str = "staff", tenant: str = "acme") -> Any:
        ran = self("search", text, "--tenant", tenant, "--group", group, "--json", *arguments)
        assert ran.code == 0, ran.err
        return ran.json

    def found(self, text: str, *arguments: str, group: str = "staff", tenant: str = "acme") -> list[str]:
        return [hit["id"] for hit in self.search(text, *arguments, group=group, tenant=tenant)["hits"]]


@pytest.fixture
def stackroom(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory in which the test stands."""
    monkeypatch.chdir(tmp_path)
    for name in ("STACKROOM_LIBRARY", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("STACKROOM_EMBEDDER", "hashing:64")
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.fixture
def notes(here: Path) -> Path:
    """A directory with a document and a transcript."""
    folder = here / "notes"
    folder.mkdir()
    for name, text in NOTES.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder
