"""Guards of a Library: its scopes, narrowings, checks, writes and embedder."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard, kit, library

THE_SCOPE: Final = (
    Guard(
        "a search's tenant", "stackroom._scoping", "        Eq(keys.TENANT, scope.tenant_id),\n", "", library("scopes")
    ),
    Guard(
        "a search's groups",
        "stackroom._scoping",
        "        In(keys.GROUPS, scope.acl_groups),\n",
        "",
        library("scopes"),
    ),
    Guard(
        "status active",
        "stackroom._scoping",
        "        Eq(keys.STATUS, keys.ACTIVE),\n",
        "",
        library("scopes", "checks"),
    ),
    Guard(
        "expiry",
        "stackroom._scoping",
        "        Or(Exists(keys.EXPIRES, exists=False), Range(keys.EXPIRES, gt=microseconds(now))),\n",
        "",
        library("expiry"),
    ),
    Guard(
        "the scope of source() and passages()",
        "stackroom._library",
        "return named if within is None else And(within, named)",
        "return named",
        library("scopes"),
    ),
    Guard(
        "a scope is a Scope",
        "stackroom._scoping",
        "if not isinstance(scope, Scope):",
        "if False:",
        library("arguments"),
    ),
    Guard(
        "a cursor's seal",
        "stackroom._reading",
        "if isinstance(source_id, str) and cursor == cursor_after(source_id, listing):",
        "if isinstance(source_id, str):",
        library("guards", "reading"),
    ),
)

EMPTY_LISTS: Final = (
    Guard(
        "empty folder_ids find nothing",
        "stackroom._scoping",
        "if narrowing.folder_ids is not None:",
        "if narrowing.folder_ids:",
        library("narrowing"),
    ),
    Guard(
        "empty source_ids find nothing",
        "stackroom._scoping",
        "if narrowing.source_ids is not None:",
        "if narrowing.source_ids:",
        library("narrowing"),
    ),
    Guard(
        "an empty any_of finds nothing",
        "stackroom._scoping",
        "    if not filters:\n        return None\n",
        "    filters = filters or [[]]\n",
        library("narrowing"),
    ),
    Guard(
        "an empty branch widens nothing",
        "stackroom._scoping",
        "return bool(value) or name not in _EMPTY_IS_NOT_GIVEN",
        "return True",
        library("narrowing"),
    ),
    Guard(
        "a branch is laid over the search's own narrowing",
        "stackroom._scoping",
        "given: dict[str, Any] = {name: getattr(own, name) for name in NARROWING_NAMES}",
        "given: dict[str, Any] = {}",
        library("narrowing"),
    ),
    Guard(
        "an Or without members matches nothing",
        "stackroom.stores.embedded._catalogue",
        "verdict: Verdict = False\n",
        "verdict: Verdict = not filters\n",
        kit("EmbeddedStore", "filters_row"),
    ),
)

THE_CHECK: Final = (
    Guard(
        "what a leg answers is judged",
        "stackroom._check",
        "if identity not in kept and matches(asked, metadata) and math.isfinite(match.score):",
        "if identity not in kept:",
        library("checks"),
    ),
    Guard(
        "what comes twice is dropped",
        "stackroom._check",
        "        return list(kept.values())",
        "        return [match for match in found if matches(asked, match.record.metadata)]",
        library("checks"),
    ),
    Guard(
        "what is read whole is judged",
        "stackroom._check",
        "is_kept = record.id == expected_id and matches(self.where, record.metadata)",
        "is_kept = record.id == expected_id",
        library("guards"),
    ),
    Guard(
        "what is read whole is what was chosen",
        "stackroom._check",
        "is_kept = record.id == expected_id and matches(self.where, record.metadata)",
        "is_kept = matches(self.where, record.metadata)",
        library("guards"),
    ),
    Guard(
        "what was dropped is counted",
        "stackroom._search",
        "        if self.check.report():\n",
        "        if self.check.report() < 0:\n",
        library("checks"),
    ),
    Guard("what was dropped is logged", "stackroom._check", "_log.warning(", "_log.debug(", library("checks")),
    Guard(
        "a dropped hit leaves the answer incomplete",
        "stackroom._search",
        'frozenset({"empty_query",',
        'frozenset({"dropped_by_check", "empty_query",',
        library("checks"),
    ),
    Guard(
        "what a store says of its limits is passed on",
        "stackroom._check",
        "                self.notes.setdefault(note.code, Note(note.code, STORE_NOTES[note.code]))\n",
        "                pass\n",
        library("checks"),
    ),
    Guard(
        "a store does not speak for the Library",
        "stackroom._check",
        "                self.notes.setdefault(note.code, Note(note.code, STORE_NOTES[note.code]))\n",
        "                self.notes.setdefault(note.code, note)\n",
        library("distrust"),
    ),
    Guard(
        "a store's notes are known ones",
        "stackroom._check",
        "            if note.code in STORE_NOTES:\n",
        "            if STORE_NOTES.get(note.code) or not self.notes.setdefault(note.code, note):\n",
        library("distrust"),
    ),
    Guard(
        "what has no score is dropped",
        "stackroom._check",
        " and math.isfinite(match.score):",
        ":",
        library("distrust"),
    ),
    Guard(
        "what both legs at once repeat is dropped",
        "stackroom._check",
        "        return ranked if len(seen) == len(ranked) else list(seen.items())",
        "        return ranked",
        library("distrust"),
    ),
    Guard(
        "drops are counted of the last attempt",
        "stackroom._check",
        "        self.dropped = 0\n",
        "        pass\n",
        library("distrust"),
    ),
    Guard(
        "records are those that were chosen",
        "stackroom._search",
        "if len(records) != len(chosen) or not all(isinstance(record, Record) for record in records):",
        "if False:",
        library("distrust"),
    ),
    Guard(
        "a listing is of one version",
        "stackroom._reading",
        " for record in found if record.version == last]",
        " for record in found]",
        library("distrust"),
    ),
    Guard(
        "what is gone when it is to be scored is looked for anew",
        "stackroom._legs",
        "if is_all_there and not _has_two_versions(legs):",
        "if not _has_two_versions(legs):",
        library("one_state"),
    ),
    Guard(
        "an answer holds one version of a source",
        "stackroom._legs",
        "if is_all_there and not _has_two_versions(legs):",
        "if is_all_there:",
        library("one_state"),
    ),
)

WRITES: Final = (
    Guard(
        "the tenant of a source's writes",
        "stackroom._writing",
        '        Eq(keys.TENANT, name_of(tenant_id, ScopeError, "tenant_id")),\n',
        "",
        library("scopes", "writing"),
    ),
    Guard(
        "the tenant of remove_tenant",
        "stackroom._library",
        'where = Eq(keys.TENANT, name_of(tenant_id, ScopeError, "tenant_id"))',
        "where = Exists(keys.TENANT)",
        library("scopes", "writing"),
    ),
    Guard(
        "a sweep takes what has expired",
        "stackroom._library",
        "where=Range(keys.EXPIRES, lte=self._now())",
        "where=Exists(keys.EXPIRES)",
        library("expiry"),
    ),
    Guard(
        "the version that a replace expects",
        "stackroom._writing",
        "                expect=set().union(*(one.stored.versions for one in prepared)),\n",
        "",
        library("writers"),
    ),
    Guard(
        "a write waits for a removal to end",
        "stackroom._claims",
        "self._changed.wait_for(lambda: tenant_id not in self._removing)\n            if any(",
        "if any(",
        library("writers"),
    ),
    Guard(
        "a removal waits for a write to end",
        "stackroom._claims",
        "            self._changed.wait_for(lambda: tenant_id not in self._writing)\n",
        "",
        library("writers"),
    ),
    Guard(
        "a removal revokes claims",
        "stackroom._claims",
        "            if any(claim.is_revoked for claim in claims):",
        "            if False:",
        library("writers"),
    ),
    Guard(
        "no write without a condition",
        "stackroom.stores._door",
        "if matches(checked, {}):",
        "if False:",
        kit("MemoryStore", "update", "delete"),
    ),
    Guard(
        "a replace names its tenant",
        "stackroom.stores._door",
        "    if len(named) != 1:\n",
        "    if not named:\n        return ''\n    if len(named) != 1:\n",
        kit("MemoryStore", "replace"),
    ),
    Guard(
        "records are of the tenant that where names",
        "stackroom.stores._door",
        "    if record.tenant_id != tenant_id:\n",
        "    if False:\n",
        kit("MemoryStore", "replace"),
    ),
    Guard(
        "a source is never split by an update",
        "stackroom.stores._door",
        "if any(keys.is_source_key(key) for key in checked) and any(not _of_source(leaf) for leaf in leaves(where)):",
        "if False:",
        kit("MemoryStore", "update"),
    ),
    Guard(
        "versions expected",
        "stackroom.stores._door",
        "if expect is not None and set(expect) != versions:",
        "if False:",
        kit("EmbeddedStore", "replace"),
    ),
    Guard(
        "a vector's length",
        "stackroom.stores._door",
        "if record.vector.shape != (dimension,):",
        "if False:",
        kit("MemoryStore", "replace"),
    ),
)

ONE_EMBEDDER: Final = (
    Guard(
        "a Library's fingerprint",
        "stackroom._writing",
        "if spec is None or (spec.fingerprint, spec.dimension) == (str(given), given.dimension):",
        "if True:",
        library("guards", "embedder"),
    ),
    Guard(
        "a collection that another made meanwhile",
        "stackroom._library",
        "            with suppress(Conflict):",
        "            if True:",
        library("distrust"),
    ),
    Guard(
        "the most that an embedder takes at once",
        "stackroom._library",
        "        most = min(sample, self._limits.max_batch or sample)\n",
        "        most = sample\n",
        library("distrust"),
    ),
    Guard(
        "a store's fingerprint",
        "stackroom.stores._door",
        "if fingerprint is not None and fingerprint != spec.fingerprint:",
        "if False:",
        kit("EmbeddedStore", "dense", "replace"),
    ),
    Guard(
        "a collection's spec",
        "stackroom.stores.memory",
        "            if there.spec != spec:\n",
        "            if False:\n",
        kit("MemoryStore", "collections"),
    ),
    Guard(
        "finite vectors",
        "stackroom.embedders._door",
        "    if not finite.all():\n",
        "    if False:\n",
        ("tests/embedders/test_door.py",),
    ),
    Guard(
        "as many vectors as texts",
        "stackroom.embedders._door",
        "if numbers.ndim == 0 or len(numbers) != count:",
        "if numbers.ndim == 0:",
        ("tests/embedders/test_door.py",),
    ),
)
