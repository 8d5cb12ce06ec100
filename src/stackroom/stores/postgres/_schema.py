"""The tables: what a library and each of its collections lie in, as statements to run or to put into a migration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stackroom import _keys as keys
from stackroom.stores._protocol import CollectionSpec, check_name
from stackroom.stores.postgres._names import FORMAT, Entry, Names, token_of
from stackroom.stores.postgres._policies import policy_statements
from stackroom.text._arguments import require_size

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_DIMENSION: Final = 16_000
"""What pgvector's `vector` holds."""

MAX_INDEXED_DIMENSION: Final = 4_000
"""What an HNSW index over `halfvec` holds; above, every search is exact."""

WORDS: Final = 1_000_000_000
"""The dimension of a passage's vector of words: the largest that pgvector's `sparsevec` has."""

MOST_WORDS: Final = 16_000
"""The most numbers that a `sparsevec` holds; the words of a passage with more of them lie in several."""

_INLINE: Final = 8_160
"""Rows up to a page long stay whole: a search reads vectors and words of many rows, and each detour would count."""


def schema_sql(
    name: str | None = None,
    spec: CollectionSpec | None = None,
    *,
    schema: str = "public",
    prefix: str = "stackroom_",
    partitions: int = 0,
    vector_index: bool = False,
    row_level_security: bool = False,
    role: str | None = None,
    upgrade_from: int | None = None,
) -> str:
    """Return the statements that make a library's tables, and a collection's when one is named: for a migration.

    The first part may be run again and again, the collection's part once. The arguments are those of PostgresStore,
    `vector_index` for one with an `exact_limit`;
    `role` is the role that a locked-down application connects as: it is granted what the store needs and no more.
    With `upgrade_from`, a format that a store's error named, the statements bring a library to today's instead.
    """
    names = Names(schema, prefix)
    if upgrade_from is not None:
        since = require_size("upgrade_from", upgrade_from, least=1)
        if since >= FORMAT:
            raise ValueError(f"upgrade_from must be an older format than today's {FORMAT}: there is nothing to upgrade")
        return "".join(f"{statement};\n" for statement in upgrade_statements(names, since))
    statements = [EXTENSION, schema_statement(names), *library_statements(names)]
    if name is not None:
        if not isinstance(spec, CollectionSpec):
            raise ValueError("a collection's statements need its spec: pass CollectionSpec(dimension, fingerprint)")
        entry = Entry(
            names,
            check_name(name),
            token_of(name, spec),
            spec,
            check_partitions(partitions),
            has_index(spec, wanted=vector_index),
        )
        statements += collection_statements(entry)
        if row_level_security:
            statements += policy_statements(entry)
        statements.append(_registered(entry))
        if role is not None:
            statements += _grants(entry, role, is_locked=row_level_security)
    return "".join(f"{statement};\n" for statement in statements)


def check_partitions(partitions: object) -> int:
    """Return a number of partitions: 0 for none."""
    return require_size("partitions", partitions, least=0)


def has_index(spec: CollectionSpec, *, wanted: bool) -> bool:
    """Tell whether a collection of this spec gets a vector index."""
    return wanted and spec.dimension <= MAX_INDEXED_DIMENSION


_PENDING: Final = 512
"""Kilobytes of new words that lie beside their index, where every search reads all of them; the default is 4 MB."""

EXTENSION: Final = "CREATE EXTENSION IF NOT EXISTS vector"


def schema_statement(names: Names) -> str:
    """Return the statement that makes the schema of a library where it is missing."""
    return f'CREATE SCHEMA IF NOT EXISTS "{names.schema}"'


def library_statements(names: Names) -> Iterator[str]:
    """Yield the statements for what all collections share; where it is there, they do nothing."""
    yield f"CREATE TABLE IF NOT EXISTS {names.of('library')} (format integer NOT NULL, identity uuid NOT NULL)"
    yield (
        f"INSERT INTO {names.of('library')} SELECT {FORMAT}, gen_random_uuid() "
        f"WHERE NOT EXISTS (SELECT FROM {names.of('library')})"
    )
    yield (
        f"CREATE TABLE IF NOT EXISTS {names.of('collections')} (\n"
        '    name text COLLATE "C" PRIMARY KEY,\n'
        "    token text NOT NULL UNIQUE,\n"
        "    dimension integer NOT NULL,\n"
        '    fingerprint text COLLATE "C" NOT NULL,\n'
        "    partitions integer NOT NULL,\n"
        "    has_vector_index boolean NOT NULL\n)"
    )
    yield f"CREATE SEQUENCE IF NOT EXISTS {names.of('versions')}"
    yield f"CREATE SEQUENCE IF NOT EXISTS {names.of('term_numbers')} MAXVALUE {WORDS} CYCLE"


def upgrade_statements(names: Names, since: int) -> Iterator[str]:
    """Yield the statements that bring a library of an older format to this one."""
    if since <= 1:
        index = f'"{names.schema}".{names.prefix}passages_%s_terms'
        yield (  # an index over partitions takes no settings, its parts do
            f"DO $$ DECLARE part regclass; BEGIN FOR part IN SELECT coalesce(p.inhrelid, w.whole)::regclass "
            f"FROM {names.of('collections')} c "
            f"CROSS JOIN LATERAL (SELECT format('{index}', c.token)::regclass) AS w(whole) "
            "LEFT JOIN pg_inherits p ON p.inhparent = w.whole LOOP "
            f"EXECUTE format('ALTER INDEX %s SET (gin_pending_list_limit = {_PENDING})', part); "
            "END LOOP; END $$"
        )
    if since <= 2:  # noqa: PLR2004 - a format
        yield f"ALTER SEQUENCE {names.of('term_numbers')} CYCLE"
    yield f"UPDATE {names.of('library')} SET format = {FORMAT}"


def collection_statements(entry: Entry) -> Iterator[str]:
    """Yield the statements that make a collection's tables and indexes."""
    yield from _sources(entry)
    yield from _passages(entry)
    yield from _words(entry)


def _sources(entry: Entry) -> Iterator[str]:
    yield (
        f"CREATE TABLE {entry.sources} (\n"
        "    number bigint PRIMARY KEY,\n"
        "    tenant uuid NOT NULL,\n"
        '    tenant_id text COLLATE "C" NOT NULL,\n'
        '    source_id text COLLATE "C" NOT NULL,\n'
        "    version bigint NOT NULL,\n"
        "    passages integer NOT NULL,\n"
        '    kind text COLLATE "C",\n'
        '    status text COLLATE "C",\n'
        '    folder_id text COLLATE "C",\n'
        '    title text COLLATE "C",\n'
        '    acl_groups text[] COLLATE "C",\n'
        '    tags text[] COLLATE "C",\n'
        "    metadata jsonb NOT NULL,\n"
        f"    expires_at numeric GENERATED ALWAYS AS (CASE WHEN jsonb_typeof(metadata -> '{keys.EXPIRES}') = 'number' "
        f"THEN (metadata -> '{keys.EXPIRES}')::numeric END) STORED\n)"
    )
    bare = f"{entry.names.prefix}sources_{entry.token}"
    yield f"CREATE UNIQUE INDEX {bare}_id ON {entry.sources} (tenant, source_id)"
    yield f"CREATE INDEX {bare}_folder ON {entry.sources} (tenant, folder_id)"
    yield f"CREATE INDEX {bare}_groups ON {entry.sources} USING gin (acl_groups)"
    yield f"CREATE INDEX {bare}_tags ON {entry.sources} USING gin (tags)"
    yield f"CREATE INDEX {bare}_expiry ON {entry.sources} (expires_at) WHERE expires_at IS NOT NULL"


def _passages(entry: Entry) -> Iterator[str]:
    dimension = entry.spec.dimension
    yield (
        f"CREATE TABLE {entry.passages} (\n"
        "    tenant uuid NOT NULL,\n"
        "    source bigint NOT NULL,\n"
        "    place integer NOT NULL,\n"
        "    text text NOT NULL,\n"
        "    metadata jsonb NOT NULL,\n"
        f"    direction vector({dimension}) NOT NULL,\n"
        "    exponent smallint NOT NULL,\n"
        f"    original vector({dimension}),\n"
        "    terms integer[] NOT NULL,\n"
        f"    weights sparsevec({WORDS}) NOT NULL,\n"
        "    more sparsevec[],\n"
        "    PRIMARY KEY (tenant, source, place)\n"
        f"){' PARTITION BY HASH (tenant)' if entry.partitions else ''}"
    )
    bare = f"{entry.names.prefix}passages_{entry.token}"
    for column in ("direction", "weights", "terms"):
        yield f"ALTER TABLE {entry.passages} ALTER COLUMN {column} SET STORAGE MAIN"
    if not entry.partitions:
        yield f"ALTER TABLE {entry.passages} SET (toast_tuple_target = {_INLINE})"
    for number in range(entry.partitions):
        yield (
            f"CREATE TABLE {entry.passages}_{number} PARTITION OF {entry.passages} "
            f"FOR VALUES WITH (MODULUS {entry.partitions}, REMAINDER {number}) WITH (toast_tuple_target = {_INLINE})"
        )
    yield f"CREATE INDEX {bare}_terms ON {entry.passages} USING gin (terms) WITH (gin_pending_list_limit = {_PENDING})"
    if entry.has_vector_index:
        yield vector_index_statement(entry)


def vector_index_statement(entry: Entry) -> str:
    """Return the statement that makes a collection's vector index, over a copy of the directions in half precision."""
    return (
        f"CREATE INDEX {entry.names.prefix}passages_{entry.token}_direction ON {entry.passages} "
        f"USING hnsw ((direction::halfvec({entry.spec.dimension})) halfvec_cosine_ops)"
    )


def _words(entry: Entry) -> Iterator[str]:
    yield (
        f"CREATE TABLE {entry.terms} (\n"
        "    tenant uuid NOT NULL,\n"
        '    term text COLLATE "C" NOT NULL,\n'
        f"    number integer NOT NULL UNIQUE DEFAULT nextval('{entry.names.of('term_numbers')}'),\n"
        "    holding integer NOT NULL DEFAULT 0,\n"
        "    PRIMARY KEY (tenant, term)\n) WITH (fillfactor = 80)"
    )
    yield (
        f"CREATE TABLE {entry.tenants} (\n"
        "    tenant uuid PRIMARY KEY,\n"
        '    tenant_id text COLLATE "C" NOT NULL,\n'
        "    passages bigint NOT NULL DEFAULT 0\n) WITH (fillfactor = 80)"
    )


def _registered(entry: Entry) -> str:
    values = (
        f"{_literal(entry.name)}, {_literal(entry.token)}, {entry.spec.dimension}, {_literal(entry.spec.fingerprint)}, "
        f"{entry.partitions}, {str(entry.has_vector_index).lower()}"
    )
    return f"INSERT INTO {entry.names.of('collections')} VALUES ({values})"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _grants(entry: Entry, role: str, *, is_locked: bool) -> Iterator[str]:
    if not isinstance(role, str) or not role.isidentifier():
        raise ValueError("role must be a plain name: letters, digits and _")
    names = entry.names
    yield f'GRANT USAGE ON SCHEMA "{names.schema}" TO "{role}"'
    yield f'GRANT SELECT ON {names.of("library")} TO "{role}"'
    yield f'GRANT SELECT, UPDATE, DELETE ON {names.of("collections")} TO "{role}"'
    yield f'GRANT USAGE ON SEQUENCE {names.of("versions")}, {names.of("term_numbers")} TO "{role}"'
    yield f'GRANT SELECT, INSERT, UPDATE, DELETE ON {", ".join(entry.tables)} TO "{role}"'
    if not is_locked:  # a policy does not hold for who asks a partition by its own name
        for number in range(entry.partitions):
            yield f'GRANT SELECT ON {entry.passages}_{number} TO "{role}"'
