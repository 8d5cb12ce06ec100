"""`stackroom eval`: measures on a terminal and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import CommandLine

FILES = ("notes/.queries", "notes/.qrels")


@pytest.fixture
def indexed(stackroom: CommandLine, notes: Path) -> CommandLine:
    stackroom.index(str(notes))
    return stackroom


def test_it_prints_a_line_a_mode_and_a_column_a_measure(indexed: CommandLine) -> None:
    ran = indexed("eval", "library", *FILES, "--tenant", "acme", "--group", "staff")
    assert ran.code == 0, ran.err
    head, *lines = ran.out.splitlines()
    assert head.split() == ["2", "queries", "nDCG@10", "R@10", "R@100", "RR"]
    assert [line.split()[0] for line in lines] == ["lexical", "dense", "hybrid"]
    assert lines[0].count("1.000 (1.000–1.000)") == 4


def test_a_scope_that_holds_none_of_the_judged_sources_is_refused(indexed: CommandLine) -> None:
    for scope in (("--tenant", "acme", "--group", "board"), ("--tenant", "acne", "--group", "staff")):
        ran = indexed("eval", "library", *FILES, *scope)
        assert (ran.code, ran.out) == (1, "")
        assert "holds none of the sources that are judged" in ran.err


def test_tuning_names_the_best_fusion(indexed: CommandLine) -> None:
    ran = indexed("eval", "library", *FILES, "--tenant", "acme", "--group", "staff", "--tune")
    assert "* RRF(k=60): 1.000" in ran.out
    assert "chosen on the other half of the queries: 1.000" in ran.out
    tuned = indexed("eval", "library", *FILES, "--tenant", "acme", "--group", "staff", "--tune", "--json").json["tuned"]
    assert (tuned["best"], tuned["held_out"], len(tuned["means"])) == ("RRF(k=60)", 1.0, 10)


def test_files_that_are_none_are_named(indexed: CommandLine, here: Path) -> None:
    (here / "broken.jsonl").write_text("no JSON\n")
    for files in (("broken.jsonl", FILES[1]), ("missing.jsonl", FILES[1])):
        ran = indexed("eval", "library", *files, "--tenant", "acme", "--group", "staff")
        assert ran.code == 1
        assert files[0] in ran.err
