"""The guards: where each stands in the source, what is left when it is taken out, and which tests must then fail.

Whoever adds a guard adds it here. `text` must stand in the module exactly once, so that this table cannot go stale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LIBRARY: Final = "tests/library/test_library_"
KIT: Final = "tests/stores/test_conformance.py"
_EVERYTHING: Final = "__import__('stackroom').filters.And()"


@dataclass(frozen=True, slots=True)
class Guard:
    """One guard: its name, where it stands, what stands there without it, and the tests that see it go."""

    name: str
    module: str
    text: str
    instead: str
    tests: tuple[str, ...]

    def __str__(self) -> str:
        return self.name


def kit(store: str, *groups: str) -> tuple[str, ...]:
    """Return the arguments that run groups of the conformance kit on one of our stores."""
    return f"{KIT}::Test{store}", "-k", " or ".join(f"test_{group}" for group in groups)


def library(*files: str) -> tuple[str, ...]:
    """Return the arguments that run files of the Library's tests."""
    return tuple(f"{LIBRARY}{name}.py" for name in files)


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

_MEMORY: Final = {
    "dense": (
        "found = [held.records[identity] for identity in held.matching(where)]",
        "found = list(held.records.values())",
    ),
    "lexical": (
        "allowed = held.matching(_door.check_where(where))",
        "allowed = list(held.records) if _door.check_where(where) else []",
    ),
    "scan": ("found = sorted(held.matching(where))", "found = sorted(held.records)"),
    "count": (
        "return len(self._held(name).matching(_door.check_where(where)))",
        "return len(self._held(name).records) if _door.check_where(where) else 0",
    ),
    "update": ("            changing = held.matching(where)\n", "            changing = list(held.records)\n"),
    "delete": (
        "going = held.matching(_door.check_condition(where))",
        "going = list(held.records) if _door.check_condition(where) else []",
    ),
    "replace": ("            going = held.matching(where)\n", "            going = list(held.records)\n"),
}

_EMBEDDED: Final = {
    "dense lexical": (
        "_reads",
        "allowed = followers.catalogue.allowed(wanted.where, reader)",
        f"allowed = followers.catalogue.allowed({_EVERYTHING}, reader)",
    ),
    "count": ("_reads", "len(followers.catalogue.allowed(where, reader))", "followers.catalogue.live_rows"),
    "scan": (
        "_reads",
        "followers.catalogue.allowed(where, reader), after, limit",
        f"followers.catalogue.allowed({_EVERYTHING}, reader), after, limit",
    ),
    "update delete replace": (
        "_writes",
        "catalogue.by_source(catalogue.allowed(where, reader))",
        f"catalogue.by_source(catalogue.allowed({_EVERYTHING}, reader))",
    ),
    "filters on a passage's own keys": (
        "_catalogue",
        "kept = [row for row in rows.tolist() if matches(wanted, self._row_metadata(row, reader))]",
        "kept = rows.tolist()",
    ),
}

_POSTGRES: Final = {
    "the tenant": (
        '        of_source.append("s.tenant = %(tenant)s AND s.tenant_id = %(tenant_id)s::text")\n',
        "",
    ),
    "conditions on a source": ('" AND ".join(of_source or ["TRUE"])', '" AND ".join(of_source[:1] or ["TRUE"])'),
    "conditions on a passage": ('" AND ".join(of_passage) if of_passage else None', "None"),
    "an empty Or": ('self._joined("OR", "FALSE", node.filters)', 'self._joined("OR", "TRUE", node.filters)'),
}

THE_STORES: Final = (
    *(
        Guard(
            f"the condition of {method} in memory",
            "stackroom.stores.memory",
            text,
            instead,
            kit("MemoryStore", "filters_of_a_scope"),
        )
        for method, (text, instead) in _MEMORY.items()
    ),
    *(
        Guard(
            f"the condition of {methods} in the embedded store",
            f"stackroom.stores.embedded.{module}",
            text,
            instead,
            kit("EmbeddedStore", "filters_of_a_scope", "filters_rows"),
        )
        for methods, (module, text, instead) in _EMBEDDED.items()
    ),
    *(
        Guard(
            f"{name} in PostgreSQL",
            "stackroom.stores.postgres._where",
            text,
            instead,
            kit("PostgresStore", "filters_of_a_scope", "filters_row"),
        )
        for name, (text, instead) in _POSTGRES.items()
    ),
    Guard(
        "statistics are the tenant's own",
        "stackroom.stores.memory",
        "stored = [terms for identity, terms in held.terms.items() if identity[0] == tenant_id]",
        "stored = list(held.terms.values())",
        kit("MemoryStore", "lexical"),
    ),
)

BULK: Final = tuple(
    Guard(name, f"stackroom.indexing.{module}", text, instead, (f"tests/indexing/test_{tests}.py", "-k", pattern))
    for name, module, text, instead, tests, pattern in (
        (
            "a folder touches its own sources only",
            "_plan",
            "if head is not None and not head.belongs_to(self.corpus):",
            "if False:",
            "folder_upkeep",
            "from_elsewhere",
        ),
        (
            "what a folder owns it has written",
            "_stored",
            "keys.SETTINGS in self.metadata and ",
            "",
            "folder_upkeep",
            "calls_itself",
        ),
        (
            "nothing is pruned below what cannot be listed",
            "_folder_run",
            "return not is_there and not self.walked.is_hidden_from(name)",
            "return not is_there",
            "folder_upkeep",
            "cannot_be_listed",
        ),
        (
            "nothing is pruned when no file can be loaded",
            "_folder_run",
            "if not self.prune or not self.walked.has_loadable:",
            "if not self.prune:",
            "folder_upkeep",
            "no_file_to_load",
        ),
        (
            "permissions never wait for a change of content",
            "_folder_run",
            "ids = sorted({entry.source_id for entry in (*differing, *expiring)})",
            "ids = sorted({entry.source_id for entry in expiring})",
            "folder",
            "without_embedding",
        ),
        (
            "no link leads outside",
            "_walk",
            "or not target.is_relative_to(real_root) ",
            "",
            "walk",
            "stay_inside",
        ),
        (
            "no call starts after a failure",
            "_calls",
            "            if self.has_stopped:\n                raise Stopped\n",
            "",
            "calls",
            "not_made_after",
        ),
        (
            "the switch expects what was caught up",
            "_reembed",
            "self.side.name, expect=versions)",
            "self.side.name)",
            "reembed",
            "just_before_the_switch",
        ),
        ("a zip bomb", "_docx", "if len(unpacked) > MAX_UNPACKED:", "if False:", "formats", "zip_bomb"),
    )
)

GUARDS: Final = (*THE_SCOPE, *EMPTY_LISTS, *THE_CHECK, *WRITES, *ONE_EMBEDDER, *THE_STORES, *BULK)
