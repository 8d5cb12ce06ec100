"""The kit asks the optional method `legs`, too: each deliberately broken one turns it red, and a sound one does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from stackroom.filters import And, Eq
from stackroom.stores import MemoryStore, Record
from stackroom.stores._legs import Choose, LegsQuery, Rankings

if TYPE_CHECKING:
    from collections.abc import Callable

    from stackroom.stores import Match


class Legs(MemoryStore):
    """Answers both legs at once, rightly: what a subclass changes is wrong."""

    def dense(self, *given: Any, **options: Any) -> list[Match]:
        return super().dense(*given, **options)

    def lexical(self, *given: Any, **options: Any) -> list[Match]:
        return super().lexical(*given, **options)

    def legs(self, name: str, asked: LegsQuery, choose: Choose, *, fingerprint: str) -> list[Record]:
        with self._lock:
            return self._in_one_state(name, asked, choose, fingerprint)

    def _in_one_state(self, name: str, asked: LegsQuery, choose: Choose, fingerprint: str) -> list[Record]:
        asked = self.asked(asked)
        dense = [] if asked.vector is None else self.nearest(name, asked, 10**5, fingerprint)
        lexical = [] if asked.words is None else super().lexical(name, asked.words, where=asked.where, limit=10**5)
        by_key = {match.id: match.record for match in (*dense, *lexical)}
        ranked = {"dense": _pairs(dense), "lexical": _pairs(lexical)}
        cut = {leg: pairs[: asked.limit] for leg, pairs in ranked.items()}
        other = {"dense": dict(cut["lexical"]), "lexical": dict(cut["dense"])}
        across = {
            f"{leg}_across": [pair for pair in pairs[asked.limit :] if asked.across and pair[0] in other[leg]]
            for leg, pairs in ranked.items()
        }
        chosen = choose(
            self.handed(Rankings(str, cut["dense"], cut["lexical"], across["dense_across"], across["lexical_across"]))
        )
        return self.read([by_key[str(key)] for key in chosen])

    def asked(self, asked: LegsQuery) -> LegsQuery:
        return asked

    def nearest(self, name: str, asked: LegsQuery, limit: int, fingerprint: str) -> list[Match]:
        assert asked.vector is not None
        return super().dense(name, asked.vector, where=asked.where, limit=limit, fingerprint=fingerprint)

    def handed(self, rankings: Rankings) -> Rankings:
        return rankings

    def read(self, records: list[Record]) -> list[Record]:
        return records


def _pairs(found: list[Match]) -> list[tuple[str, float]]:
    return [(match.id, match.score) for match in found]


class DropsItsFilter(Legs):
    def asked(self, asked: LegsQuery) -> LegsQuery:
        named = next((of for of in getattr(asked.where, "filters", ()) if getattr(of, "key", "") == "tenantId"), None)
        return LegsQuery(asked.vector, asked.words, named or asked.where, asked.limit, asked.across)


class CutsShort(Legs):
    def asked(self, asked: LegsQuery) -> LegsQuery:
        return LegsQuery(asked.vector, asked.words, asked.where, min(asked.limit, 2), asked.across)


class ForgetsTheFingerprint(Legs):
    def nearest(self, name: str, asked: LegsQuery, limit: int, fingerprint: str) -> list[Match]:
        del fingerprint
        assert asked.vector is not None
        return MemoryStore.dense(self, name, asked.vector, where=asked.where, limit=limit)


class NeverAcross(Legs):
    def handed(self, rankings: Rankings) -> Rankings:
        return Rankings(rankings.id_of, rankings.dense, rankings.lexical)


class OrderOfItsOwn(Legs):
    def handed(self, rankings: Rankings) -> Rankings:
        return Rankings(rankings.id_of, rankings.dense[::-1], rankings.lexical)


class ScoresOfItsOwn(Legs):
    def handed(self, rankings: Rankings) -> Rankings:
        return Rankings(rankings.id_of, rankings.dense, [(key, score / 2) for key, score in rankings.lexical])


class ReadsInAnotherOrder(Legs):
    def read(self, records: list[Record]) -> list[Record]:
        return sorted(records, key=lambda of: of.id)


class NeverAsksWhenNothingIsThere(Legs):
    def legs(self, name: str, asked: LegsQuery, choose: Choose, *, fingerprint: str) -> list[Record]:
        if not self.count(name, where=asked.where):
            return []
        return super().legs(name, asked, choose, fingerprint=fingerprint)


class AnswersAnotherTenant(Legs):
    def asked(self, asked: LegsQuery) -> LegsQuery:
        others = And(Eq("tenantId", "T"), asked.where)
        return LegsQuery(asked.vector, asked.words, others, asked.limit, asked.across)


BROKEN = (
    DropsItsFilter,
    CutsShort,
    ForgetsTheFingerprint,
    NeverAcross,
    OrderOfItsOwn,
    ScoresOfItsOwn,
    ReadsInAnotherOrder,
    NeverAsksWhenNothingIsThere,
    AnswersAnotherTenant,
)


@pytest.fixture(scope="module")
def outcomes(run_kits: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    return run_kits({kind.__name__: (kind, ("legs",)) for kind in (Legs, *BROKEN)})


@pytest.mark.parametrize("name", [kind.__name__ for kind in BROKEN])
def test_the_kit_turns_red_on_broken_legs(outcomes: dict[str, Any], name: str) -> None:
    _, failed = outcomes[name]
    assert len(failed) == 1


def test_the_kit_is_green_on_sound_legs(outcomes: dict[str, Any]) -> None:
    ran, failed = outcomes["Legs"]
    assert not failed
    assert len(ran) == 10
