"""`stackroom rescope`, `remove`, `remove-tenant` and `info`."""

from __future__ import annotations

import io
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from stackroom.rankers import ExactRanker
from stackroom.stores import EmbeddedStore
from stackroom.stores.embedded._directory import FORMAT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import CommandLine


@pytest.fixture(autouse=True)
def indexed(stackroom: CommandLine, notes: Path) -> None:
    stackroom.index(str(notes), "--folder", "plans", "--tag", "money")
    stackroom.index(str(notes), tenant="other")


def shown(stackroom: CommandLine, group: str = "staff", tenant: str = "acme") -> dict[str, object]:
    ran = stackroom("show", "budget.md", "--tenant", tenant, "--group", group, "--json")
    source: dict[str, object] = ran.json["source"]
    return source


def test_rescope_changes_the_groups_at_once_and_nothing_else(stackroom: CommandLine) -> None:
    ran = stackroom("rescope", "budget.md", "--tenant", "acme", "--group", "board")
    assert (ran.code, ran.out) == (0, "re-scoped budget.md: 2 passages\n")
    assert stackroom.found("hiring", "--mode", "lexical") == []
    assert shown(stackroom, "board")["folder_id"] == "plans"
    assert shown(stackroom, tenant="other")["acl_groups"] == ["staff"]


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        (("--folder", "archive"), {"folder_id": "archive"}),
        (("--no-folder",), {"folder_id": None}),
        (("--tag", "x", "--tag", "y"), {"tags": ["x", "y"]}),
        (("--no-tags",), {"tags": []}),
        (("--title", "New"), {"title": "New"}),
        (("--no-title",), {"title": None}),
    ],
)
def test_rescope_changes_what_is_given(
    stackroom: CommandLine, options: tuple[str, ...], changed: dict[str, object]
) -> None:
    before = shown(stackroom)
    assert stackroom("rescope", "budget.md", "--tenant", "acme", *options, "--json").json["passages"] == 2
    after = shown(stackroom)
    assert {key for key in after if after[key] != before[key]} - {"updated_at"} == set(changed)
    assert {key: after[key] for key in changed} == changed


def test_rescope_without_a_change_is_wrong_usage(stackroom: CommandLine) -> None:
    assert stackroom("rescope", "budget.md", "--tenant", "acme").code == 2


@pytest.mark.parametrize(
    ("option", "opposite"), [("--folder", "--no-folder"), ("--tag", "--no-tags"), ("--title", "--no-title")]
)
def test_rescope_with_two_that_contradict_is_wrong_usage_and_names_both(
    stackroom: CommandLine, option: str, opposite: str
) -> None:
    ran = stackroom("rescope", "budget.md", "--tenant", "acme", option, "a", opposite)
    assert ran.code == 2
    assert f"{option} and {opposite} contradict each other" in ran.err


@pytest.mark.parametrize("command", [("rescope", "absent", "--no-tags"), ("remove", "absent")])
def test_an_unknown_source_is_said(stackroom: CommandLine, command: tuple[str, ...]) -> None:
    ran = stackroom(*command, "--tenant", "acme")
    assert (ran.code, ran.out) == (1, "")
    line = "stackroom: this tenant has no source absent; nothing was changed: `stackroom sources` lists the ids\n"
    assert ran.err == line


def test_remove_takes_the_source_of_one_tenant(stackroom: CommandLine) -> None:
    ran = stackroom("remove", "budget.md", "--tenant", "acme", "--json")
    assert ran.json == {"source_id": "budget.md", "passages": 2}
    assert stackroom.found("hiring", "--mode", "lexical") == []
    assert stackroom.found("hiring", "--mode", "lexical", tenant="other") == ["budget.md#1"]


def test_remove_tenant_with_yes_does_not_ask(stackroom: CommandLine) -> None:
    ran = stackroom("remove-tenant", "acme", "--yes")
    assert (ran.code, ran.out) == (0, "removed tenant acme: 3 passages\n")
    assert stackroom.found("budget", tenant="other")


def test_remove_tenant_says_that_there_is_none(stackroom: CommandLine) -> None:
    ran = stackroom("remove-tenant", "amce", "--yes")
    assert (ran.code, ran.out) == (1, "")
    assert "nothing of such a tenant" in ran.err


def test_remove_tenant_without_a_terminal_is_refused(stackroom: CommandLine) -> None:
    ran = stackroom("remove-tenant", "acme")
    assert ran.code == 1
    assert "--yes" in ran.err
    assert stackroom.found("budget")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("typed", "is_removed"), [("y\n", True), ("YES\n", True), ("n\n", False), ("\n", False), ("", False)]
)
def test_remove_tenant_asks_with_what_would_go(
    stackroom: CommandLine, monkeypatch: pytest.MonkeyPatch, typed: str, *, is_removed: bool
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    ran = stackroom("remove-tenant", "acme")
    assert "Remove tenant acme with 2 sources, 3 passages? [y/N]" in ran.err
    assert ran.code == (0 if is_removed else 1)
    assert bool(stackroom.found("budget")) is not is_removed


def test_info_names_no_tenant_unasked(stackroom: CommandLine, here: Path) -> None:
    ran = stackroom("info")
    assert "hashing-v1@64" in ran.out
    assert "acme" not in ran.out
    assert stackroom("info", "--json").json["path"] == str(here / "library")
    assert "tenants" not in stackroom("info", "--json").json


def test_info_lists_all_tenants_when_asked(stackroom: CommandLine) -> None:
    about = stackroom("info", "--tenants", "--json").json
    assert about["tenants"] == [{"tenant_id": tenant, "sources": 2, "passages": 3} for tenant in ("acme", "other")]
    assert about["format"] == FORMAT
    assert about["bytes"] > 0
    assert about["collections"] == [{"name": "library", "fingerprint": "hashing-v1@64", "dimension": 64}]


def test_info_counts_one_tenant(stackroom: CommandLine) -> None:
    assert "acme: 2 sources, 3 passages" in stackroom("info", "--tenant", "acme").out
    assert stackroom("info", "--tenant", "absent", "--json").json["tenants"][0]["passages"] == 0


def test_info_counts_what_is_stored_and_what_is_behind(stackroom: CommandLine) -> None:
    about = stackroom("info", "--json").json
    assert (about["tenant_count"], about["source_count"], about["passage_count"]) == (2, 4, 6)
    assert (about["unused_rows"], about["unerased_removals"]) == (0, 0)
    shown = stackroom("info").out
    assert "2 tenants, 4 sources, 6 passages" in shown
    assert "6 rows without codes" in shown
    assert "(as is normal: answers are the same; `stackroom compact` does it at once)" in " ".join(shown.split())


def test_an_unknown_source_is_named_with_the_command_that_lists_them(stackroom: CommandLine) -> None:
    for command in (("remove", "nosuch.md"), ("rescope", "nosuch.md", "--no-tags"), ("show", "nosuch.md", "--group=g")):
        ran = stackroom(*command, "--tenant", "acme")
        assert ran.code == 1
        assert "nosuch.md" in ran.err
        assert "`stackroom sources`" in ran.err


def test_doctor_finds_nothing_wrong_with_a_sound_library(stackroom: CommandLine) -> None:
    assert stackroom("doctor", "--json").json == {"problems": []}


def test_doctor_says_what_mends_what_it_finds_and_exits_with_1(stackroom: CommandLine, here: Path) -> None:
    for file in (here / "library").glob("1/*/codes.*.vectors"):
        file.write_bytes(bytes(file.stat().st_size))
    found = stackroom("doctor")
    assert found.code == 1
    assert "stackroom compact --library" in found.out
    assert "2 problems found" in found.out
    assert stackroom("compact").code == 0
    assert stackroom("doctor", "--json").json == {"problems": []}


def test_doctor_tells_what_a_vector_ranker_is_owed(stackroom: CommandLine, here: Path) -> None:
    class Fails(ExactRanker):
        durable_id = "one"

        def on_embedding_persisted(self, **_: object) -> None:
            raise ConnectionError

    with closing(EmbeddedStore(here / "library", Fails())) as store:
        assert store.sync_ranker(tenant_id="acme").owed
    found = stackroom("doctor")
    assert found.code == 1
    assert "passages are owed to a vector ranker" in found.out


def test_sizes_are_in_a_unit_that_shows_them(stackroom: CommandLine) -> None:
    assert " kB" in stackroom("info").out
    assert " kB before, " in stackroom("compact").out
