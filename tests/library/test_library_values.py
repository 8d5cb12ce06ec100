"""Values are checked when they are made: cases 1–3, 24, 31 and every row of "At the door"."""

from __future__ import annotations

import enum
from datetime import UTC, date, datetime, timedelta, timezone
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.library.doubles import source

from stackroom import FilterError, Narrowing, Passage, Scope, ScopeError, Source, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterable

ZERO_WIDTH_SPACE = chr(0x200B)
BYTE_ORDER_MARK = chr(0xFEFF)
LONE_SURROGATE = chr(0xD800)


class Kind(enum.StrEnum):
    DOC = "doc"


NAMES_REFUSED: list[Any] = [
    pytest.param("", id="empty"),
    pytest.param(" ", id="space"),
    pytest.param("\t\n", id="white space"),
    pytest.param(ZERO_WIDTH_SPACE, id="U+200B"),
    pytest.param(BYTE_ORDER_MARK + " ", id="U+FEFF"),
    pytest.param("\x07", id="control character"),
    pytest.param("a\x00b", id="NUL"),
    pytest.param("a" + LONE_SURROGATE, id="lone surrogate"),
    pytest.param("x" * 513, id="513 characters"),
    pytest.param(5, id="int"),
    pytest.param(True, id="bool"),
    pytest.param(float("nan"), id="NaN"),
    pytest.param(np.int64(5), id="numpy int"),
    pytest.param(b"t", id="bytes"),
    pytest.param(["t"], id="list"),
]
NAMES_TAKEN = [
    " padded ",
    "UPPER",
    "a\nb",
    'it\'s "quoted" % _ \\ ; --',
    "../up",
    "a#1",
    "🗄️",
    "é",
    "e" + chr(0x301),
    "x" * 512,
    "😀" * 512,
]
LISTS_REFUSED: list[Any] = [
    pytest.param("g", id="bare str"),
    pytest.param(b"g", id="bytes"),
    pytest.param({"g": 1}, id="dict"),
    pytest.param(MappingProxyType({"g": 1}), id="mapping"),
    pytest.param(5, id="int"),
    pytest.param(True, id="bool"),
    pytest.param(np.str_("g"), id="numpy str"),
]


def narrowed(field: str, value: Any) -> Narrowing:
    given: dict[str, Any] = {field: value}
    return Narrowing(**given)


@pytest.mark.parametrize("name", [*NAMES_REFUSED, None])
def test_a_tenant_or_group_that_cannot_be_one_is_a_scope_error_that_is_a_value_error(name: Any) -> None:
    for tenant_id, group in ((name, "g"), ("t", name)):
        with pytest.raises(ScopeError) as caught:
            Scope(tenant_id, ["g", group])
        assert isinstance(caught.value, ValueError)
    with pytest.raises(ScopeError):
        source(tenant_id=name)
    with pytest.raises(ScopeError):
        source(acl_groups=["g", name])


@pytest.mark.parametrize("groups", [*LISTS_REFUSED, pytest.param([], id="none"), pytest.param(None, id="None")])
def test_groups_are_a_list_with_at_least_one(groups: Any) -> None:
    with pytest.raises(ScopeError):
        Scope("t", groups)
    with pytest.raises(ScopeError):
        source(acl_groups=groups)


@pytest.mark.parametrize(
    ("tenant_id", "groups"), [("", ["g"]), (" ", ["g"]), ("t", []), ("t", [""]), ("t", "g")], ids=str
)
def test_case_1_a_scope_that_names_nobody_is_refused(tenant_id: str, groups: Any) -> None:
    with pytest.raises(ScopeError):
        Scope(tenant_id, groups)


def test_case_2_doubled_groups_go_and_the_order_stays() -> None:
    assert Scope("t", ["b", "a", "b"]).acl_groups == ("b", "a")
    assert source(acl_groups=["b", "a", "b"]).acl_groups == ("b", "a")
    assert source(tags=iter(["y", "x", "y"])).tags == ("y", "x")


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"acl_groups": []}, ScopeError),
        ({"passages": [" "]}, SourceError),
        ({"metadata": {"x": None}}, SourceError),
        ({"expires_at": datetime(2030, 1, 1)}, SourceError),  # noqa: DTZ001 - the naive one is the case
    ],
    ids=["no groups", "blank passage", "None in metadata", "naive expires_at"],
)
def test_case_3_a_source_that_cannot_be_stored_is_refused(fields: dict[str, Any], error: type[Exception]) -> None:
    given: dict[str, Any] = {
        "source_id": "s",
        "kind": "doc",
        "tenant_id": "t",
        "acl_groups": ["g"],
        "passages": ["x"],
        **fields,
    }
    with pytest.raises(error):
        Source(**given)


@pytest.mark.parametrize("name", NAMES_REFUSED)
@pytest.mark.parametrize("field", ["source_id", "kind", "folder_id"])
def test_a_name_of_a_source_that_cannot_be_one_is_a_source_error(field: str, name: Any) -> None:
    with pytest.raises(SourceError) as caught:
        source(**{field: name})
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("field", ["source_id", "kind"])
def test_source_id_and_kind_are_needed(field: str) -> None:
    missing: dict[str, Any] = {field: None}
    with pytest.raises(SourceError):
        source(**{"source_id": "s", **missing})


@pytest.mark.parametrize("name", [*NAMES_REFUSED, None])
def test_a_tag_that_cannot_be_one_is_a_source_error(name: Any) -> None:
    with pytest.raises(SourceError):
        source(tags=["x", name])


@pytest.mark.parametrize("tags", [*LISTS_REFUSED, pytest.param(None, id="None")])
def test_tags_are_a_list(tags: Any) -> None:
    with pytest.raises(SourceError):
        source(tags=tags)


@pytest.mark.parametrize("passages", [*LISTS_REFUSED, pytest.param(None, id="None")])
def test_passages_are_a_list(passages: Any) -> None:
    with pytest.raises(SourceError):
        Source("s", "doc", "t", ["g"], passages)


@pytest.mark.parametrize("name", NAMES_TAKEN)
def test_names_are_kept_to_the_letter(name: str) -> None:
    made = Source(name, name, name, [name], ["x"], name, [name])
    assert (made.source_id, made.kind, made.tenant_id, made.folder_id) == (name, name, name, name)
    assert (made.acl_groups, made.tags) == ((name,), (name,))
    assert Scope(name, [name]) == Scope(name, (name,))


def test_letters_that_look_alike_are_kept_apart() -> None:
    assert Scope("t", ["É", "é", "e" + chr(0x301), "é "]).acl_groups == ("É", "é", "e" + chr(0x301), "é ")


@pytest.mark.parametrize(
    "groups", [["g"], ("g",), {"g"}, frozenset({"g"}), iter(["g"]), np.array(["g"]), {"g": 1}.keys()], ids=type
)
def test_any_iterable_is_a_list(groups: Iterable[str]) -> None:
    assert Scope("t", groups).acl_groups == ("g",)


@pytest.mark.parametrize(
    "text", ["", " ", "\n\t", ZERO_WIDTH_SPACE + "\x01", "a\x00", LONE_SURROGATE, None, 5, b"x", ["x"], {"text": "x"}]
)
def test_a_passage_without_storable_text_is_a_source_error(text: Any) -> None:
    with pytest.raises(SourceError):
        Passage(text)
    with pytest.raises(SourceError):
        Source("s", "doc", "t", ["g"], ["fine", text])


def test_a_passage_may_be_of_any_length_and_is_kept_as_it_is() -> None:
    text = "  long  " * 300_000
    assert Passage(text).text == text
    assert source("s", text).passages == (Passage(text),)


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param(None, id="None"),
        pytest.param([("a", 1)], id="pairs"),
        pytest.param("a", id="str"),
        pytest.param({"": 1}, id="empty key"),
        pytest.param({1: 1}, id="int key"),
        pytest.param({None: 1}, id="None key"),
        pytest.param({b"a": 1}, id="bytes key"),
        pytest.param({"a\x00": 1}, id="NUL in key"),
        pytest.param({LONE_SURROGATE: 1}, id="lone surrogate in key"),
        pytest.param({"a": None}, id="None"),
        pytest.param({"a": float("nan")}, id="NaN"),
        pytest.param({"a": float("-inf")}, id="infinity"),
        pytest.param({"a": np.float32("nan")}, id="numpy NaN"),
        pytest.param({"a": 2**63}, id="beyond 64 bits"),
        pytest.param({"a": -(2**63) - 1}, id="below 64 bits"),
        pytest.param({"a": {"b": 1}}, id="nested dict"),
        pytest.param({"a": [[1]]}, id="nested list"),
        pytest.param({"a": [None]}, id="None in a list"),
        pytest.param({"a": {1, 2}}, id="set"),
        pytest.param({"a": b"x"}, id="bytes"),
        pytest.param({"a": 1j}, id="complex"),
        pytest.param({"a": datetime(2024, 1, 1, tzinfo=UTC)}, id="datetime"),
        pytest.param({"a": "x\x00"}, id="NUL"),
        pytest.param({"a": ["x", LONE_SURROGATE]}, id="lone surrogate in a list"),
    ],
)
def test_metadata_that_no_record_can_hold_is_a_source_error(metadata: Any) -> None:
    with pytest.raises(SourceError):
        source(metadata=metadata)
    with pytest.raises(SourceError):
        Passage("x", metadata)


def test_numpy_scalars_in_metadata_become_pythons() -> None:
    given: dict[str, Any] = {
        "i": np.int32(5),
        "f": np.float64(0.5),
        "b": np.bool_(True),
        "s": np.str_("x"),
        "l": [np.int8(1), "a"],
    }
    for made in (dict(source(metadata=given).metadata), dict(Passage("x", given).metadata)):
        assert made == {"i": 5, "f": 0.5, "b": True, "s": "x", "l": [1, "a"]}
        assert [type(value) for value in made.values()] == [int, float, bool, str, list]


def test_integers_of_64_bits_and_hostile_keys_are_metadata() -> None:
    given: dict[str, Any] = {"$gt": 2**63 - 1, "a.b": -(2**63), "x'; --": "", " ": [], "🗄️": False}
    assert dict(Passage("x", given).metadata) == given


@pytest.mark.parametrize("title", [5, True, b"x", ["x"], "a\x00", "a" + LONE_SURROGATE])
def test_a_title_is_none_or_a_storable_string(title: Any) -> None:
    with pytest.raises(SourceError):
        source(title=title)


@pytest.mark.parametrize("title", [None, "", "  ", ZERO_WIDTH_SPACE])
def test_a_blank_title_is_none(title: str | None) -> None:
    assert source(title=title).title is None


def test_a_title_has_no_limit_and_is_not_trimmed() -> None:
    assert source(title=" T " * 1000).title == " T " * 1000


@pytest.mark.parametrize("moment", [0, 1.5, True, "2030-01-01T00:00:00Z", date(2030, 1, 1), timedelta(days=1)], ids=str)
def test_expires_at_is_none_or_an_aware_datetime(moment: Any) -> None:
    with pytest.raises(SourceError):
        source(expires_at=moment)


def test_expires_at_may_lie_in_the_past_and_in_any_zone() -> None:
    moment = datetime(1950, 1, 1, tzinfo=timezone(timedelta(hours=-5)))
    assert source(expires_at=moment).expires_at == moment


@pytest.mark.parametrize("tier", ["", "Hot", " hot", "tepid", 1, True, ["hot"], b"hot"], ids=str)
def test_a_tier_is_hot_warm_or_cold(tier: Any) -> None:
    with pytest.raises(SourceError):
        source(tier=tier)


@pytest.mark.parametrize("tier", [None, "hot", "warm", "cold"])
def test_these_are_tiers(tier: Any) -> None:
    assert source(tier=tier).tier == tier


@pytest.mark.parametrize("name", NAMES_REFUSED)
@pytest.mark.parametrize("field", ["kinds", "folder_ids", "tags", "source_ids", "tiers"])
def test_a_name_in_a_narrowings_list_that_cannot_be_one_is_a_filter_error(field: str, name: Any) -> None:
    with pytest.raises(FilterError) as caught:
        narrowed(field, [name])
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("field", ["kinds", "folder_ids", "tags", "source_ids", "tiers"])
@pytest.mark.parametrize("values", LISTS_REFUSED)
def test_a_narrowings_list_is_a_list(field: str, values: Any) -> None:
    with pytest.raises(FilterError):
        narrowed(field, values)


@pytest.mark.parametrize("field", ["kinds", "folder_ids", "tags", "source_ids", "tiers"])
def test_none_in_a_narrowings_list_is_a_filter_error(field: str) -> None:
    with pytest.raises(FilterError):
        narrowed(field, [None])


@pytest.mark.parametrize("name", NAMES_REFUSED)
def test_a_narrowings_folder_that_cannot_be_one_is_a_filter_error(name: Any) -> None:
    with pytest.raises(FilterError):
        Narrowing(folder_id=name)


@pytest.mark.parametrize("where", ["x", 5, True, [], [{"a": 1}], {"a": None}, {"$foo": []}, {"a": {"$like": "x"}}])
def test_where_is_a_filter_or_a_dict_of_the_filter_language(where: Any) -> None:
    with pytest.raises(FilterError):
        Narrowing(where=where)


@pytest.mark.parametrize("tiers", [["Hot"], [""], ["hot", "tepid"]], ids=str)
def test_case_31_tiers_hold_tiers_only(tiers: Any) -> None:
    with pytest.raises(FilterError):
        Narrowing(tiers=tiers)


def test_what_is_handed_in_is_copied() -> None:
    groups, tags, labels = ["g"], ["x"], ["q3"]
    metadata: dict[str, Any] = {"labels": labels}
    passages: list[str | Passage] = [Passage("one", metadata)]
    made = Source("s", "doc", "t", groups, passages, tags=tags, metadata=metadata)
    groups.append("everyone")
    tags.clear()
    labels.append("q4")
    metadata["more"] = 1
    passages.clear()
    assert (made.acl_groups, made.tags, dict(made.metadata)) == (("g",), ("x",), {"labels": ["q3"]})
    assert [(passage.text, dict(passage.metadata)) for passage in made.passages] == [("one", {"labels": ["q3"]})]


def test_values_are_frozen() -> None:
    made = source(metadata={"a": 1})
    for value in (Scope("t", ["g"]), Narrowing(), made, made.passages[0]):
        with pytest.raises((AttributeError, TypeError)):
            value.tenant_id = "u"  # type: ignore[union-attr,misc] # that is what must fail
    with pytest.raises(TypeError):
        made.metadata["a"] = 2  # type: ignore[index] # likewise


def test_members_of_an_enumeration_of_strings_are_strings() -> None:
    made = source(kind=Kind.DOC, tags=[Kind.DOC])
    assert (made.kind, made.tags) == ("doc", ("doc",))


@pytest.mark.parametrize("value", ["secret-tenant\x00", "secret-group" + "x" * 513])
def test_a_message_never_shows_the_name_that_was_refused(value: str) -> None:
    with pytest.raises(ScopeError) as caught:
        Scope("t", [value])
    assert "secret" not in str(caught.value)
