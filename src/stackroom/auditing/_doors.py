"""The doors by which a caller can see something, tried by every kind of caller, and what came through them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args

from stackroom import CapabilityError, Scope, StoreError, StoreUnavailable
from stackroom import _keys as keys
from stackroom._model import Mode
from stackroom._search import Notes
from stackroom.auditing._canaries import OTHER_KIND, SHARED_WORDS, Canary, Names
from stackroom.auditing._inside import reading_of
from stackroom.auditing._report import DoorReport, Leak

if TYPE_CHECKING:
    from stackroom import Answer, Hit, Library, Page, SourceInfo

MODES: Final[tuple[Mode, ...]] = get_args(Mode)
LEXICAL_MODES: Final[tuple[Mode, ...]] = ("hybrid", "lexical")

_MOST_LEAKS: Final = 50
_PAGE: Final = 3
_DROPPED: Final = Notes.dropped(1).code

Keeps: TypeAlias = Callable[[Canary], bool]


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who asks. One of the library's own may see passages of the library, if they are in its scope."""

    kind: str
    scope: Scope
    is_of_library: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """A search or a narrowing, and which canaries it keeps of those that the caller may see."""

    name: str
    keeps: Keeps
    narrowing: Mapping[str, Any] = field(default_factory=dict)
    text: str = SHARED_WORDS
    options: Mapping[str, Any] = field(default_factory=dict)
    modes: tuple[Mode, ...] = MODES

    def through(self, door: str) -> str:
        """Return the name of the door when it is tried with this question."""
        return f"{door}: {self.name}" if self.name else door


@dataclass(slots=True)
class Tally:
    """What came through one door so far."""

    calls: int = 0
    expected: int = 0
    found: int = 0
    shown: int = 0
    leaked: int = 0
    dropped: int = 0
    is_refused: bool = False


def callers_of(names: Names, others: Iterable[Scope]) -> Iterator[Caller]:
    """Yield every kind of caller: the library's own, rightful ones, those who lack half of the right, lookalikes."""
    absent = Names.drawn()
    own = list(others)
    for scope in own:
        yield Caller("a scope of the library", scope, is_of_library=True)
    for tenant_id in dict.fromkeys(scope.tenant_id for scope in own):
        yield Caller("a tenant of the library, a wrong group", Scope(tenant_id, [absent.group]), is_of_library=True)
    for how, tenant_id in names.tenants.items():
        yield Caller(f"the tenant's name {how}, the group", Scope(tenant_id, [names.group]))
    for how, group in list(names.groups.items())[1:]:
        yield Caller(f"the tenant, the group's name {how}", Scope(names.tenant, [group]))
        yield Caller(f"another tenant's name {how}, its lookalike group", Scope(names.tenants[how], [group]))
    yield Caller("the tenant, several groups", Scope(names.tenant, [absent.group, *names.groups.values()]))
    yield Caller("the right tenant, a wrong group", Scope(names.tenant, [absent.group]))
    yield Caller("a wrong tenant, the right group", Scope(absent.tenant, [names.group]))


@dataclass(slots=True)
class Audit:
    """Tries every door with one caller after the other."""

    library: Library
    names: Names
    canaries: Sequence[Canary]
    tallies: dict[tuple[str, Mode | None], Tally] = field(default_factory=dict)
    leaks: list[Leak] = field(default_factory=list)

    def reports(self) -> tuple[DoorReport, ...]:
        """Return what came through each door."""
        return tuple(
            DoorReport(door, mode, *(getattr(tally, name) for name in Tally.__slots__))
            for (door, mode), tally in self.tallies.items()
        )

    def try_all(self, caller: Caller) -> None:
        """Try every door as one caller."""
        rightful = [canary for canary in self.canaries if canary.is_visible_to(caller.scope)]
        for question in self._questions(caller, rightful):
            for mode in question.modes:
                self._search(caller, question, mode, [canary for canary in rightful if question.keeps(canary)])
        for question in self._narrowings(caller):
            kept = [canary for canary in rightful if question.keeps(canary)]
            self._list(caller, question, kept)
            self._count(caller, question, kept)
        self._open(caller, rightful)

    # Questions

    def _questions(self, caller: Caller, rightful: Sequence[Canary]) -> Iterator[Question]:
        all_words = " ".join(canary.text.split()[1] for canary in self.canaries)
        foreign = next((canary for canary in self.canaries if canary not in rightful), self.canaries[0])
        yield Question("", everything, text=all_words)
        yield Question("a foreign text", everything, text=foreign.text)
        yield Question("match all", everything, options={"match": "all"}, modes=LEXICAL_MODES)
        yield Question("prefix", everything, text=self.names.prefix, options={"prefix": True}, modes=LEXICAL_MODES)
        for question in self._narrowings(caller):
            if question.narrowing:
                yield question
        foreign_tenant = {"where": {keys.TENANT: self._foreign_tenant(caller)}}
        branches = [foreign_tenant, {"source_ids": [foreign.source_id]}, {"folder_id": self.names.folder}]
        yield Question(
            "any_of",
            lambda canary: canary.source_id == foreign.source_id or canary.folder_id == self.names.folder,
            {"any_of": branches},
        )

    def _narrowings(self, caller: Caller) -> Iterator[Question]:
        """Yield narrowings that name what is foreign. Whole listings are asked of throw-away tenants alone."""
        ids = sorted({canary.source_id for canary in self.canaries})
        tenant_id, group = self._foreign_tenant(caller), self.names.groups["in upper case"]
        either = [{keys.TENANT: tenant_id}, {keys.TENANT: caller.scope.tenant_id}, {keys.GROUPS: group}]
        if not caller.is_of_library:
            yield Question("", everything)
            yield Question("where either tenant", everything, {"where": {"$or": either}})
        yield Question("source_ids", everything, {"source_ids": ids})
        yield Question(
            "folder_id", lambda canary: canary.folder_id == self.names.folder, {"folder_id": self.names.folder}
        )
        tags = self.names.tags
        yield Question("tags", lambda canary: canary.tags == tags, {"tags": tags})
        yield Question(
            "kinds and tiers",
            lambda canary: (canary.kind, canary.tier) == (OTHER_KIND, "cold"),
            {"kinds": [OTHER_KIND], "tiers": ["cold"]},
        )
        yield Question(
            "where foreign",
            lambda canary: group in canary.acl_groups,
            {"where": {"$or": [{keys.TENANT: tenant_id}, {keys.GROUPS: group}]}},
        )

    def _foreign_tenant(self, caller: Caller) -> str:
        return next(name for name in self.names.tenants.values() if name != caller.scope.tenant_id)

    # Doors

    def _search(self, caller: Caller, question: Question, mode: Mode, expected: Sequence[Canary]) -> None:
        answer = self.answer(caller, question, mode, top_k=len(self.canaries) + 1)
        if answer is not None:
            place = question.through("search"), mode
            self._judge(self.tally(*place), place, caller, expected, answer)

    def answer(self, caller: Caller, question: Question, mode: Mode, *, top_k: int) -> Answer | None:
        """Search; None for what the store declares that it refuses. What it refuses otherwise is raised."""
        tally = self.tally(question.through("search"), mode)
        try:
            answer = self.library.search(
                question.text,
                scope=caller.scope,
                mode=mode,
                top_k=top_k,
                **question.narrowing,
                **question.options,
            )
        except CapabilityError:
            if not self._may_be_refused(question, mode):
                raise
            tally.is_refused = True
            return None
        tally.dropped += sum(max(1, Notes.dropped_in(note)) for note in answer.notes if note.code == _DROPPED)
        return answer

    def _may_be_refused(self, question: Question, mode: Mode) -> bool:
        """Tell whether a store may refuse a search: words and beginnings of words, when it says so of itself."""
        declared = reading_of(self.library).store.capabilities
        refuses_prefix = "prefix" in question.options and declared.prefix == "refused"
        return refuses_prefix or (mode == "lexical" and declared.lexical == "refused")

    def _open(self, caller: Caller, rightful: Sequence[Canary]) -> None:
        """Ask for each source by its id: what it is, and its passages."""
        for source_id in sorted({canary.source_id for canary in self.canaries}):
            of_source = [canary for canary in rightful if canary.source_id == source_id]
            info = self.library.source(source_id, scope=caller.scope)
            self._judge_sources("source", caller, of_source, [] if info is None else [info])
            hits = self.library.passages(source_id, scope=caller.scope)
            self._judge(self.tally("passages"), ("passages", None), caller, of_source, hits)

    def _list(self, caller: Caller, question: Question, expected: Sequence[Canary]) -> None:
        found = self.listed(caller, question, page=_PAGE, most=len(self.canaries))
        self._judge_sources(question.through("sources"), caller, expected, found)

    def listed(self, caller: Caller, question: Question, *, page: int, most: int) -> list[SourceInfo]:
        """List page by page; a listing that does not end shows what lies in no order of its own tenant."""
        found: list[SourceInfo] = []
        try:
            for part in self._pages(caller, question, page, most):
                found += part
        except (StoreUnavailable, CapabilityError):
            raise
        except StoreError:
            door = question.through("sources")
            self.tally(door).leaked += 1
            self.tell(door, None, caller, "a listing without an end")
        return found

    def _pages(self, caller: Caller, question: Question, limit: int, most: int) -> Iterator[Page[SourceInfo]]:
        after = None
        for _ in range(most):
            page = self.library.sources(scope=caller.scope, limit=limit, after=after, **question.narrowing)
            yield page
            after = page.next
            if after is None:
                return
        raise StoreError("there are more pages than sources")

    def _count(self, caller: Caller, question: Question, expected: Sequence[Canary]) -> None:
        door = question.through("count")
        tally = self.tally(door)
        number = self.library.count(scope=caller.scope, **question.narrowing)
        tally.calls += 1
        tally.expected += len(expected)
        tally.found += min(number, len(expected))
        tally.shown += number
        if number > len(expected):
            tally.leaked += number - len(expected)
            self.tell(door, None, caller, "a number that is too high")

    # Judging

    def tally(self, door: str, mode: Mode | None = None) -> Tally:
        """Return what came through a door so far."""
        return self.tallies.setdefault((door, mode), Tally())

    def _judge(
        self,
        tally: Tally,
        place: tuple[str, Mode | None],
        caller: Caller,
        expected: Sequence[Canary],
        hits: Iterable[Hit],
    ) -> None:
        """Compare hits with what was expected, by identity and text: an old text under a living id is a leak, too."""
        rightful = {(canary.identity, canary.text) for canary in expected}
        planted = {canary.text: canary.trap for canary in self.canaries}
        seen = set()
        for hit in hits:
            tally.shown += 1
            shown = (str(hit.metadata.get(keys.TENANT)), hit.source_id, hit.index), hit.text
            if shown in rightful:
                seen.add(shown)
            elif hit.text in planted or not is_own(caller, hit):
                tally.leaked += 1
                self.tell(*place, caller, planted.get(hit.text, "a passage that was not planted"))
        tally.calls += 1
        tally.expected += len(rightful)
        tally.found += len(seen)

    def _judge_sources(
        self, door: str, caller: Caller, expected: Sequence[Canary], found: Sequence[SourceInfo]
    ) -> None:
        """Compare sources with what was expected: who may see them, how many passages they have."""
        tally = self.tally(door)
        rightful = {(canary.tenant_id, canary.source_id, canary.acl_groups): canary.trap for canary in expected}
        seen = {(info.tenant_id, info.source_id, info.acl_groups) for info in found}
        planted = {canary.identity[:2]: canary.trap for canary in self.canaries}
        for info in found:
            if (info.tenant_id, info.source_id, info.acl_groups) not in rightful:
                tally.leaked += 1
                what = planted.get((info.tenant_id, info.source_id), "a source that was not planted")
                self.tell(door, None, caller, what)
        tally.calls += 1
        tally.expected += len(rightful)
        tally.shown += len(found)
        tally.found += len(seen & rightful.keys())

    def enter(self, place: tuple[str, Mode | None], **numbers: int) -> None:
        """Add one call to what came through a door."""
        tally = self.tally(*place)
        for name, number in {**numbers, "calls": 1}.items():
            setattr(tally, name, getattr(tally, name) + number)

    def tell(self, door: str, mode: str | None, caller: Caller, what: str) -> None:
        """Keep an example of what leaked."""
        leak = Leak(door, mode, caller.kind, what)
        if len(self.leaks) < _MOST_LEAKS and leak not in self.leaks:
            self.leaks.append(leak)


def everything(_canary: Canary) -> bool:
    """Keep every canary."""
    return True


def is_own(caller: Caller, hit: Hit) -> bool:
    """Tell whether a passage that was not planted lies in its caller's scope, as its metadata says."""
    groups = hit.metadata.get(keys.GROUPS)
    return (
        caller.is_of_library
        and hit.metadata.get(keys.TENANT) == caller.scope.tenant_id
        and isinstance(groups, list)
        and not set(map(str, groups)).isdisjoint(caller.scope.acl_groups)
    )
