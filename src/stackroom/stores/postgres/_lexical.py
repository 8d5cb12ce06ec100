"""The lexical leg: BM25 computed in the database, from weights that were written with each passage.

A passage keeps the numbers of its terms, under a GIN index, and the impact of each in a sparse vector. Numbers belong
to one tenant, so that a list in the index holds nothing of anybody else. A query is a sparse vector of its terms' idf,
made of the tenant's own statistics in the same statement; the inner product is BM25 in single precision. What comes
near the limit is scored again in double precision, term by term in the order of the query, as every store does.

Of the two ways to the passages, by the scope or by the words, the statement takes the one with fewer rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from stackroom.stores.postgres._connections import Statement
from stackroom.stores.postgres._dense import JOINED
from stackroom.stores.postgres._names import tenant_key
from stackroom.stores.postgres._schema import MOST_WORDS, WORDS
from stackroom.text import expanding_terms, query_terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stackroom.stores._protocol import LexicalQuery
    from stackroom.stores.postgres._names import Entry
    from stackroom.stores.postgres._where import Condition

_NEAR: Final = 1 - 1e-5
"""A score in single precision is off by less, relative to itself."""

_LAST_CHARACTER: Final = "U&'\\+10FFFF'"
"""No term holds it, so a term and this behind it is beyond all that begin with the term."""

_BY_ID: Final = "(s.source_id || '#' || p.place) COLLATE \"C\""


def best_worded(
    entry: Entry,
    tenant_id: str,
    condition: Condition,
    query: LexicalQuery,
    limit: int,
    columns: str,
    only: Sequence[tuple[int, int]] | None = None,
) -> Statement:
    """Return the statement that ranks the allowed passages by a query: a score, then `columns`, best first.

    `only` keeps certain passages (source, place) of those that match.
    """
    terms = query_terms(query.text)
    expanding = expanding_terms(query.text) if query.prefix else frozenset[str]()
    values: dict[str, Any] = {
        **condition.values,
        "tenant": tenant_key(tenant_id),
        "terms": terms,
        "expands": [term in expanding for term in terms],
        "needed": len(terms) if query.match == "all" else 0,
        "limit": limit,
    }
    conditions = condition.whole
    if only is not None:
        values["sources"], values["places"] = [source for source, _ in only], [place for _, place in only]
        conditions += " AND (p.source, p.place) IN (SELECT * FROM unnest(%(sources)s::bigint[], %(places)s::integer[]))"
    is_plain = not expanding and len(terms) <= MOST_WORDS
    ranked = _plain(entry, conditions) if is_plain else _expanded(entry, conditions)
    sql = (
        f"WITH {_asked(entry)}, {_ways(entry, condition)}, {ranked} "
        f"SELECT b.score, {columns} FROM best b JOIN {entry.passages} p ON p.tenant = %(tenant)s "
        f"AND p.source = b.source AND p.place = b.place JOIN {entry.sources} s ON s.number = p.source "
        f"ORDER BY b.score DESC, {_BY_ID} LIMIT %(limit)s"
    )
    return Statement(sql, values)


def _asked(entry: Entry) -> str:
    """Return the query's terms as the tenant has them: place, number, idf, and the vector that picks an impact."""
    idf = "ln(1e0 + ((n.passages - t.holding)::float8 + 0.5e0) / (t.holding::float8 + 0.5e0))"
    begins = f"a.expands AND t.term >= a.term AND t.term < a.term || {_LAST_CHARACTER}"
    matched = (
        f"SELECT t.number, t.holding FROM {entry.terms} t WHERE t.tenant = %(tenant)s AND NOT a.expands "
        "AND t.term = a.term "
        f"UNION ALL SELECT t.number, t.holding FROM {entry.terms} t WHERE t.tenant = %(tenant)s AND {begins}"
    )
    return (
        f"asked AS MATERIALIZED (SELECT a.place, t.number, t.holding, {idf} AS idf, "
        f"('{{' || t.number || ':1}}/{WORDS}')::sparsevec AS pick "
        "FROM unnest(%(terms)s::text[], %(expands)s::boolean[]) WITH ORDINALITY AS a(term, expands, place) "
        f"CROSS JOIN LATERAL ({matched}) t "
        f"JOIN {entry.tenants} n ON n.tenant = %(tenant)s WHERE t.holding > 0)"
    )


def _ways(entry: Entry, condition: Condition) -> str:
    """Return what is known of the way by the words and of the way by the scope, and which is the shorter."""
    return (
        "question AS MATERIALIZED (SELECT array_agg(number) AS numbers, sum(holding) AS holding, "
        "(SELECT count(DISTINCT place) FROM asked) AS found "
        "FROM (SELECT DISTINCT number, holding FROM asked) a), "
        f"scope AS MATERIALIZED (SELECT coalesce(sum(s.passages), 0) AS passages FROM {entry.sources} s "
        f"WHERE {condition.of_source}), "
        "way AS MATERIALIZED (SELECT q.found >= %(needed)s AND q.found > 0 AS leads, "
        "sc.passages <= 2 * q.holding AS by_scope FROM question q, scope sc)"
    )


def _score(weights: str) -> str:
    """Return the inner product of a passage's words with a sparse vector."""
    rest = f"(SELECT sum(-(m.part <#> {weights})) FROM unnest(p.more) AS m(part))"
    return f"(-(p.weights <#> {weights}) + CASE WHEN p.more IS NULL THEN 0 ELSE {rest} END)"


def _matching(entry: Entry, conditions: str, selected: str, of_row: str) -> str:
    """Return both ways to what matches; the one not taken is not walked. `of_row` judges a row on the scope's way."""
    joined = JOINED.format(sources=entry.sources, passages=entry.passages)
    numbers = "(SELECT numbers FROM question)"
    leads = "(SELECT leads FROM way)"
    by_scope = "(SELECT by_scope FROM way)"
    return (
        f"SELECT {selected} FROM {joined} WHERE {leads} AND {by_scope} AND {conditions} AND {of_row} "
        f"UNION ALL SELECT {selected} FROM {joined} "
        f"WHERE {leads} AND NOT {by_scope} AND {conditions} AND p.terms && {numbers}"
    )


def _plain(entry: Entry, conditions: str) -> str:
    """Return the ranking of a query whose every term stands for one stored term: an inner product."""
    score = _score("(SELECT weights FROM sum_of)")
    all_of = "(%(needed)s = 0 OR (p.terms @> (SELECT numbers FROM question)) IS TRUE)"
    exact = f"(SELECT sum(a.idf * {_score('a.pick')} ORDER BY a.place) FROM asked a)"
    selected = f"p.source, p.place, {score} AS rough"
    return (
        "sum_of AS MATERIALIZED (SELECT "
        f"('{{' || string_agg(number || ':' || idf::real, ',' ORDER BY number) || '}}/{WORDS}')::sparsevec AS weights "
        "FROM asked), "
        f"matching AS MATERIALIZED ({_matching(entry, f'{conditions} AND {all_of}', selected, f'{score} > 0')}), "
        "cut AS (SELECT rough FROM matching ORDER BY rough DESC OFFSET %(limit)s - 1 LIMIT 1), "
        f"best AS MATERIALIZED (SELECT m.source, m.place, {exact} AS score FROM matching m "
        f"JOIN {entry.passages} p ON p.tenant = %(tenant)s AND p.source = m.source AND p.place = m.place "
        f"WHERE m.rough >= coalesce((SELECT rough FROM cut), 0) * {_NEAR})"
    )


def _expanded(entry: Entry, conditions: str) -> str:
    """Return the ranking of a query with terms that stand for many: of each the passage's best counts."""
    selected = "p.source, p.place, p.terms, p.weights, p.more"
    part = f"a.idf * {_score('a.pick')}"
    return (
        f"matching AS MATERIALIZED ({_matching(entry, conditions, selected, 'TRUE')}), "
        f"parts AS (SELECT p.source, p.place, a.place AS term, max({part}) AS part FROM matching p "
        "CROSS JOIN LATERAL unnest(p.terms) AS u(number) JOIN asked a ON a.number = u.number "
        "GROUP BY p.source, p.place, a.place), "
        "best AS MATERIALIZED (SELECT source, place, sum(part ORDER BY term) AS score FROM parts "
        "GROUP BY source, place HAVING count(*) >= %(needed)s)"
    )
