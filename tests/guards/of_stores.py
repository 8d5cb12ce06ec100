"""Guards of the stores that ship: the condition of each method, and statistics."""

from __future__ import annotations

from typing import Final

from tests.guards.guard import Guard, kit

_EVERYTHING: Final = "__import__('stackroom').filters.And()"

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

_SQL: Final = {
    "the tenant": (
        "_where",
        "        made.of_source.append(tables.sources.c.tenant == tenant.number)\n",
        "        pass\n",
    ),
    "the groups": (
        "_where",
        "labels.c.what == self.what, labels.c.value.in_(texts)",
        "labels.c.what == self.what",
    ),
    "groups that are no tags": (
        "_where",
        "labels.c.what == self.what, labels.c.value.in_(texts)",
        "labels.c.value.in_(texts)",
    ),
    "conditions on a source": (
        "_allowed",
        "return everything(self.condition.of_source)",
        "return everything(self.condition.of_source[:1])",
    ),
    "conditions on a passage": ("_allowed", ".where(within, *place.condition.of_passage)", ".where(within)"),
    "conditions on a passage of a page": (
        "_reads",
        ".where(place.in_sources, *place.condition.of_passage, ",
        ".where(place.in_sources, ",
    ),
    "conditions on a source's other keys": ("_allowed", "if matches(wanted, metadata):", "if metadata:"),
    "conditions on a source's other keys in a page": (
        "_reads",
        "if (allowed is None or row[1] in allowed) and (",
        "if (",
    ),
    "conditions on a passage's own keys": ("_allowed", "matches(self.wanted, metadata)", "bool(metadata)"),
    "an empty Or": ("_where", "sa.or_(sa.false(), *parts)", "sa.or_(sa.true(), *parts)"),
    "a branch of which nothing is known": (
        "_where",
        "return sa.or_(sa.false(), *known) if len(known) == len(every) else None",
        "return sa.or_(sa.false(), *known)",
    ),
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
    *(
        Guard(
            f"{name} in SQL",
            f"stackroom.stores.sql.{module}",
            text,
            instead,
            ("tests/sql/test_sql_scopes.py", "-k", "keep_their_condition and sqlite"),
        )
        for name, (module, text, instead) in _SQL.items()
    ),
    Guard(
        "statistics are the tenant's own in SQL",
        "stackroom.stores.sql._scores",
        "            t.tenant == place.tenant.number, t.term.in_([term.encode() for term in part])\n",
        "            t.term.in_([term.encode() for term in part])\n",
        kit("SqlStore", "lexical_row", "lexical_statistics"),
    ),
    Guard(
        "a dense search of too much is refused",
        "stackroom.stores.sql._scores",
        "    if number > most:\n",
        "    if number < 0:\n",
        ("tests/sql/test_sql_sizes.py", "-k", "sqlite"),
    ),
    Guard(
        "a write that meets a swap is judged anew in SQL",
        "stackroom.stores.sql._shelves",
        "                if held != seen:\n                    return None\n",
        "",
        ("tests/sql/test_sql_writers.py", "-k", "meets_a_swap and sqlite"),
    ),
    Guard(
        "a swap takes the side as it is expected in SQL",
        "stackroom.stores.sql._shelves",
        "_door.check_expected(expect_side, self._versions(connection, taking))",
        "pass",
        ("tests/sql/test_sql_writers.py", "-k", "takes_no_name and sqlite"),
    ),
    Guard(
        "what only reads makes no file of SQLite",
        "stackroom.stores.sql._shelves",
        "        if not manage_schema and lacks_its_file(url_or_engine):\n",
        "        if not manage_schema and not prefix:\n",
        ("tests/cli/test_cli_sql.py", "-k", "makes_no_file"),
    ),
    Guard(
        "a writer holds its tenant in SQL",
        "stackroom.stores.sql._places",
        "connection.execute(row.with_for_update()).all()",
        "connection.execute(row).all()",
        ("tests/sql/test_sql_connections.py", "-k", "waits_too_long and postgres"),
    ),
    Guard(
        "a writer shares its collection in SQL",
        "stackroom.stores.sql._places",
        'asked = asked.with_for_update(read=lock == "share")',
        "pass",
        ("tests/sql/test_sql_writers.py", "-k", "wait_for_each_other"),
    ),
    Guard(
        "no write between the versions a swap expects and the switch",
        "stackroom.stores.embedded._shard",
        "            if self._is_swapping():\n",
        "            if not self.path:\n",
        ("tests/embedded/test_embedded_swaps.py", "-k", "meanwhile or comes_during"),
    ),
    Guard(
        "no write into a generation that a swap has just taken away",
        "stackroom.stores.embedded._shard",
        "            if not self.is_named():\n                raise ShardIsGone\n            yield found\n",
        "            yield found\n",
        ("tests/embedded/test_embedded_swaps.py", "-k", "did_not_wait_for"),
    ),
    Guard(
        "statistics are the tenant's own",
        "stackroom.stores.memory",
        "stored = [terms for identity, terms in held.terms.items() if identity[0] == tenant_id]",
        "stored = list(held.terms.values())",
        kit("MemoryStore", "lexical"),
    ),
)
