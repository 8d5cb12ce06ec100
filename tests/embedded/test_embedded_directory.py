"""The library's directory: what is refused is not touched, what is left by a crash does no harm."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackroom import Library, Scope, Source, StoreError, StoreUnavailable
from stackroom.embedders import HashingEmbedder
from stackroom.filters import And, Eq, Exists
from stackroom.stores import CollectionSpec, EmbeddedStore, Record
from stackroom.stores.embedded._directory import FORMAT
from stackroom.stores.embedded._names import directory_name

SPEC = CollectionSpec(2, "m@2")


def record(tenant: str, source: str, text: str = "some words") -> Record:
    return Record(text, [1.0, 0.0], {"tenantId": tenant, "sourceId": source, "index": 0})


def put(store: EmbeddedStore, tenant: str, source: str) -> None:
    where = And(Eq("tenantId", tenant), Eq("sourceId", source))
    store.replace("c", [record(tenant, source)], where=where)


def everything(path: Path) -> dict[str, bytes | None]:
    return {str(entry.relative_to(path)): entry.read_bytes() if entry.is_file() else None for entry in path.rglob("*")}


def test_a_missing_directory_is_made_with_its_parents(tmp_path: Path) -> None:
    with Library.open(tmp_path / "a" / "b", embedder=HashingEmbedder(8)) as library:
        library.index_source(Source("s", "doc", "t", ["g"], ["some words"]))
    with Library.open(tmp_path / "a" / "b", embedder=HashingEmbedder(8)) as library:
        assert library.count(scope=Scope("t", ["g"])) == 1


def test_an_empty_directory_becomes_a_library(tmp_path: Path) -> None:
    EmbeddedStore(tmp_path).close()
    assert (tmp_path / "library.toml").exists()


def test_a_directory_with_other_files_is_refused_and_not_touched(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"picture")
    before = everything(tmp_path)
    with pytest.raises(StoreError, match="no Stackroom library"):
        EmbeddedStore(tmp_path)
    assert everything(tmp_path) == before


def test_a_file_is_refused_and_not_touched(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    with pytest.raises(StoreError, match="is a file"):
        EmbeddedStore(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"text"


def test_a_newer_format_is_refused_by_its_number_and_not_touched(tmp_path: Path) -> None:
    (tmp_path / "library.toml").write_text(f"format = {FORMAT + 1}\nsurprise = true\n")
    before = everything(tmp_path)
    with pytest.raises(StoreError, match=str(FORMAT + 1)):
        EmbeddedStore(tmp_path)
    assert everything(tmp_path) == before


@pytest.mark.parametrize(
    "text",
    [
        "",
        "format = ",
        "[other]\nprogram = 1\n",
        "format = 1\n",
        'format = 1\nlast_generation = "x"\n',
        "format = 2\nlast_generation = 1\ncollections = 3\n",
    ],
)
def test_a_torn_or_foreign_register_is_refused_and_not_touched(tmp_path: Path, text: str) -> None:
    (tmp_path / "library.toml").write_text(text)
    before = everything(tmp_path)
    with pytest.raises(StoreError):
        EmbeddedStore(tmp_path)
    assert everything(tmp_path) == before


def test_a_register_torn_under_an_open_store_is_an_error_of_the_next_call(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path)
    store.create_collection("c", SPEC)
    (tmp_path / "library.toml").write_text("format = ")
    with pytest.raises(StoreError):
        store.count("c", where=Exists("tenantId"))
    store.close()


def test_what_a_killed_first_opening_left_is_finished(tmp_path: Path) -> None:
    (tmp_path / "library.toml.new").write_text("form")
    (tmp_path / "ledger.db").touch()
    EmbeddedStore(tmp_path).close()
    assert (tmp_path / "library.toml").exists()


@pytest.mark.parametrize("fingerprint", ['quo"te\\@2', "snow☃@2", "tab\tand\nline@2", "del\x7f@2", "𝄞@2"])
def test_any_fingerprint_comes_back_as_given(tmp_path: Path, fingerprint: str) -> None:
    store = EmbeddedStore(tmp_path)
    store.create_collection("c.x_y-Z", CollectionSpec(2, fingerprint))
    store.close()
    again = EmbeddedStore(tmp_path)
    assert again.collection("c.x_y-Z") == CollectionSpec(2, fingerprint)
    assert again.collection("C.x_y-Z") is None
    again.close()


def test_a_half_made_shard_is_made_anew(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path)
    store.create_collection("c", SPEC)
    (tmp_path / "1" / "t").mkdir(parents=True)
    (tmp_path / "1" / "t" / "shard.db").touch()
    assert store.count("c", where=Eq("tenantId", "t")) == 0
    put(store, "t", "s")
    assert store.count("c", where=Eq("tenantId", "t")) == 1
    store.close()


def test_generations_that_nothing_names_are_erased_at_the_next_opening(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path)
    store.create_collection("c", SPEC)
    put(store, "t", "s")
    store.close()
    (tmp_path / "77" / "t").mkdir(parents=True)
    (tmp_path / "1" / ".removed-u").mkdir()
    (tmp_path / "1" / ".begun-u").mkdir()
    again = EmbeddedStore(tmp_path)
    assert not (tmp_path / "77").exists()
    assert [path.name for path in (tmp_path / "1").iterdir()] == ["t"]
    assert again.count("c", where=Eq("tenantId", "t")) == 1
    again.close()


def test_a_generation_number_is_never_used_twice(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path)
    for _ in range(3):
        store.create_collection("c", SPEC)
        put(store, "t", "s")
        store.drop_collection("c")
    store.create_collection("c", SPEC)
    put(store, "t", "s")
    assert [entry.name for entry in tmp_path.iterdir() if entry.is_dir()] == ["4"]
    store.close()


def test_a_removed_tenant_leaves_no_directory(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path)
    store.create_collection("c", SPEC)
    put(store, "t", "s")
    put(store, "u", "s")
    assert store.delete("c", where=Eq("tenantId", "t")) == 1
    assert [entry.name for entry in (tmp_path / "1").iterdir()] == ["u"]
    store.close()


HOSTILE = [
    "..",
    ".",
    "../../etc",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "con",
    "CON",
    "nul",
    "com1",
    "A",
    "a",
    "É",
    "é",
    "e\u0301",
    "a ",
    " a",
    "a.",
    ".a",
    "-a",
    "_a",
    "x" * 512,
    "x" * 511,
    "\u202eabc",
    "😀",
    "a\nb",
    "ta.b",
    "%2e%2e",
    "~",
    "$HOME",
    "*",
]


def test_hostile_tenants_lie_apart_inside_the_directory(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path / "library")
    store.create_collection("c", SPEC)
    for tenant in HOSTILE:
        put(store, tenant, tenant)
    for tenant in HOSTILE:
        found = store.scan("c", where=Eq("tenantId", tenant), limit=5)
        assert [(hit.tenant_id, hit.source_id) for hit in found] == [(tenant, tenant)]
    assert store.count("c", where=Exists("tenantId")) == len(HOSTILE)
    assert [entry.name for entry in tmp_path.iterdir()] == ["library"]
    names = [entry.name for entry in (tmp_path / "library" / "1").iterdir()]
    assert len({name.lower() for name in names}) == len(HOSTILE)
    store.close()


@given(st.text(min_size=1, max_size=60), st.text(min_size=1, max_size=60))
def test_a_directory_name_is_safe_everywhere_and_of_one_tenant_alone(one: str, other: str) -> None:
    names = [directory_name(tenant) for tenant in (one, other) if tenant.isprintable()]
    for name in names:
        assert name.isascii()
        assert name == name.lower()
        assert 1 <= len(name) <= 80
        assert not set(name) & set('/\\:*?"<>| ')
        assert name[0] not in ".-_"
        assert name[-1] != "."
        assert name.split(".")[0] not in {"con", "nul", "prn", "aux"}
    if one != other and len(names) == 2:
        assert names[0].casefold() != names[1].casefold()


def test_a_shard_that_is_no_database_any_more_is_said_and_the_doctor_says_which(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path)
    store.create_collection("c", SPEC)
    for tenant in ("t", "u"):
        put(store, tenant, "s")
    store.close()
    for file in (tmp_path / "1" / "t").glob("shard.db*"):
        file.write_bytes(b"no database at all " * 1000)
    store = EmbeddedStore(tmp_path)
    with pytest.raises(StoreUnavailable, match="damaged"):
        store.count("c", where=Eq("tenantId", "t"))
    assert store.count("c", where=Eq("tenantId", "u")) == 1
    assert [(problem.place, problem.is_mended_by_compact) for problem in store.problems()] == [("1/t", False)]
    store.close()
