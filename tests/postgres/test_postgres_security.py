"""Row-level security, the second lock: what the database itself lets nobody see."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from tests.postgres_room import Room

from stackroom import CapabilityError, Conflict, Library, Scope, Source, StoreError
from stackroom.embedders import HashingEmbedder
from stackroom.filters import All, And, Eq, Exists, Filter, In, Not, Or, Range
from stackroom.stores import CollectionSpec, LexicalQuery, PostgresStore, Record
from stackroom.stores.postgres import _store, schema_sql
from stackroom.stores.postgres._policies import settings_of
from stackroom.stores.postgres._where import Condition

SPEC = CollectionSpec(8, "hashing@8")


@dataclasses.dataclass
class Locked:
    """A room with a locked collection, and the role that an application connects as."""

    room: Room
    role: str

    @property
    def dsn(self) -> str:
        return psycopg.conninfo.make_conninfo(self.room.dsn, user=self.role)

    def store(self, **options: Any) -> PostgresStore:
        return self.room.store(self.dsn, **{"manage_schema": False, "row_level_security": True, **options})

    def table(self, kind: str) -> str:
        ((found,),) = self.room.ask(
            f"SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'stackroom_{kind}_%' "
            f"AND relnamespace = '{self.room.schema}'::regnamespace"
        )
        return str(found)


@pytest.fixture
def locked(room: Room) -> Iterator[Locked]:
    role = f"app_{room.schema}"
    room.ask(f"CREATE ROLE {role} LOGIN")
    room.ask(
        schema_sql(
            "c", CollectionSpec(2, "m"), schema=room.schema, row_level_security=True, role=role, vector_index=False
        )
    )
    yield Locked(room, role)
    for store in room.opened:
        store.close()
    room.ask(f"DROP OWNED BY {role}")
    room.ask(f"DROP ROLE {role}")


def record(source_id: str, text: str = "red", tenant: str = "t", groups: tuple[str, ...] = ("g",)) -> Record:
    return Record(text, [1.0, 0.5], {"tenantId": tenant, "sourceId": source_id, "index": 0, "aclGroups": list(groups)})


def scope(tenant: str = "t", groups: tuple[str, ...] = ("g",)) -> Filter:
    return And(Eq("tenantId", tenant), In("aclGroups", groups))


@pytest.fixture
def store(locked: Locked) -> PostgresStore:
    made = locked.store()
    for tenant in ("t", "u"):
        records = [record("mine", tenant=tenant), record("theirs", tenant=tenant, groups=("h",))]
        made.replace("c", records, where=Eq("tenantId", tenant))
    return made


READS: dict[str, Callable[[PostgresStore, Filter], list[str]]] = {
    "dense": lambda store, where: [match.id for match in store.dense("c", [1, 0], where=where, limit=9)],
    "lexical": lambda store, where: [
        match.id for match in store.lexical("c", LexicalQuery("red"), where=where, limit=9)
    ],
    "prefix": lambda store, where: [
        match.id for match in store.lexical("c", LexicalQuery("r", prefix=True), where=where, limit=9)
    ],
    "scan": lambda store, where: [record.id for record in store.scan("c", where=where, limit=9)],
}


@pytest.mark.parametrize("read", READS)
def test_a_locked_store_answers_what_is_in_scope(store: PostgresStore, read: str) -> None:
    assert READS[read](store, scope()) == ["mine#0"]
    assert READS[read](store, scope(groups=("h",))) == ["theirs#0"]
    assert READS[read](store, scope("nobody")) == []
    assert store.count("c", where=scope()) == 1


@pytest.mark.parametrize("read", READS)
def test_the_lock_holds_when_the_condition_is_taken_out_of_the_statement(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    """As a fault in the compiler of filters would: every statement asks for everything there is."""
    monkeypatch.setattr(_store, "condition", _without_condition)
    assert READS[read](store, scope()) == ["mine#0"]
    assert store.count("c", where=scope()) == 1


BESIDE_A_SCOPE: dict[str, Filter] = {
    "another group": Eq("aclGroups", "h"),
    "other groups": In("aclGroups", ["h", "x"]),
    "more groups": In("aclGroups", ["g", "h"]),
    "within an And": And(And(Eq("aclGroups", "h"))),
    "twice": And(In("aclGroups", ["x", "h"]), Eq("aclGroups", "h")),
    "what holds no string": In("aclGroups", [1, True]),
    "either": Or(Eq("aclGroups", "h"), Eq("aclGroups", "g")),
    "not none of them": Not(Not(Eq("aclGroups", "h"))),
    "all of them": All("aclGroups", ["g", "h"]),
}


@pytest.mark.parametrize("beside", BESIDE_A_SCOPE)
@pytest.mark.parametrize("read", READS)
def test_what_a_caller_asks_beside_a_scope_never_widens_the_lock(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, read: str, beside: str
) -> None:
    monkeypatch.setattr(_store, "condition", _without_condition)
    for where in (
        And(scope(), BESIDE_A_SCOPE[beside]),
        And(And(And(scope()), Exists("sourceId")), BESIDE_A_SCOPE[beside]),
    ):
        assert set(READS[read](store, where)) <= {"mine#0"}


@pytest.mark.parametrize("read", READS)
def test_a_source_in_the_groups_of_both_a_scope_and_a_filter_is_found(store: PostgresStore, read: str) -> None:
    store.replace("c", [record("both", groups=("h", "g"))], where=And(Eq("tenantId", "t"), Eq("sourceId", "both")))
    assert READS[read](store, And(scope(), Eq("aclGroups", "h"))) == ["both#0"]
    assert READS[read](store, And(scope(groups=("g", "x")), In("aclGroups", ["h", "y"]), Eq("aclGroups", "g"))) == [
        "both#0"
    ]


def test_a_caller_who_asks_for_fewer_groups_than_the_scope_narrows_the_lock() -> None:
    def groups(*asked: Filter) -> str:
        return settings_of("t", And(Eq("tenantId", "t"), *asked))["stackroom.groups"]

    assert groups(In("aclGroups", ["g", "h"]), Eq("aclGroups", "h")) == '{"h"}'
    assert groups(In("aclGroups", ["g", "h"]), In("aclGroups", [])) == "{}"
    assert groups(In("aclGroups", ["g"]), In("aclGroups", ["g", "h"])) == '{"g"}'


def test_without_the_lock_such_a_statement_would_see_everything(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    open_store = room.store()
    open_store.create_collection("c", CollectionSpec(2, "m"))
    for tenant in ("t", "u"):
        open_store.replace("c", [record("mine", tenant=tenant)], where=Eq("tenantId", tenant))
    monkeypatch.setattr(_store, "condition", _without_condition)
    assert open_store.count("c", where=scope()) == 2


@pytest.mark.parametrize("write", ["update", "re-scope", "delete"])
def test_the_lock_keeps_writes_within_the_tenant_and_groups_that_they_name(
    locked: Locked, store: PostgresStore, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(_store, "condition", _without_condition)
        if write == "update":
            assert store.update("c", {"title": "T"}, where=scope()) == 1
        elif write == "re-scope":
            assert store.update("c", {"title": "T", "aclGroups": ["h"]}, where=scope()) == 1
        else:
            assert store.delete("c", where=scope()) == 1
    sources = locked.table("sources")
    seen = locked.room.ask(f"SELECT tenant_id, source_id, title FROM {sources} ORDER BY tenant_id, source_id")
    others = [("t", "theirs", None), ("u", "mine", None), ("u", "theirs", None)]
    assert seen == ([("t", "mine", "T"), *others] if write != "delete" else others)


def _without_condition(where: Filter, tenant_id: str | None) -> Condition:
    from stackroom.stores.postgres._where import condition

    return dataclasses.replace(condition(where, tenant_id), of_source="TRUE", of_passage=None)


@pytest.mark.parametrize("groups", [["h"], ["g", "h"], [], None])
def test_groups_are_changed_by_a_write_that_names_groups(store: PostgresStore, groups: Any) -> None:
    assert store.update("c", {"aclGroups": groups, "k": 1}, where=And(scope(), Eq("sourceId", "mine"))) == 1
    (found,) = store.scan("c", where=And(Eq("tenantId", "t"), Eq("sourceId", "mine")), limit=2)
    assert (found.metadata.get("aclGroups"), found.metadata["k"]) == (groups, 1)
    assert store.count("c", where=Exists("k")) == 1
    assert store.update("c", {"aclGroups": ["x"]}, where=And(scope(), Eq("sourceId", "theirs"))) == 0


@pytest.mark.parametrize("expect", [None, frozenset[int]()])
def test_a_source_that_is_there_in_other_groups_is_a_conflict_and_stays(store: PostgresStore, expect: Any) -> None:
    where = And(scope(groups=("g",)), In("sourceId", ["theirs", "new"]))
    with pytest.raises(Conflict, match="where"):
        store.replace("c", [record("new"), record("theirs")], where=where, expect=expect)
    assert READS["scan"](store, Eq("tenantId", "t")) == ["mine#0", "theirs#0"]
    assert store.replace("c", [record("new")], where=where) == 0


def test_a_replace_that_has_looked_at_other_groups_sees_them_no_more(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it takes away goes by what is seen, should a condition be missing there."""
    from stackroom.stores.postgres import _writes

    removals = _writes._removals  # noqa: SLF001 - which a fault would have name what it must not

    def all_of(place: Any, taking: Any) -> Any:
        numbers = [*range(1_000)]
        return [dataclasses.replace(of, values={**of.values, "whole": numbers}) for of in removals(place, taking)]

    monkeypatch.setattr(_writes, "_removals", all_of)
    assert store.replace("c", [record("mine", "new")], where=And(scope(), Eq("sourceId", "mine"))) == 1
    assert READS["scan"](store, Eq("tenantId", "t")) == ["mine#0", "theirs#0"]


def test_a_partition_that_is_asked_by_its_name_tells_nothing(locked: Locked) -> None:
    """Policies of a table do not hold for its partitions: the role must have no rights to those."""
    sql = schema_sql(
        "parts", CollectionSpec(2, "m"), schema=locked.room.schema, partitions=2, vector_index=True,
        row_level_security=True, role=locked.role,
    )  # fmt: skip
    locked.room.ask(sql)
    store = locked.store(exact_limit=1_000)
    store.replace("parts", [record("mine")], where=Eq("tenantId", "t"))
    assert [match.id for match in store.dense("parts", [1, 0], where=scope(), limit=2)] == ["mine#0"]
    ((parent,),) = locked.room.ask(
        "SELECT relname FROM pg_class WHERE relkind = 'p' AND relnamespace = current_schema::regnamespace"
    )
    parts = locked.room.ask(f"SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = '{parent}'::regclass")
    assert len(parts) == 2
    for (part,) in parts:
        with psycopg.connect(locked.dsn) as mine, pytest.raises(psycopg.errors.InsufficientPrivilege):
            mine.execute(f"SELECT 1 FROM {locked.room.schema}.{part}".encode())


def test_a_connection_that_says_nothing_of_itself_sees_and_writes_nothing(locked: Locked, store: PostgresStore) -> None:
    del store
    with psycopg.connect(locked.dsn, autocommit=True, options=f"-csearch_path={locked.room.schema},public") as mine:
        for kind in ("sources", "passages", "terms"):
            table = locked.table(kind)
            assert mine.execute(f"SELECT count(*) FROM {table}".encode()).fetchone() == (0,)
            assert mine.execute(f"DELETE FROM {table}".encode()).rowcount == 0
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            mine.execute(f"INSERT INTO {locked.table('terms')} (tenant, term) VALUES (gen_random_uuid(), 'x')".encode())


def test_what_a_transaction_says_of_itself_ends_with_it(locked: Locked, store: PostgresStore) -> None:
    """One connection, used for one tenant and then for another."""
    single = locked.store(pool_size=1)
    assert READS["scan"](single, scope("t")) == ["mine#0"]
    with single._database._connection() as connection:  # noqa: SLF001 - the very connection that was used
        table = f"{locked.room.schema}.{locked.table('sources')}"
        assert connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchone() == (0,)
    assert READS["scan"](single, scope("u", ("h",))) == ["theirs#0"]
    assert store.count("c", where=Exists("tenantId")) == 4


def test_calls_that_name_no_tenant_go_from_tenant_to_tenant(store: PostgresStore) -> None:
    store.update("c", {"stackroom.expiresAt": 5}, where=And(Eq("tenantId", "t"), Eq("sourceId", "mine")))
    store.update("c", {"stackroom.expiresAt": 9}, where=And(Eq("tenantId", "u"), Eq("sourceId", "theirs")))
    assert store.delete("c", where=Range("stackroom.expiresAt", lte=9)) == 2
    assert [record.tenant_id for record in store.scan("c", where=Exists("tenantId"), limit=9)] == ["t", "u"]


HOSTILE = ["a,b", "{a}", '"', "\\", "a'b", " ", "NULL", "null", "é", "e\u0301", "{", '","', "\n", "%", "yes"]


def test_groups_of_any_spelling_pass_the_lock_as_they_are(locked: Locked) -> None:
    store = locked.store()
    records = [record(f"s{at:02}", groups=(group,)) for at, group in enumerate(HOSTILE)]
    store.replace("c", records, where=Eq("tenantId", "t"))
    for at, group in enumerate(HOSTILE):
        assert READS["scan"](store, scope(groups=(group,))) == [f"s{at:02}#0"]


def test_a_library_works_under_the_lock(locked: Locked) -> None:
    room = locked.room
    embedder = HashingEmbedder(8)
    spec = CollectionSpec(8, str(embedder.fingerprint))
    room.ask(schema_sql("library", spec, schema=room.schema, row_level_security=True, role=locked.role))
    library = Library(locked.store(), "library", embedder)
    library.index_source(Source("s", "doc", "t", ["g"], ["red fox"]))
    assert [hit.id for hit in library.search("fox", scope=Scope("t", ["g"]))] == ["s#0"]
    assert len(library.search("fox", scope=Scope("t", ["h"]))) == 0
    assert library.set_source_scope("s", tenant_id="t", acl_groups=["h"]) == 1
    assert [hit.id for hit in library.search("fox", scope=Scope("t", ["h"]))] == ["s#0"]
    assert library.verify_embedder() == pytest.approx(1.0)
    assert library.sweep() == 0
    assert library.remove_tenant("t") == 1


BROKEN: dict[str, tuple[str, str]] = {
    "superuser": ("ALTER ROLE {role} SUPERUSER", "superuser"),
    "bypass": ("ALTER ROLE {role} BYPASSRLS", "BYPASSRLS"),
    "owner": ("ALTER TABLE {sources} OWNER TO {role}", "owns"),
    "member of the owner": (
        "CREATE ROLE {role}_o; ALTER TABLE {sources} OWNER TO {role}_o; GRANT {role}_o TO {role}",
        "owner",
    ),
    "not enabled": ("ALTER TABLE {passages} DISABLE ROW LEVEL SECURITY", "not enabled"),
    "not forced": ("ALTER TABLE {sources} NO FORCE ROW LEVEL SECURITY", "forced"),
    "no policy": ("DROP POLICY stackroom_scope ON {terms}", "no policy"),
    "another policy": ("CREATE POLICY more ON {sources} USING (true)", "another permissive policy"),
    "a policy that lets all through": ("ALTER POLICY stackroom_scope ON {sources} USING (true)", "sees rows"),
}

_TENANT = "tenant = nullif(current_setting('stackroom.tenant', true), '')::uuid"

REPLACED: dict[str, str] = {
    "without groups": f"ALTER POLICY stackroom_scope ON {{sources}} USING ({_TENANT})",
    "any tenant that is named": (
        "ALTER POLICY stackroom_scope ON {passages} USING (nullif(current_setting('stackroom.tenant', true), '') <> '')"
    ),
    "passages without their sources": f"ALTER POLICY stackroom_scope ON {{passages}} USING ({_TENANT})",
    "another precedence": (
        f"ALTER POLICY stackroom_scope ON {{sources}} USING ({_TENANT} "
        "AND current_setting('stackroom.any_group', true) = 'yes' "
        "OR acl_groups && nullif(current_setting('stackroom.groups', true), '')::text[])"
    ),
    "written for anybody": "ALTER POLICY stackroom_scope ON {terms} WITH CHECK (true)",
    "a role of its own": "ALTER POLICY stackroom_scope ON {terms} TO {role}",
    "reading alone": (
        "DROP POLICY stackroom_scope ON {terms}; CREATE POLICY stackroom_scope ON {terms} FOR SELECT USING (true)"
    ),
    "sources of another schema": (
        "CREATE SCHEMA IF NOT EXISTS decoy_{role}; GRANT USAGE ON SCHEMA decoy_{role} TO {role}; "
        "CREATE TABLE decoy_{role}.{sources} AS SELECT * FROM {sources}; "
        "GRANT SELECT ON decoy_{role}.{sources} TO {role}; "
        f"ALTER POLICY stackroom_scope ON {{passages}} USING ({_TENANT} "
        "AND source IN (SELECT number FROM decoy_{role}.{sources}))"
    ),
}


@pytest.mark.parametrize("replaced", REPLACED)
def test_a_policy_that_says_something_else_under_our_name_is_not_served(
    locked: Locked, store: PostgresStore, replaced: str
) -> None:
    """A probe without a scope sees nothing of any of these."""
    store.close()
    names = {kind: locked.table(kind) for kind in ("sources", "passages", "terms")}
    try:
        locked.room.ask(REPLACED[replaced].format(role=locked.role, **names))
        with pytest.raises(StoreError, match="not the one"):
            locked.store()
    finally:
        locked.room.ask(f"DROP SCHEMA IF EXISTS decoy_{locked.role} CASCADE")


@pytest.mark.parametrize("path", ["public", "{schema},public", "public,{schema}"])
def test_our_own_policies_are_known_whatever_the_search_path(locked: Locked, store: PostgresStore, path: str) -> None:
    store.close()
    searched = path.format(schema=locked.room.schema)
    dsn = psycopg.conninfo.make_conninfo(locked.dsn, options=f"-csearch_path={searched}")
    again = locked.room.store(dsn, manage_schema=False, row_level_security=True)
    assert READS["dense"](again, scope()) == ["mine#0"]


@pytest.mark.parametrize("breakage", BROKEN)
def test_a_lock_that_does_not_hold_is_not_served(locked: Locked, store: PostgresStore, breakage: str) -> None:
    store.close()
    statement, problem = BROKEN[breakage]
    names = {kind: locked.table(kind) for kind in ("sources", "passages", "terms")}
    try:
        locked.room.ask(statement.format(role=locked.role, **names))
        with pytest.raises(StoreError, match=problem):
            locked.store()
    finally:
        locked.room.ask(f"ALTER ROLE {locked.role} NOSUPERUSER NOBYPASSRLS")
        for kind in names.values():
            locked.room.ask(f"ALTER TABLE {kind} OWNER TO postgres")
        locked.room.ask(f"DROP ROLE IF EXISTS {locked.role}_o")


def test_a_collection_made_later_without_the_lock_is_not_served(locked: Locked, store: PostgresStore) -> None:
    room = locked.room
    room.ask(schema_sql("open", CollectionSpec(2, "m"), schema=room.schema, role=locked.role))
    with pytest.raises(StoreError, match="does not hold"):
        store.count("open", where=scope())
    assert store.count("c", where=scope()) == 1


def test_a_store_that_knows_nothing_of_the_lock_is_told_and_does_not_find_nothing(
    locked: Locked, store: PostgresStore
) -> None:
    assert store.count("c", where=scope()) == 1
    unaware = locked.room.store(locked.dsn, manage_schema=False)
    with pytest.raises(StoreError, match="row_level_security=True"):
        unaware.count("c", where=scope())
    assert locked.room.store().count("c", where=scope()) == 1  # a superuser, whom no lock concerns


def test_a_locked_store_makes_no_tables(locked: Locked) -> None:
    with pytest.raises(ValueError, match="manage_schema"):
        locked.store(manage_schema=True)
    with pytest.raises(CapabilityError, match="schema_sql"):
        locked.store().create_collection("other", SPEC)


def test_a_swap_under_the_lock_looks_at_the_versions_of_all_tenants_and_empties_what_it_drops(
    locked: Locked, store: PostgresStore
) -> None:
    room = locked.room
    sql = schema_sql("c.side", CollectionSpec(2, "n"), schema=room.schema, row_level_security=True, role=locked.role)
    room.ask(sql)
    store.replace("c.side", [record("new")], where=Eq("tenantId", "t"))
    found = store.scan("c", where=Exists("tenantId"), limit=9)
    versions = {of.version for of in found if of.version is not None}
    for wrong in (set[int](), versions - {min(versions)}):
        with pytest.raises(Conflict):
            store.swap("c", "c.side", expect=wrong)
    store.swap("c", "c.side", expect=versions)
    assert [of.source_id for of in store.scan("c", where=Exists("tenantId"), limit=9)] == ["new"]
    tables = room.ask(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ 'stackroom_(sources|passages)_' "
        "AND relnamespace = current_schema::regnamespace"
    )
    assert sorted(room.ask(f"SELECT count(*) FROM {name}")[0][0] for (name,) in tables) == [0, 0, 1, 1]
