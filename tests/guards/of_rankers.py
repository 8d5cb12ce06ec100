"""Guards of vector rankers: what they may bring into an answer, and what they are told."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard

_EMBEDDED: Final = "stackroom.stores.embedded"
_RANKERS: Final = "stackroom.rankers"

RANKERS: Final = tuple(
    Guard(name, module, text, instead, (f"tests/rankers/test_ranker_{tests}.py", "-k", pattern))
    for name, module, text, instead, tests, pattern in (
        (
            "a ranker names only what was listed",
            f"{_EMBEDDED}._ranked",
            "lambda passage_id: rows.get(passage_id, Place.UNKNOWN)",
            "lambda passage_id: self._leg.catalogue.row_of(passage_id) or Place.UNKNOWN",
            "answers",
            "widen_a_scope",
        ),
        (
            "a ranker of the whole tenant names only what is in scope",
            f"{_EMBEDDED}._ranked",
            " if leg.allowed[min(int(np.searchsorted(leg.allowed, row)), last)] == row else Place.OUT_OF_SCOPE",
            "",
            "answers",
            "out_of_scope",
        ),
        (
            "what a ranker left out is completed",
            f"{_EMBEDDED}._ranked",
            "            found.rows = None\n",
            "            pass\n",
            "answers",
            "empty_answer",
        ),
        (
            "what a ranker is owed is found",
            f"{_EMBEDDED}._ranked",
            "np.asarray(sorted(self._judged.rows.keys() | self._owed), dtype=np.int64)",
            "np.asarray(sorted(self._judged.rows.keys()), dtype=np.int64)",
            "feed",
            "what_is_owed",
        ),
        (
            "a score becomes a number within the call",
            f"{_RANKERS}._plug",
            "items = [read_item(item) for item in islice(iterator, bound)]",
            "return type('Late', (), {'items': map(read_item, [*islice(iterator, bound)]), 'unread': 0})()",
            "fallback",
            "for_ever_to_become",
        ),
        (
            "a ranker's exception is not kept",
            f"{_RANKERS}._calls",
            "raised if keeps_cause else None",
            "raised",
            "fallback",
            "leads_nowhere",
        ),
        (
            "four calls may be left behind",
            f"{_RANKERS}._calls",
            "if self._most_abandoned is not None and self._abandoned >= self._most_abandoned:",
            "if False:",
            "fallback",
            "four_calls",
        ),
        (
            "the last part ends a turn",
            f"{_EMBEDDED}._turns",
            "            is_over = not self._parts\n",
            "            is_over = self._lock.locked()\n",
            "rounds",
            "turn_lasts",
        ),
        (
            "a hook never waits for a hook",
            f"{_EMBEDDED}._turns",
            "return 0.0 if _IS_IN_A_HOOK.get() else seconds",
            "return seconds",
            "rounds",
            "each_others",
        ),
        (
            "a hook never waits for the write that calls it",
            f"{_EMBEDDED}._store",
            "        committed()\n        if self._feed is not None:\n",
            "        if self._feed is not None:\n",
            "rounds",
            "may_use and removes and itself and None-one",
        ),
        (
            "what fails stands back",
            f"{_EMBEDDED}._rounds",
            "self._book.stand_back(item for item, kind in pairs if kind is not None)",
            "pass",
            "rounds",
            "failed_once_is_reached",
        ),
        (
            "what failed before pauses nothing",
            f"{_EMBEDDED}._rounds",
            "            elif were_tried:\n",
            "            elif False:\n",
            "rounds",
            "retries_alone",
        ),
        (
            "a pause tries what is new",
            f"{_EMBEDDED}._book",
            "ORDER BY was_tried, sequence LIMIT 1",
            "ORDER BY was_tried DESC, sequence LIMIT 1",
            "rounds",
            "all_else_is_new",
        ),
        (
            "a pause is a pause",
            f"{_EMBEDDED}._rounds",
            "if self._is_paused and not self._retries:",
            "if False:",
            "feed",
            "eight_failures",
        ),
        (
            "a due forgetting comes first",
            f"{_EMBEDDED}._rounds",
            "            self._is_over |= report.outcomes != [None]\n",
            "",
            "state",
            "until_a_due",
        ),
        (
            "each departed tenant has a wait of its own",
            f"{_EMBEDDED}._departures",
            "return self._waits.get(tenant_id, Wait())",
            "return next(iter(self._waits.values()), Wait())",
            "rounds",
            "wait_is_its_own",
        ),
        (
            "of a departed tenant, what fails stands back",
            f"{_EMBEDDED}._departures",
            "                self._ledger.stand_back(tenant_id, failed)\n",
            "                pass\n",
            "rounds",
            "of_a_departed_tenant",
        ),
        (
            "the ranker that is plugged in is not forgotten",
            f"{_EMBEDDED}._store",
            "if self._feed is not None and self._feed.book in books:",
            "if False:",
            "state",
            "plugged_in_is_not_forgotten",
        ),
        (
            "forgetting a ranker touches its books only",
            f"{_EMBEDDED}._book",
            "if _NAME.fullmatch(state) else",
            'if state.startswith("ranker-") else',
            "state",
            "name_that_is_a_path",
        ),
        (
            "no torn file is handed to an index",
            f"{_RANKERS}._indexes",
            'if any(checksum(path / name) != expected for name, expected in saved["files"].items()):',
            "if False:",
            "torn",
            "torn_file and changed",
        ),
        (
            "a torn file of sqlite-vec is seen",
            f"{_RANKERS}._sqlite_vec",
            "            if not _is_torn(error):\n",
            "            if True:\n",
            "torn",
            "sqlite_vec and cut",
        ),
    )
)
