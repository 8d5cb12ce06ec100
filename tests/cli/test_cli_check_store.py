"""`stackroom check-store`: the certificate on a terminal and as JSON, and its exit code."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from stackroom.cli import _checking
from stackroom.stores import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import CommandLine


class CountsOneMore(MemoryStore):
    def count(self, *given: Any, **options: Any) -> int:
        return super().count(*given, **options) + 1


def test_a_sound_store_gets_its_certificate(stackroom: CommandLine) -> None:
    ran = stackroom("check-store", "memory:", "--only", "row_20")
    assert ran.code == 0
    assert "hostile values" in ran.out
    assert "MemoryStore: what was tested is as declared; not everything was (1 test in" in ran.out


def test_a_librarys_store_is_checked_where_it_stands(stackroom: CommandLine, notes: Path) -> None:
    stackroom.index(str(notes))
    before = stackroom("info", "--json").json
    ran = stackroom("check-store", "library", "--only", "row_12", "--json")
    assert ran.code == 0
    assert ran.json["is_right"]
    assert {check["capability"] for check in ran.json["capabilities"]} >= {"lexical", "filter Ne", "durable"}
    after = stackroom("info", "--json").json
    assert {**after, "bytes": 0} == {**before, "bytes": 0}


def test_a_wrong_store_is_said_to_be_with_what_to_look_at(
    stackroom: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_checking, "open_store", lambda _dsn: CountsOneMore())
    ran = stackroom("check-store", "memory:", "--only", "test_scan_and_count_of_nothing")
    assert ran.code == 1
    assert "WRONG: test_scan_and_count_of_nothing" in ran.out
    assert "Look at empty answers" in ran.out
    assert "CountsOneMore: 1 WRONG" in ran.out
    assert stackroom("check-store", "memory:", "--only", "of_nothing", "--json").json["is_right"] is False


def test_no_test_that_ran_is_no_green(stackroom: CommandLine) -> None:
    ran = stackroom("check-store", "memory:", "--only", "nothing of this name")
    assert ran.code == 1
    assert ran.out == "MemoryStore: no test ran, so nothing is shown\n"


@pytest.mark.parametrize(
    ("dsn", "code"),
    [
        ("postgres-of-mine", 1),
        ("redis://user:secret@host", 2),
        ("embedded:", 2),
        ("memory:x", 2),
        (":", 1),
        ("embedded:nowhere", 1),
        ("sql:", 2),
        ("sql:sqlite:///nowhere.db", 1),
        ("sql:nonsense secret", 1),
        ("sql:mysql://user:secret@127.0.0.1:1/none", 1),
    ],
)
def test_what_is_no_store_is_refused_without_showing_a_secret(
    stackroom: CommandLine, here: Path, dsn: str, code: int
) -> None:
    ran = stackroom("check-store", dsn)
    assert ran.code == code
    assert ran.err.startswith("stackroom: ")
    assert "secret" not in ran.err
    assert list(here.iterdir()) == []


def test_a_postgresql_is_checked_where_a_dsn_leads(stackroom: CommandLine, postgres_dsn: str) -> None:
    ran = stackroom("check-store", postgres_dsn, "--only", "row_12", "--json")
    assert (ran.code, ran.json["store"], ran.json["is_right"]) == (0, "PostgresStore", True)


def test_a_postgresql_that_does_not_answer_is_an_error_without_the_password(stackroom: CommandLine) -> None:
    ran = stackroom("check-store", "postgresql://reader:hunter2@127.0.0.1:1/none?connect_timeout=1")
    assert ran.code == 1
    assert "hunter2" not in ran.err + ran.out


def test_what_the_environment_asks_of_pytest_chooses_no_tests(
    stackroom: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k nothing_of_this_name")
    assert stackroom("check-store", "memory:", "--only", "row_20", "--json").json["tests"] == 1


def test_a_seed_that_is_none_is_named(stackroom: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STACKROOM_KIT_SEED", "abc")
    ran = stackroom("check-store", "memory:", "--only", "row_20")
    assert ran.code == 1
    assert "STACKROOM_KIT_SEED" in ran.err


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this system has no such signals")
@pytest.mark.parametrize("number", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_request_to_end_leaves_no_collection_behind(
    stackroom: CommandLine, notes: Path, here: Path, number: str
) -> None:
    stackroom.index(str(notes))
    command = [sys.executable, "-m", "stackroom.cli", "check-store", "embedded:library", "--only", "test_threads"]
    with subprocess.Popen(command, cwd=here, stderr=subprocess.PIPE) as running:
        register = here / "library" / "library.toml"
        while "kit-" not in register.read_text() and running.poll() is None:
            threading.Event().wait(0.01)
        running.send_signal(getattr(signal, number))
        running.communicate(timeout=60)
    assert running.returncode == 130
    assert "kit-" not in register.read_text()
