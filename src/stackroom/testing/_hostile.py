"""Hostile values: any string in any place, each kept apart from its lookalikes, none ever part of a statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from stackroom import StackroomError
from stackroom.filters import And, Contains, Eq, Exists, In, Range
from stackroom.stores import Record, VectorStore
from stackroom.testing._records import EVERYTHING, content, ids, record, source, tenant
from stackroom.testing._refusals import is_refused, refused_nodes

if TYPE_CHECKING:
    from collections.abc import Callable

    from stackroom.testing._shelf import Shelf

HOSTILE = [
    *(
        "/",
        "..",
        "../../etc/passwd",
        "a/b",
        "a\\b",
        ".",
        "~",
        "#",
        "a#0",
        "##",
        "%",
        "_",
        "*",
        "?",
        "a*",
        "'",
        '"',
        "`",
    ),
    *("'; DROP TABLE records; --", '") OR 1=1 --', "${x}", "{{x}}", "$eq", "$.a[0]", "a.b", "a:b", "a,b", "[a]", "{}"),
    *("CON", "con", "NUL", "null", "None", "true", "0", "-1", "1e3", "NaN", "NOT", "OR 1", "\\", "\\n", "\n", "\r\n"),
    *(
        "\t",
        " ",
        " a",
        "a ",
        "a  ",
        "a",
        "A",
        "ａ",
        "\u00c9",
        "\u00e9",
        "e\u0301",
        "ß",
        "ss",
        "SS",
        "İ",
        "i\u0307",
        "ı",
        "\ufb01",
        "fi",
    ),
    *("\u200b", "a\u200b", "\ufeff", "\u202ea", "\u2028", "\x01", "\x7f", "\x85", "\ufffd", "\ufffe", "\uffff"),
    *("\U0001f600", "\U0001f469\u200d\U0001f467", "שלום", "\U0010ffff", "\u2126", "\u03a9", "\uac00", "\u1100\u1161"),
    *("x" * 512, "\U0001f600" * 512),
]
"""All different, code point for code point; many of them equal to somebody who folds, trims or normalises."""

TEXTS = [
    *(
        "",
        " ",
        " both ends ",
        "\ttab\n",
        "line\r\nline\rline\nline\u2028line\u0085",
        "\u00e9 e\u0301 \u00c9",
        "\ufb01 \u212b \u00c5",
        "\ufeffbom",
    ),
    *(
        "\x01\x02\x1b[0m\x7f",
        "\u202eright to left",
        "\U0001f469\u200d\U0001f467 \U0010ffff \ufffe",
        "'; DROP TABLE t; --",
        "%s {0} ${x}",
        "\\x00 \\n",
    ),
]

UNSTORABLE = [("NUL", "secret\x00"), ("a high surrogate", "secret\ud800"), ("a low surrogate", "\udc00secret")]

BAD_RECORDS: dict[str, Callable[[], Record]] = {
    "without a tenant": lambda: Record("", [1, 0], {"sourceId": "a", "index": 0}),
    "index True": lambda: Record("", [1, 0], {"tenantId": "t", "sourceId": "a", "index": True}),
    "index -1": lambda: Record("", [1, 0], {"tenantId": "t", "sourceId": "a", "index": -1}),
    "index 2**31": lambda: Record("", [1, 0], {"tenantId": "t", "sourceId": "a", "index": 2**31}),
    "an empty source": lambda: Record("", [1, 0], {"tenantId": "t", "sourceId": "", "index": 0}),
    "tags that are a string": lambda: record("a#0", tags="q3"),
    "tags of numbers": lambda: record("a#0", tags=[1]),
    "a kind that is a number": lambda: record("a#0", kind=1),
    "a NUL in the text": lambda: record("a#0", "secret\x00"),
    "a surrogate in a list": lambda: record("a#0", l=["\ud800"]),
    "a vector of zeros": lambda: record("a#0", vector=[0, 0]),
    "a vector too large for float32": lambda: record("a#0", vector=[1e39, 0]),
    "a vector that is NaN": lambda: record("a#0", vector=[float("nan"), 0]),
    "a matrix": lambda: record("a#0", vector=[[1, 0]]),
    "None": lambda: record("a#0", n=None),
    "NaN": lambda: record("a#0", n=float("nan")),
    "an int beyond 64 bits": lambda: record("a#0", n=2**63),
    "nested values": lambda: record("a#0", n=[[1]]),
    "an empty key": lambda: record("a#0", metadata={"": 1}),
}

NAME = "Zq7secretZq7"
"""Stands as tenant, source, title and text; no error may show it."""

FAILURES: dict[str, Callable[[Shelf], object]] = {
    "split": lambda shelf: shelf.replace([_secret(1)], source("other", NAME)),
    "expect": lambda shelf: shelf.replace([_secret(0)], tenant(NAME), expect=frozenset()),
    "fingerprint": lambda shelf: shelf.replace([_secret(0)], tenant(NAME), fingerprint="n@2"),
    "length": lambda shelf: shelf.replace([record("a#0", NAME, [0.123456, 1, 2], tenant=NAME)], tenant(NAME)),
    "twice": lambda shelf: shelf.replace([_secret(0), _secret(0)], tenant(NAME)),
    "tenants": lambda shelf: shelf.replace([_secret(0), record("a#0", NAME)], tenant(NAME)),
    "no tenant": lambda shelf: shelf.replace([_secret(0)], Eq("sourceId", NAME)),
    "not the records' tenant": lambda shelf: shelf.replace([_secret(0)], tenant()),
    "differing": lambda shelf: shelf.replace([_secret(0, title=NAME), _secret(1)], tenant(NAME)),
    "no condition": lambda shelf: shelf.delete(Exists(NAME, exists=False)),
    "query": lambda shelf: shelf.dense([0.123456, 1, 2], tenant(NAME)),
}


class HostileValueTests:
    """What holds of any string, wherever it stands."""

    def test_hostile_tenants_are_kept_apart(self, shelf: Shelf) -> None:
        """Look at how a tenant becomes a path, table or key: never lossy, never longer than its place, never folded."""
        shelf.put(*(record("a#0", value, tenant=value, of=value) for value in HOSTILE))
        assert [of.tenant_id for of in shelf.scan()] == sorted(HOSTILE)
        for value in HOSTILE:
            assert [of.text for of in shelf.scan(tenant(value))] == [value]
            assert shelf.count(tenant(value)) == len(shelf.dense([1, 0], tenant(value))) == 1
        for left, value in enumerate(HOSTILE, start=1):
            assert shelf.delete(tenant(value)) == 1
            assert shelf.count() == len(HOSTILE) - left

    def test_hostile_sources_are_kept_apart(self, shelf: Shelf) -> None:
        """Look at how a source id is compared, ordered and made into an id: by code point, in the database too."""
        shelf.put(*(record(f"{value}#0", value) for value in HOSTILE))
        assert [of.source_id for of in shelf.scan()] == sorted(HOSTILE)
        assert ids(shelf.dense([1, 0])) == sorted(f"{value}#0" for value in HOSTILE)
        for value in HOSTILE:
            assert [of.text for of in shelf.scan(source(value))] == [value]
            assert shelf.replace([record(f"{value}#1", "new")], source(value)) == 1
        assert shelf.count() == len(HOSTILE)
        assert {of.index for of in shelf.scan()} == {1}

    @pytest.mark.parametrize("key", ["folderId", "kind", "status", "title", "own", "stackroom.any"])
    def test_hostile_values_are_kept_apart(self, shelf: Shelf, key: str) -> None:
        """Look at collations and normalisation of a column: `é`, `é`, `É` and `é ` are four values."""
        written = [record(f"s{at}#0", metadata={key: value}) for at, value in enumerate(HOSTILE)]
        shelf.put(*written)
        assert sorted(str(of.metadata[key]) for of in shelf.scan()) == sorted(HOSTILE)
        for at, value in enumerate(HOSTILE):
            assert shelf.ids(And(tenant(), Eq(key, value))) == [f"s{at}#0"]
        low, high = sorted(HOSTILE)[9], sorted(HOSTILE)[-3]
        between = [value for value in HOSTILE if low < value <= high]
        assert shelf.count(Range(key, gt=low, lte=high)) == len(between), "strings are ordered by code point"

    @pytest.mark.parametrize("key", ["aclGroups", "tags", "own"])
    def test_hostile_elements_are_kept_apart(self, shelf: Shelf, key: str) -> None:
        """Look at how lists are stored and asked: no joining by commas, no splitting, no folding."""
        pairs = [[value, "common"] for value in HOSTILE]
        shelf.put(*(record(f"s{at}#0", metadata={key: pair}) for at, pair in enumerate(pairs)))
        for at, value in enumerate(HOSTILE):
            assert shelf.ids(In(key, [value])) == [f"s{at}#0"]
        assert shelf.count(In(key, ["common"])) == len(HOSTILE)
        assert {of.source_id: of.metadata[key] for of in shelf.scan()} == {
            f"s{at}": pair for at, pair in enumerate(pairs)
        }

    def test_hostile_keys_are_kept_apart(self, shelf: Shelf) -> None:
        """Look at how a key reaches the query: bound or quoted, exactly as spelled; a dot or `$` in it is no path."""
        shelf.put(*(record(f"s{at}#0", metadata={key: at}) for at, key in enumerate(HOSTILE)))
        written = {f"s{at}": content(record(f"s{at}#0", metadata={key: at})) for at, key in enumerate(HOSTILE)}
        assert {of.source_id: content(of) for of in shelf.scan()} == written
        for at, key in enumerate(HOSTILE):
            if not key.startswith("$"):
                assert shelf.ids(Exists(key)) == [f"s{at}#0"]
                assert shelf.ids(And(Eq(key, at), tenant())) == [f"s{at}#0"]
                assert shelf.count(Eq(key, "1")) == 0

    def test_hostile_values_cannot_reach_around_a_scope(self, shelf: Shelf) -> None:
        """Look at how values are bound: whatever stands in a filter, the tenant beside it holds."""
        shelf.put(record("a#0", n=1), record("b#0", tenant="u", n=2))
        for value in HOSTILE:
            for leaf in (Eq(value, value), In("n", [value])) if not value.startswith("$") else (In("n", [value]),):
                assert shelf.ids(And(tenant(), leaf)) == []
            both = And(tenant(), Contains("n", value))
            if not refused_nodes(shelf, both):
                assert shelf.ids(both) == []

    def test_hostile_patches_and_removed_keys(self, shelf: Shelf) -> None:
        """Look at how an update names its keys: bound, none spliced, none split at dots."""
        if is_refused(shelf, "update"):
            return
        shelf.put(record("a#0", a=1))
        assert shelf.update(dict.fromkeys(HOSTILE, "v"), source("a")) == 1
        assert content(shelf.one("a#0")) == content(record("a#0", metadata=dict.fromkeys(HOSTILE, "v")))
        assert shelf.update(dict.fromkeys(HOSTILE[1:]), source("a")) == 1
        assert content(shelf.one("a#0")) == content(record("a#0", metadata={HOSTILE[0]: "v"}))

    def test_hostile_row_20_composed_and_decomposed_are_two_sources(self, shelf: Shelf) -> None:
        """Look at normal forms: the database or its driver must not bring strings into one."""
        shelf.put(record("\u00e9#0"), record("e\u0301#0"))
        assert shelf.delete(source("\u00e9")) == 1
        assert shelf.ids() == ["e\u0301#0"]

    @pytest.mark.parametrize("text", TEXTS)
    def test_hostile_texts_come_back_code_point_for_code_point(self, shelf: Shelf, text: str) -> None:
        """Look at how text is stored: no trimming, no line ends changed, no normal form, an empty one is fine."""
        shelf.put(record("a#0", text, v=[text]))
        assert content(shelf.one("a#0")) == content(record("a#0", text, v=[text]))

    @pytest.mark.parametrize("make", BAD_RECORDS)
    def test_hostile_row_4_records_are_checked_when_made(self, make: str) -> None:
        """Nothing of the adapter: the core refuses such a record before a store sees it."""
        with pytest.raises(ValueError, match=r".") as raised:
            BAD_RECORDS[make]()
        assert "secret" not in str(raised.value)

    @pytest.mark.parametrize(("name", "value"), UNSTORABLE)
    def test_hostile_characters_that_no_database_holds_are_refused(self, name: str, value: str) -> None:
        """Nothing of the adapter: U+0000 and lone surrogates end at the record, wherever they stand."""
        del name
        makes: list[Callable[[], Record]] = [
            lambda: record("a#0", value),
            lambda: record("a#0", k=value),
            lambda: record("a#0", metadata={value: 1}),
            lambda: record("a#0", tenant=value),
            lambda: record(f"{value}#0"),
        ]
        for make in makes:
            with pytest.raises(ValueError, match="position") as raised:
                make()
            assert "secret" not in str(raised.value)

    @pytest.mark.parametrize("length", [513, 5_000])
    def test_hostile_ids_beyond_512_characters_are_held_or_refused(self, shelf: Shelf, length: int) -> None:
        """Look at the longest key of the database: beyond 512 characters a ValueError is fine, a cut is not."""
        shelf.put(record("a#0"))
        for written in (
            record(f"{'é' * length}#0"),
            record("a#0", tenant="é" * length),
            record("b#0", folderId="é" * length, tags=["é" * length]),
        ):
            before = shelf.state()
            try:
                shelf.put(written)
            except ValueError:
                assert shelf.state() == before
            else:
                assert content(shelf.one(written.id, written.tenant_id)) == content(written)

    @pytest.mark.parametrize("failure", FAILURES)
    def test_hostile_errors_show_nothing_of_what_is_stored(self, shelf: Shelf, failure: str) -> None:
        """Look at messages, and at the database's errors kept as their cause: no text, vector, tenant or id in them."""
        shelf.put(_secret(0))
        with pytest.raises((StackroomError, ValueError)) as raised:
            FAILURES[failure](shelf)
        error: BaseException | None = raised.value
        while error is not None:
            assert NAME not in str(error)
            assert "0.123456" not in str(error)
            error = error.__cause__ or error.__context__

    def test_hostile_store_is_empty_at_first(self, store: VectorStore, unused: str) -> None:
        """Look at your `store` fixture: it yields a store in which the kit's collections do not exist."""
        assert store.collection(unused) is None
        with pytest.raises(LookupError):
            store.count(unused, where=EVERYTHING)


def _secret(index: int, **keys: Any) -> Record:
    return record(f"{NAME}#{index}", NAME, tenant=NAME, **keys)
