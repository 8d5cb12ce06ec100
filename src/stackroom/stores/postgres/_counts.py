"""The counts that BM25 needs: how many passages of a tenant hold each word, kept in the transactions that write.

They are changed last, by all writers in one order, the newest words first: so the common words, which are the old ones
and which every writer wants, are held the shortest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from stackroom.stores.postgres._connections import Statement
from stackroom.stores.postgres._locks import tenant_lock
from stackroom.stores.postgres._names import tenant_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stackroom.stores.postgres._reads import Place

T = TypeVar("T")

_FEW: Final = 10_000
"""Words that are counted, learned or forgotten at a time: what other writers wait for takes no longer than that."""

_IS_ALONE: Final = "(SELECT pg_try_advisory_xact_lock(%(lock)s))"


def statistics(place: Place, change: Mapping[int, int], passages: int) -> list[Statement]:
    """Return the statements that bring the tenant's counts up to date.

    Words that nothing holds any more are forgotten, and a tenant without passages, when nobody else is writing there.
    """
    changed = sorted((number for number, by in change.items() if by), reverse=True)
    found = []
    for numbers in few_at_a_time(changed):
        found += _counts(place, numbers, [change[number] for number in numbers])
    values: dict[str, Any] = {
        "tenant": tenant_key(place.tenant_id),
        "passages": passages,
        "lock": tenant_lock(place.entry.names, place.entry.name, place.tenant_id),
    }
    if passages:
        sql = f"UPDATE {place.entry.tenants} SET passages = passages + %(passages)s WHERE tenant = %(tenant)s"
        found.append(Statement(sql, values))
    fewer = _fewer(change)
    if 0 < len(fewer) <= _FEW:
        found.append(forgotten(place, fewer))
    if passages < 0:
        sql = f"DELETE FROM {place.entry.tenants} WHERE tenant = %(tenant)s AND passages = 0 AND {_IS_ALONE}"
        found.append(Statement(sql, values))
    return found


def few_at_a_time(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield parts of a sequence that no other writer waits long for."""
    return (items[at : at + _FEW] for at in range(0, len(items), _FEW))


def _counts(place: Place, numbers: Sequence[int], by: Sequence[int]) -> list[Statement]:
    """Return the statements that change counts of words, holding each word from the newest on."""
    values = {"tenant": tenant_key(place.tenant_id), "numbers": list(numbers), "by": list(by)}
    held = (
        f"SELECT count(*) FROM (SELECT FROM {place.entry.terms} WHERE tenant = %(tenant)s "
        "AND number = ANY(%(numbers)s::integer[]) ORDER BY number DESC FOR NO KEY UPDATE) held"
    )
    counted = (
        f"UPDATE {place.entry.terms} t SET holding = t.holding + c.change FROM unnest(%(numbers)s::integer[], "
        "%(by)s::integer[]) AS c(number, change) WHERE t.tenant = %(tenant)s AND t.number = c.number"
    )
    return [Statement(held, values), Statement(counted, values)]


def _fewer(change: Mapping[int, int]) -> list[int]:
    """Return the numbers of words that fewer passages hold than before."""
    return [number for number, by in change.items() if by < 0]


def forgotten_later(change: Mapping[int, int]) -> list[int]:
    """Return the numbers of words that are to be forgotten a few at a time: nobody else writes there meanwhile."""
    fewer = _fewer(change)
    return fewer if len(fewer) > _FEW else []


def forgotten(place: Place, numbers: Sequence[int]) -> Statement:
    """Return the statement that forgets those of some words that nothing holds, when nobody else is writing there."""
    sql = (
        f"DELETE FROM {place.entry.terms} WHERE tenant = %(tenant)s AND number = ANY(%(numbers)s::integer[]) "
        f"AND holding = 0 AND {_IS_ALONE}"
    )
    lock = tenant_lock(place.entry.names, place.entry.name, place.tenant_id)
    return Statement(sql, {"tenant": tenant_key(place.tenant_id), "numbers": list(numbers), "lock": lock})


def learned(place: Place, terms: Sequence[str]) -> list[Statement]:
    """Return the statements that give words their numbers, and a new tenant its row.

    A word may go without when its number turns out to be taken, as it may once all numbers have been given out.
    """
    values = {"tenant": tenant_key(place.tenant_id), "tenant_id": place.tenant_id, "terms": list(terms)}
    of_terms = (
        f"INSERT INTO {place.entry.terms} (tenant, term) SELECT %(tenant)s, term FROM unnest(%(terms)s::text[]) "
        f"AS given(term) WHERE NOT EXISTS (SELECT FROM {place.entry.terms} t WHERE t.tenant = %(tenant)s "
        "AND t.term = given.term) ORDER BY term ON CONFLICT DO NOTHING"
    )
    of_tenant = (
        f"INSERT INTO {place.entry.tenants} (tenant, tenant_id) VALUES (%(tenant)s, %(tenant_id)s::text) "
        "ON CONFLICT (tenant) DO NOTHING"
    )
    return [Statement(of_tenant, values), Statement(of_terms, values)]
