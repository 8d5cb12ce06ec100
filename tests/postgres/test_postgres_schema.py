"""The tables: made by the store or by a migration, several libraries side by side, older formats brought up to date."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.postgres_room import Room

from stackroom import CapabilityError, Conflict, StoreError
from stackroom.filters import Eq, Exists
from stackroom.stores import CollectionSpec, LexicalQuery, PostgresStore, Record
from stackroom.stores.postgres import schema_sql
from stackroom.stores.postgres._names import FORMAT

SPEC = CollectionSpec(2, "m")
TENANT = Eq("tenantId", "t")


def record(text: str = "red") -> Record:
    return Record(text, [1.0, 0.5], {"tenantId": "t", "sourceId": "a", "index": 0, "aclGroups": ["g"]})


def tables(room: Room) -> list[str]:
    found = room.ask(
        "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = current_schema::regnamespace"
    )
    return sorted(name for (name,) in found)


def test_libraries_with_different_prefixes_share_a_schema_and_nothing_else(room: Room) -> None:
    one, other = room.store(prefix="one_"), room.store(prefix="other_")
    one.create_collection("c", SPEC)
    assert other.collection("c") is None
    other.create_collection("c", CollectionSpec(3, "n"))
    one.replace("c", [record()], where=TENANT)
    assert other.count("c", where=Exists("tenantId")) == 0
    assert one.stands_on != other.stands_on
    assert one.stands_on == room.store(prefix="one_").stands_on


def test_libraries_in_different_schemas_share_nothing(room: Room) -> None:
    second = f"{room.schema}_2"
    try:
        one, other = room.store(), room.store(schema=second)
        one.create_collection("c", SPEC)
        assert other.collection("c") is None
        other.close()
    finally:
        room.ask(f"DROP SCHEMA IF EXISTS {second} CASCADE")


def test_names_of_tables_are_never_longer_than_the_database_keeps(room: Room) -> None:
    prefix = "p" * 32
    store = room.store(prefix=prefix, partitions=12, exact_limit=1_000)
    store.create_collection("c" * 63, SPEC)
    ((longest,),) = room.ask(
        "SELECT max(length(relname)) FROM pg_class WHERE relnamespace = current_schema::regnamespace "
        f"AND relname LIKE '{prefix}%'"
    )
    assert longest <= 63
    assert room.ask(f"SELECT indexname FROM pg_indexes WHERE indexname LIKE '{prefix}%_direction'")


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("partitions", [0, 2])
def test_what_schema_sql_prints_is_what_a_store_makes(room: Room, indexed: Any, partitions: int) -> None:
    options: dict[str, Any] = {"partitions": partitions}
    room.ask(schema_sql("c", SPEC, schema=room.schema, prefix="printed_", vector_index=indexed, **options))
    room.store(prefix="made_", exact_limit=1_000 if indexed else None, **options).create_collection("c", SPEC)

    def shape(prefix: str) -> list[tuple[Any, ...]]:
        return room.ask(
            "SELECT replace(table_name, %(prefix)s, ''), column_name, data_type, is_nullable, collation_name "
            "FROM information_schema.columns WHERE table_schema = current_schema AND table_name LIKE %(like)s "
            "UNION ALL SELECT '', replace(indexdef, %(prefix)s, ''), '', '', '' FROM pg_indexes "
            "WHERE schemaname = current_schema AND tablename LIKE %(like)s ORDER BY 1, 2",
            prefix=prefix,
            like=f"{prefix}%",
        )

    assert shape("printed_") == shape("made_") != []


def test_a_store_that_runs_no_ddl_works_on_what_a_migration_made(room: Room) -> None:
    room.ask(schema_sql("c", SPEC, schema=room.schema))
    before = tables(room)
    store = room.store(manage_schema=False)
    store.create_collection("c", SPEC)
    with pytest.raises(Conflict):
        store.create_collection("c", CollectionSpec(3, "n"))
    assert store.replace("c", [record()], where=TENANT) == 0
    assert [match.id for match in store.lexical("c", LexicalQuery("red"), where=TENANT, limit=1)] == ["a#0"]
    assert tables(room) == before


def test_a_store_that_runs_no_ddl_says_what_to_run(room: Room) -> None:
    with pytest.raises(StoreError, match="schema_sql"):
        room.store(manage_schema=False)
    room.ask(schema_sql(schema=room.schema))
    store = room.store(manage_schema=False)
    with pytest.raises(CapabilityError, match="schema_sql"):
        store.create_collection("c", SPEC)
    with pytest.raises(CapabilityError, match="schema_sql"):
        store.build_vector_index("c")
    assert store.collection("c") is None


def test_a_store_that_runs_no_ddl_swaps_and_drops_by_emptying(room: Room) -> None:
    room.ask(schema_sql("c", SPEC, schema=room.schema))
    room.ask(schema_sql("c.side", CollectionSpec(2, "n"), schema=room.schema))
    before = tables(room)
    store = room.store(manage_schema=False)
    store.replace("c", [record("old")], where=TENANT)
    store.replace("c.side", [record("new")], where=TENANT)
    store.swap("c", "c.side")
    assert [found.text for found in store.scan("c", where=TENANT, limit=2)] == ["new"]
    assert store.collection("c") == CollectionSpec(2, "n")
    store.drop_collection("c")
    assert store.collection("c") is None
    assert tables(room) == before
    for name in before:
        if re.search(r"_(sources|passages|terms|tenants)_", name):
            assert room.ask(f"SELECT count(*) FROM {name}") == [(0,)]


def test_a_store_that_runs_no_ddl_makes_again_what_was_dropped_and_what_was_swapped_away(room: Room) -> None:
    other = CollectionSpec(2, "n")
    room.ask(schema_sql("c", SPEC, schema=room.schema))
    room.ask(schema_sql("c.side", other, schema=room.schema))
    before = tables(room)
    store, second = room.store(manage_schema=False), room.store(manage_schema=False)
    store.replace("c", [record("old")], where=TENANT)
    assert second.count("c", where=TENANT) == 1
    for spec, next_spec in ((other, SPEC), (SPEC, other), (other, SPEC)):
        store.replace("c.side", [record(spec.fingerprint)], where=TENANT)
        store.swap("c", "c.side")
        assert (store.collection("c"), store.collection("c.side")) == (spec, None)
        store.create_collection("c.side", next_spec)
        assert [found.text for found in second.scan("c", where=TENANT, limit=2)] == [spec.fingerprint]
        assert second.count("c.side", where=Exists("tenantId")) == 0
    store.drop_collection("c")
    assert second.collection("c") is None
    store.create_collection("c", SPEC)
    assert second.collection("c") == SPEC
    assert second.count("c", where=Exists("tenantId")) == 0
    assert second.replace("c", [record("anew")], where=TENANT) == 0
    assert [match.id for match in store.lexical("c", LexicalQuery("anew"), where=TENANT, limit=2)] == ["a#0"]
    assert tables(room) == before


def test_tables_that_were_dropped_are_taken_for_no_other_dimension_and_by_one_only(room: Room) -> None:
    room.ask(schema_sql("c", SPEC, schema=room.schema))
    store = room.store(manage_schema=False)
    store.drop_collection("c")
    with pytest.raises(CapabilityError, match="schema_sql"):
        store.create_collection("c", CollectionSpec(3, "m"))
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda name: _made(room.store(manage_schema=False), name), "abcd"))
    assert sorted(made) == [False, False, False, True]
    room.store().create_collection("c", SPEC)
    assert room.store().collection("c") == SPEC


def _made(store: PostgresStore, name: str) -> bool:
    try:
        store.create_collection(name, SPEC)
    except CapabilityError:
        return False
    return True


def test_schema_sql_of_the_library_may_be_run_again(room: Room) -> None:
    room.ask(schema_sql(schema=room.schema))
    store = room.store()
    store.create_collection("c", SPEC)
    room.ask(schema_sql(schema=room.schema))
    assert room.store().stands_on == store.stands_on
    assert store.collection("c") == SPEC


@pytest.mark.parametrize("fingerprint", ["'; DROP TABLE t; --", "\\'", 'é"\n$$'])
def test_schema_sql_holds_any_fingerprint(room: Room, fingerprint: str) -> None:
    spec = CollectionSpec(2, fingerprint)
    room.ask(schema_sql("c", spec, schema=room.schema))
    assert room.store(manage_schema=False).collection("c") == spec


def test_schema_sql_checks_its_arguments() -> None:
    for arguments in ({"schema": "A"}, {"prefix": "a b"}, {"name": "../up", "spec": SPEC}, {"name": "c"}):
        with pytest.raises(ValueError, match=r"."):
            schema_sql(**arguments)
    with pytest.raises(ValueError, match="role"):
        schema_sql("c", SPEC, role='x"; DROP')


def as_format_1(room: Room) -> None:
    """Make of a library what format 1 was."""
    for (name,) in room.ask(
        "SELECT indexname FROM pg_indexes WHERE indexname LIKE 'stackroom_%_terms' AND schemaname = current_schema"
    ):
        parts = room.ask(f"SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = '{name}'::regclass")
        for (part,) in parts or [(name,)]:
            room.ask(f"ALTER INDEX {part} RESET (gin_pending_list_limit)")
    room.ask("ALTER SEQUENCE stackroom_term_numbers NO CYCLE")
    room.ask("UPDATE stackroom_library SET format = 1")


def comes_round(room: Room) -> bool:
    """Tell whether numbers of words are given out anew once all have been."""
    ((found,),) = room.ask(
        "SELECT cycle FROM pg_sequences WHERE schemaname = current_schema AND sequencename = 'stackroom_term_numbers'"
    )
    return bool(found)


def limits(room: Room) -> list[tuple[Any, ...]]:
    return room.ask(
        "SELECT c.reloptions FROM pg_class c JOIN pg_am m ON m.oid = c.relam WHERE c.relkind = 'i' "
        "AND m.amname = 'gin' AND pg_get_indexdef(c.oid) LIKE '%(terms)%' "
        "AND c.relnamespace = current_schema::regnamespace"
    )


@pytest.mark.parametrize("partitions", [0, 2])
def test_an_older_format_is_brought_up_to_date_when_it_is_opened(room: Room, partitions: int) -> None:
    store = room.store(partitions=partitions)
    for name in ("c", "d"):
        store.create_collection(name, SPEC)
    store.replace("c", [record()], where=TENANT)
    as_format_1(room)
    indexes = 2 * max(partitions, 1)
    assert limits(room) == [(None,)] * indexes
    again = room.store()
    assert limits(room) == [(["gin_pending_list_limit=512"],)] * indexes
    assert comes_round(room)
    assert room.ask("SELECT format FROM stackroom_library") == [(FORMAT,)]
    assert again.count("c", where=TENANT) == 1
    assert again.stands_on == store.stands_on


@pytest.mark.parametrize("partitions", [0, 2])
def test_an_older_format_is_left_alone_without_ddl_and_the_migration_is_named(room: Room, partitions: int) -> None:
    room.store(partitions=partitions).create_collection("c", SPEC)
    as_format_1(room)
    with pytest.raises(StoreError, match="upgrade_from=1") as refused:
        room.store(manage_schema=False)
    indexes = max(partitions, 1)
    assert limits(room) == [(None,)] * indexes
    call = str(refused.value).partition("statements of ")[2]
    assert call == f"schema_sql(schema={room.schema!r}, prefix='stackroom_', upgrade_from=1)"
    room.ask(eval(call, {"schema_sql": schema_sql}))  # noqa: S307 - the very call that the error names
    assert room.store(manage_schema=False).collection("c") == SPEC
    assert comes_round(room)
    assert limits(room) == [(["gin_pending_list_limit=512"],)] * indexes


@pytest.mark.parametrize("version", [0, FORMAT, FORMAT + 1, 99, True, "1"])
def test_statements_are_printed_for_older_formats_alone(version: Any) -> None:
    with pytest.raises(ValueError, match="upgrade_from"):
        schema_sql(upgrade_from=version)


def test_a_newer_format_is_refused_and_left_alone(room: Room) -> None:
    room.store()
    room.ask("UPDATE stackroom_library SET format = 99")
    for options in ({}, {"manage_schema": False}):
        with pytest.raises(StoreError, match="newer"):
            room.store(**options)
    assert room.ask("SELECT format FROM stackroom_library") == [(99,)]


def test_longer_ids_than_an_index_keeps_are_refused_before_anything_is_written(room: Room) -> None:
    store: PostgresStore = room.store()
    store.create_collection("c", SPEC)
    longest = "\U0001f600" * 512
    values: dict[str, Any] = {"sourceId": longest, "kind": longest, "folderId": longest, "tags": [longest]}
    for key, value in values.items():
        fits = Record("", [1, 0], record().metadata | {key: value})
        assert store.replace("c", [fits], where=TENANT) == 0
        assert store.delete("c", where=TENANT) == 1
        too_long: Any = [f"{longest}x"] if isinstance(value, list) else f"{longest}x"
        with pytest.raises(ValueError, match=key):
            store.replace("c", [Record("", [1, 0], {**record().metadata, key: too_long})], where=TENANT)


@pytest.mark.parametrize("partitions", [0, 3])
def test_statistics_count_what_is_held_and_its_bytes(room: Room, partitions: int) -> None:
    store = room.store(partitions=partitions)
    store.create_collection("c", SPEC)
    empty = store.statistics("c")
    assert (empty.tenants, empty.sources, empty.passages) == (0, 0, 0)
    store.replace("c", [record("red " * 20_000)], where=TENANT)
    held = store.statistics("c")
    assert (held.tenants, held.sources, held.passages) == (1, 1, 1)
    assert held.bytes > empty.bytes > 0
    with pytest.raises(LookupError):
        store.statistics("none")
