"""Measures of a library's answers: read from BEIR's files, right to the formula, and fusions chosen honestly."""

from __future__ import annotations

import gzip
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stackroom import RRF, Library, Scope, Source, Weighted
from stackroom.embedders import FunctionEmbedder, HashingEmbedder
from stackroom.evaluation import Measured, evaluate, read_qrels, read_queries, tune
from stackroom.stores import MemoryStore

SCOPE = Scope("t", ["g"])
VECTORS = {"red": [1.0, 0.0], "red fox": [1.0, 0.1], "blue": [0.0, 1.0], "blue hen": [0.1, 1.0]}


@pytest.fixture
def library() -> Library:
    made = Library(
        MemoryStore(), "library", FunctionEmbedder(lambda texts: [VECTORS[text] for text in texts], id="f", dimension=2)
    )
    made.index_source(Source("a", "doc", "t", ["g"], ["red fox", "blue hen"]))
    made.index_source(Source("b", "doc", "t", ["g"], ["red"]))
    made.index_source(Source("c", "doc", "t", ["g"], ["blue"]))
    made.index_source(Source("hidden", "doc", "t", ["h"], ["red"]))
    return made


def means(measured: list[Measured], name: str) -> dict[str, float]:
    return {one.measure: one.mean for one in measured if one.name == name}


def test_a_document_is_a_source_at_the_place_of_its_best_passage(library: Library) -> None:
    measured = evaluate(library, {"1": "red"}, {"1": {"a": 1}}, scope=SCOPE)
    # "b" is the nearest and the best worded; "a" comes second, once, though it has two passages.
    for mode in ("lexical", "dense", "hybrid"):
        assert means(measured, mode) == pytest.approx({"nDCG@10": 1 / math.log2(3), "R@10": 1, "R@100": 1, "RR": 0.5})


def test_grades_count_and_what_is_out_of_scope_cannot_be_found(library: Library) -> None:
    qrels = {"1": {"a": 1, "b": 2, "hidden": 1, "c": 0}}
    found = means(evaluate(library, {"1": "red"}, qrels, scope=SCOPE), "dense")
    ideal = 2 + 1 / math.log2(3) + 1 / 2
    assert found["nDCG@10"] == pytest.approx((2 + 1 / math.log2(3)) / ideal)
    assert found["R@10"] == pytest.approx(2 / 3)


def test_a_query_that_finds_nothing_counts_as_zero(library: Library) -> None:
    found = means(
        evaluate(library, {"1": "red", "2": "blue"}, {"1": {"b": 1}, "2": {"none": 1}}, scope=SCOPE), "lexical"
    )
    assert found == pytest.approx({"nDCG@10": 0.5, "R@10": 0.5, "R@100": 0.5, "RR": 0.5})


def test_queries_without_a_relevant_document_are_passed_over(library: Library) -> None:
    measured = evaluate(library, {"1": "red", "2": "blue", "3": "blue"}, {"1": {"b": 1}, "2": {"c": 0}}, scope=SCOPE)
    assert {one.queries for one in measured} == {1}
    with pytest.raises(ValueError, match="belong together"):
        evaluate(library, {"2": "blue"}, {"1": {"b": 1}}, scope=SCOPE)


def test_the_interval_holds_the_mean_and_is_the_same_each_time(library: Library) -> None:
    queries = {str(number): "red" for number in range(20)}
    qrels = {name: {"b" if int(name) % 2 else "a": 1} for name in queries}
    first, second = (evaluate(library, queries, qrels, scope=SCOPE, fusions=[Weighted(0.3)]) for _ in range(2))
    assert first == second
    assert {one.name for one in first} == {"lexical", "dense", "hybrid", "hybrid, Weighted(weight=0.3)"}
    rr = next(one for one in first if (one.name, one.measure) == ("dense", "RR"))
    assert rr.mean == pytest.approx(0.75)
    assert 0.6 < rr.low < 0.75 < rr.high < 0.9


def test_tuning_names_the_best_fusion_and_what_to_expect_of_choosing_so(library: Library) -> None:
    queries = {"1": "red", "2": "blue", "3": "red", "4": "blue"}
    qrels = {name: {"b" if text == "red" else "c": 1} for name, text in queries.items()}
    tuned = tune(library, queries, qrels, scope=SCOPE)
    assert tuned.best == RRF(k=60)
    assert len(tuned.means) == 10
    assert tuned.held_out == tuned.means["RRF(k=60)"] == 1.0


def test_a_hundred_sources_are_looked_for_however_many_passages_they_have() -> None:
    library = Library(MemoryStore(), "library", HashingEmbedder(16))
    for number in range(110):
        library.index_source(
            Source(f"{number:03}", "doc", "t", ["g"], [f"rye {'pad ' * (number % 7)}{at}" for at in range(10)])
        )
    relevant = {f"{number:03}": 1 for number in range(100)}
    measured = evaluate(library, {"1": "rye"}, {"1": relevant}, scope=SCOPE)
    for mode in ("lexical", "dense", "hybrid"):
        assert means(measured, mode)["R@100"] >= 0.9


@pytest.mark.parametrize(("passages", "asked"), [(299, [300]), (300, [300, 1200]), (50_000, [300, 1200, 4800, 10_000])])
def test_a_search_asks_for_no_more_than_it_may_nor_again_for_what_is_exhausted(passages: int, asked: list[int]) -> None:
    seen: list[int] = []

    class OneSource:
        def search(self, _text: str, *, top_k: int, **_options: Any) -> list[Any]:
            seen.append(top_k)
            return [SimpleNamespace(source_id="one")] * min(top_k, passages)

        def count(self, **_options: Any) -> int:
            return passages

    library: Any = OneSource()
    measured = evaluate(library, {"1": "red"}, {"1": {"one": 1}}, scope=SCOPE)
    assert seen == asked * 3
    assert means(measured, "dense")["R@100"] == 1


def test_tuning_needs_two_queries(library: Library) -> None:
    with pytest.raises(ValueError, match=r"tuning needs at least 2 queries with a relevant document.*there is 1"):
        tune(library, {"1": "red"}, {"1": {"b": 1}}, scope=SCOPE)


def test_progress_is_told(library: Library) -> None:
    told: list[tuple[int, int]] = []
    evaluate(library, {"1": "red"}, {"1": {"b": 1}}, scope=SCOPE, on_progress=lambda *now: told.append(now))
    assert told == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_files_are_read_as_beir_has_them(tmp_path: Path, suffix: str) -> None:
    queries, qrels = tmp_path / f"queries.jsonl{suffix}", tmp_path / f"qrels.tsv{suffix}"
    opened: Any = gzip.open if suffix else open
    with opened(queries, "wt", encoding="utf-8") as file:
        file.write('{"_id": "1", "text": "où", "metadata": {}}\n\n{"_id": 2, "text": ""}\n')
    with opened(qrels, "wt", encoding="utf-8") as file:
        file.write("query-id\tcorpus-id\tscore\n1\ta#1\t2\n1\tb\t0\n2\tc d\t1\n")
    assert read_queries(queries) == {"1": "où", "2": ""}
    assert read_qrels(qrels) == {"1": {"a#1": 2, "b": 0}, "2": {"c d": 1}}


def test_treces_four_columns_and_files_without_a_head_are_read_as_well(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("1\t0\ta\t1\n2\t0\tb\t0\r\n")
    assert read_qrels(tmp_path / "qrels") == {"1": {"a": 1}, "2": {"b": 0}}
    (tmp_path / "qrels").write_text("1 0 a 1\n2  Q0  b  0\n")
    assert read_qrels(tmp_path / "qrels") == {"1": {"a": 1}, "2": {"b": 0}}


@pytest.mark.parametrize("measure", [evaluate, tune])
@pytest.mark.parametrize("scope", [Scope("t", ["typo"]), Scope("typo", ["g"])])
def test_a_scope_without_any_judged_source_is_refused(library: Library, measure: Any, scope: Scope) -> None:
    queries, qrels = {"1": "red", "2": "blue"}, {"1": {"b": 1}, "2": {"c": 1}}
    with pytest.raises(ValueError, match="holds none of the sources"):
        measure(library, queries, qrels, scope=scope)


def test_sources_behind_the_first_hundreds_are_seen(library: Library) -> None:
    qrels = {"1": {**{f"none-{number}": 1 for number in range(700)}, "b": 1}}
    assert means(evaluate(library, {"1": "red"}, qrels, scope=SCOPE), "lexical")["RR"] == 1


@pytest.mark.parametrize(
    ("read", "content", "line"),
    [
        (read_queries, '{"_id": "1", "text": "secret"}\nno JSON, secret\n', 2),
        (read_queries, '{"_id": "1"}\n', 1),
        (read_queries, '{"_id": "1", "text": 7}\n', 1),
        (read_queries, "[1]\n", 1),
        (read_qrels, "1\ta\t1\n1\ta\n", 2),
        (read_qrels, "1\ta\t1\n1\ta\tsecret\n", 2),
        (read_qrels, "1 a\n", 1),
    ],
)
def test_a_line_that_is_none_is_named_by_its_number(tmp_path: Path, read: Any, content: str, line: int) -> None:
    (tmp_path / "file").write_text(content)
    form = "_id.*text" if read is read_queries else "query id, source id"
    with pytest.raises(ValueError, match=f"line {line} of file is not in BEIR's form: .*{form}") as refused:
        read(tmp_path / "file")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("read", [read_queries, read_qrels])
@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("file", b"\xff\xfe{", "line 1 of file is not in UTF-8"),
        ("file.gz", b"no gzip", "file.gz is no whole gzip file: it cannot be unpacked at line 1"),
        ("file.gz", gzip.compress(b"\n\n")[:-9], "file.gz is no whole gzip file: it cannot be unpacked at line"),
        ("file.gz", gzip.compress(b"\n\n\xff"), "line 3 of file.gz is not in UTF-8"),
    ],
)
def test_bytes_that_are_no_text_are_named_by_file_and_line(
    tmp_path: Path, read: Any, name: str, content: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=said):
        read(tmp_path / name)


def test_without_the_package_it_says_what_to_install(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(ImportError, match=r"stackroom\[eval\]"):
        evaluate(library, {"1": "red"}, {"1": {"b": 1}}, scope=SCOPE)
