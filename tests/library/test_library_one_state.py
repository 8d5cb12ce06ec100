"""One state: two calls of one search that see a source under two versions are made again, three times at most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.library.doubles import CallsHook, RecordingEmbedder, in_thread, source

from stackroom import RRF, Library, Scope, Weighted

if TYPE_CHECKING:
    from collections.abc import Callable

    from stackroom import Answer


@pytest.fixture
def hooked() -> CallsHook:
    return CallsHook()


@pytest.fixture
def searched(hooked: CallsHook, embedder: RecordingEmbedder) -> Library:
    """Return a library whose sources s and other both match "apple" in both legs."""
    made = Library(hooked, "library", embedder)
    made.index_source(source("s", "apple 0 one", "apple 0 two"))
    made.index_source(source("other", "apple other"))
    return made


def codes(answer: Answer) -> list[str]:
    return [note.code for note in answer.notes]


def replaced_before(library: Library, before: set[int]) -> Callable[[int], None]:
    """Return a hook that replaces source s before the calls of these numbers, numbering its texts."""

    def hook(number: int) -> None:
        if number in before:
            in_thread(lambda: library.index_source(source("s", f"apple {number} one", f"apple {number} two")))

    return hook


@pytest.mark.parametrize("fusion", [RRF(k=60), Weighted(0.5)], ids=str)
def test_a_search_that_saw_two_versions_is_made_again(
    hooked: CallsHook, searched: Library, embedder: RecordingEmbedder, scope: Scope, fusion: Any
) -> None:
    hooked.before = replaced_before(searched, {2})
    answer = searched.search("apple", scope=scope, fusion=fusion)
    assert {hit.text for hit in answer} == {"apple 2 one", "apple 2 two", "apple other"}
    assert all(hit.dense_rank and hit.lexical_rank for hit in answer)
    assert (answer.complete, answer.notes, hooked.calls) == (True, (), 4)
    assert embedder.queries == ["apple"]


def test_a_search_that_saw_one_version_is_made_once(hooked: CallsHook, searched: Library, scope: Scope) -> None:
    hooked.before = replaced_before(searched, {1})
    answer = searched.search("apple", scope=scope)
    assert {hit.text for hit in answer} == {"apple 1 one", "apple 1 two", "apple other"}
    assert hooked.calls == 2


def test_a_write_to_what_was_not_found_changes_nothing(hooked: CallsHook, searched: Library, scope: Scope) -> None:
    def write(number: int) -> None:
        if number == 2:
            searched.index_source(source("hidden", "apple", acl_groups=["h"]))
            searched.index_source(source("s", "apple", tenant_id="u"))

    hooked.before = write
    assert searched.search("apple", scope=scope).complete
    assert hooked.calls == 2


@pytest.mark.parametrize("fusion", [RRF(k=60), Weighted(0.5)], ids=str)
def test_after_three_times_a_source_stands_as_the_dense_leg_saw_it(
    hooked: CallsHook, searched: Library, embedder: RecordingEmbedder, scope: Scope, fusion: Any
) -> None:
    hooked.before = replaced_before(searched, {2, 4, 6})
    answer = searched.search("apple", scope=scope, fusion=fusion)
    assert hooked.calls == 6
    assert embedder.queries == ["apple"]
    assert (answer.complete, codes(answer)) == (False, ["changed_meanwhile"])
    assert {hit.text for hit in answer} == hooked.dense_saw[2]
    of_s = [hit for hit in answer if hit.source_id == "s"]
    assert len({hit.text.split()[1] for hit in of_s}) == 1
    assert [hit.lexical_rank for hit in of_s] == [None, None]
    (other,) = (hit for hit in answer if hit.source_id == "other")
    assert other.dense_rank is not None
    assert other.lexical_rank is not None


def test_the_third_time_may_be_the_good_one(hooked: CallsHook, searched: Library, scope: Scope) -> None:
    hooked.before = replaced_before(searched, {2, 4})
    answer = searched.search("apple", scope=scope)
    assert {hit.text for hit in answer} == {"apple 4 one", "apple 4 two", "apple other"}
    assert (answer.complete, answer.notes, hooked.calls) == (True, (), 6)


@pytest.mark.parametrize("mode", ["lexical", "dense"])
def test_one_leg_reads_one_state(hooked: CallsHook, searched: Library, scope: Scope, mode: Any) -> None:
    hooked.before = replaced_before(searched, {2})
    assert searched.search("apple", scope=scope, mode=mode).complete
    assert hooked.calls == 1


def test_a_rescope_between_the_legs_shows_a_source_before_or_after_it(
    hooked: CallsHook, searched: Library, scope: Scope
) -> None:
    def rescope(number: int) -> None:
        if number == 2:
            searched.set_source_scope("s", tenant_id="t", folder_id="b", title="T")

    hooked.before = rescope
    answer = searched.search("apple", scope=scope)
    assert {(hit.folder_id, hit.title) for hit in answer if hit.source_id == "s"} == {("b", "T")}
    assert answer.complete


def test_groups_that_were_revoked_between_the_legs_are_in_no_answer_of_one_version(
    hooked: CallsHook, searched: Library, scope: Scope
) -> None:
    def revoke(number: int) -> None:
        if number == 2:
            searched.set_source_scope("s", tenant_id="t", acl_groups=["h"])

    hooked.before = revoke
    answer = searched.search("apple", scope=scope)
    assert len({hit.text.split()[1] for hit in answer if hit.source_id == "s"}) <= 1
    assert {hit.source_id for hit in searched.search("apple", scope=scope)} == {"other"}


def test_a_record_that_is_gone_when_it_is_to_be_scored_makes_the_search_anew(hooked: CallsHook, scope: Scope) -> None:
    near = {f"pear {number}": [1.0, number / 1000] for number in range(60)}
    embedder = RecordingEmbedder({"apple": [1, 0], "apple far": [-1, 0], **near})
    library = Library(hooked, "library", embedder)
    library.index_source(source("near", *near))
    library.index_source(source("far", "apple far"))

    def remove(number: int) -> None:
        if number == 3:
            library.remove_source("far", tenant_id="t")

    hooked.before = remove
    answer = library.search("apple", scope=scope, fusion=Weighted(0.5))
    assert {hit.source_id for hit in answer} == {"near"}
    assert (len(answer), answer.complete, answer.notes) == (10, True, ())
    assert embedder.queries == ["apple"]
    assert hooked.calls == 7, "both legs and what each lacks; then again, of which one lacks nothing"


def test_a_record_that_is_replaced_before_each_call_shows_one_version_at_most(hooked: CallsHook, scope: Scope) -> None:
    near = {f"pear {number}": [1.0, number / 1000] for number in range(60)}
    embedder = RecordingEmbedder({"apple": [1, 0], **near, **{f"apple far {n}": [-1, 0] for n in range(20)}})
    library = Library(hooked, "library", embedder)
    library.index_source(source("near", *near))
    library.index_source(source("far", "apple far 0"))

    def replace_far(number: int) -> None:
        library.index_source(source("far", f"apple far {number}"))

    hooked.before = replace_far
    answer = library.search("apple", scope=scope, fusion=Weighted(0.5), top_k=10)
    assert len(answer) == 10
    assert (answer.complete, codes(answer)) == (False, ["changed_meanwhile"])
    assert len({hit.text for hit in answer if hit.source_id == "far"}) <= 1
