"""Vectors that leave a graph poorly connected: by default all is compared, and an answer of the index says so.

One boilerplate vector that many passages share, and groups of near duplicates loaded group by group, as the passages of
a folder of forms are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray
from tests.postgres_room import Room, a_room

from stackroom import Library, Scope
from stackroom._model import Mode
from stackroom.embedders import HashingEmbedder
from stackroom.filters import And, Eq, Exists, Filter, In
from stackroom.stores import CollectionSpec, Match, Matches, PostgresStore, Record

DIMENSION, NUMBER, TWINS = 32, 11_000, 50
TENANT = Eq("tenantId", "t")
FINGERPRINT = str(HashingEmbedder(DIMENSION).fingerprint)
CHANCE = np.random.default_rng(3)


def unit(rows: NDArray[np.float64]) -> NDArray[np.float32]:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def boilerplate() -> NDArray[np.float32]:
    rows = unit(CHANCE.standard_normal((NUMBER, DIMENSION)))
    rows[::3] = rows[0]
    return rows


def near_duplicates() -> NDArray[np.float32]:
    centres = unit(CHANCE.standard_normal((NUMBER // TWINS, DIMENSION)))
    return unit(np.repeat(centres, TWINS, axis=0) + 0.01 * CHANCE.standard_normal((NUMBER, DIMENSION)))


SETS: dict[str, tuple[Callable[[], NDArray[np.float32]], float]] = {
    "boilerplate": (boilerplate, 0.3),
    "near duplicates": (near_duplicates, 0.005),
}


@pytest.fixture(scope="module", params=SETS)
def shelf(postgres_dsn: str, request: pytest.FixtureRequest) -> Iterator[tuple[Room, NDArray[np.float32], float]]:
    made, spread = SETS[request.param]
    rows = made()
    with a_room(postgres_dsn) as room:
        store = room.store()
        store.create_collection("c", CollectionSpec(DIMENSION, FINGERPRINT))
        records = [
            Record(
                "red",
                row,
                {
                    "tenantId": "t",
                    "sourceId": f"s{at:05}",
                    "index": 0,
                    "status": "active",
                    "kind": "doc",
                    "aclGroups": ["g"],
                },
            )
            for at, row in enumerate(rows)
        ]
        store.replace("c", records, where=TENANT)
        store.build_vector_index("c")
        room.ask("ANALYZE")
        yield room, rows, spread


def test_recall_holds_by_default_however_poorly_a_graph_would_be_connected(
    shelf: tuple[Room, NDArray[np.float32], float],
) -> None:
    room, rows, spread = shelf
    store = room.store()
    assert store.capabilities.exact
    for at in CHANCE.integers(0, NUMBER, 20):
        query = rows[at] + spread * CHANCE.standard_normal(DIMENSION)
        cosines = rows @ (query / np.linalg.norm(query))
        found = store.dense("c", query, where=TENANT, limit=10)
        assert [match.score for match in found] == pytest.approx(np.sort(cosines)[-10:][::-1].tolist(), abs=1e-5)
        assert not getattr(found, "notes", ())


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stackroom.stores.postgres._dense._COST_OF_A_STEP", 1)


def codes(found: list[Match]) -> list[str]:
    assert isinstance(found, Matches)
    return [note.code for note in found.notes]


@pytest.mark.usefixtures("eager")
def test_an_answer_of_the_index_says_that_it_may_lack_some(shelf: tuple[Room, NDArray[np.float32], float]) -> None:
    room, rows, _ = shelf
    store = room.store(exact_limit=1_000)
    assert not store.capabilities.exact
    assert codes(store.dense("c", rows[5], where=TENANT, limit=10)) == ["scan_limit"]
    few = And(TENANT, In("sourceId", [f"s{at:05}" for at in range(20)]))
    assert codes(store.dense("c", rows[5], where=few, limit=10)) == []
    assert codes(room.store(exact=True, exact_limit=1_000).dense("c", rows[5], where=TENANT, limit=10)) == []


@pytest.mark.usefixtures("eager")
def test_of_several_tenants_the_note_of_one_stands_for_all(shelf: tuple[Room, NDArray[np.float32], float]) -> None:
    room, rows, _ = shelf
    store = room.store(exact_limit=1_000)
    store.replace(
        "c",
        [Record("", rows[0], {"tenantId": "u", "sourceId": "s", "index": 0})],
        where=Eq("tenantId", "u"),
    )
    assert codes(store.dense("c", rows[5], where=Exists("sourceId"), limit=10)) == ["scan_limit"]
    assert not getattr(store.dense("c", rows[5], where=Eq("tenantId", "u"), limit=10), "notes", ())


class Apart(PostgresStore):
    """A store that is asked leg by leg, for it has a `dense` of its own."""

    def dense(
        self, name: str, vector: ArrayLike, *, where: Filter, limit: int, fingerprint: str | None = None
    ) -> list[Match]:
        return super().dense(name, vector, where=where, limit=limit, fingerprint=fingerprint)


MODES: tuple[Mode, ...] = "dense", "hybrid"


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", [PostgresStore, Apart])
def test_a_library_tells_that_its_answer_may_lack_some(
    shelf: tuple[Room, NDArray[np.float32], float], mode: Mode, kind: type[PostgresStore]
) -> None:
    room, _, _ = shelf
    for exact_limit, notes in ((1_000, ["scan_limit"]), (None, [])):
        store = kind(room.dsn, schema=room.schema, exact_limit=exact_limit)
        room.opened.append(store)
        answer = Library(store, "c", HashingEmbedder(DIMENSION)).search("red", scope=Scope("t", ["g"]), mode=mode)
        assert len(answer) == 10
        assert [note.code for note in answer.notes] == notes
        assert answer.complete == (not notes)


def test_without_an_exact_limit_no_index_is_made(room: Room) -> None:
    def indexes() -> int:
        return len(room.ask("SELECT 1 FROM pg_indexes WHERE schemaname = current_schema AND indexdef LIKE '%hnsw%'"))

    room.store().create_collection("c", CollectionSpec(2, "m"))
    assert indexes() == 0
    room.store(exact_limit=1_000).create_collection("d", CollectionSpec(2, "m"))
    assert indexes() == 1
