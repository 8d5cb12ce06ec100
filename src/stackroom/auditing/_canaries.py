"""Canaries: passages planted where certain callers may find them and nobody else, in tenants that are thrown away."""

from __future__ import annotations

import secrets
import string
import unicodedata
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from stackroom import Conflict, Scope, Source
from stackroom import _keys as keys
from stackroom.filters import Eq, Exists

if TYPE_CHECKING:
    from datetime import datetime

    from stackroom import Library

LIFETIME: Final = timedelta(hours=1)
"""When canaries expire that nobody could remove: a process that is killed leaves nothing visible for longer."""

KIND: Final = "stackroom.canary"

SHARED_WORDS: Final = "heron lantern tower"
"""Words of every canary. Others are random, and no text but its own holds them."""

_MIXED: Final = "a canary could not be planted (Conflict): the store takes sources of two tenants for one"

_FULL_WIDTH: Final = ord("！") - ord("!")


def lookalikes(name: str) -> dict[str, str]:
    """Return names that a store might take for one another, by what is done to the first.

    None is a pattern that could reach beyond them: each holds what is random in the name.
    """
    return {
        "as it is": name,
        "decomposed": unicodedata.normalize("NFD", name),
        "in upper case": name.upper(),
        "with a space behind": f"{name} ",
        "without its last letter": name[:-1],
        "with underscores": name.replace("-", "_"),
        "in full width": chr(ord(name[0]) + _FULL_WIDTH) + name[1:],
    }


@dataclass(frozen=True, slots=True)
class Names:
    """The random names of one audit: tenants, groups and source ids, each with its lookalikes; and a word's beginning.

    No name is a passage's or a tenant's of the library, but for the odds of 64 random bits.
    """

    tenants: dict[str, str]
    groups: dict[str, str]
    source_ids: dict[str, str]
    folder: str
    prefix: str

    @classmethod
    def drawn(cls) -> Names:
        """Return names that nobody else has."""
        named = {what: lookalikes(f"canary-{what}-\u00e9-{_letters(14)}x") for what in ("tenant", "group", "source")}
        return cls(named["tenant"], named["group"], named["source"], f"canaries-{_letters(14)}", _letters(8))

    @property
    def tenant(self) -> str:
        """The tenant that holds most canaries."""
        return self.tenants["as it is"]

    @property
    def group(self) -> str:
        """The group that most canaries are for."""
        return self.groups["as it is"]

    def word(self) -> str:
        """Return a word that no text holds yet; it begins as all words of this audit."""
        return self.prefix + _letters(8)


@dataclass(frozen=True, slots=True)
class Canary:
    """A planted passage: where it lies, which groups may see it (none: nobody), and what it is there to show."""

    tenant_id: str
    source_id: str
    index: int
    text: str
    acl_groups: tuple[str, ...]
    folder_id: str | None
    trap: str

    @property
    def identity(self) -> tuple[str, str, int]:
        """Tenant, source and place: what no two passages have in common."""
        return self.tenant_id, self.source_id, self.index

    def is_visible_to(self, scope: Scope) -> bool:
        """Tell whether a scope may see it."""
        return self.tenant_id == scope.tenant_id and not set(self.acl_groups).isdisjoint(scope.acl_groups)


@dataclass(slots=True)
class Planting:
    """Plants canaries and leads them through the life of a source; knows what may be seen at the end, and by whom."""

    library: Library
    names: Names
    now: datetime
    _held: dict[tuple[str, str], list[Canary]] = field(default_factory=dict)
    _gone: list[Canary] = field(default_factory=list)
    problems: dict[str, None] = field(default_factory=dict)

    @property
    def canaries(self) -> list[Canary]:
        """All passages ever planted, those that nobody may see any more included."""
        return [canary for planted in self._held.values() for canary in planted] + self._gone

    def plant(self) -> None:
        """Plant them all."""
        self._plant_lookalikes()
        for tenant_id in (self.names.tenant, self.names.tenants["in upper case"]):
            self._plant_what_never_shows(tenant_id)
        self._lead_through_life()

    def _plant_lookalikes(self) -> None:
        names = self.names
        for how, tenant_id in names.tenants.items():
            self._put(
                tenant_id, "as it is", [names.group], f"a tenant's name {how}", folder_id=names.folder, passages=2
            )
        for how, group in names.groups.items():
            if group != names.group:
                self._put(names.tenant, how, [group], f"a group's name {how}")
        everyone = [names.group, names.groups["decomposed"]]
        self._put(names.tenant, "shared", everyone, "a source of two groups", folder_id=names.folder)

    def _plant_what_never_shows(self, tenant_id: str) -> None:
        for trap, expires_at in (("expired", self.now - LIFETIME), ("expiring at this moment", self.now)):
            self._put(tenant_id, trap, [self.names.group], trap, expires_at=expires_at)
            self._hide(tenant_id, trap, f"{trap}: it never shows")

    def _lead_through_life(self) -> None:
        """Change what one tenant holds; its lookalike in upper case holds the same source ids and must stay."""
        names, tenant_id, groups = self.names, self.names.tenant, [self.names.group]
        others = [names.groups["in upper case"]]
        for name in ("removed", "emptied", "replaced", "given away", "got", "refiled"):
            for tenant in (tenant_id, names.tenants["in upper case"]):
                before = others if name == "got" else groups
                self._put(tenant, name, before, f"a source called {name}", names.folder, passages=2)
        self.library.remove_source(self._source_id("removed"), tenant_id=tenant_id)
        self._hide(tenant_id, "removed", "removed")
        self._put(tenant_id, "emptied", groups, "emptied", passages=0)
        self._put(tenant_id, "replaced", others, "replaced, for another group", names.folder)
        self._rescope("given away", others)
        self._rescope("got", groups)
        self._rescope("refiled", groups, folder_id="elsewhere")

    def _put(
        self,
        tenant_id: str,
        name: str,
        acl_groups: list[str],
        trap: str,
        folder_id: str | None = None,
        *,
        passages: int = 1,
        expires_at: datetime | None = None,
    ) -> None:
        """Index a source; what stood under its id is gone then."""
        source_id = self._source_id(name)
        texts = [self._text() for _ in range(passages)]
        source = Source(
            source_id,
            KIND,
            tenant_id,
            acl_groups,
            texts,
            folder_id,
            expires_at=self.now + LIFETIME if expires_at is None else expires_at,
        )
        try:
            self.library.index_source(source)
        except Conflict:
            self.problems[_MIXED] = None
            return
        self._hide(tenant_id, name, "a version that was replaced")
        self._held[tenant_id, source_id] = [
            Canary(tenant_id, source_id, index, text, tuple(acl_groups), folder_id, trap)
            for index, text in enumerate(texts)
        ]

    def _hide(self, tenant_id: str, name: str, trap: str) -> None:
        """Know that nobody may see a source from now on."""
        gone = self._held.pop((tenant_id, self._source_id(name)), [])
        self._gone += [replace(canary, acl_groups=(), trap=trap) for canary in gone]

    def _rescope(self, name: str, acl_groups: list[str], **changes: Any) -> None:
        place = self.names.tenant, self._source_id(name)
        self.library.set_source_scope(place[1], tenant_id=place[0], acl_groups=acl_groups, **changes)
        known = {"acl_groups": tuple(acl_groups), "trap": f"re-scoped: {name}", **changes}
        self._held[place] = [replace(canary, **known) for canary in self._held.get(place, [])]

    def _source_id(self, name: str) -> str:
        return self.names.source_ids.get(name, f"{self.names.source_ids['as it is']} {name}")

    def _text(self) -> str:
        word, other = self.names.word(), self.names.word()
        return f"The {word} heron kept a {other} lantern in the tower."


def is_in_use(library: Library) -> bool:
    """Tell whether a library holds anything but canaries."""
    everything = library._reading.records(Exists(keys.TENANT))  # noqa: SLF001 - beyond any scope
    return any(record.metadata.get(keys.KIND) != KIND for record in everything)


def clean_up(library: Library, names: Names) -> list[str]:
    """Remove all that was planted, count what is left, and return what went wrong, in words.

    Nothing stops it half-way, no interrupt either: what did is raised at the end.
    """
    problems: list[str] = []
    interrupt: BaseException | None = None
    for tenant_id in names.tenants.values():
        for is_last in (False, True):
            try:
                problems += _removed(library, tenant_id)
                break
            except Exception as error:  # noqa: BLE001 - whatever it is, the other tenants are still to be removed
                problems += [f"a throw-away tenant could not be removed ({type(error).__name__})"] if is_last else []
            except BaseException as error:  # noqa: BLE001 - raised below
                interrupt = error
    problems = [*dict.fromkeys(problems), *_left_over(library, names)]
    if interrupt is not None:
        for problem in problems:
            interrupt.add_note(problem)
        raise interrupt
    return problems


def _removed(library: Library, tenant_id: str) -> list[str]:
    """Remove a tenant, unless the store shows that it would not stop there."""
    store, collection = library._store, library._collection  # noqa: SLF001 - expired ones, too
    page = store.scan(collection, where=Eq(keys.TENANT, tenant_id), limit=1000)
    if any(record.tenant_id != tenant_id for record in page):
        return ["a throw-away tenant was not removed: asked for it, the store shows others', and might remove those"]
    library.remove_tenant(tenant_id)
    return []


def _left_over(library: Library, names: Names) -> list[str]:
    store, collection = library._store, library._collection  # noqa: SLF001 - expired ones, too
    try:
        left = sum(store.count(collection, where=Eq(keys.TENANT, tenant_id)) for tenant_id in names.tenants.values())
    except Exception as error:  # noqa: BLE001 - reported: what is left cannot be told
        return [f"it could not be counted what is left of the canaries ({type(error).__name__})"]
    return [f"{left} canaries are left; they expire within an hour, and sweep() deletes them then"] if left else []


def _letters(number: int) -> str:
    return "".join(secrets.choice(string.ascii_lowercase) for _ in range(number))
