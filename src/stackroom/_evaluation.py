"""Measures of a library's modes on judged queries, and the fusion that serves them best; see `stackroom.evaluation`."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stackroom._fusion import RRF, Weighted

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stackroom._fusion import Fusion
    from stackroom._library import Library
    from stackroom._model import Mode, Scope

MEASURES: Final = ("nDCG@10", "R@10", "R@100", "RR")
"""Järvelin and Kekäläinen's nDCG, recall, and the reciprocal rank of the first hit that is relevant."""

_DEPTH: Final = 100
_PASSAGES_AT_FIRST: Final = 300
_MOST_PASSAGES: Final = 10_000
"""What a search may ask for; sources of very many passages can fill that without there being enough of them."""
_RESAMPLES: Final = 2_000
_CONFIDENCE: Final = 0.95
_FOLDS: Final = 2
_IDS_AT_A_TIME: Final = 200
_BEIR_COLUMNS: Final = 3
_WEIGHTS: Final = tuple(round(0.1 * step, 1) for step in range(1, 10))

_FORM_OF_A_QUERY: Final = 'a query is a JSON object of a line, such as {"_id": "1", "text": "when do we launch"}'
_FORM_OF_A_JUDGEMENT: Final = (
    "a judgement is query id, source id and a whole number as its grade, between tabs, or TREC's four"
)

Qrels = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Measured:
    """A measure of one way to search: its mean over the queries, and the interval that holds it with 95 % confidence.

    The interval is the percentile bootstrap over queries (Efron 1979), with 2,000 resamples of a fixed seed.
    """

    name: str
    measure: str
    mean: float
    low: float
    high: float
    queries: int


@dataclass(frozen=True, slots=True)
class Tuned:
    """The fusion with the best nDCG@10, what each fusion came to, and what to expect of choosing so.

    `held_out` is the mean nDCG@10 of queries that had no part in choosing: each half of them is answered with the
    fusion that was best on the other half.
    """

    best: Fusion
    means: Mapping[str, float]
    held_out: float


def read_queries(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the queries of a JSON Lines file by id; ValueError says which line is none."""
    queries: dict[str, str] = {}
    for number, line in _lines(path):
        with _reading(path, number, f"is not in BEIR's form: {_FORM_OF_A_QUERY}"):
            query_id, text = _query_of(line)
        queries[query_id] = text
    return queries


def read_qrels(path: str | os.PathLike[str]) -> Qrels:
    """Return the grades of a judgement file by query and document; a first line without a number is its head.

    ValueError says which line is none.
    """
    judged: Qrels = {}
    for number, line in _lines(path):
        with _reading(path, number, f"is not in BEIR's form: {_FORM_OF_A_JUDGEMENT}"):
            query_id, document_id, grade = _cells_of(line)
            if number > 1 or _is_number(grade):
                judged.setdefault(query_id, {})[document_id] = int(grade)
    return judged


def evaluate(
    library: Library,
    queries: Mapping[str, str],
    qrels: Mapping[str, Mapping[str, int]],
    *,
    scope: Scope,
    fusions: Sequence[Fusion] = (),
    on_progress: Callable[[int, int], object] = lambda _done, _asked: None,
) -> list[Measured]:
    """Measure lexical, dense and hybrid search, and hybrid search with each further fusion, in one scope.

    Queries without a relevant document among their judgements are passed over; ValueError when none is left, and when
    the scope holds none of the relevant documents.
    """
    ways = {"lexical": _way("lexical"), "dense": _way("dense"), "hybrid": _way("hybrid")}
    ways |= {f"hybrid, {fusion}": _way("hybrid", fusion) for fusion in fusions}
    asked = _judged_queries(queries, qrels)
    _check_holds_any(library, asked, qrels, scope)
    values = _values(library, asked, qrels, scope, ways, on_progress)
    return [
        _measured(name, measure, values[name][:, column]) for name in ways for column, measure in enumerate(MEASURES)
    ]


def tune(
    library: Library,
    queries: Mapping[str, str],
    qrels: Mapping[str, Mapping[str, int]],
    *,
    scope: Scope,
    on_progress: Callable[[int, int], object] = lambda _done, _asked: None,
) -> Tuned:
    """Find the fusion with the best nDCG@10 among RRF(k=60) and Weighted(0.1) to Weighted(0.9)."""
    fusions: list[Fusion] = [RRF(k=60), *(Weighted(weight) for weight in _WEIGHTS)]
    asked = _judged_queries(queries, qrels)
    if len(asked) < _FOLDS:
        raise ValueError(
            f"tuning needs at least {_FOLDS} queries with a relevant document, since one half of them judges what "
            f"the other chose; there is {len(asked)}: judge more, or leave tuning away"
        )
    _check_holds_any(library, asked, qrels, scope)
    ways = {str(fusion): _way("hybrid", fusion) for fusion in fusions}
    values = _values(library, asked, qrels, scope, ways, on_progress)
    gains = np.stack([values[name][:, 0] for name in ways])
    fold = np.arange(len(asked)) % _FOLDS
    held_out = [gains[int(gains[:, fold != one].mean(axis=1).argmax())][fold == one] for one in range(_FOLDS)]
    means = gains.mean(axis=1)
    return Tuned(
        fusions[int(means.argmax())],
        dict(zip(ways, means.tolist(), strict=True)),
        float(np.concatenate(held_out).mean()),
    )


def _way(mode: Mode, fusion: Fusion | None = None) -> dict[str, Any]:
    return {"mode": mode, "fusion": fusion}


def _judged_queries(queries: Mapping[str, str], qrels: Mapping[str, Mapping[str, int]]) -> dict[str, str]:
    asked = {name: text for name, text in queries.items() if any(grade > 0 for grade in qrels.get(name, {}).values())}
    if not asked:
        raise ValueError("no query has a relevant document among the judgements; do both files belong together?")
    return asked


def _check_holds_any(
    library: Library, asked: Mapping[str, str], qrels: Mapping[str, Mapping[str, int]], scope: Scope
) -> None:
    """Refuse a scope in which every measure would be zero whatever the library answers."""
    relevant = list(dict.fromkeys(name for query in asked for name, grade in qrels[query].items() if grade > 0))
    slices = (relevant[at : at + _IDS_AT_A_TIME] for at in range(0, len(relevant), _IDS_AT_A_TIME))
    if not any(library.count(scope=scope, source_ids=source_ids) for source_ids in slices):
        raise ValueError(
            "this scope holds none of the sources that are judged relevant, so there is nothing to measure: look at "
            "the tenant and the groups, and whether the judgements name the sources by their ids"
        )


def _values(
    library: Library,
    asked: Mapping[str, str],
    qrels: Mapping[str, Mapping[str, int]],
    scope: Scope,
    ways: Mapping[str, dict[str, Any]],
    on_progress: Callable[[int, int], object],
) -> dict[str, NDArray[np.float64]]:
    """Return of each way the measures, shape (queries, measures)."""
    measures, done = _ir_measures(), 0
    judged = [measures.Qrel(name, document, grade) for name in asked for document, grade in qrels[name].items()]
    found: dict[str, NDArray[np.float64]] = {}
    for way, options in ways.items():
        run = []
        for name, text in asked.items():
            ranked = _sources(library, text, scope, options)
            run += [measures.ScoredDoc(name, source, float(-rank)) for rank, source in enumerate(ranked)]
            done += 1
            on_progress(done, len(asked) * len(ways))
        found[way] = _table(measures, judged, run, list(asked))
    return found


def _sources(library: Library, text: str, scope: Scope, options: Mapping[str, Any]) -> list[str]:
    """Return the best sources, each at the place of its best passage; fewer than a hundred when there are no more.

    Several passages of a source may be among the best: more are asked for until there are enough sources.
    """
    wanted = _PASSAGES_AT_FIRST
    while True:
        answer = library.search(text, scope=scope, top_k=wanted, **options)
        sources = list(dict.fromkeys(hit.source_id for hit in answer))
        if len(sources) >= _DEPTH or len(answer) < wanted or wanted == _MOST_PASSAGES:
            return sources[:_DEPTH]
        wanted = min(4 * wanted, _MOST_PASSAGES)


def _table(measures: Any, judged: list[Any], run: list[Any], names: list[str]) -> NDArray[np.float64]:
    parsed = [measures.parse_measure(name) for name in MEASURES]
    table = np.zeros((len(names), len(parsed)))
    rows = {name: row for row, name in enumerate(names)}
    for metric in measures.iter_calc(parsed, judged, run):
        table[rows[metric.query_id], parsed.index(metric.measure)] = metric.value
    return table


def _measured(name: str, measure: str, values: NDArray[np.float64]) -> Measured:
    random = np.random.default_rng(0)
    means = values[random.integers(0, len(values), (_RESAMPLES, len(values)))].mean(axis=1)
    outside = (1 - _CONFIDENCE) / 2
    low, high = np.quantile(means, [outside, 1 - outside]).tolist()
    return Measured(name, measure, float(values.mean()), low, high, len(values))


def _ir_measures() -> Any:
    try:
        import ir_measures
    except ImportError as missing:
        raise ImportError('evaluation needs ir-measures: pip install "stackroom[eval]"') from missing
    return ir_measures


def _lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers from 1; blank ones are passed over."""
    opened = gzip.open if Path(path).suffix == ".gz" else open
    number = 1
    with opened(path, "rb") as file:
        lines = iter(file)
        while (raw := _unpacked(lines, path, number)) is not None:
            with _reading(path, number, "is not in UTF-8"):
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            if line.strip():
                yield number, line
            number += 1


def _unpacked(lines: Iterator[bytes], path: str | os.PathLike[str], number: int) -> bytes | None:
    try:
        return next(lines, None)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise ValueError(f"{Path(path).name} is no whole gzip file: it cannot be unpacked at line {number}") from None


@contextmanager
def _reading(path: str | os.PathLike[str], number: int, problem: str) -> Iterator[None]:
    """Say of a line that is not what it should be where it stands, and nothing of what it holds."""
    try:
        yield
    except (ValueError, LookupError, TypeError):
        raise ValueError(f"line {number} of {Path(path).name} {problem}") from None


def _query_of(line: str) -> tuple[str, str]:
    written = json.loads(line)
    if not isinstance(written["text"], str):
        raise TypeError
    return str(written["_id"]), written["text"]


def _cells_of(line: str) -> tuple[str, str, str]:
    """Return query, document and grade; TREC's files have a column more, which says nothing, and often no tabs."""
    cells = line.rstrip("\r\n").split("\t") if "\t" in line else line.split()
    document = 1 if len(cells) == _BEIR_COLUMNS else 2
    return cells[0], cells[document], cells[document + 1]


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
