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

_MANY_WORDS: Final = "'infinity'::float8"
"""The rough score of a passage whose words lie in several vectors: it is always scored again."""


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
    kept = _kept(entry, condition)
    if only is not None:
        values["sources"], values["places"] = [source for source, _ in only], [place for _, place in only]
        kept += " AND (p.source, p.place) IN (SELECT * FROM unnest(%(sources)s::bigint[], %(places)s::integer[]))"
    is_plain = not expanding and len(terms) <= MOST_WORDS
    ranked = (_plain if is_plain else _expanded)(entry, kept, columns)
    asked, question = _asked(entry, expands=bool(expanding)), _question(weighs=is_plain)
    return Statement(f"WITH {asked}, {question}, {_allowed(entry, condition)}, {ranked}", values)


def _asked(entry: Entry, *, expands: bool) -> str:
    """Return the query's terms as the tenant has them: place, number, idf, and the vector that picks an impact."""
    begins = f"a.expands AND t.term >= a.term AND t.term < a.term || {_LAST_CHARACTER}"
    matched = f"{entry.terms} t ON t.tenant = %(tenant)s AND t.term = a.term"
    if expands:
        one = f"SELECT number, holding FROM {entry.terms} t WHERE t.tenant = %(tenant)s AND"
        matched = f"LATERAL ({one} NOT a.expands AND t.term = a.term UNION ALL {one} {begins}) t ON TRUE"
    return (
        "asked AS MATERIALIZED (SELECT a.place, t.number, t.holding, "
        "ln(1e0 + ((n.passages - t.holding)::float8 + 0.5e0) / (t.holding::float8 + 0.5e0)) AS idf, "
        f"('{{' || t.number || ':1}}/{WORDS}')::sparsevec AS pick "
        "FROM unnest(%(terms)s::text[], %(expands)s::boolean[]) WITH ORDINALITY AS a(term, expands, place) "
        f"JOIN {matched} JOIN {entry.tenants} n ON n.tenant = %(tenant)s WHERE t.holding > 0)"
    )


def _question(*, weighs: bool) -> str:
    """Return the query as a whole: its numbers, how many passages hold them at most, and their idf as one vector."""
    weights = f"('{{' || string_agg(number || ':' || idf::real, ',' ORDER BY number) || '}}/{WORDS}')::sparsevec"
    return (
        "question AS MATERIALIZED (SELECT array_agg(number) AS numbers, sum(holding) AS holding, "
        f"count(DISTINCT place) AS found, {weights if weighs else 'NULL'} AS weights FROM asked)"
    )


def _allowed(entry: Entry, condition: Condition) -> str:
    """Return the sources in scope, and whether the way by them is shorter than that by the words."""
    return (
        f"allowed AS MATERIALIZED (SELECT s.number, s.passages FROM {entry.sources} s WHERE {condition.of_source}), "
        "way AS MATERIALIZED (SELECT found > 0 AND found >= %(needed)s AS leads, "
        "(SELECT coalesce(sum(passages), 0) FROM allowed) <= 2 * holding AS by_scope FROM question)"
    )


def _kept(entry: Entry, condition: Condition) -> str:
    """Return what a passage of an allowed source must fulfil besides."""
    if condition.of_passage is None:
        return "p.tenant = %(tenant)s"
    if not condition.needs_both:
        return f"p.tenant = %(tenant)s AND {condition.of_passage}"
    both = f"SELECT FROM {entry.sources} s WHERE s.number = p.source AND {condition.of_passage}"
    return f"p.tenant = %(tenant)s AND EXISTS ({both})"


def _matching(entry: Entry, kept: str, selected: str) -> str:
    """Return both ways to what may match; the one not taken is not walked. By the scope all of it comes."""
    by_scope = f"allowed a JOIN {entry.passages} p ON p.source = a.number"
    return (
        f"matching AS MATERIALIZED (SELECT {selected} FROM {by_scope} "
        f"WHERE (SELECT leads AND by_scope FROM way) AND {kept} "
        f"UNION ALL SELECT {selected} FROM {entry.passages} p "
        f"WHERE (SELECT leads AND NOT by_scope FROM way) AND {kept} "
        "AND p.terms && (SELECT numbers FROM question) AND p.source IN (SELECT number FROM allowed))"
    )


_PICKED: Final = (
    "(-(p.weights <#> a.pick) + CASE WHEN p.more IS NULL THEN 0 "
    "ELSE (SELECT sum(-(m.part <#> a.pick)) FROM unnest(p.more) AS m(part)) END)"
)
"""The impact of one term in a passage, exactly: a sum with one member that is not 0."""


def _plain(entry: Entry, kept: str, columns: str) -> str:
    """Return the ranking of a query whose every term stands for one stored term: an inner product."""
    inner = "-(p.weights <#> (SELECT weights FROM question))"
    rough = f"CASE WHEN p.more IS NULL THEN {inner} ELSE {_MANY_WORDS} END"
    all_of = "(%(needed)s = 0 OR (p.terms @> (SELECT numbers FROM question)) IS TRUE)"
    cut = f"SELECT rough FROM matching WHERE rough < {_MANY_WORDS} ORDER BY rough DESC OFFSET %(limit)s - 1 LIMIT 1"
    exact = f"(SELECT sum(a.idf * {_PICKED} ORDER BY a.place) FROM asked a)"
    return (
        f"{_matching(entry, f'{kept} AND {all_of}', f'p.source, p.place, {rough} AS rough')} "
        f"SELECT * FROM (SELECT {exact} AS score, {columns}, {_BY_ID} AS id FROM matching m {_joined(entry)} "
        f"WHERE m.rough > 0 AND m.rough >= coalesce(({cut}), 0) * {_NEAR}) scored "
        "WHERE score > 0 ORDER BY score DESC, id LIMIT %(limit)s"
    )


def _expanded(entry: Entry, kept: str, columns: str) -> str:
    """Return the ranking of a query with terms that stand for many: of each the passage's best counts."""
    return (
        f"{_matching(entry, kept, 'p.source, p.place, p.terms, p.weights, p.more')}, "
        f"parts AS (SELECT p.source, p.place, a.place AS term, max(a.idf * {_PICKED}) AS part FROM matching p "
        "CROSS JOIN LATERAL unnest(p.terms) AS u(number) JOIN asked a ON a.number = u.number "
        "GROUP BY p.source, p.place, a.place), "
        "best AS MATERIALIZED (SELECT source, place, sum(part ORDER BY term) AS score FROM parts "
        "GROUP BY source, place HAVING count(*) >= %(needed)s) "
        f"SELECT m.score, {columns}, {_BY_ID} AS id FROM best m {_joined(entry)} "
        "ORDER BY m.score DESC, id LIMIT %(limit)s"
    )


def _joined(entry: Entry) -> str:
    return (
        f"JOIN {entry.passages} p ON p.tenant = %(tenant)s AND p.source = m.source AND p.place = m.place "
        f"JOIN {entry.sources} s ON s.number = m.source"
    )
