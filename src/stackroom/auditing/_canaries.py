"""Canaries: passages planted where certain callers may find them and nobody else, in tenants that are thrown away."""

from __future__ import annotations

import secrets
import string
import unicodedata
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from stackroom import Conflict, Scope, Source
from stackroom import _keys as keys
from stackroom._scoping import alive
from stackroom.auditing._inside import reading_of
from stackroom.filters import And, Exists, NotIn, matches

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from datetime import datetime

    from stackroom import Library
    from stackroom._model import Tier

LIFETIME: Final = timedelta(hours=1)
"""When canaries expire that nobody could remove: a process that is killed leaves nothing visible for longer."""

KIND: Final = "stackroom.canary"
OTHER_KIND: Final = f"{KIND}.other"
KINDS: Final = (KIND, OTHER_KIND)

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
    tags: tuple[str, str]
    folder: str
    prefix: str

    @classmethod
    def drawn(cls) -> Names:
        """Return names that nobody else has."""
        named = {what: lookalikes(f"canary-{what}-\u00e9-{letters(14)}x") for what in ("tenant", "group", "source")}
        tags = f"canary-tag-{letters(14)}", f"canary-tag-{letters(14)}"
        return cls(named["tenant"], named["group"], named["source"], tags, f"canaries-{letters(14)}", letters(8))

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
        return self.prefix + letters(8)


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
    kind: str
    tags: tuple[str, ...]
    tier: Tier

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
    watching: Callable[[], AbstractContextManager[None]] = nullcontext
    _held: dict[tuple[str, str], list[Canary]] = field(default_factory=dict)
    _gone: list[Canary] = field(default_factory=list)
    problems: dict[str, None] = field(default_factory=dict)
    places: dict[str, dict[str, None]] = field(default_factory=dict)

    @property
    def canaries(self) -> list[Canary]:
        """All passages ever planted, those that nobody may see any more included."""
        return [canary for planted in self._held.values() for canary in planted] + self._gone

    def plant(self) -> None:
        """Plant them all, at first one that goes through every write while somebody watches the library's own."""
        with self.watching():
            self._begin_with_one()
        with self.watching():
            self._plant_lookalikes()
            for tenant_id in (self.names.tenant, self.names.tenants["in upper case"]):
                self._plant_what_never_shows(tenant_id)
            self._lead_through_life()
        with self.watching():
            self._remove_tenant(self.names.tenants["without its last letter"])

    def _begin_with_one(self) -> None:
        for _ in range(2):
            self._put(self.names.tenant, "the first", [self.names.group], "the first source")
        self._rescope("the first", [self.names.groups["in upper case"]])
        self._remove("the first")

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
        for name in ("removed", "emptied", "replaced", "given away", "got", "refiled", "tagged anew"):
            for tenant in (tenant_id, names.tenants["in upper case"]):
                before = others if name == "got" else groups
                self._put(tenant, name, before, f"a source called {name}", names.folder, passages=2)
        self._remove("removed")
        self._put(tenant_id, "emptied", groups, "emptied", passages=0)
        self._put(tenant_id, "replaced", others, "replaced, for another group", names.folder)
        self._rescope("given away", others)
        self._rescope("got", groups)
        self._rescope("refiled", groups, folder_id="elsewhere")
        self._rescope("tagged anew", groups, tags=names.tags[:1])

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
        """Index a source, of another kind and tier and with one more tag when it is in a folder.

        What stood under its id is gone then.
        """
        source_id = self._source_id(name)
        source = Source(
            source_id,
            KIND if folder_id is None else OTHER_KIND,
            tenant_id,
            acl_groups,
            [self._text() for _ in range(passages)],
            folder_id,
            tags=self.names.tags[: 1 if folder_id is None else 2],
            expires_at=self.now + LIFETIME if expires_at is None else expires_at,
            tier="hot" if folder_id is None else "cold",
        )
        self.places.setdefault(tenant_id, {})[source_id] = None
        try:
            self.library.index_source(source)
        except Conflict:
            self.problems[_MIXED] = None
            return
        self._hide(tenant_id, name, "a version that was replaced")
        self._held[tenant_id, source_id] = [
            Canary(
                tenant_id,
                source_id,
                index,
                passage.text,
                source.acl_groups,
                folder_id,
                trap,
                source.kind,
                source.tags,
                source.tier or "hot",
            )
            for index, passage in enumerate(source.passages)
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

    def _remove(self, name: str) -> None:
        self.library.remove_source(self._source_id(name), tenant_id=self.names.tenant)
        self._hide(self.names.tenant, name, "removed")

    def _remove_tenant(self, tenant_id: str) -> None:
        self.library.remove_tenant(tenant_id)
        for place in [place for place in self._held if place[0] == tenant_id]:
            self._gone += [
                replace(canary, acl_groups=(), trap="of a removed tenant") for canary in self._held.pop(place)
            ]

    def _source_id(self, name: str) -> str:
        return self.names.source_ids.get(name, f"{self.names.source_ids['as it is']} {name}")

    def _text(self) -> str:
        word, other = self.names.word(), self.names.word()
        return f"The {word} heron kept a {other} lantern in the tower."


def is_in_use(library: Library, now: datetime) -> bool:
    """Tell whether a library holds anything but canaries that somebody may see: active, and not expired."""
    visible = And(*alive(now), NotIn(keys.KIND, KINDS))
    everything = reading_of(library).records(Exists(keys.TENANT))
    return any(matches(visible, record.metadata) for record in everything)


def letters(number: int) -> str:
    """Return random small letters."""
    return "".join(secrets.choice(string.ascii_lowercase) for _ in range(number))
