"""Guards of stores without transactions: nothing half written counts, and nobody commits out of turn."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_CRASHES: Final = "tests/generations/test_generation_crashes.py"
_TURNS: Final = "stackroom.stores.generations._turns"
_HEADS: Final = "stackroom.stores.generations._heads"
_STORE: Final = "stackroom.stores.generations._store"

GENERATIONS: Final = (
    Guard(
        "no reader takes what is staged",
        _HEADS,
        "return ALWAYS if passed_over is None else negation(passed_over)",
        'return ALWAYS if passed_over is None or self.phase == "staged" else negation(passed_over)',
        (_CRASHES, "-k", "one_step or polls"),
    ),
    Guard(
        "no reader takes what was replaced",
        _HEADS,
        "return ALWAYS if passed_over is None else negation(passed_over)",
        'return ALWAYS if passed_over is None or self.phase == "committed" else negation(passed_over)',
        (_CRASHES, "-k", "stops_at_any_step or one_step"),
    ),
    Guard(
        "rows are counted before they count",
        _TURNS,
        "!= self._staged:",
        "< 0:",
        (_CRASHES, "-k", "lost_are_missed"),
    ),
    Guard(
        "a head is moved on condition",
        "tests.generations.engine",
        "if self.notes.get(name) != expected:",
        "if name == expected:",
        (_CRASHES, "-k", "lease_is_over"),
    ),
    Guard(
        "what failed while it was staged is erased",
        _TURNS,
        "            self._has_begun = True\n",
        "",
        (_CRASHES, "-k", "stops_at_any_step"),
    ),
    Guard(
        "a writer waits for the lease of another",
        _TURNS,
        "if head.holder and head.until > now:",
        "if head.holder and head.until > now + 10**9:",
        (_CRASHES, "-k", "waits_for_the_lease"),
    ),
    Guard(
        "a read begins anew when the head has moved",
        _STORE,
        "is_same = _heads.head_of(self._engine, entry.shelf, tenant_id).state == head.state",
        "is_same = True",
        (_CRASHES, "-k", "asked_again"),
    ),
    Guard(
        "a tenant whose head has moved is read again among all",
        _STORE,
        "if after.get(tenant_id, head).state != head.state:",
        "if tenant_id not in after:",
        (_CRASHES, "-k", "asked_again"),
    ),
    Guard(
        "a swap whose lease is over does not take place",
        "stackroom.stores.generations._holding",
        "if time.time() > self._until:",
        "if time.time() < 0:",
        (_CRASHES, "-k", "longer_than_its_lease"),
    ),
    Guard(
        "a swap holds writers off",
        _STORE,
        "not is_held_off(self._engine, entry.shelf):",
        "entry:",
        (_CRASHES, "-k", "holds_off_the_next"),
    ),
    Guard(
        "what tokens cannot say is judged",
        "stackroom.stores.generations._view",
        "return matches(self.where, record.metadata)",
        "return True",
        ("tests/generations/test_generation_conformance.py", "-k", "test_filters"),
    ),
    Guard(
        "an empty condition is not sent to Qdrant",
        "stackroom.stores.qdrant._engine",
        "case Holds(tokens) if tokens:",
        "case Holds(tokens):",
        ("tests/qdrant/test_qdrant_store.py", "-k", "without_parts"),
    ),
    Guard(
        "an older Qdrant is refused",
        "stackroom.stores.qdrant._engine",
        "if numbers < _CONDITIONAL:",
        "if numbers < (0,):",
        ("tests/qdrant/test_qdrant_store.py", "-k", "older_server"),
    ),
    Guard(
        "Qdrant writes a note on condition",
        "stackroom.stores.qdrant._engine",
        "update_filter=held,",
        "update_filter=None,",
        ("tests/qdrant/test_qdrant_store.py", "-k", "two_writers"),
    ),
    Guard(
        "an answer of Qdrant's index says so",
        "stackroom.stores.qdrant._engine",
        "self._walked.told = True",
        "self._walked.told = False",
        ("tests/qdrant/test_qdrant_store.py", "-k", "says_so"),
    ),
)
