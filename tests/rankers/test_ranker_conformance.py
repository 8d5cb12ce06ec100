"""The rankers that ship pass the kit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stackroom.rankers import ExactRanker, FaissRanker, HnswRanker, SqliteVecRanker, UsearchRanker
from stackroom.testing import RankerConformance


class TestExactRanker(RankerConformance):
    @pytest.fixture
    def ranker(self) -> Iterator[Any]:
        made = ExactRanker()
        yield made
        made.close()


class Bounded(ExactRanker):
    """A sound ranker that takes so many candidates and so large a limit, and refuses more."""

    def __init__(self, max_candidates: int, max_limit: int) -> None:
        super().__init__()
        self.max_candidates = max_candidates
        self.max_limit = max_limit

    def rank_by_similarity(self, **asked: Any) -> Any:
        assert asked["limit"] <= self.max_limit
        assert asked["candidate_ids"] is None or len(asked["candidate_ids"]) <= self.max_candidates
        return super().rank_by_similarity(**asked)


@pytest.mark.parametrize("bounds", [(1, 1), (3, 10_000), (10_000, 5), (50, 20)], ids=str)
class TestSoundRankersWithSmallBounds(RankerConformance):
    @pytest.fixture
    def ranker(self, bounds: tuple[int, int]) -> Any:
        return Bounded(*bounds)


class TestSqliteVecRanker(RankerConformance):
    @pytest.fixture
    def ranker(self) -> Iterator[Any]:
        pytest.importorskip("sqlite_vec")
        made = SqliteVecRanker()
        yield made
        made.close()


class TestFaissRanker(RankerConformance):
    @pytest.fixture
    def ranker(self) -> Iterator[Any]:
        pytest.importorskip("faiss")
        made = FaissRanker()
        yield made
        made.close()


class TestHnswRanker(RankerConformance):
    @pytest.fixture
    def ranker(self) -> Iterator[Any]:
        pytest.importorskip("hnswlib", reason="hnswlib has no wheel: it is compiled where there is a compiler")
        made = HnswRanker()
        yield made
        made.close()


class TestUsearchRanker(RankerConformance):
    @pytest.fixture
    def ranker(self) -> Iterator[Any]:
        pytest.importorskip("usearch")
        made = UsearchRanker()
        yield made
        made.close()


DURABLE = {
    "exact": (ExactRanker, "numpy"),
    "sqlite-vec": (SqliteVecRanker, "sqlite_vec"),
    "faiss": (FaissRanker, "faiss"),
    "hnswlib": (HnswRanker, "hnswlib"),
    "usearch": (UsearchRanker, "usearch"),
}


@pytest.mark.parametrize(("kind", "package"), DURABLE.values(), ids=DURABLE)
class TestDurableRankers:
    @pytest.mark.parametrize(
        "test", ["test_the_same_answers_after_close_and_open", "test_after_close_and_open_it_is_told_as_before"]
    )
    def test_what_it_was_told_outlives_the_process(
        self, tmp_path: Path, kind: Callable[..., Any], package: str, test: str
    ) -> None:
        pytest.importorskip(package)
        ranker = kind(path=tmp_path / "vectors")

        def reopen() -> Any:
            ranker.close()
            return kind(path=tmp_path / "vectors")

        getattr(RankerConformance(), test)(ranker, reopen)

    def test_it_is_plugged_in_again_and_told_only_what_came_after(
        self, tmp_path: Path, kind: Callable[..., Any], package: str
    ) -> None:
        pytest.importorskip(package)
        from tests.rankers.conftest import source

        from stackroom import Library, Scope
        from stackroom.embedders import HashingEmbedder

        told: list[str] = []
        for step in range(2):
            ranker = kind(path=tmp_path / "vectors")
            tell = ranker.on_embedding_persisted

            def noting(tell: Any = tell, **call: Any) -> None:
                told.append(call["passage_id"])
                tell(**call)

            ranker.on_embedding_persisted = noting
            with Library.open(tmp_path / "library", embedder=HashingEmbedder(16), ranker=ranker) as library:
                library.index_source(source(f"s{step}", "apple"))
                answer = library.search("apple", scope=Scope("t", ["g"]), mode="dense")
                assert (len(answer), answer.notes) == (step + 1, ())
            ranker.close()
            ranker.close()
        assert told == ["s0#0", "s1#0"]

    def test_the_kit_on_what_was_not_closed(self, tmp_path: Path, kind: Callable[..., Any], package: str) -> None:
        pytest.importorskip(package)
        ranker = kind(path=tmp_path / "vectors")
        RankerConformance().test_its_name_promises_what_it_was_told(ranker, lambda: kind(path=tmp_path / "vectors"))
        ranker.close()

    @pytest.mark.parametrize("closes", [True, False])
    def test_its_name_promises_that_all_it_was_told_is_there(
        self,
        tmp_path: Path,
        kind: Callable[..., Any],
        package: str,
        closes: bool,  # noqa: FBT001 - a case
    ) -> None:
        pytest.importorskip(package)
        import numpy as np

        ranker = kind(path=tmp_path / "vectors")
        ranker.on_embedding_persisted(tenant_id="t", passage_id="s#0", vector=np.asarray([1, 0], dtype=np.float32))
        if closes:
            ranker.close()
        again = kind(path=tmp_path / "vectors")
        query = np.asarray([1, 0], dtype=np.float32)
        holds = bool(again.rank_by_similarity(tenant_id="t", query=query, candidate_ids=None, limit=1))
        assert holds is (again.durable_id == ranker.durable_id)
        assert holds or not closes
        for made in (again, ranker):
            made.close()

    def test_what_it_is_told_after_closing_is_not_lost(
        self, tmp_path: Path, kind: Callable[..., Any], package: str
    ) -> None:
        pytest.importorskip(package)
        import numpy as np
        from tests.rankers.conftest import source

        from stackroom import Library
        from stackroom.embedders import HashingEmbedder

        ranker = kind(path=tmp_path / "vectors")
        with Library.open(tmp_path / "library", embedder=HashingEmbedder(16), ranker=ranker) as library:
            library.index_source(source("before", "apple"))
            ranker.close()
            library.index_source(source("after", "apple"))
            library.remove_source("before", tenant_id="t")
        again = kind(path=tmp_path / "vectors")
        with Library.open(tmp_path / "library", embedder=HashingEmbedder(16), ranker=again) as library:
            library.index_source(source("later", "pear"))
        query = np.asarray(HashingEmbedder(16).embed_query("apple"))
        held = again.rank_by_similarity(tenant_id="t", query=query, candidate_ids=None, limit=9)
        assert [name for name, _ in held] == ["after#0", "later#0"]
        for made in (again, ranker):
            made.close()


@pytest.mark.parametrize(("kind", "package"), [*DURABLE.values()][1:], ids=[*DURABLE][1:])
def test_a_missing_package_is_named_with_what_installs_it(
    kind: Callable[..., Any], package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    extra = next(name for name, (_, its) in DURABLE.items() if its == package)
    monkeypatch.setitem(sys.modules, package, None)
    if package == "usearch":
        monkeypatch.setitem(sys.modules, "usearch.index", None)
    with pytest.raises(ImportError) as caught:
        kind()
    assert f'pip install "stackroom[{extra}]"' in str(caught.value)
