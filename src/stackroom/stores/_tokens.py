"""Filters and metadata as tokens: for databases whose own types and comparisons differ from those of `matches`.

Whatever a database makes of strings, numbers, booleans, lists and missing keys, a row that holds a list of short ASCII
strings and a condition that asks which of them it holds mean the same everywhere. Each entry of the metadata becomes
such tokens: one a value, and a few that say that the key is there and of what kind. A token is a digest (128 bits of
BLAKE2b), so neither odd characters nor long values reach the database's language.

What tokens cannot say (an order, a part of a string) is asked for more widely; `Asked.is_exact` is then False, and the
rest is the judgement of `matches`.
"""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

from stackroom._filters import (
    All,
    And,
    Contains,
    Eq,
    Exists,
    Filter,
    In,
    Ne,
    Not,
    NotIn,
    Or,
    Range,
    ScalarKey,
    nodes,
    scalar_key,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from stackroom._values import MetadataValue, Scalar


@dataclass(frozen=True, slots=True)
class Holds:
    """The row holds one of these tokens; with none of them, it never holds."""

    tokens: frozenset[str]


@dataclass(frozen=True, slots=True)
class HoldsAll:
    """The row holds all of these tokens, of which there are several."""

    tokens: frozenset[str]


@dataclass(frozen=True, slots=True)
class Every:
    """All of the parts hold; without parts, always."""

    parts: tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """One of the parts holds; without parts, never."""

    parts: tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class No:
    """The part does not hold."""

    part: Form


Form: TypeAlias = Holds | HoldsAll | Every | Some | No

_DEEPEST: Final = 24
"""How deep a filter is asked: some databases read no deeper conditions. What lies below is for `matches` to judge."""

ALWAYS: Final = Every(())
NEVER: Final = Some(())


@dataclass(frozen=True, slots=True)
class Asked:
    """What a database is asked. Every record that matches holds it; `is_exact`: and no other record does."""

    form: Form
    is_exact: bool


def compiled(where: Filter) -> Asked:
    """Return what to ask a database for the records that a filter matches."""
    is_exact = where.depth <= _DEEPEST and not any(isinstance(node, Range | Contains) for node in nodes(where))
    return Asked(_form(where, widens=True), is_exact)


def tokens_of(metadata: Mapping[str, MetadataValue]) -> list[str]:
    """Return the tokens of a record's metadata, each once, in no order that means anything."""
    return list(dict.fromkeys(token for key, value in metadata.items() for token in _of_entry(key, value)))


def _of_entry(key: str, value: MetadataValue) -> Iterator[str]:
    yield _there(key)
    if isinstance(value, list):
        yield _is_list(key)
        yield from (_equal(key, item) for item in value)
    else:
        yield _equal(key, value)
        if not isinstance(value, bool):
            yield _is_text(key) if isinstance(value, str) else _is_number(key)


def _form(where: Filter, *, widens: bool, above: int = 1) -> Form:
    """Return a form that holds wherever the filter does (`widens`), or only where it does."""
    if above > _DEEPEST:
        return ALWAYS if widens else NEVER
    if isinstance(where, And):
        return conjunction(_form(member, widens=widens, above=above + 1) for member in where.filters)
    if isinstance(where, Or):
        return disjunction(_form(member, widens=widens, above=above + 1) for member in where.filters)
    if isinstance(where, Not):
        return negation(_form(where.filter, widens=not widens, above=above + 1))
    return _leaf(where) if widens or not isinstance(where, Range | Contains) else NEVER


def _leaf(where: Filter) -> Form:  # noqa: PLR0911 - a line a node
    match where:
        case Eq(key, value):
            return Holds(frozenset({_equal(key, value)}))
        case In(key, values):
            return _one_of(key, values)
        case All(key, values):
            return conjunction(
                Holds(frozenset({token})) for token in dict.fromkeys(_equal(key, value) for value in values)
            )
        case Exists(key, exists):
            there = Holds(frozenset({_there(key)}))
            return there if exists else negation(there)
        case Ne(key, value):
            return Every((Holds(frozenset({_there(key)})), No(Holds(frozenset({_equal(key, value)})))))
        case NotIn(key, values):
            return conjunction((Holds(frozenset({_there(key)})), negation(_one_of(key, values))))
        case Range(key, gt=gt, gte=gte, lt=lt, lte=lte):
            bounds = [bound for bound in (gt, gte, lt, lte) if bound is not None]
            return Holds(frozenset({_is_text(key) if isinstance(bounds[0], str) else _is_number(key)}))
        case Contains(key, value):
            return Holds(frozenset({_is_text(key), _equal(key, value)}))
    raise AssertionError(f"there is no node {type(where).__name__}")


def _one_of(key: str, values: Iterable[Scalar]) -> Form:
    found = frozenset(_equal(key, value) for value in values)
    return Holds(found) if found else NEVER


def conjunction(parts: Iterable[Form]) -> Form:
    """Return what holds where all of the parts do, in the shortest form."""
    kept = [inner for part in parts for inner in (part.parts if isinstance(part, Every) else (part,))]
    if NEVER in kept:
        return NEVER
    kept = [*_several([part for part in kept if _is_single(part)]), *(part for part in kept if not _is_single(part))]
    lacking = [part.part.tokens for part in kept if isinstance(part, No) and isinstance(part.part, Holds)]
    if len(lacking) > 1:
        others = [part for part in kept if not (isinstance(part, No) and isinstance(part.part, Holds))]
        kept = [*others, No(Holds(frozenset().union(*lacking)))]
    return kept[0] if len(kept) == 1 else Every(tuple(kept))


def _is_single(part: Form) -> bool:
    return isinstance(part, HoldsAll) or (isinstance(part, Holds) and len(part.tokens) == 1)


def _several(parts: list[Form]) -> list[Form]:
    """Return parts that ask for tokens one by one as one that asks for all of them."""
    if len(parts) < 2:  # noqa: PLR2004 - there is nothing to put together
        return parts
    tokens: frozenset[str] = frozenset().union(*(part.tokens for part in parts if isinstance(part, Holds | HoldsAll)))
    return [Holds(tokens) if len(tokens) == 1 else HoldsAll(tokens)]


def disjunction(parts: Iterable[Form]) -> Form:
    """Return what holds where one of the parts does, in the shortest form."""
    kept = [inner for part in parts for inner in (part.parts if isinstance(part, Some) else (part,))]
    if ALWAYS in kept:
        return ALWAYS
    held = [part.tokens for part in kept if isinstance(part, Holds)]
    if len(held) > 1:
        kept = [Holds(frozenset().union(*held)), *(part for part in kept if not isinstance(part, Holds))]
    return kept[0] if len(kept) == 1 else Some(tuple(kept))


def negation(part: Form) -> Form:
    """Return what holds where the part does not."""
    if part in (ALWAYS, NEVER):
        return NEVER if part == ALWAYS else ALWAYS
    return part.part if isinstance(part, No) else No(part)


def holds(form: Form, tokens: frozenset[str]) -> bool:
    """Tell whether a row with these tokens is what is asked for: what every database must answer."""
    match form:
        case Holds(wanted):
            return not wanted.isdisjoint(tokens)
        case HoldsAll(wanted):
            return wanted <= tokens
        case Every(parts):
            return all(holds(part, tokens) for part in parts)
        case Some(parts):
            return any(holds(part, tokens) for part in parts)
        case No(part):
            return not holds(part, tokens)


def digest(*parts: str, size: int = 16) -> str:
    """Return a digest (BLAKE2b, `size` bytes) of a list of strings as ASCII letters, digits, `-` and `_`."""
    state = hashlib.blake2b(digest_size=size)
    for part in parts:
        encoded = part.encode()
        state.update(b"%d:" % len(encoded) + encoded)
    return urlsafe_b64encode(state.digest()).rstrip(b"=").decode()


def _equal(key: str, value: Scalar) -> str:
    known = scalar_key(value)
    return _digest("=", key, _kind(known), _written(known))


@lru_cache(maxsize=4096)  # keys, kinds and groups come again and again
def _digest(*parts: str) -> str:
    return digest(*parts)


def _kind(known: ScalarKey | None) -> str:
    return "s" if isinstance(known, str) else "b" if isinstance(known, tuple) else "n"


def _written(known: ScalarKey | None) -> str:
    """Return a scalar so that equal ones are written alike: a whole float as the int that it is."""
    if isinstance(known, float) and known.is_integer():
        return str(int(known))
    return str(known[0]) if isinstance(known, tuple) else str(known)


def _there(key: str) -> str:
    return _digest("?", key)


def _is_text(key: str) -> str:
    return _digest("s", key)


def _is_number(key: str) -> str:
    return _digest("n", key)


def _is_list(key: str) -> str:
    return _digest("l", key)
