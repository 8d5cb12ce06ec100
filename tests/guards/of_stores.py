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
